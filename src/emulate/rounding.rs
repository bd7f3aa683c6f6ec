//! Numbers without loss, and their one rounding in any direction to any format.
//!
//! Rounding to nearest is the processor's own; the directed roundings of PTX are computed here on integers. What would not fit
//! is cut, and the last bit says so: no format is long enough for that to be more than a sticky bit.

use half::{bf16, f16};

/// Where a number between two of a format goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// `.rn`: to the nearest, a tie to the even one.
    Nearest,
    /// `.rz`
    Zero,
    /// `.rm`
    Down,
    /// `.rp`
    Up,
}

/// `modes!(mode; M => expression)`: the expression with `M` as a constant [`Rounding`], so that each mode has functions of
/// its own. `None` for other words.
macro_rules! modes {
    ($mode:expr; $M:ident => $make:expr) => {
        match $mode {
            "rn" => {
                const $M: $crate::emulate::rounding::Rounding = $crate::emulate::rounding::Rounding::Nearest;
                Some($make)
            }
            "rz" => {
                const $M: $crate::emulate::rounding::Rounding = $crate::emulate::rounding::Rounding::Zero;
                Some($make)
            }
            "rm" => {
                const $M: $crate::emulate::rounding::Rounding = $crate::emulate::rounding::Rounding::Down;
                Some($make)
            }
            "rp" => {
                const $M: $crate::emulate::rounding::Rounding = $crate::emulate::rounding::Rounding::Up;
                Some($make)
            }
            _ => None,
        }
    };
}
pub(super) use modes;

/// The stored bits of an IEEE format's parts.
#[derive(Clone, Copy)]
pub(super) struct Format {
    significand: u32,
    exponent: u32,
}

impl Format {
    /// The exponent of the last place of subnormals.
    const fn least(self) -> i32 {
        2 - (1 << (self.exponent - 1)) - self.significand as i32
    }
}

/// significand · 2^exponent. Significands have at most 127 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
}

/// `value` · 2^−`by`, with the last bit set if anything was cut.
fn shift_right(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..=127 => value >> by | u128::from(value & ((1 << by) - 1) != 0),
        _ => u128::from(value != 0),
    }
}

impl Exact {
    /// A finite double.
    pub fn of(value: f64) -> Self {
        let bits = value.to_bits();
        let (field, fraction) = ((bits >> 52 & 0x7ff) as i32, u128::from(bits & ((1 << 52) - 1)));
        let hidden = u128::from(field != 0) << 52;
        Self { negative: value.is_sign_negative(), significand: fraction | hidden, exponent: field.max(1) - 1075 }
    }

    /// An integer of 64 bits, signed or not.
    pub fn of_integer(value: i128) -> Self {
        Self { negative: value < 0, significand: value.unsigned_abs(), exponent: 0 }
    }

    /// True if the magnitude is under the format's smallest normal number, zeros aside.
    fn is_tiny(self, format: Format) -> bool {
        self.significand != 0
            && self.exponent + (self.significand.ilog2() as i32) < format.least() + format.significand as i32
    }

    /// Shifted so that the highest bit is bit 125. Not for zero.
    fn normalised(self) -> Self {
        let shift = 125 - self.significand.ilog2();
        Self { significand: self.significand << shift, exponent: self.exponent - shift as i32, ..self }
    }

    /// The sum; a zero of unlike signs is negative only where `mode` rounds down.
    pub fn plus(self, other: Self, mode: Rounding) -> Self {
        if self.significand == 0 || other.significand == 0 {
            let sum = if self.significand == 0 { other } else { self };
            let unlike = self.significand == other.significand && self.negative != other.negative;
            return Self { negative: if unlike { mode == Rounding::Down } else { sum.negative }, ..sum };
        }
        let (mut large, mut small) = (self.normalised(), other.normalised());
        if (large.exponent, large.significand) < (small.exponent, small.significand) {
            (large, small) = (small, large);
        }
        // Both end in zeros, so that what is cut of the small one is a sticky bit even where they cancel.
        let added = shift_right(small.significand, (large.exponent - small.exponent) as u32);
        if large.negative == small.negative {
            return Self { significand: large.significand + added, ..large };
        }
        let significand = large.significand - added;
        let negative = if significand == 0 { mode == Rounding::Down } else { large.negative };
        Self { negative, significand, exponent: large.exponent }
    }

    /// The product of two numbers of at most 63 bits.
    pub fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            significand: self.significand * other.significand,
            exponent: self.exponent + other.exponent,
        }
    }

    /// The quotient by a number of at most 53 bits that is not zero.
    pub fn over(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        if self.significand == 0 {
            return Self { negative, ..self };
        }
        let dividend = self.normalised();
        let (quotient, rest) = (dividend.significand / other.significand, dividend.significand % other.significand);
        Self { negative, significand: quotient | u128::from(rest != 0), exponent: dividend.exponent - other.exponent }
    }

    /// The square root of a number that is positive.
    pub fn root(self) -> Self {
        let mut square = self.normalised();
        if square.exponent % 2 != 0 {
            square = Self { significand: square.significand << 1, exponent: square.exponent - 1, ..square };
        }
        let root = square.significand.isqrt();
        let inexact = root * root != square.significand;
        Self { negative: false, significand: root | u128::from(inexact), exponent: square.exponent / 2 }
    }

    /// The code of `format` for this number.
    pub fn round(self, format: Format, mode: Rounding) -> u64 {
        let sign = u64::from(self.negative) << (format.significand + format.exponent);
        if self.significand == 0 {
            return sign;
        }
        let top = self.exponent + self.significand.ilog2() as i32;
        // The exponent of the result's last place.
        let last = (top - format.significand as i32).max(format.least());
        let shift = last - self.exponent;
        let (kept, rest, half) = match shift {
            ..=0 => (self.significand << -shift, 0, 1),
            1..=127 => (self.significand >> shift, self.significand & ((1 << shift) - 1), 1 << (shift - 1)),
            // Less than half of the last place.
            _ => (0, 1, 2),
        };
        let away = match mode {
            Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
            Rounding::Zero => false,
            Rounding::Down => self.negative && rest != 0,
            Rounding::Up => !self.negative && rest != 0,
        };
        // A carry out of the significand goes to the exponent, as it must.
        let hidden = 1_u64 << format.significand;
        let kept = kept as u64 + u64::from(away);
        let field = (last - format.least()) as u64;
        let code = if kept < hidden { kept } else { (field << format.significand) + kept };
        let infinity = ((1 << format.exponent) - 1) << format.significand;
        if code < infinity {
            return sign | code;
        }
        let to_infinity = match mode {
            Rounding::Nearest => true,
            Rounding::Zero => false,
            Rounding::Down => self.negative,
            Rounding::Up => !self.negative,
        };
        sign | if to_infinity { infinity } else { infinity - 1 }
    }
}

/// A format of the machine.
pub(super) trait Real: Copy + Into<f64> {
    const FORMAT: Format;
    fn of_code(code: u64) -> Self;
}

macro_rules! real {
    ($($ty:ty, $bits:ty, $significand:expr, $exponent:expr;)*) => {
        $(impl Real for $ty {
            const FORMAT: Format = Format { significand: $significand, exponent: $exponent };
            fn of_code(code: u64) -> Self {
                <$ty>::from_bits(code as $bits)
            }
        })*
    };
}

real! {
    f16, u16, 10, 5;
    bf16, u16, 7, 8;
    f32, u32, 23, 8;
    f64, u64, 52, 11;
}

/// The number, if it is one.
fn exact<T: Real>(value: T) -> Option<Exact> {
    let value: f64 = value.into();
    value.is_finite().then(|| Exact::of(value))
}

/// A result in its format. `flush` makes a zero of what is tiny before it is rounded, as the hardware does.
fn rounded<T: Real>(result: Exact, mode: Rounding, flush: bool) -> T {
    if flush && result.is_tiny(T::FORMAT) {
        return T::of_code(Exact { significand: 0, ..result }.round(T::FORMAT, mode));
    }
    T::of_code(result.round(T::FORMAT, mode))
}

/// a + b; `plain` is the result where one is not finite, which no rounding changes.
pub(super) fn add<T: Real>(a: T, b: T, plain: T, mode: Rounding, flush: bool) -> T {
    match (exact(a), exact(b)) {
        (Some(a), Some(b)) => rounded(a.plus(b, mode), mode, flush),
        _ => plain,
    }
}

/// As [`add`], a − b.
pub(super) fn subtract<T: Real>(a: T, b: T, plain: T, mode: Rounding, flush: bool) -> T {
    match (exact(a), exact(b)) {
        (Some(a), Some(b)) => rounded(a.plus(Exact { negative: !b.negative, ..b }, mode), mode, flush),
        _ => plain,
    }
}

/// As [`add`], a · b.
pub(super) fn multiply<T: Real>(a: T, b: T, plain: T, mode: Rounding, flush: bool) -> T {
    match (exact(a), exact(b)) {
        (Some(a), Some(b)) => rounded(a.times(b), mode, flush),
        _ => plain,
    }
}

/// As [`add`], a · b + c.
/// The hardware looks whether it is tiny once it is rounded, so that there is nothing to flush here.
pub(super) fn fuse<T: Real>(a: T, b: T, c: T, plain: T, mode: Rounding, _flush: bool) -> T {
    match (exact(a), exact(b), exact(c)) {
        (Some(a), Some(b), Some(c)) => rounded(a.times(b).plus(c, mode), mode, false),
        _ => plain,
    }
}

/// As [`add`], a / b.
pub(super) fn divide<T: Real>(a: T, b: T, plain: T, mode: Rounding, flush: bool) -> T {
    match (exact(a), exact(b)) {
        (Some(a), Some(b)) if b.significand != 0 => rounded(a.over(b), mode, flush),
        _ => plain,
    }
}

/// As [`add`], 1 / a.
pub(super) fn invert<T: Real>(a: T, plain: T, mode: Rounding, flush: bool) -> T {
    divide(T::of_code(Exact::of(1.0).round(T::FORMAT, mode)), a, plain, mode, flush)
}

/// As [`add`], the square root.
pub(super) fn root<T: Real>(a: T, plain: T, mode: Rounding, flush: bool) -> T {
    match exact(a) {
        Some(a) if !a.negative && a.significand != 0 => rounded(a.root(), mode, flush),
        _ => plain,
    }
}

/// A double in a shorter format; `plain` is the result where it is not finite.
pub(super) fn convert<T: Real>(a: f64, plain: T, mode: Rounding) -> T {
    exact(a).map_or(plain, |a| rounded(a, mode, false))
}

/// An integer in a format.
pub(super) fn convert_integer<T: Real>(a: i128, mode: Rounding) -> T {
    rounded(Exact::of_integer(a), mode, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of doubles that meet every case: near, far apart, subnormal, at the ends.
    fn numbers() -> Vec<f64> {
        let mut state = 1_u64;
        let mut all = vec![0.0, -0.0, 1.0, -1.0, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1.0 + f64::EPSILON, 3.0];
        for index in 0..200 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = f64::from_bits(state);
            all.push(if index % 2 == 0 { value } else { 1.0 + (state >> 12) as f64 * 2.0_f64.powi(-60) });
        }
        all.retain(|value| value.is_finite());
        all
    }

    #[test]
    fn to_nearest_is_the_processors() {
        let rn = Rounding::Nearest;
        for &a in &numbers() {
            for &b in &numbers() {
                let same = |ours: f64, theirs: f64| assert_eq!(ours.to_bits(), theirs.to_bits(), "{a:e} {b:e}");
                same(add(a, b, f64::NAN, rn, false), a + b);
                same(subtract(a, b, f64::NAN, rn, false), a - b);
                same(multiply(a, b, f64::NAN, rn, false), a * b);
                same(fuse(a, b, -a, f64::NAN, rn, false), a.mul_add(b, -a));
                same(divide(a, b, a / b, rn, false), a / b);
                let (a, b) = (a as f32, b as f32);
                let same = |ours: f32, theirs: f32| assert_eq!(ours.to_bits(), theirs.to_bits(), "{a:e} {b:e}");
                same(add(a, b, a + b, rn, false), a + b);
                same(fuse(a, b, b, a.mul_add(b, b), rn, false), a.mul_add(b, b));
                same(divide(a, b, a / b, rn, false), a / b);
            }
            let root = root(a, a.sqrt(), rn, false);
            assert!(root.to_bits() == a.sqrt().to_bits() || root.is_nan() && a < 0.0, "{a:e}");
            assert_eq!(convert(a, f32::NAN, rn).to_bits(), (a as f32).to_bits(), "{a:e}");
        }
    }

    /// The directed results enclose the exact one, and are neighbours where it lies between them.
    #[test]
    fn directions() {
        let (zero, down, up) = (Rounding::Zero, Rounding::Down, Rounding::Up);
        for &a in &numbers() {
            for &b in &numbers() {
                let [z, d, u] = [zero, down, up].map(|mode| multiply(a, b, f64::NAN, mode, false));
                assert!(d <= u && (d == u || d.next_up() == u), "{a:e} {b:e}: {d:e} {u:e}");
                assert_eq!(z.to_bits(), if d.abs() < u.abs() { d } else { u }.to_bits(), "{a:e} {b:e}");
                assert!((d..=u).contains(&(a * b)));
            }
        }
        assert_eq!(add(1.0_f64, 1e-300, f64::NAN, up, false), 1.0 + f64::EPSILON);
        assert_eq!(add(1.0_f64, -1e-300, f64::NAN, zero, false), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(add(1.0_f64, -1.0, f64::NAN, down, false).to_bits(), (-0.0_f64).to_bits());
        assert_eq!(add(f32::MAX, 1.0, f32::NAN, zero, false), f32::MAX);
        assert_eq!(add(f32::MAX, 1.0, f32::NAN, up, false), f32::INFINITY);
        assert_eq!(divide(1.0_f32, 3.0, f32::NAN, up, false), (1.0_f32 / 3.0).max(0.33333334));
        assert_eq!(root(2.0_f32, f32::NAN, up, false), std::f32::consts::SQRT_2.next_up());
        assert_eq!(convert(1e-300, f32::NAN, up), f32::from_bits(1));
        assert_eq!(convert_integer::<f32>(i128::from(u64::MAX), zero), 18446742974197923840.0);
    }
}
