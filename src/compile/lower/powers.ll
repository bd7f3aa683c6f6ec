; The rest of what stands for functions of libdevice (see library.ll): powers, roots, remainders, the complement of the error function, and what reads or makes
; exponents.

declare float @llvm.fabs.f32(float)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.rint.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.copysign.f64(double, double)
declare double @tilewright.exp.f64(double)

; The cube root in doubles, where no single is subnormal: a third of the exponent, and twice Halley's step (the first guess, a line through the bits, is
; Kahan's).
define linkonce_odr double @tilewright.cube.root.lib(double %wide) alwaysinline {
  %size = call double @llvm.fabs.f64(double %wide)
  %bits = bitcast double %size to i64
  %high = lshr i64 %bits, 32
  %high.32 = trunc i64 %high to i32
  %third = udiv i32 %high.32, 3
  %guess.high = add i32 %third, 715094163
  %guess.64 = zext i32 %guess.high to i64
  %guess.bits = shl i64 %guess.64, 32
  %t = bitcast i64 %guess.bits to double
  %two = fadd double %size, %size
  %t2 = fmul double %t, %t
  %t3 = fmul double %t2, %t
  %a = fadd double %two, %t3
  %t3.two = fadd double %t3, %t3
  %b = fadd double %size, %t3.two
  %q = fdiv double %a, %b
  %u = fmul double %t, %q
  %u2 = fmul double %u, %u
  %u3 = fmul double %u2, %u
  %c = fadd double %two, %u3
  %u3.two = fadd double %u3, %u3
  %d = fadd double %size, %u3.two
  %q2 = fdiv double %c, %d
  %v = fmul double %u, %q2
  %signed = call double @llvm.copysign.f64(double %v, double %wide)
  %ordinary = fcmp one double %wide, 0.0
  %finite = fcmp olt double %size, 0x7FF0000000000000
  %both = and i1 %ordinary, %finite
  %result = select i1 %both, double %signed, double %wide
  ret double %result
}

; The cube root.
define linkonce_odr float @tilewright.cbrt.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %root = call double @tilewright.cube.root.lib(double %wide)
  %result = fptrunc double %root to float
  ret float %result
}

; One over the cube root.
define linkonce_odr float @tilewright.rcbrt.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %root = call double @tilewright.cube.root.lib(double %wide)
  %made = fdiv double 1.0, %root
  %result = fptrunc double %made to float
  ret float %result
}

; x to the power y: 2 to the power of y log2 |x|, in doubles, the logarithm and the power by polynomials that give 40 bits.
define linkonce_odr float @tilewright.power.lib(float %x, double %y) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %wide = fpext float %size to double
  %bits = bitcast double %wide to i64
  ; The root of 1/2.
  %above = sub i64 %bits, 4604544271217802188
  %exponent = ashr i64 %above, 52
  %cut = shl i64 %exponent, 52
  %mbits = sub i64 %bits, %cut
  %m = bitcast i64 %mbits to double
  %f = fsub double %m, 1.0
  %exponent.32 = trunc i64 %exponent to i32
  %e = sitofp i32 %exponent.32 to double
  %l0 = call double @llvm.fma.f64(double 0x3FB0A2366D60AFEF, double %f, double 0xBFC001628C813002)
  %l1 = call double @llvm.fma.f64(double %l0, double %f, double 0x3FC01EBEB3E30957)
  %l2 = call double @llvm.fma.f64(double %l1, double %f, double 0xBFBE83E91744B26E)
  %l3 = call double @llvm.fma.f64(double %l2, double %f, double 0x3FC086C6821CEDA5)
  %l4 = call double @llvm.fma.f64(double %l3, double %f, double 0xBFC2743E03D7BEDB)
  %l5 = call double @llvm.fma.f64(double %l4, double %f, double 0x3FC48901322B038B)
  %l6 = call double @llvm.fma.f64(double %l5, double %f, double 0xBFC715A4316E04F1)
  %l7 = call double @llvm.fma.f64(double %l6, double %f, double 0x3FCA61519E8126CE)
  %l8 = call double @llvm.fma.f64(double %l7, double %f, double 0xBFCEC706AAF02EFB)
  %l9 = call double @llvm.fma.f64(double %l8, double %f, double 0x3FD2776C9C502585)
  %l10 = call double @llvm.fma.f64(double %l9, double %f, double 0xBFD715476A6D2487)
  %l11 = call double @llvm.fma.f64(double %l10, double %f, double 0x3FDEC709DBC13218)
  %l12 = call double @llvm.fma.f64(double %l11, double %f, double 0xBFE715476529373E)
  %l13 = call double @llvm.fma.f64(double %l12, double %f, double 0x3FF71547652B8B3D)
  %log.made = call double @llvm.fma.f64(double %f, double %l13, double %e)
  %zero = fcmp oeq float %size, 0.0
  %log.zero = select i1 %zero, double 0xFFF0000000000000, double %log.made
  %endless = fcmp oeq float %size, 0x7FF0000000000000
  %log = select i1 %endless, double 0x7FF0000000000000, double %log.zero
  %product = fmul double %log, %y
  %low = fcmp olt double %product, -200.0
  %bounded = select i1 %low, double -200.0, double %product
  %high = fcmp ogt double %bounded, 200.0
  %p = select i1 %high, double 200.0, double %bounded
  %k = call double @llvm.rint.f64(double %p)
  %r = fsub double %p, %k
  %q0 = call double @llvm.fma.f64(double 0x3EB640A182846CB9, double %r, double 0x3EF00DBFE31E4932)
  %q1 = call double @llvm.fma.f64(double %q0, double %r, double 0x3F2430874FE507C8)
  %q2 = call double @llvm.fma.f64(double %q1, double %r, double 0x3F55D87463C16CCD)
  %q3 = call double @llvm.fma.f64(double %q2, double %r, double 0x3F83B2AB7391FBC1)
  %q4 = call double @llvm.fma.f64(double %q3, double %r, double 0x3FAC6B08DD64B909)
  %q5 = call double @llvm.fma.f64(double %q4, double %r, double 0x3FCEBFBDFF80D0A5)
  %q6 = call double @llvm.fma.f64(double %q5, double %r, double 0x3FE62E42FEF8549E)
  %part = call double @llvm.fma.f64(double %r, double %q6, double 1.0)
  %integer = fptosi double %k to i32
  %biased = add i32 %integer, 1023
  %biased.64 = zext i32 %biased to i64
  %power.bits = shl i64 %biased.64, 52
  %power = bitcast i64 %power.bits to double
  %made.wide = fmul double %part, %power
  %made = fptrunc double %made.wide to float
  ; The sign, and what is no real number.
  %y.round = call double @llvm.rint.f64(double %y)
  %whole = fcmp oeq double %y.round, %y
  %y.half = fmul double %y, 0.5
  %y.half.round = call double @llvm.rint.f64(double %y.half)
  %uneven = fcmp one double %y.half.round, %y.half
  %odd = and i1 %whole, %uneven
  %x.bits = bitcast float %x to i32
  %negative = icmp slt i32 %x.bits, 0
  %turned = and i1 %negative, %odd
  %minus = fneg float %made
  %signed = select i1 %turned, float %minus, float %made
  %below = fcmp olt float %x, 0.0
  %finite = fcmp one float %size, 0x7FF0000000000000
  %fraction = xor i1 %whole, true
  %below.finite = and i1 %below, %finite
  %unreal = and i1 %below.finite, %fraction
  %real = select i1 %unreal, float 0x7FF8000000000000, float %signed
  ; NaN, and what is 1 whatever the other is.
  %nan.x = fcmp uno float %x, 0.0
  %nan.y = fcmp uno double %y, 0.0
  %nan = or i1 %nan.x, %nan.y
  %ordered = select i1 %nan, float 0x7FF8000000000000, float %real
  %y.size = call double @llvm.fabs.f64(double %y)
  %y.endless = fcmp oeq double %y.size, 0x7FF0000000000000
  %unit = fcmp oeq float %size, 1.0
  %unit.endless = and i1 %unit, %y.endless
  %x.one = fcmp oeq float %x, 1.0
  %y.zero = fcmp oeq double %y, 0.0
  %one.a = or i1 %x.one, %y.zero
  %one = or i1 %one.a, %unit.endless
  %result = select i1 %one, float 1.0, float %ordered
  ret float %result
}

; x to the power y.
define linkonce_odr float @tilewright.pow.lib(float %x, float %y) alwaysinline {
  %wide = fpext float %y to double
  %result = call float @tilewright.power.lib(float %x, double %wide)
  ret float %result
}

; x to a whole power.
define linkonce_odr float @tilewright.powi.lib(float %x, i32 %y) alwaysinline {
  %wide = sitofp i32 %y to double
  %result = call float @tilewright.power.lib(float %x, double %wide)
  ret float %result
}

; x less a multiple of y, both positive doubles of 24 bits with x at least y: the remainder of x's bits, 40 more of them at a time.
define linkonce_odr double @tilewright.rest.lib(double %x, double %y) alwaysinline {
entry:
  %x.bits = bitcast double %x to i64
  %y.bits = bitcast double %y to i64
  %x.exponent = lshr i64 %x.bits, 52
  %y.exponent = lshr i64 %y.bits, 52
  %x.fraction = and i64 %x.bits, 4503599627370495
  %y.fraction = and i64 %y.bits, 4503599627370495
  %x.mantissa = or i64 %x.fraction, 4503599627370496
  %y.mantissa = or i64 %y.fraction, 4503599627370496
  %x.short = lshr i64 %x.mantissa, 29
  %y.short = lshr i64 %y.mantissa, 29
  %steps = sub i64 %x.exponent, %y.exponent
  %first = urem i64 %x.short, %y.short
  br label %head

head:
  %left = phi i64 [ %steps, %entry ], [ %left.next, %body ]
  %rest = phi i64 [ %first, %entry ], [ %rest.next, %body ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %body, label %done

body:
  %few = icmp slt i64 %left, 40
  %step = select i1 %few, i64 %left, i64 40
  %shifted = shl i64 %rest, %step
  %rest.next = urem i64 %shifted, %y.short
  %left.next = sub i64 %left, %step
  br label %head

done:
  %rest.float = sitofp i64 %rest to double
  %power.exponent = sub i64 %y.exponent, 23
  %power.bits = shl i64 %power.exponent, 52
  %power = bitcast i64 %power.bits to double
  %result = fmul double %rest.float, %power
  ret double %result
}

; What stays of x when y is taken off as often as it goes, to the bit.
define linkonce_odr float @tilewright.fmod.lib(float %x, float %y) alwaysinline {
entry:
  %x.wide = fpext float %x to double
  %y.wide = fpext float %y to double
  %x.size = call double @llvm.fabs.f64(double %x.wide)
  %y.size = call double @llvm.fabs.f64(double %y.wide)
  %x.finite = fcmp olt double %x.size, 0x7FF0000000000000
  %y.some = fcmp ogt double %y.size, 0.0
  %defined = and i1 %x.finite, %y.some
  %larger = fcmp oge double %x.size, %y.size
  %work = and i1 %defined, %larger
  br i1 %work, label %divide, label %done

divide:
  %rest = call double @tilewright.rest.lib(double %x.size, double %y.size)
  br label %done

done:
  %made = phi double [ %x.size, %entry ], [ %rest, %divide ]
  %signed = call double @llvm.copysign.f64(double %made, double %x.wide)
  %short = fptrunc double %signed to float
  %result = select i1 %defined, float %short, float 0x7FF8000000000000
  ret float %result
}

; x less the multiple of y that is nearest, the even one of two, to the bit.
define linkonce_odr float @tilewright.remainder.lib(float %x, float %y) alwaysinline {
entry:
  %x.wide = fpext float %x to double
  %y.wide = fpext float %y to double
  %x.size = call double @llvm.fabs.f64(double %x.wide)
  %y.size = call double @llvm.fabs.f64(double %y.wide)
  %y.two = fadd double %y.size, %y.size
  %x.finite = fcmp olt double %x.size, 0x7FF0000000000000
  %y.some = fcmp ogt double %y.size, 0.0
  %defined = and i1 %x.finite, %y.some
  %larger = fcmp oge double %x.size, %y.two
  %work = and i1 %defined, %larger
  br i1 %work, label %divide, label %done

divide:
  %rest = call double @tilewright.rest.lib(double %x.size, double %y.two)
  br label %done

done:
  ; Below twice y: within half of y of 0, of y or of twice y.
  %below = phi double [ %x.size, %entry ], [ %rest, %divide ]
  %half = fmul double %y.size, 0.5
  %above.half = fcmp ogt double %below, %half
  %once = fsub double %below, %y.size
  %first = select i1 %above.half, double %once, double %below
  %again = fcmp oge double %first, %half
  %both = and i1 %above.half, %again
  %twice = fsub double %first, %y.size
  %made = select i1 %both, double %twice, double %first
  %x.bits = bitcast float %x to i32
  %negative = icmp slt i32 %x.bits, 0
  %minus = fneg double %made
  %signed = select i1 %negative, double %minus, double %made
  %short = fptrunc double %signed to float
  %result = select i1 %defined, float %short, float 0x7FF8000000000000
  ret float %result
}

; 1 less the error function, in doubles: t exp(P(t) - x*x) with t = 1 / (1 + |x|/2), and 2 less that where x is negative; 10.2 has the value 0.
define linkonce_odr double @tilewright.complement.lib(double %x) alwaysinline {
  %size = call double @llvm.fabs.f64(double %x)
  %far = fcmp ogt double %size, 0x4024666666666666
  %a = select i1 %far, double 0x4024666666666666, double %size
  %sum = call double @llvm.fma.f64(double %a, double 0.5, double 1.0)
  %t = fdiv double 1.0, %sum
  %p0 = call double @llvm.fma.f64(double 0x3FC775B8B6184EE2, double %t, double 0xBFF5AAC5848BD662)
  %p1 = call double @llvm.fma.f64(double %p0, double %t, double 0x401154C5D69EB8DE)
  %p2 = call double @llvm.fma.f64(double %p1, double %t, double 0xC01F055496986343)
  %p3 = call double @llvm.fma.f64(double %p2, double %t, double 0x4020C18C8ACBCCDD)
  %p4 = call double @llvm.fma.f64(double %p3, double %t, double 0xC01672B4161C527D)
  %p5 = call double @llvm.fma.f64(double %p4, double %t, double 0x40049A1004E4DC8C)
  %p6 = call double @llvm.fma.f64(double %p5, double %t, double 0xBFF08892AD4C575A)
  %p7 = call double @llvm.fma.f64(double %p6, double %t, double 0x3FBF80FE8BAB52B7)
  %p8 = call double @llvm.fma.f64(double %p7, double %t, double 0x3FA95BF8C0017F42)
  %p9 = call double @llvm.fma.f64(double %p8, double %t, double 0x3FD83A910A30E824)
  %p10 = call double @llvm.fma.f64(double %p9, double %t, double 0x3FEFFE2EBC22DD0B)
  %p11 = call double @llvm.fma.f64(double %p10, double %t, double 0xBFF43F833C08BFBD)
  %minus = fneg double %a
  %power = call double @llvm.fma.f64(double %minus, double %a, double %p11)
  %exp = call double @tilewright.exp.f64(double %power)
  %made = fmul double %exp, %t
  %other = fsub double 2.0, %made
  %negative = fcmp olt double %x, 0.0
  %result = select i1 %negative, double %other, double %made
  ret double %result
}

; 1 less the error function.
define linkonce_odr float @tilewright.erfc.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %made = call double @tilewright.complement.lib(double %wide)
  %result = fptrunc double %made to float
  ret float %result
}

; The normal distribution up to x.
define linkonce_odr float @tilewright.normcdf.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %scaled = fmul double %wide, 0xBFE6A09E667F3BCD
  %twice = call double @tilewright.complement.lib(double %scaled)
  %made = fmul double %twice, 0.5
  %result = fptrunc double %made to float
  ret float %result
}

; The root of x*x + y*y, in doubles, whose squares of singles neither overflow nor vanish; an infinity outweighs a NaN.
define linkonce_odr double @tilewright.length.lib(float %x, float %y) alwaysinline {
  %x.wide = fpext float %x to double
  %y.wide = fpext float %y to double
  %square = fmul double %y.wide, %y.wide
  %sum = call double @llvm.fma.f64(double %x.wide, double %x.wide, double %square)
  %root = call double @llvm.sqrt.f64(double %sum)
  %x.size = call double @llvm.fabs.f64(double %x.wide)
  %y.size = call double @llvm.fabs.f64(double %y.wide)
  %x.endless = fcmp oeq double %x.size, 0x7FF0000000000000
  %y.endless = fcmp oeq double %y.size, 0x7FF0000000000000
  %endless = or i1 %x.endless, %y.endless
  %result = select i1 %endless, double 0x7FF0000000000000, double %root
  ret double %result
}

; The length of (x, y).
define linkonce_odr float @tilewright.hypot.lib(float %x, float %y) alwaysinline {
  %made = call double @tilewright.length.lib(float %x, float %y)
  %result = fptrunc double %made to float
  ret float %result
}

; One over the length of (x, y).
define linkonce_odr float @tilewright.rhypot.lib(float %x, float %y) alwaysinline {
  %length = call double @tilewright.length.lib(float %x, float %y)
  %made = fdiv double 1.0, %length
  %result = fptrunc double %made to float
  ret float %result
}

; x times 2 to the power n, rounded once.
define linkonce_odr float @tilewright.ldexp.lib(float %x, i32 %n) alwaysinline {
  %low = icmp slt i32 %n, -400
  %above = select i1 %low, i32 -400, i32 %n
  %high = icmp sgt i32 %above, 400
  %bounded = select i1 %high, i32 400, i32 %above
  %biased = add i32 %bounded, 1023
  %biased.64 = zext i32 %biased to i64
  %bits = shl i64 %biased.64, 52
  %power = bitcast i64 %bits to double
  %wide = fpext float %x to double
  %made = fmul double %wide, %power
  %result = fptrunc double %made to float
  ret float %result
}

; The exponent of x as a double has it, where no single is subnormal.
define linkonce_odr i32 @tilewright.exponent.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %bits = bitcast double %wide to i64
  %biased = lshr i64 %bits, 52
  %field = and i64 %biased, 2047
  %exponent = sub i64 %field, 1023
  %result = trunc i64 %exponent to i32
  ret i32 %result
}

; The exponent as a number: of 0 minus infinity, of infinity infinity.
define linkonce_odr float @tilewright.logb.lib(float %x) alwaysinline {
  %exponent = call i32 @tilewright.exponent.lib(float %x)
  %whole = sitofp i32 %exponent to float
  %size = call float @llvm.fabs.f32(float %x)
  %zero = fcmp oeq float %x, 0.0
  %lower = select i1 %zero, float 0xFFF0000000000000, float %whole
  %finite = fcmp olt float %size, 0x7FF0000000000000
  %result = select i1 %finite, float %lower, float %size
  ret float %result
}

; The exponent as an integer: of infinity the largest, of 0 and NaN the smallest.
define linkonce_odr i32 @tilewright.ilogb.lib(float %x) alwaysinline {
  %exponent = call i32 @tilewright.exponent.lib(float %x)
  %size = call float @llvm.fabs.f32(float %x)
  %endless = fcmp oeq float %size, 0x7FF0000000000000
  %upper = select i1 %endless, i32 2147483647, i32 %exponent
  %some = fcmp one float %x, 0.0
  %result = select i1 %some, i32 %upper, i32 -2147483648
  ret i32 %result
}

; The next single from x on the way to y.
define linkonce_odr float @tilewright.nextafter.lib(float %x, float %y) alwaysinline {
  %bits = bitcast float %x to i32
  %up = fcmp olt float %x, %y
  %positive = fcmp ogt float %x, 0.0
  %away = icmp eq i1 %up, %positive
  %step = select i1 %away, i32 1, i32 -1
  %moved = add i32 %bits, %step
  ; From 0 to the smallest of the sign of y.
  %y.bits = bitcast float %y to i32
  %y.sign = and i32 %y.bits, -2147483648
  %least = or i32 %y.sign, 1
  %zero = fcmp oeq float %x, 0.0
  %next = select i1 %zero, i32 %least, i32 %moved
  %there = bitcast i32 %next to float
  %same = fcmp oeq float %x, %y
  %made = select i1 %same, float %y, float %there
  %nan = fcmp uno float %x, %y
  %result = select i1 %nan, float 0x7FF8000000000000, float %made
  ret float %result
}

; x - y where that is positive, or 0.
define linkonce_odr float @tilewright.fdim.lib(float %x, float %y) alwaysinline {
  %difference = fsub float %x, %y
  %below = fcmp ole float %x, %y
  %result = select i1 %below, float 0.0, float %difference
  ret float %result
}
