; Functions of doubles that PTX has no instruction for, each within one unit in the last place, two where it is said. Polynomials are minimax fits, rounded to
; doubles, the highest coefficient first. Subnormals are kept, as Triton's are.

declare double @llvm.fma.f64(double, double, double)
declare double @llvm.rint.f64(double)
declare double @llvm.fabs.f64(double)
declare double @llvm.copysign.f64(double, double)
declare i64 @llvm.fshl.i64(i64, i64, i64)
declare i64 @llvm.ctlz.i64(i64, i1)

; The exponential (Cody and Waite's reduction): x = k log 2 + r, log 2 in two parts; 2^k exp(r) with 2^k in two steps, so that the first does not overflow
; or lose bits and the second rounds once.
define linkonce_odr double @tilewright.exp.f64(double %given) alwaysinline {
  %low = fcmp olt double %given, -746.0
  %above = select i1 %low, double -746.0, double %given
  %high = fcmp ogt double %above, 710.0
  %x = select i1 %high, double 710.0, double %above
  %scaled = fmul double %x, 0x3FF71547652B82FE
  %k = call double @llvm.rint.f64(double %scaled)
  %minus = fneg double %k
  %r0 = call double @llvm.fma.f64(double %minus, double 0x3FE62E42FEFA39EF, double %x)
  %r = call double @llvm.fma.f64(double %minus, double 0x3C7ABC9E3B39803F, double %r0)
  %p0 = call double @llvm.fma.f64(double 0x3E5AF866B46E10AF, double %r, double 0x3E928B0A3EAD8C05)
  %p1 = call double @llvm.fma.f64(double %p0, double %r, double 0x3EC71DDDF39509DB)
  %p2 = call double @llvm.fma.f64(double %p1, double %r, double 0x3EFA0199635E3090)
  %p3 = call double @llvm.fma.f64(double %p2, double %r, double 0x3F2A01A01BB24CBA)
  %p4 = call double @llvm.fma.f64(double %p3, double %r, double 0x3F56C16C185C809B)
  %p5 = call double @llvm.fma.f64(double %p4, double %r, double 0x3F8111111110D575)
  %p6 = call double @llvm.fma.f64(double %p5, double %r, double 0x3FA555555554FFA4)
  %p7 = call double @llvm.fma.f64(double %p6, double %r, double 0x3FC5555555555561)
  %p8 = call double @llvm.fma.f64(double %p7, double %r, double 0x3FE000000000000C)
  %rr = fmul double %r, %r
  %e = call double @llvm.fma.f64(double %rr, double %p8, double %r)
  %m = fadd double %e, 1.0
  %integer = fptosi double %k to i32
  %first = ashr i32 %integer, 1
  %second = sub i32 %integer, %first
  %first.64 = sext i32 %first to i64
  %second.64 = sext i32 %second to i64
  %first.biased = add i64 %first.64, 1023
  %second.biased = add i64 %second.64, 1023
  %first.bits = shl i64 %first.biased, 52
  %second.bits = shl i64 %second.biased, 52
  %first.power = bitcast i64 %first.bits to double
  %second.power = bitcast i64 %second.bits to double
  %once = fmul double %m, %first.power
  %made = fmul double %once, %second.power
  %nan = fcmp uno double %given, 0.0
  %result = select i1 %nan, double %given, double %made
  ret double %result
}

; 2 to the power: the whole part apart, and 1 + r P(r) for the rest.
define linkonce_odr double @tilewright.exp2.f64(double %given) alwaysinline {
  %low = fcmp olt double %given, -1080.0
  %above = select i1 %low, double -1080.0, double %given
  %high = fcmp ogt double %above, 1025.0
  %x = select i1 %high, double 1025.0, double %above
  %k = call double @llvm.rint.f64(double %x)
  %r = fsub double %x, %k
  %p0 = call double @llvm.fma.f64(double 0x3DFEA183CE157FC8, double %r, double 0x3E3E61CA99D2A55B)
  %p1 = call double @llvm.fma.f64(double %p0, double %r, double 0x3E7B524CDF1818D1)
  %p2 = call double @llvm.fma.f64(double %p1, double %r, double 0x3EB62BFC6CBFB4CF)
  %p3 = call double @llvm.fma.f64(double %p2, double %r, double 0x3EEFFCBFC7C43A18)
  %p4 = call double @llvm.fma.f64(double %p3, double %r, double 0x3F24309130F2FD30)
  %p5 = call double @llvm.fma.f64(double %p4, double %r, double 0x3F55D87FE78A0E3B)
  %p6 = call double @llvm.fma.f64(double %p5, double %r, double 0x3F83B2AB6FB9FF54)
  %p7 = call double @llvm.fma.f64(double %p6, double %r, double 0x3FAC6B08D704A0D7)
  %p8 = call double @llvm.fma.f64(double %p7, double %r, double 0x3FCEBFBDFF82C5A5)
  %p9 = call double @llvm.fma.f64(double %p8, double %r, double 0x3FE62E42FEFA39EF)
  %m = call double @llvm.fma.f64(double %r, double %p9, double 1.0)
  %integer = fptosi double %k to i32
  %first = ashr i32 %integer, 1
  %second = sub i32 %integer, %first
  %first.64 = sext i32 %first to i64
  %second.64 = sext i32 %second to i64
  %first.biased = add i64 %first.64, 1023
  %second.biased = add i64 %second.64, 1023
  %first.bits = shl i64 %first.biased, 52
  %second.bits = shl i64 %second.biased, 52
  %first.power = bitcast i64 %first.bits to double
  %second.power = bitcast i64 %second.bits to double
  %once = fmul double %m, %first.power
  %made = fmul double %once, %second.power
  %nan = fcmp uno double %given, 0.0
  %result = select i1 %nan, double %given, double %made
  ret double %result
}

; The natural logarithm (fdlibm's way): x = m 2^k with m between the roots of 1/2 and 2, f = m - 1, s = f / (2 + f). log m = 2 artanh s = f - (f*f/2 - s (f*f/2 + z P(z)))
; where z = s*s.
define linkonce_odr double @tilewright.log.f64(double %given) alwaysinline {
  %small = fcmp olt double %given, 0x0010000000000000
  %raised = fmul double %given, 0x4350000000000000
  %x = select i1 %small, double %raised, double %given
  %extra = select i1 %small, double -54.0, double 0.0
  %bits = bitcast double %x to i64
  ; The root of 1/2.
  %above = sub i64 %bits, 4604544271217802189
  %exponent = ashr i64 %above, 52
  %cut = shl i64 %exponent, 52
  %mbits = sub i64 %bits, %cut
  %m = bitcast i64 %mbits to double
  %f = fsub double %m, 1.0
  %exponent.32 = trunc i64 %exponent to i32
  %whole = sitofp i32 %exponent.32 to double
  %k = fadd double %whole, %extra
  %f2 = fadd double %f, 2.0
  %s = fdiv double %f, %f2
  %z = fmul double %s, %s
  %p0 = call double @llvm.fma.f64(double 0x3FC2F05F48119368, double %z, double 0x3FC39A1ADACE8F6A)
  %p1 = call double @llvm.fma.f64(double %p0, double %z, double 0x3FC74663F5AE1C34)
  %p2 = call double @llvm.fma.f64(double %p1, double %z, double 0x3FCC71C520782EA1)
  %p3 = call double @llvm.fma.f64(double %p2, double %z, double 0x3FD24924941F2F0A)
  %p4 = call double @llvm.fma.f64(double %p3, double %z, double 0x3FD999999997FDA2)
  %p5 = call double @llvm.fma.f64(double %p4, double %z, double 0x3FE5555555555592)
  %rest = fmul double %z, %p5
  %halff = fmul double %f, 0.5
  %square = fmul double %halff, %f
  %both = fadd double %square, %rest
  %low = fmul double %k, 0x3C7ABC9E3B39803F
  %correction = call double @llvm.fma.f64(double %s, double %both, double %low)
  %less = fsub double %square, %correction
  %log = fsub double %f, %less
  %made = call double @llvm.fma.f64(double %k, double 0x3FE62E42FEFA39EF, double %log)
  ; Infinity and NaN give themselves, 0 gives -infinity, what is below gives NaN.
  %finite = fcmp olt double %x, 0x7FF0000000000000
  %upper = select i1 %finite, double %made, double %x
  %zero = fcmp oeq double %x, 0.0
  %lower = select i1 %zero, double 0xFFF0000000000000, double %upper
  %negative = fcmp olt double %x, 0.0
  %result = select i1 %negative, double 0x7FF8000000000000, double %lower
  ret double %result
}

; The logarithm to base 2: log m as above in two parts, f - f*f/2 and what is left, times 1 / log 2 in two parts, and k added with what the sum loses.
define linkonce_odr double @tilewright.log2.f64(double %given) alwaysinline {
  %small = fcmp olt double %given, 0x0010000000000000
  %raised = fmul double %given, 0x4350000000000000
  %x = select i1 %small, double %raised, double %given
  %extra = select i1 %small, double -54.0, double 0.0
  %bits = bitcast double %x to i64
  ; The root of 1/2.
  %above = sub i64 %bits, 4604544271217802189
  %exponent = ashr i64 %above, 52
  %cut = shl i64 %exponent, 52
  %mbits = sub i64 %bits, %cut
  %m = bitcast i64 %mbits to double
  %f = fsub double %m, 1.0
  %exponent.32 = trunc i64 %exponent to i32
  %whole = sitofp i32 %exponent.32 to double
  %k = fadd double %whole, %extra
  %f2 = fadd double %f, 2.0
  %s = fdiv double %f, %f2
  %z = fmul double %s, %s
  %p0 = call double @llvm.fma.f64(double 0x3FC2F05F48119368, double %z, double 0x3FC39A1ADACE8F6A)
  %p1 = call double @llvm.fma.f64(double %p0, double %z, double 0x3FC74663F5AE1C34)
  %p2 = call double @llvm.fma.f64(double %p1, double %z, double 0x3FCC71C520782EA1)
  %p3 = call double @llvm.fma.f64(double %p2, double %z, double 0x3FD24924941F2F0A)
  %p4 = call double @llvm.fma.f64(double %p3, double %z, double 0x3FD999999997FDA2)
  %p5 = call double @llvm.fma.f64(double %p4, double %z, double 0x3FE5555555555592)
  %rest = fmul double %z, %p5
  %halff = fmul double %f, 0.5
  %square = fmul double %halff, %f
  %square.minus = fneg double %square
  %square.lost = call double @llvm.fma.f64(double %halff, double %f, double %square.minus)
  %both = fadd double %square, %rest
  %hi = fsub double %f, %square
  %hi.back = fsub double %f, %hi
  %hi.lost = fsub double %hi.back, %square
  %lost = fsub double %hi.lost, %square.lost
  %lo = call double @llvm.fma.f64(double %s, double %both, double %lost)
  %p = fmul double %hi, 0x3FF71547652B82FE
  %p.minus = fneg double %p
  %p.lost = call double @llvm.fma.f64(double %hi, double 0x3FF71547652B82FE, double %p.minus)
  %t0 = call double @llvm.fma.f64(double %hi, double 0x3C7777D0FFDA0D24, double %p.lost)
  %t = call double @llvm.fma.f64(double %lo, double 0x3FF71547652B82FE, double %t0)
  ; Where k is not 0 it is the larger.
  %sum = fadd double %k, %p
  %back = fsub double %k, %sum
  %sum.lost = fadd double %back, %p
  %tail = fadd double %t, %sum.lost
  %made = fadd double %sum, %tail
  ; Infinity and NaN give themselves, 0 gives -infinity, what is below gives NaN.
  %finite = fcmp olt double %x, 0x7FF0000000000000
  %upper = select i1 %finite, double %made, double %x
  %zero = fcmp oeq double %x, 0.0
  %lower = select i1 %zero, double 0xFFF0000000000000, double %upper
  %negative = fcmp olt double %x, 0.0
  %result = select i1 %negative, double 0x7FF8000000000000, double %lower
  ret double %result
}

; 64 zeros and the first 1216 bits of 2/pi.
@tilewright.two_over_pi = internal unnamed_addr addrspace(4) constant [20 x i64] [
  i64 0, i64 -6703182060581546711, i64 -277156292786332224, i64 -2638381946312093631, i64 -121206125134887583,
  i64 -5249950069107600672, i64 452944820249399836, i64 -135693905287338178, i64 -1692731182770600828, i64 -1613291254968254911,
  i64 4148332274289687028, i64 -7168499653074671557, i64 2303758334597371919, i64 -1211730484530615009, i64 7869616827067468215,
  i64 5712322887342352941, i64 8441921394348257659, i64 4397547296490951402, i64 7780917995555872008, i64 6197850593633725355
]

; The sine of x + quarter * pi/2. x less the nearest multiple of pi/2 is r + tail. Up to a million three parts of pi/2 are taken off (Cody and Waite), what each
; difference loses kept; above, x times 2/pi is made of the 192 bits of 2/pi that matter for the exponent of x (Payne and Hanek). The polynomials and the use of the tail
; are those of fdlibm's kernels in form.
define linkonce_odr double @tilewright.sine.f64(double %x, i32 %quarter) alwaysinline {
entry:
  %size = call double @llvm.fabs.f64(double %x)
  %large = fcmp ogt double %size, 1048576.0
  br i1 %large, label %far, label %near

near:
  %scaled = fmul double %x, 0x3FE45F306DC9C883
  %round = call double @llvm.rint.f64(double %scaled)
  %knear = fptosi double %round to i32
  %minus = fneg double %round
  ; Exact: both are multiples of 2^-53, and the difference is below 1.
  %a = call double @llvm.fma.f64(double %minus, double 0x3FF921FB54442D18, double %x)
  %b = fmul double %minus, 0x3C91A62633145C07
  %b.minus = fneg double %b
  %b.lost = call double @llvm.fma.f64(double %minus, double 0x3C91A62633145C07, double %b.minus)
  ; a + b and what the sum loses, whichever is larger.
  %ab = fadd double %a, %b
  %ab.b = fsub double %ab, %a
  %ab.a = fsub double %ab, %ab.b
  %lost.a = fsub double %a, %ab.a
  %lost.b = fsub double %b, %ab.b
  %lost.sum = fadd double %lost.a, %lost.b
  %lost.all = fadd double %lost.sum, %b.lost
  %t.near = call double @llvm.fma.f64(double %minus, double 0xB91F1976B7ED8FBC, double %lost.all)
  %r.near = fadd double %ab, %t.near
  %r.back = fsub double %ab, %r.near
  %tail.near = fadd double %r.back, %t.near
  br label %core

far:
  %bits = bitcast double %x to i64
  %biased = lshr i64 %bits, 52
  %exponent = and i64 %biased, 2047
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  ; The first bit of the table whose product with x is no multiple of 4; infinities and NaNs stay within it.
  %start = sub i64 %exponent, 1013
  %word = lshr i64 %start, 6
  %at0 = getelementptr i64, ptr addrspace(4) @tilewright.two_over_pi, i64 %word
  %at1 = getelementptr i64, ptr addrspace(4) %at0, i64 1
  %at2 = getelementptr i64, ptr addrspace(4) %at0, i64 2
  %at3 = getelementptr i64, ptr addrspace(4) %at0, i64 3
  %v0 = load i64, ptr addrspace(4) %at0
  %v1 = load i64, ptr addrspace(4) %at1
  %v2 = load i64, ptr addrspace(4) %at2
  %v3 = load i64, ptr addrspace(4) %at3
  %w0 = call i64 @llvm.fshl.i64(i64 %v0, i64 %v1, i64 %start)
  %w1 = call i64 @llvm.fshl.i64(i64 %v1, i64 %v2, i64 %start)
  %w2 = call i64 @llvm.fshl.i64(i64 %v2, i64 %v3, i64 %start)
  ; The 128 bits of the product below a multiple of 4.
  %m = zext i64 %mantissa to i128
  %w1.wide = zext i64 %w1 to i128
  %w2.wide = zext i64 %w2 to i128
  %low = mul i128 %m, %w2.wide
  %carry = lshr i128 %low, 64
  %middle = mul i128 %m, %w1.wide
  %sum = add i128 %middle, %carry
  %sum.high.wide = lshr i128 %sum, 64
  %sum.high = trunc i128 %sum.high.wide to i64
  %sum.low = trunc i128 %sum to i64
  %top = mul i64 %mantissa, %w0
  %high = add i64 %top, %sum.high
  ; Two bits of quarter turns, rounded, and 126 of what is left, with its sign.
  %rounded = add i64 %high, 2305843009213693952
  %quarters = lshr i64 %rounded, 62
  %q = trunc i64 %quarters to i32
  %left.high = call i64 @llvm.fshl.i64(i64 %high, i64 %sum.low, i64 2)
  %left.low = shl i64 %sum.low, 2
  %sign = ashr i64 %left.high, 63
  ; Its size but for one unit in 2^128.
  %size.high = xor i64 %left.high, %sign
  %size.low = xor i64 %left.low, %sign
  %zeros = call i64 @llvm.ctlz.i64(i64 %size.high, i1 false)
  %n.high = call i64 @llvm.fshl.i64(i64 %size.high, i64 %size.low, i64 %zeros)
  %n.low = shl i64 %size.low, %zeros
  ; 53 bits and 53 more.
  %h.bits = lshr i64 %n.high, 11
  %h.rest = call i64 @llvm.fshl.i64(i64 %n.high, i64 %n.low, i64 53)
  %l.bits = lshr i64 %h.rest, 11
  %h.whole = sitofp i64 %h.bits to double
  %l.whole = sitofp i64 %l.bits to double
  %h = fmul double %h.whole, 0x3CA0000000000000
  %l = fmul double %l.whole, 0x3950000000000000
  %angle = fmul double %h, 0x3FF921FB54442D18
  %angle.minus = fneg double %angle
  %angle.lost = call double @llvm.fma.f64(double %h, double 0x3FF921FB54442D18, double %angle.minus)
  %angle.1 = call double @llvm.fma.f64(double %h, double 0x3C91A62633145C07, double %angle.lost)
  %angle.2 = call double @llvm.fma.f64(double %l, double 0x3FF921FB54442D18, double %angle.1)
  ; 2^-zeros, negative where the angle or x is.
  %power.biased = sub i64 1023, %zeros
  %power.bits = shl i64 %power.biased, 52
  %power = bitcast i64 %power.bits to double
  %turned = xor i64 %sign, %bits
  %below.mask = and i64 %turned, -9223372036854775808
  %power.signed = or i64 %power.bits, %below.mask
  %factor = bitcast i64 %power.signed to double
  %r.sum = fadd double %angle, %angle.2
  %r.sum.back = fsub double %angle, %r.sum
  %r.sum.lost = fadd double %r.sum.back, %angle.2
  %r.far = fmul double %r.sum, %factor
  %tail.far = fmul double %r.sum.lost, %factor
  %negative = icmp slt i64 %bits, 0
  %q.minus = sub i32 0, %q
  %kfar = select i1 %negative, i32 %q.minus, i32 %q
  br label %core

core:
  %k = phi i32 [ %knear, %near ], [ %kfar, %far ]
  %r = phi double [ %r.near, %near ], [ %r.far, %far ]
  %tail = phi double [ %tail.near, %near ], [ %tail.far, %far ]
  %turn = add i32 %k, %quarter
  %z = fmul double %r, %r
  ; r + r z (S + z T(z)), and the tail times the cosine, 1 - z/2.
  %s0 = call double @llvm.fma.f64(double 0x3DE5D915E4F975C7, double %z, double 0xBE5AE5E60C57F453)
  %s1 = call double @llvm.fma.f64(double %s0, double %z, double 0x3EC71DE3570FECC1)
  %s2 = call double @llvm.fma.f64(double %s1, double %z, double 0xBF2A01A019C0A2AB)
  %s3 = call double @llvm.fma.f64(double %s2, double %z, double 0x3F8111111110F842)
  %zr = fmul double %z, %r
  %zt = fmul double %s3, %zr
  %half.tail = fmul double %tail, 0.5
  %mixed = fsub double %half.tail, %zt
  %mixed.minus = fneg double %tail
  %inner = call double @llvm.fma.f64(double %z, double %mixed, double %mixed.minus)
  %outer = call double @llvm.fma.f64(double %zr, double 0x3FC5555555555549, double %inner)
  %sine = fsub double %r, %outer
  ; 1 - z/2 and what that loses, z z C(z), less r times the tail.
  %c0 = call double @llvm.fma.f64(double 0xBDA8FACD54E9E10B, double %z, double 0x3E21EE9E89BB5154)
  %c1 = call double @llvm.fma.f64(double %c0, double %z, double 0xBE927E4F8054A809)
  %c2 = call double @llvm.fma.f64(double %c1, double %z, double 0x3EFA01A019CABA02)
  %c3 = call double @llvm.fma.f64(double %c2, double %z, double 0xBF56C16C16C15143)
  %c4 = call double @llvm.fma.f64(double %c3, double %z, double 0x3FA555555555554C)
  %zz = fmul double %z, %z
  %halfz = fmul double %z, 0.5
  %one = fsub double 1.0, %halfz
  %one.back = fsub double 1.0, %one
  %one.lost = fsub double %one.back, %halfz
  %r.minus = fneg double %r
  %rt = call double @llvm.fma.f64(double %r.minus, double %tail, double %one.lost)
  %small = call double @llvm.fma.f64(double %zz, double %c4, double %rt)
  %cosine = fadd double %one, %small
  %oddbit = and i32 %turn, 1
  %odd = icmp ne i32 %oddbit, 0
  %value = select i1 %odd, double %cosine, double %sine
  %halfbit = and i32 %turn, 2
  %half = icmp ne i32 %halfbit, 0
  %negated = fneg double %value
  %made = select i1 %half, double %negated, double %value
  %finite = fcmp olt double %size, 0x7FF0000000000000
  %result = select i1 %finite, double %made, double 0x7FF8000000000000
  ret double %result
}

; The sine. Zero keeps its sign, which the sums above lose.
define linkonce_odr double @tilewright.sin.f64(double %x) alwaysinline {
  %made = call double @tilewright.sine.f64(double %x, i32 0)
  %zero = fcmp oeq double %x, 0.0
  %result = select i1 %zero, double %x, double %made
  ret double %result
}

; The cosine.
define linkonce_odr double @tilewright.cos.f64(double %x) alwaysinline {
  %result = call double @tilewright.sine.f64(double %x, i32 1)
  ret double %result
}

; The error function: x + x P(x*x) below 1; above, 1 - exp(-Q(|x| - 2)) with exp(-Q) the complement (a fit weighted by it), and from 5.93 on 1.
define linkonce_odr double @tilewright.erf.f64(double %x) alwaysinline {
  %size = call double @llvm.fabs.f64(double %x)
  %z = fmul double %x, %x
  %s0 = call double @llvm.fma.f64(double 0xBE0ACDFF90B8EBD8, double %z, double 0x3E4D784936618CC2)
  %s1 = call double @llvm.fma.f64(double %s0, double %z, double 0xBE85C16E30FB0D45)
  %s2 = call double @llvm.fma.f64(double %s1, double %z, double 0x3EBB9827B1885F9B)
  %s3 = call double @llvm.fma.f64(double %s2, double %z, double 0xBEEF4CA94990CB86)
  %s4 = call double @llvm.fma.f64(double %s3, double %z, double 0x3F1F9A2BF73F0C68)
  %s5 = call double @llvm.fma.f64(double %s4, double %z, double 0xBF4C02DB072F3FE0)
  %s6 = call double @llvm.fma.f64(double %s5, double %z, double 0x3F7565BCCFA9A825)
  %s7 = call double @llvm.fma.f64(double %s6, double %z, double 0xBF9B82CE312062BC)
  %s8 = call double @llvm.fma.f64(double %s7, double %z, double 0x3FBCE2F21A041018)
  %s9 = call double @llvm.fma.f64(double %s8, double %z, double 0xBFD812746B0379C2)
  %s10 = call double @llvm.fma.f64(double %s9, double %z, double 0x3FC06EBA8214DB68)
  %near = call double @llvm.fma.f64(double %x, double %s10, double %x)
  %far = fcmp ogt double %size, 0x4017B851EB851EB8
  %bounded = select i1 %far, double 0x4017B851EB851EB8, double %size
  %t = fadd double %bounded, -2.0
  %q0 = call double @llvm.fma.f64(double 0x3D48EF1565D3FDE3, double %t, double 0xBD82D5DBCC3E147E)
  %q1 = call double @llvm.fma.f64(double %q0, double %t, double 0x3DA864B0F03DBF8A)
  %q2 = call double @llvm.fma.f64(double %q1, double %t, double 0xBDC1887D5EA917C6)
  %q3 = call double @llvm.fma.f64(double %q2, double %t, double 0x3DC3320E932668C5)
  %q4 = call double @llvm.fma.f64(double %q3, double %t, double 0x3DF1FA624D860A74)
  %q5 = call double @llvm.fma.f64(double %q4, double %t, double 0xBE25A2A474B84651)
  %q6 = call double @llvm.fma.f64(double %q5, double %t, double 0x3E4DFFEDC4DEDBCA)
  %q7 = call double @llvm.fma.f64(double %q6, double %t, double 0xBE6F0B0572242E5C)
  %q8 = call double @llvm.fma.f64(double %q7, double %t, double 0x3E873E9971931FD5)
  %q9 = call double @llvm.fma.f64(double %q8, double %t, double 0xBE8B54915AC84F2B)
  %q10 = call double @llvm.fma.f64(double %q9, double %t, double 0xBEC06046FE1F23D4)
  %q11 = call double @llvm.fma.f64(double %q10, double %t, double 0x3EF5B656E8D8463A)
  %q12 = call double @llvm.fma.f64(double %q11, double %t, double 0xBF21BC3A5F1496D9)
  %q13 = call double @llvm.fma.f64(double %q12, double %t, double 0x3F47FFCFB4911003)
  %q14 = call double @llvm.fma.f64(double %q13, double %t, double 0xBF6D406B373C07C1)
  %q15 = call double @llvm.fma.f64(double %q14, double %t, double 0x3F90DC3B5FB0EE9B)
  %q16 = call double @llvm.fma.f64(double %q15, double %t, double 0x3FED8F5DECE92399)
  %q17 = call double @llvm.fma.f64(double %q16, double %t, double 0x4011AC3258A8DC2C)
  %q18 = call double @llvm.fma.f64(double %q17, double %t, double 0x401575B329B1F516)
  %minus = fneg double %q18
  %complement = call double @tilewright.exp.f64(double %minus)
  %rest = fsub double 1.0, %complement
  %signed = call double @llvm.copysign.f64(double %rest, double %x)
  %small = fcmp olt double %size, 1.0
  %made = select i1 %small, double %near, double %signed
  %nan = fcmp uno double %x, 0.0
  %result = select i1 %nan, double %x, double %made
  ret double %result
}
