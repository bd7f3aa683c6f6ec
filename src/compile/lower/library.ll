; What stands for functions of libdevice that are rarely called: singles, each within two units in the last place (the tangent three). Where singles would need two words for a step, the
; step is made in doubles. Polynomials are minimax fits, the highest coefficient first.

declare float @llvm.fma.f32(float, float, float)
declare float @llvm.rint.f32(float)
declare float @llvm.fabs.f32(float)
declare float @llvm.sqrt.f32(float)
declare float @llvm.copysign.f32(float, float)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.fabs.f64(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.copysign.f64(double, double)
declare { i32, float } @tilewright.turn.f32(float)
declare float @tilewright.circle.f32(float, i32)
declare double @tilewright.log.f64(double)

; The tangent: of what is left of quarter turns, and of an odd number of them less its reciprocal.
define linkonce_odr float @tilewright.tan.lib(float %x) alwaysinline {
  %pair = call { i32, float } @tilewright.turn.f32(float %x)
  %turn = extractvalue { i32, float } %pair, 0
  %r = extractvalue { i32, float } %pair, 1
  %z = fmul float %r, %r
  %p0 = call float @llvm.fma.f32(float 0x3F7214DEE0000000, float %z, float 0x3EE20B4340000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %z, float 0x3F86544320000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %z, float 0x3F95C3D3E0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %z, float 0x3FABAE7AE0000000)
  %p4 = call float @llvm.fma.f32(float %p3, float %z, float 0x3FC110D460000000)
  %p5 = call float @llvm.fma.f32(float %p4, float %z, float 0x3FD5555620000000)
  %zp = fmul float %z, %p5
  %t = call float @llvm.fma.f32(float %r, float %zp, float %r)
  %minus = fdiv float -1.0, %t
  %oddbit = and i32 %turn, 1
  %odd = icmp ne i32 %oddbit, 0
  %made = select i1 %odd, float %minus, float %t
  %size = call float @llvm.fabs.f32(float %x)
  %finite = fcmp olt float %size, 0x7FF0000000000000
  %real = select i1 %finite, float %made, float 0x7FF8000000000000
  %zero = fcmp oeq float %x, 0.0
  %result = select i1 %zero, float %x, float %real
  ret float %result
}

; The sine of (x + quarter / 2) pi: whole turns are taken off x, then half turns' halves, all exact, and pi comes in two parts.
define linkonce_odr float @tilewright.sine.pi.lib(float %x, i32 %quarter) alwaysinline {
  %half = fmul float %x, 0.5
  %turns = call float @llvm.rint.f32(float %half)
  %within = call float @llvm.fma.f32(float %turns, float -2.0, float %x)
  %double = fmul float %within, 2.0
  %k = call float @llvm.rint.f32(float %double)
  %r = call float @llvm.fma.f32(float %k, float -0.5, float %within)
  %low = fmul float %r, 0xBE7777A5C0000000
  %angle = call float @llvm.fma.f32(float %r, float 0x400921FB60000000, float %low)
  %integer = fptosi float %k to i32
  %turn = add i32 %integer, %quarter
  %made = call float @tilewright.circle.f32(float %angle, i32 %turn)
  %size = call float @llvm.fabs.f32(float %x)
  %finite = fcmp olt float %size, 0x7FF0000000000000
  %result = select i1 %finite, float %made, float 0x7FF8000000000000
  ret float %result
}

; The sine of pi x, which has the sign of x where it is 0.
define linkonce_odr float @tilewright.sinpi.lib(float %x) alwaysinline {
  %made = call float @tilewright.sine.pi.lib(float %x, i32 0)
  %signed = call float @llvm.copysign.f32(float %made, float %x)
  %zero = fcmp oeq float %made, 0.0
  %result = select i1 %zero, float %signed, float %made
  ret float %result
}

; The cosine of pi x.
define linkonce_odr float @tilewright.cospi.lib(float %x) alwaysinline {
  %result = call float @tilewright.sine.pi.lib(float %x, i32 1)
  ret float %result
}

; The arcsine: s + s z P(z) up to 1/2; above, pi/2 less twice the arcsine of the root of (1 - x)/2.
define linkonce_odr float @tilewright.asin.lib(float %x) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %near = fcmp ole float %size, 0.5
  %square = fmul float %x, %x
  %half = call float @llvm.fma.f32(float %size, float -0.5, float 0.5)
  %z = select i1 %near, float %square, float %half
  %root = call float @llvm.sqrt.f32(float %half)
  %s = select i1 %near, float %size, float %root
  %p0 = call float @llvm.fma.f32(float 0x3FA59F1180000000, float %z, float 0x3F98B8B000000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %z, float 0x3FA748E6E0000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %z, float 0x3FB33013E0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %z, float 0x3FC5555CA0000000)
  %zp = fmul float %z, %p3
  %a = call float @llvm.fma.f32(float %s, float %zp, float %s)
  %b = call float @llvm.fma.f32(float %a, float -2.0, float 0x3FF921FB60000000)
  %c = fadd float %b, 0xBE6777A5C0000000
  %made = select i1 %near, float %a, float %c
  %result = call float @llvm.copysign.f32(float %made, float %x)
  ret float %result
}

; The arccosine, of the same: pi/2 less the arcsine up to 1/2; above, twice the arcsine of the root, or pi less that.
define linkonce_odr float @tilewright.acos.lib(float %x) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %near = fcmp ole float %size, 0.5
  %square = fmul float %x, %x
  %half = call float @llvm.fma.f32(float %size, float -0.5, float 0.5)
  %z = select i1 %near, float %square, float %half
  %root = call float @llvm.sqrt.f32(float %half)
  %s = select i1 %near, float %size, float %root
  %p0 = call float @llvm.fma.f32(float 0x3FA59F1180000000, float %z, float 0x3F98B8B000000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %z, float 0x3FA748E6E0000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %z, float 0x3FB33013E0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %z, float 0x3FC5555CA0000000)
  %zp = fmul float %z, %p3
  %a = call float @llvm.fma.f32(float %s, float %zp, float %s)
  %signed = call float @llvm.copysign.f32(float %a, float %x)
  %less = fsub float %signed, 0xBE6777A5C0000000
  %middle = fsub float 0x3FF921FB60000000, %less
  %twice = fmul float %a, 2.0
  %back = fsub float %twice, 0xBE7777A5C0000000
  %left = fsub float 0x400921FB60000000, %back
  %negative = fcmp olt float %x, 0.0
  %outer = select i1 %negative, float %left, float %twice
  %result = select i1 %near, float %middle, float %outer
  ret float %result
}

; The arctangent of y / x, both not negative, as an angle up to pi/2: of the smaller over the larger, or pi/2 less that.
define linkonce_odr float @tilewright.angle.lib(float %y, float %x) alwaysinline {
  %steep = fcmp ogt float %y, %x
  %low = select i1 %steep, float %x, float %y
  %high = select i1 %steep, float %y, float %x
  %quotient = fdiv float %low, %high
  ; Two zeros and two infinities.
  %nothing = fcmp oeq float %high, 0.0
  %whole = select i1 %nothing, float 0.0, float %quotient
  %endless = fcmp oeq float %low, 0x7FF0000000000000
  %t = select i1 %endless, float 1.0, float %whole
  %z = fmul float %t, %t
  %p0 = call float @llvm.fma.f32(float 0xBF5DEFEAC0000000, float %z, float 0x3F86A8F900000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %z, float 0xBFA01AF8C0000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %z, float 0x3FADD0EE20000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %z, float 0xBFB58DC7C0000000)
  %p4 = call float @llvm.fma.f32(float %p3, float %z, float 0x3FBC0D28A0000000)
  %p5 = call float @llvm.fma.f32(float %p4, float %z, float 0xBFC2426F80000000)
  %p6 = call float @llvm.fma.f32(float %p5, float %z, float 0x3FC9992760000000)
  %p7 = call float @llvm.fma.f32(float %p6, float %z, float 0xBFD5555400000000)
  %zp = fmul float %z, %p7
  %a = call float @llvm.fma.f32(float %t, float %zp, float %t)
  %rest = fsub float 0x3FF921FB60000000, %a
  %more = fadd float %rest, 0xBE6777A5C0000000
  %result = select i1 %steep, float %more, float %a
  ret float %result
}

; The arctangent.
define linkonce_odr float @tilewright.atan.lib(float %x) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %angle = call float @tilewright.angle.lib(float %size, float 1.0)
  %signed = call float @llvm.copysign.f32(float %angle, float %x)
  %nan = fcmp uno float %x, 0.0
  %result = select i1 %nan, float %x, float %signed
  ret float %result
}

; The angle of the point (x, y).
define linkonce_odr float @tilewright.atan2.lib(float %y, float %x) alwaysinline {
  %y.size = call float @llvm.fabs.f32(float %y)
  %x.size = call float @llvm.fabs.f32(float %x)
  %angle = call float @tilewright.angle.lib(float %y.size, float %x.size)
  %back = fsub float %angle, 0xBE7777A5C0000000
  %left = fsub float 0x400921FB60000000, %back
  %bits = bitcast float %x to i32
  %negative = icmp slt i32 %bits, 0
  %made = select i1 %negative, float %left, float %angle
  %signed = call float @llvm.copysign.f32(float %made, float %y)
  %nan = fcmp uno float %x, %y
  %result = select i1 %nan, float 0x7FF8000000000000, float %signed
  ret float %result
}

; 2^extra times the exponential: x = k log 2 + r, and 2^(k + extra) in two steps, so that sums of halves overflow no earlier than they must.
define linkonce_odr float @tilewright.scaled.exp.lib(float %given, i32 %extra) alwaysinline {
  %low = fcmp olt float %given, -110.0
  %above = select i1 %low, float -110.0, float %given
  %high = fcmp ogt float %above, 100.0
  %x = select i1 %high, float 100.0, float %above
  %scaled = fmul float %x, 0x3FF7154760000000
  %k = call float @llvm.rint.f32(float %scaled)
  %minus = fneg float %k
  %r0 = call float @llvm.fma.f32(float %minus, float 0x3FE62E4000000000, float %x)
  %r = call float @llvm.fma.f32(float %minus, float 0x3EB7F7D1C0000000, float %r0)
  %p0 = call float @llvm.fma.f32(float 0x3F56DB4E80000000, float %r, float 0x3F8123BDE0000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %r, float 0x3FA55545E0000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %r, float 0x3FC55548E0000000)
  %p3 = call float @llvm.fma.f32(float %p2, float %r, float 0x3FE0000000000000)
  %rr = fmul float %r, %r
  %e = call float @llvm.fma.f32(float %rr, float %p3, float %r)
  %m = fadd float %e, 1.0
  %integer = fptosi float %k to i32
  %first = ashr i32 %integer, 1
  %whole = sub i32 %integer, %first
  %second = add i32 %whole, %extra
  %first.biased = add i32 %first, 127
  %second.biased = add i32 %second, 127
  %first.bits = shl i32 %first.biased, 23
  %second.bits = shl i32 %second.biased, 23
  %first.power = bitcast i32 %first.bits to float
  %second.power = bitcast i32 %second.bits to float
  %once = fmul float %m, %first.power
  %made = fmul float %once, %second.power
  %nan = fcmp uno float %given, 0.0
  %result = select i1 %nan, float %given, float %made
  ret float %result
}

; The exponential.
define linkonce_odr float @tilewright.exp.lib(float %x) alwaysinline {
  %result = call float @tilewright.scaled.exp.lib(float %x, i32 0)
  ret float %result
}

; The hyperbolic cosine: halves of two exponentials.
define linkonce_odr float @tilewright.cosh.lib(float %x) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %h = call float @tilewright.scaled.exp.lib(float %size, i32 -1)
  %other = fdiv float 0.25, %h
  %made = fadd float %h, %other
  %nan = fcmp uno float %x, 0.0
  %result = select i1 %nan, float %x, float %made
  ret float %result
}

; The hyperbolic sine: x + x z P(z) up to 1, then halves of two exponentials.
define linkonce_odr float @tilewright.sinh.lib(float %x) alwaysinline {
  %size = call float @llvm.fabs.f32(float %x)
  %h = call float @tilewright.scaled.exp.lib(float %size, i32 -1)
  %other = fdiv float 0.25, %h
  %made = fsub float %h, %other
  %far = call float @llvm.copysign.f32(float %made, float %x)
  %z = fmul float %x, %x
  %p0 = call float @llvm.fma.f32(float 0x3EC7A26780000000, float %z, float 0x3F29FFE120000000)
  %p1 = call float @llvm.fma.f32(float %p0, float %z, float 0x3F81111360000000)
  %p2 = call float @llvm.fma.f32(float %p1, float %z, float 0x3FC5555560000000)
  %zp = fmul float %z, %p2
  %near = call float @llvm.fma.f32(float %x, float %zp, float %x)
  %small = fcmp olt float %size, 1.0
  %value = select i1 %small, float %near, float %far
  %nan = fcmp uno float %x, 0.0
  %result = select i1 %nan, float %x, float %value
  ret float %result
}

; The inverse hyperbolic sine: log(|x| + root(x*x + 1)) in doubles; near 0, where that has few bits, two terms of the series.
define linkonce_odr float @tilewright.asinh.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %size = call double @llvm.fabs.f64(double %wide)
  %square = fmul double %wide, %wide
  %more = fadd double %square, 1.0
  %root = call double @llvm.sqrt.f64(double %more)
  %sum = fadd double %size, %root
  %log = call double @tilewright.log.f64(double %sum)
  %far = call double @llvm.copysign.f64(double %log, double %wide)
  %third = fmul double %square, 0xBFC5555555555555
  %near = call double @llvm.fma.f64(double %wide, double %third, double %wide)
  %small = fcmp olt double %size, 0x3F30000000000000
  %made = select i1 %small, double %near, double %far
  %short = fptrunc double %made to float
  %result = call float @llvm.copysign.f32(float %short, float %x)
  ret float %result
}

; The inverse hyperbolic cosine: log(x + root(x*x - 1)) in doubles.
define linkonce_odr float @tilewright.acosh.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %square = fmul double %wide, %wide
  %less = fadd double %square, -1.0
  %root = call double @llvm.sqrt.f64(double %less)
  %sum = fadd double %wide, %root
  %log = call double @tilewright.log.f64(double %sum)
  %made = fptrunc double %log to float
  %outside = fcmp ult float %x, 1.0
  %result = select i1 %outside, float 0x7FF8000000000000, float %made
  ret float %result
}

; The inverse hyperbolic tangent: half of log((1 + x) / (1 - x)) in doubles; near 0 two terms of the series.
define linkonce_odr float @tilewright.atanh.lib(float %x) alwaysinline {
  %wide = fpext float %x to double
  %size = call double @llvm.fabs.f64(double %wide)
  %above = fadd double %wide, 1.0
  %below = fsub double 1.0, %wide
  %quotient = fdiv double %above, %below
  %log = call double @tilewright.log.f64(double %quotient)
  %far = fmul double %log, 0.5
  %square = fmul double %wide, %wide
  %third = fmul double %square, 0x3FD5555555555555
  %near = call double @llvm.fma.f64(double %wide, double %third, double %wide)
  %small = fcmp olt double %size, 0x3F30000000000000
  %made = select i1 %small, double %near, double %far
  %result = fptrunc double %made to float
  ret float %result
}
