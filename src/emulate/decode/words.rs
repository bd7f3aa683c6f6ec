//! The modifiers of an instruction while they are consumed: what nobody took is an error.

use crate::ptx::model::Instruction;

/// Types of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    Pred,
    U(u32),
    S(u32),
    B(u32),
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    /// Two singles in a wide register.
    F32x2,
    U16x2,
    S16x2,
    E4m3x2,
    E5m2x2,
}

impl Ty {
    pub fn parse(word: &str) -> Option<Ty> {
        Some(match word {
            "pred" => Ty::Pred,
            "u8" => Ty::U(8),
            "u16" => Ty::U(16),
            "u32" => Ty::U(32),
            "u64" => Ty::U(64),
            "s8" => Ty::S(8),
            "s16" => Ty::S(16),
            "s32" => Ty::S(32),
            "s64" => Ty::S(64),
            "b8" => Ty::B(8),
            "b16" => Ty::B(16),
            "b32" => Ty::B(32),
            "b64" => Ty::B(64),
            "f16" => Ty::F16,
            "f16x2" => Ty::F16x2,
            "bf16" => Ty::Bf16,
            "bf16x2" => Ty::Bf16x2,
            "tf32" => Ty::Tf32,
            "f32" => Ty::F32,
            "f64" => Ty::F64,
            "f32x2" => Ty::F32x2,
            "u16x2" => Ty::U16x2,
            "s16x2" => Ty::S16x2,
            "e4m3x2" => Ty::E4m3x2,
            "e5m2x2" => Ty::E5m2x2,
            _ => return None,
        })
    }

    pub fn bits(self) -> u32 {
        match self {
            Ty::Pred => 1,
            Ty::U(bits) | Ty::S(bits) | Ty::B(bits) => bits,
            Ty::F16 | Ty::Bf16 | Ty::E4m3x2 | Ty::E5m2x2 => 16,
            Ty::F16x2 | Ty::Bf16x2 | Ty::Tf32 | Ty::F32 | Ty::U16x2 | Ty::S16x2 => 32,
            Ty::F64 | Ty::F32x2 => 64,
        }
    }

    /// True for types whose decimal literals are floating.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::F16 | Ty::Bf16 | Ty::Tf32 | Ty::F32 | Ty::F64)
    }
}

/// The modifiers, in order, each with whether it was taken.
pub(super) struct Words<'a> {
    instruction: &'a Instruction,
    taken: Vec<bool>,
}

impl<'a> Words<'a> {
    pub fn new(instruction: &'a Instruction) -> Self {
        Self { instruction, taken: vec![false; instruction.modifiers.len()] }
    }

    fn rest(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let taken = &self.taken;
        self.instruction
            .modifiers
            .iter()
            .enumerate()
            .filter(|(place, _)| !taken[*place])
            .map(|(place, word)| (place, word.as_str()))
    }

    /// Takes `word` if it is there.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.rest().find(|(_, other)| *other == word).map(|(place, _)| place);
        if let Some(place) = found {
            self.taken[place] = true;
        }
        found.is_some()
    }

    /// Takes the first of `words` that is there.
    pub fn one_of<'b>(&mut self, words: &[&'b str]) -> Option<&'b str> {
        words.iter().copied().find(|word| self.take(word))
    }

    /// Takes the next modifier that is a type.
    pub fn ty(&mut self) -> Result<Ty, String> {
        let found = self.rest().find_map(|(place, word)| Ty::parse(word).map(|ty| (place, ty)));
        let Some((place, ty)) = found else {
            return Err(format!("`{}` needs a type that the emulator knows", self.instruction.mnemonic()));
        };
        self.taken[place] = true;
        Ok(ty)
    }

    /// Takes the first modifier that `read` makes something of.
    pub fn find<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (place, found) = self.rest().find_map(|(place, word)| read(word).map(|found| (place, found)))?;
        self.taken[place] = true;
        Some(found)
    }

    /// Takes every modifier that `wanted` accepts.
    pub fn take_all(&mut self, wanted: impl Fn(&str) -> bool) {
        let places: Vec<usize> = self.rest().filter(|(_, word)| wanted(word)).map(|(place, _)| place).collect();
        for place in places {
            self.taken[place] = true;
        }
    }

    /// An error if a modifier is left.
    pub fn finish(&self) -> Result<(), String> {
        match self.rest().next() {
            None => Ok(()),
            Some((_, word)) => {
                Err(format!("the emulator does not know `.{word}` on `{}`", self.instruction.mnemonic()))
            }
        }
    }

    /// The instruction's opcode and modifiers, for messages.
    pub fn mnemonic(&self) -> String {
        self.instruction.mnemonic()
    }
}
