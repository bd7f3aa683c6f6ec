//! Video instructions: arithmetic of words, halves or bytes, saturated, and put together with a third operand.

/// What is computed of two numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum VideoOp {
    Add,
    Sub,
    AbsDiff,
    Min,
    Max,
    Average,
    ShiftLeft,
    ShiftRight,
    /// One where the comparison holds.
    Set(fn(&i64, &i64) -> bool),
}

/// What becomes of the result and the third operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// The result alone.
    Alone,
    /// The result put in place of a part of the third operand.
    Insert(Part),
    Add,
    Min,
    Max,
}

/// A part of a word, which may be all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub start: u32,
    pub bits: u32,
}

impl Part {
    pub const WORD: Part = Part { start: 0, bits: 32 };

    /// `b0` to `b3`, `h0` and `h1`.
    pub fn from_name(name: &str) -> Option<Part> {
        Some(match name {
            "b0" => Part { start: 0, bits: 8 },
            "b1" => Part { start: 8, bits: 8 },
            "b2" => Part { start: 16, bits: 8 },
            "b3" => Part { start: 24, bits: 8 },
            "h0" => Part { start: 0, bits: 16 },
            "h1" => Part { start: 16, bits: 16 },
            _ => return None,
        })
    }

    fn of(self, word: u32, signed: bool) -> i64 {
        let top = word << (32 - self.start - self.bits);
        if signed { i64::from(top as i32 >> (32 - self.bits)) } else { (top >> (32 - self.bits)).into() }
    }

    fn mask(self) -> u32 {
        (u32::MAX >> (32 - self.bits)) << self.start
    }

    fn insert(self, value: i64, word: u32) -> u32 {
        word & !self.mask() | (value as u32) << self.start & self.mask()
    }
}

/// A video instruction. Of `vadd` and its like `lanes` is one; `vadd2` has two and `vadd4` four, without parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Video {
    pub op: VideoOp,
    pub lanes: u32,
    /// Whether the result, the first and the second operand are signed.
    pub signed: [bool; 3],
    pub parts: [Part; 2],
    pub saturates: bool,
    /// Of shifts: the count modulo 32, not at most 32.
    pub wraps: bool,
    pub merge: Merge,
    /// The lanes that are computed.
    pub mask: u32,
}

impl Video {
    fn compute(&self, a: i64, b: i64, bits: u32) -> i64 {
        let count = if self.wraps { b & 31 } else { b.clamp(0, 32) };
        let value = match self.op {
            VideoOp::Add => a + b,
            VideoOp::Sub => a - b,
            VideoOp::AbsDiff => (a - b).abs(),
            VideoOp::Min => a.min(b),
            VideoOp::Max => a.max(b),
            // Rounded away from zero where it is not negative.
            VideoOp::Average => (a + b + i64::from(a + b >= 0)) >> 1,
            VideoOp::ShiftLeft => a << count,
            VideoOp::ShiftRight => a >> count,
            VideoOp::Set(holds) => holds(&a, &b).into(),
        };
        if !self.saturates {
            return value;
        }
        let (least, most) =
            if self.signed[0] { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        value.clamp(least, most)
    }

    pub fn apply(&self, a: u32, b: u32, c: u32) -> u32 {
        let [signed, a_signed, b_signed] = self.signed;
        if self.lanes == 1 {
            let bits = if let Merge::Insert(part) = self.merge { part.bits } else { 32 };
            let value = self.compute(self.parts[0].of(a, a_signed), self.parts[1].of(b, b_signed), bits);
            let extreme = |of: fn(i64, i64) -> i64| {
                let word = |word: u32| Part::WORD.of(word, signed);
                of(word(value as u32), word(c)) as u32
            };
            return match self.merge {
                Merge::Alone => value as u32,
                Merge::Insert(part) => part.insert(value, c),
                Merge::Add => c.wrapping_add(value as u32),
                Merge::Min => extreme(i64::min),
                Merge::Max => extreme(i64::max),
            };
        }
        let bits = 32 / self.lanes;
        let chosen =
            (0..self.lanes).filter(|lane| self.mask >> lane & 1 == 1).map(|lane| Part { start: lane * bits, bits });
        let values = chosen.map(|part| (part, self.compute(part.of(a, a_signed), part.of(b, b_signed), bits)));
        match self.merge {
            Merge::Add => values.fold(c, |sum, (_, value)| sum.wrapping_add(value as u32)),
            _ => values.fold(c, |word, (part, value)| part.insert(value, word)),
        }
    }
}
