; Functions that PTX has no instruction for, written for the target: singles, each within two units in the last place. Polynomials are minimax
; fits, rounded to singles, lowest coefficient last to be added.

declare float @llvm.fma.f32(float, float, float)
declare float @llvm.rint.f32(float)
declare float @llvm.fabs.f32(float)
declare float @llvm.copysign.f32(float, float)
declare i32 @llvm.fshl.i32(i32, i32, i32)

; The natural logarithm.
; x = m * 2^e with m between the roots of 1/2 and 2, and f = m - 1: f + f*f*P(f) by a polynomial, and e apart.
define linkonce_odr float @tilewright.log.f32(float %given) alwaysinline {
  %small = fcmp olt float %given, 0x3810000000000000
  %raised = fmul float %given, 0x4160000000000000
  %x = select i1 %small, float %raised, float %given
  %extra = select i1 %small, float -23.0, float 0.0
  %bits = bitcast float %x to i32
  ; 0x3f3504f3 is the root of 1/2.
  %above = sub i32 %bits, 1060439283
  %exponent = ashr i32 %above, 23
  %cut = shl i32 %exponent, 23
  %mbits = sub i32 %bits, %cut
  %m = bitcast i32 %mbits to float
  %f = fsub float %m, 1.0
  %whole = sitofp i32 %exponent to float
  %e = fadd float %whole, %extra
  %p0 = call float @llvm.fma.f32(float 0xBFB383D960000000, float %f, float 0x3FC084E020000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %f, float 0xBFC0F375C0000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %f, float 0x3FC22709C0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %f, float 0xBFC54274A0000000)
  %p4 = call float @llvm.fma.f32(float %p3, float %f, float 0x3FC99A4020000000)
  %p5 = call float @llvm.fma.f32(float %p4, float %f, float 0xBFD0004280000000)
  %p6 = call float @llvm.fma.f32(float %p5, float %f, float 0x3FD5555500000000)
  %p7 = call float @llvm.fma.f32(float %p6, float %f, float 0xBFDFFFFF80000000)
  %ff = fmul float %f, %f
  %low = call float @llvm.fma.f32(float %e, float 0x3EB7F7D1C0000000, float 0.0)
  %q = call float @llvm.fma.f32(float %ff, float %p7, float %low)
  %r = fadd float %f, %q
  ; The high part of log 2 has 16 bits: e times it is exact.
  %made = call float @llvm.fma.f32(float %e, float 0x3FE62E4000000000, float %r)
  ; Infinity and NaN give themselves, 0 gives -infinity, what is below gives NaN.
  %finite = fcmp olt float %x, 0x7FF0000000000000
  %upper = select i1 %finite, float %made, float %x
  %zero = fcmp oeq float %x, 0.0
  %lower = select i1 %zero, float 0xFFF0000000000000, float %upper
  %negative = fcmp olt float %x, 0.0
  %result = select i1 %negative, float 0x7FF8000000000000, float %lower
  ret float %result
}

; The logarithm to base 2.
; x = m * 2^e with m between the roots of 1/2 and 2, and f = m - 1: f + f*f*P(f) by a polynomial, and e apart.
define linkonce_odr float @tilewright.log2.f32(float %given) alwaysinline {
  %small = fcmp olt float %given, 0x3810000000000000
  %raised = fmul float %given, 0x4160000000000000
  %x = select i1 %small, float %raised, float %given
  %extra = select i1 %small, float -23.0, float 0.0
  %bits = bitcast float %x to i32
  ; 0x3f3504f3 is the root of 1/2.
  %above = sub i32 %bits, 1060439283
  %exponent = ashr i32 %above, 23
  %cut = shl i32 %exponent, 23
  %mbits = sub i32 %bits, %cut
  %m = bitcast i32 %mbits to float
  %f = fsub float %m, 1.0
  %whole = sitofp i32 %exponent to float
  %e = fadd float %whole, %extra
  %p0 = call float @llvm.fma.f32(float 0xBFBC277CC0000000, float %f, float 0x3FC7D4FA40000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %f, float 0xBFC8748480000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %f, float 0x3FCA304240000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %f, float 0xBFCEABCDC0000000)
  %p4 = call float @llvm.fma.f32(float %p3, float %f, float 0x3FD277E460000000)
  %p5 = call float @llvm.fma.f32(float %p4, float %f, float 0xBFD715A740000000)
  %p6 = call float @llvm.fma.f32(float %p5, float %f, float 0x3FDEC70960000000)
  %p7 = call float @llvm.fma.f32(float %p6, float %f, float 0xBFE7154700000000)
  %ff = fmul float %f, %f
  %q = fmul float %ff, %p7
  %r = call float @llvm.fma.f32(float %f, float 0x3FF7154760000000, float %q)
  %made = fadd float %e, %r
  ; Infinity and NaN give themselves, 0 gives -infinity, what is below gives NaN.
  %finite = fcmp olt float %x, 0x7FF0000000000000
  %upper = select i1 %finite, float %made, float %x
  %zero = fcmp oeq float %x, 0.0
  %lower = select i1 %zero, float 0xFFF0000000000000, float %upper
  %negative = fcmp olt float %x, 0.0
  %result = select i1 %negative, float 0x7FF8000000000000, float %lower
  ret float %result
}

; The logarithm to base 10.
define linkonce_odr float @tilewright.log10.f32(float %x) alwaysinline {
  %log = call float @tilewright.log.f32(float %x)
  %result = fmul float %log, 0x3FDBCB7B20000000
  ret float %result
}

; log(1 + x): the logarithm of the rounded sum, and what the rounding lost over the sum.
define linkonce_odr float @tilewright.log1p.f32(float %x) alwaysinline {
  %u = fadd float %x, 1.0
  %back = fsub float %u, 1.0
  %lost = fsub float %x, %back
  %part = fdiv float %lost, %u
  %log = call float @tilewright.log.f32(float %u)
  %sum = fadd float %log, %part
  %large = call float @llvm.fabs.f32(float %log)
  %finite = fcmp olt float %large, 0x7FF0000000000000
  %made = select i1 %finite, float %sum, float %log
  %size = call float @llvm.fabs.f32(float %x)
  %tiny = fcmp olt float %size, 0x3E60000000000000
  %result = select i1 %tiny, float %x, float %made
  ret float %result
}

; exp(x) - 1: x = k log 2 + r; 2^k (exp(r) - 1) + (2^k - 1), halved and doubled so that 2^k does not overflow before the result does.
define linkonce_odr float @tilewright.expm1.f32(float %given) alwaysinline {
  %low = fcmp olt float %given, -30.0
  %above = select i1 %low, float -30.0, float %given
  %high = fcmp ogt float %above, 100.0
  %x = select i1 %high, float 100.0, float %above
  %scaled = fmul float %x, 0x3FF7154760000000
  %k = call float @llvm.rint.f32(float %scaled)
  %minus = fneg float %k
  %r0 = call float @llvm.fma.f32(float %minus, float 0x3FE62E4000000000, float %x)
  %r = call float @llvm.fma.f32(float %minus, float 0x3EB7F7D1C0000000, float %r0)
  %p0 = call float @llvm.fma.f32(float 0x3F29FBA4A0000000, float %r, float 0x3F56D4C740000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %r, float 0x3F81111DA0000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %r, float 0x3FA5554EA0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %r, float 0x3FC5555540000000)
  %rr = fmul float %r, %r
  %rp = fmul float %r, %p3
  %cubic = fmul float %rr, %rp
  %half = call float @llvm.fma.f32(float %rr, float 0.5, float %cubic)
  %m = fadd float %r, %half
  %integer = fptosi float %k to i32
  %less = add i32 %integer, 126
  %biased = shl i32 %less, 23
  %power = bitcast i32 %biased to float
  %rest = fsub float %power, 0.5
  %halved = call float @llvm.fma.f32(float %power, float %m, float %rest)
  %doubled = fmul float %halved, 2.0
  %over = fcmp ogt float %given, 0x40562E42E0000000
  %made = select i1 %over, float 0x7FF0000000000000, float %doubled
  %zero = fcmp oeq float %k, 0.0
  %near = select i1 %zero, float %m, float %made
  %nan = fcmp uno float %given, 0.0
  %result = select i1 %nan, float %given, float %near
  ret float %result
}

; The hyperbolic tangent: a polynomial near 0, then 1 - 2 / (exp(2|x|) + 1).
define linkonce_odr float @tilewright.tanh.f32(float %x) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %scaled = fmul float %size, 0x4007154760000000
  %power = call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %scaled)
  %sum = fadd float %power, 1.0
  %part = call float asm "rcp.approx.ftz.f32 $0, $1;", "=f,f"(float %sum)
  %far = call float @llvm.fma.f32(float %part, float -2.0, float 1.0)
  %signed = call float @llvm.copysign.f32(float %far, float %x)
  %z = fmul float %x, %x
  %p0 = call float @llvm.fma.f32(float 0x3F6246DFC0000000, float %z, float 0xBF80EE55C0000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %z, float 0x3F96418D80000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %z, float 0xBFAB9FA8A0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %z, float 0x3FC11109E0000000)
  %p4 = call float @llvm.fma.f32(float %p3, float %z, float 0xBFD5555540000000)
  %zp = fmul float %z, %p4
  %near = call float @llvm.fma.f32(float %x, float %zp, float %x)
  %small = fcmp olt float %size, 0x3FE3333340000000
  %made = select i1 %small, float %near, float %signed
  %nan = fcmp uno float %x, 0.0
  %result = select i1 %nan, float %x, float %made
  ret float %result
}

; The error function: x + x P(x*x) below 1, and 1 - 2^-Q(|x|) above, where 3.95 has the value 1.
define linkonce_odr float @tilewright.erf.f32(float %x) alwaysinline {
  %z = fmul float %x, %x
  %s0 = call float @llvm.fma.f32(float 0x3EB1C92AC0000000, float %z, float 0xBEED2E0D80000000)
  %s1 = call float @llvm.fma.f32(float %s0, float %z, float 0x3F1F586DA0000000)
  %s2 = call float @llvm.fma.f32(float %s1, float %z, float 0xBF4BFE2380000000)
  %s3 = call float @llvm.fma.f32(float %s2, float %z, float 0x3F75658980000000)
  %s4 = call float @llvm.fma.f32(float %s3, float %z, float 0xBF9B82CBC0000000)
  %s5 = call float @llvm.fma.f32(float %s4, float %z, float 0x3FBCE2F200000000)
  %s6 = call float @llvm.fma.f32(float %s5, float %z, float 0xBFD8127460000000)
  %s7 = call float @llvm.fma.f32(float %s6, float %z, float 0x3FC06EBA80000000)
  %near = call float @llvm.fma.f32(float %x, float %s7, float %x)
  %size = call float @llvm.fabs.f32(float %x)
  %far = fcmp ogt float %size, 0x400F9999A0000000
  %t = select i1 %far, float 0x400F9999A0000000, float %size
  %q0 = call float @llvm.fma.f32(float 0xBEB2FD2D80000000, float %t, float 0x3EF2D69FE0000000)
  %q1 = call float @llvm.fma.f32(float %q0, float %t, float 0xBF18556F40000000)
  %q2 = call float @llvm.fma.f32(float %q1, float %t, float 0xBF233E0180000000)
  %q3 = call float @llvm.fma.f32(float %q2, float %t, float 0x3F73DB5400000000)
  %q4 = call float @llvm.fma.f32(float %q3, float %t, float 0xBFA19B68E0000000)
  %q5 = call float @llvm.fma.f32(float %q4, float %t, float 0x3FC3C085C0000000)
  %q6 = call float @llvm.fma.f32(float %q5, float %t, float 0x3FED4748A0000000)
  %q7 = call float @llvm.fma.f32(float %q6, float %t, float 0x3FFA10C7C0000000)
  %q8 = call float @llvm.fma.f32(float %q7, float %t, float 0xBF27B14C40000000)
  %minus = fneg float %q8
  %power = call float asm "ex2.approx.ftz.f32 $0, $1;", "=f,f"(float %minus)
  %rest = fsub float 1.0, %power
  %signed = call float @llvm.copysign.f32(float %rest, float %x)
  %small = fcmp olt float %size, 1.0
  %made = select i1 %small, float %near, float %signed
  %nan = fcmp uno float %x, 0.0
  %result = select i1 %nan, float %x, float %made
  ret float %result
}

; x as a number of quarter turns, modulo 4, and what is left. Below 105615 three parts of pi/2 are taken off; above, x times 2/pi is made of 96 bits of 2/pi, those
; that matter for the exponent of x (after Payne and Hanek).
define linkonce_odr { i32, float } @tilewright.turn.f32(float %x) alwaysinline {
entry:
  %size = call float @llvm.fabs.f32(float %x)
  %large = fcmp ogt float %size, 105615.0
  br i1 %large, label %far, label %near

near:
  %scaled = fmul float %x, 0x3FE45F3060000000
  %round = call float @llvm.rint.f32(float %scaled)
  %k = fptosi float %round to i32
  %kf = sitofp i32 %k to float
  %r0 = call float @llvm.fma.f32(float %kf, float 0xBFF921FB60000000, float %x)
  %r1 = call float @llvm.fma.f32(float %kf, float 0x3E6777A5C0000000, float %r0)
  %r2 = call float @llvm.fma.f32(float %kf, float 0x3CDEE59DA0000000, float %r1)
  br label %core

far:
  %bits = bitcast float %x to i32
  %biased = lshr i32 %bits, 23
  %exponent = and i32 %biased, 255
  %fraction = and i32 %bits, 8388607
  %mantissa = or i32 %fraction, 8388608
  ; The first bit of 2/pi, after 32 zeros, whose product with x is no multiple of 4.
  %start = sub i32 %exponent, 120
  %word = lshr i32 %start, 5
  %is0 = icmp eq i32 %word, 0
  %is1 = icmp eq i32 %word, 1
  %is2 = icmp eq i32 %word, 2
  %is3 = icmp eq i32 %word, 3
  %t0.3 = select i1 %is3, i32 -64530479, i32 -181084736
  %t0.2 = select i1 %is2, i32 1313084713, i32 %t0.3
  %t0.1 = select i1 %is1, i32 -1560706194, i32 %t0.2
  %t0.0 = select i1 %is0, i32 0, i32 %t0.1
  %t1.3 = select i1 %is3, i32 -181084736, i32 -614296167
  %t1.2 = select i1 %is2, i32 -64530479, i32 %t1.3
  %t1.1 = select i1 %is1, i32 1313084713, i32 %t1.2
  %t1.0 = select i1 %is0, i32 -1560706194, i32 %t1.1
  %t2.3 = select i1 %is3, i32 -614296167, i32 1011060801
  %t2.2 = select i1 %is2, i32 -181084736, i32 %t2.3
  %t2.1 = select i1 %is1, i32 -64530479, i32 %t2.2
  %t2.0 = select i1 %is0, i32 1313084713, i32 %t2.1
  %t3.3 = select i1 %is3, i32 1011060801, i32 -28220501
  %t3.2 = select i1 %is2, i32 -614296167, i32 %t3.3
  %t3.1 = select i1 %is1, i32 -181084736, i32 %t3.2
  %t3.0 = select i1 %is0, i32 -64530479, i32 %t3.1
  %p0 = call i32 @llvm.fshl.i32(i32 %t0.0, i32 %t1.0, i32 %start)
  %p1 = call i32 @llvm.fshl.i32(i32 %t1.0, i32 %t2.0, i32 %start)
  %p2 = call i32 @llvm.fshl.i32(i32 %t2.0, i32 %t3.0, i32 %start)
  %m = zext i32 %mantissa to i64
  %w0 = zext i32 %p0 to i64
  %w1 = zext i32 %p1 to i64
  %w2 = zext i32 %p2 to i64
  %low = mul i64 %m, %w2
  %carry0 = lshr i64 %low, 32
  %middle0 = mul i64 %m, %w1
  %middle = add i64 %middle0, %carry0
  %top0 = mul i64 %m, %w0
  %top = shl i64 %top0, 32
  %turns = add i64 %top, %middle
  ; Two bits of quarter turns, rounded, and 62 of what is left.
  %rounded = add i64 %turns, 2305843009213693952
  %quarters = lshr i64 %rounded, 62
  %q = trunc i64 %quarters to i32
  %left = shl i64 %turns, 2
  %wide = sitofp i64 %left to double
  %angle = fmul double %wide, 0x3BF921FB54442D18
  %single = fptrunc double %angle to float
  %below = icmp slt i32 %bits, 0
  %qneg = sub i32 0, %q
  %kfar = select i1 %below, i32 %qneg, i32 %q
  %rneg = fneg float %single
  %rfar = select i1 %below, float %rneg, float %single
  br label %core

core:
  %whole = phi i32 [ %k, %near ], [ %kfar, %far ]
  %r = phi float [ %r2, %near ], [ %rfar, %far ]
  %pair = insertvalue { i32, float } poison, i32 %whole, 0
  %result = insertvalue { i32, float } %pair, float %r, 1
  ret { i32, float } %result
}

; The sine of r, of at most pi/4, and so many quarter turns.
define linkonce_odr float @tilewright.circle.f32(float %r, i32 %turn) alwaysinline {
  %z = fmul float %r, %r
  %s0 = call float @llvm.fma.f32(float 0x3EC6CBEEE0000000, float %z, float 0xBF2A00F340000000)
  %s1 = call float @llvm.fma.f32(float %s0, float %z, float 0x3F81111080000000)
  %s2 = call float @llvm.fma.f32(float %s1, float %z, float 0xBFC5555560000000)
  %sz = fmul float %z, %s2
  %sine = call float @llvm.fma.f32(float %r, float %sz, float %r)
  %c0 = call float @llvm.fma.f32(float 0xBE92417F80000000, float %z, float 0x3EFA010C60000000)
  %c1 = call float @llvm.fma.f32(float %c0, float %z, float 0xBF56C16B80000000)
  %c2 = call float @llvm.fma.f32(float %c1, float %z, float 0x3FA5555560000000)
  %ch = call float @llvm.fma.f32(float %z, float %c2, float -0.5)
  %cosine = call float @llvm.fma.f32(float %z, float %ch, float 1.0)
  %oddbit = and i32 %turn, 1
  %odd = icmp ne i32 %oddbit, 0
  %value = select i1 %odd, float %cosine, float %sine
  %halfbit = and i32 %turn, 2
  %half = icmp ne i32 %halfbit, 0
  %negated = fneg float %value
  %made = select i1 %half, float %negated, float %value
  ret float %made
}

; The sine of x + quarter * pi/2.
define linkonce_odr float @tilewright.sine.f32(float %x, i32 %quarter) alwaysinline {
  %pair = call { i32, float } @tilewright.turn.f32(float %x)
  %whole = extractvalue { i32, float } %pair, 0
  %r = extractvalue { i32, float } %pair, 1
  %turn = add i32 %whole, %quarter
  %made = call float @tilewright.circle.f32(float %r, i32 %turn)
  %size = call float @llvm.fabs.f32(float %x)
  %finite = fcmp olt float %size, 0x7FF0000000000000
  %result = select i1 %finite, float %made, float 0x7FF8000000000000
  ret float %result
}

; The sine.
define linkonce_odr float @tilewright.sin.f32(float %x) alwaysinline {
  %result = call float @tilewright.sine.f32(float %x, i32 0)
  ret float %result
}

; The cosine.
define linkonce_odr float @tilewright.cos.f32(float %x) alwaysinline {
  %result = call float @tilewright.sine.f32(float %x, i32 1)
  ret float %result
}

; 10 to the power: 2 to the power of x log2(10), whose product is kept in two parts.
define linkonce_odr float @tilewright.exp10.f32(float %given) alwaysinline {
  %low = fcmp olt float %given, -50.0
  %above = select i1 %low, float -50.0, float %given
  %high = fcmp ogt float %above, 50.0
  %x = select i1 %high, float 50.0, float %above
  %product = fmul float %x, 0x400A934F00000000
  %k = call float @llvm.rint.f32(float %product)
  %minus = fneg float %k
  %r0 = call float @llvm.fma.f32(float %x, float 0x400A934F00000000, float %minus)
  %r = call float @llvm.fma.f32(float %x, float 0x3E72F346E0000000, float %r0)
  %part = call float asm "ex2.approx.f32 $0, $1;", "=f,f"(float %r)
  %power = call float asm "ex2.approx.f32 $0, $1;", "=f,f"(float %k)
  %made = fmul float %part, %power
  %nan = fcmp uno float %given, 0.0
  %result = select i1 %nan, float %given, float %made
  ret float %result
}
