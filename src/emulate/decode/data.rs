//! Loads, stores and atomics.

use half::{bf16, f16};

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::halves::NAN;
use crate::emulate::program::{AtomicFn, MemorySpace, Op, Reg};
use crate::ptx::model::Operand;

impl Decoder {
    /// The state space, and the modifiers that change no value here: orders, scopes, caches, eviction.
    fn space(&self, words: &mut Words) -> MemorySpace {
        let space = words.one_of(&[
            "global",
            "shared",
            "shared::cta",
            "shared::cluster",
            "local",
            "const",
            "param",
            "param::entry",
        ]);
        words.take_all(|word| {
            matches!(
                word,
                "weak"
                    | "relaxed"
                    | "acquire"
                    | "release"
                    | "acq_rel"
                    | "volatile"
                    | "cta"
                    | "cluster"
                    | "gpu"
                    | "sys"
                    | "ca"
                    | "cg"
                    | "cs"
                    | "lu"
                    | "cv"
                    | "wb"
                    | "wt"
                    | "nc"
                    | "unified"
                    | "mmio"
            ) || word.starts_with("L1::")
                || word.starts_with("L2::")
        });
        match space {
            None => MemorySpace::Generic,
            Some("global" | "const") => MemorySpace::Global,
            Some("local") => MemorySpace::Local,
            Some("param" | "param::entry") => MemorySpace::Param,
            Some(_) => MemorySpace::Shared,
        }
    }

    fn vector<'a>(&self, words: &mut Words, operand: &'a Operand) -> Result<&'a [Operand], Fault> {
        let count = match words.one_of(&["v2", "v4", "v8"]) {
            Some("v2") => 2,
            Some("v4") => 4,
            Some(_) => 8,
            None => 1,
        };
        let operands = match operand {
            Operand::Vector(operands) => operands.as_slice(),
            single => std::slice::from_ref(single),
        };
        if operands.len() != count {
            return self.refuse(format!("expected {count} registers, found {}", operands.len()));
        }
        Ok(operands)
    }

    pub(super) fn load(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let space = self.space(words);
        let [dst, address] = self.cache_policy(operands)?;
        let dst = self.vector(words, dst)?;
        let ty = self.memory_type(words)?;
        let dst = dst.iter().map(|operand| self.dst(operand, ty)).collect::<Result<_, _>>()?;
        let address = self.address(address, space)?;
        self.note_width(space, ty);
        Ok(Op::Load { space, size: (ty.bits() / 8) as u8, signed: matches!(ty, Ty::S(_)), dst, address })
    }

    pub(super) fn store(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        if words.take("const") {
            return self.refuse("constant memory cannot be written");
        }
        let space = self.space(words);
        if space == MemorySpace::Param {
            return self.refuse("parameters of a kernel cannot be written");
        }
        let [address, src] = self.cache_policy(operands)?;
        let src = self.vector(words, src)?;
        let ty = self.memory_type(words)?;
        let src = src.iter().map(|operand| self.src(operand, ty)).collect::<Result<_, _>>()?;
        let address = self.address(address, space)?;
        self.note_width(space, ty);
        Ok(Op::Store { space, size: (ty.bits() / 8) as u8, src, address })
    }

    /// Two operands; a third is a cache policy, of no effect here.
    fn cache_policy<'a>(&self, operands: &'a [Operand]) -> Result<[&'a Operand; 2], Fault> {
        match operands {
            [first, second] | [first, second, _] => Ok([first, second]),
            _ => self.refuse(format!("expected 2 operands, found {}", operands.len())),
        }
    }

    /// The type of a load or a store: bytes, so not a predicate.
    fn memory_type(&self, words: &mut Words) -> Result<Ty, Fault> {
        match words.ty().map_err(|message| (self.span, message))? {
            Ty::Pred => self.refuse(format!("`{}` of a predicate, which has no place in memory", words.mnemonic())),
            ty => Ok(ty),
        }
    }

    fn note_width(&mut self, space: MemorySpace, ty: Ty) {
        self.narrow_shared |= ty.bits() < 32 && matches!(space, MemorySpace::Shared | MemorySpace::Generic);
    }

    pub(super) fn atomic(&mut self, no_result: bool, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let space = self.space(words);
        words.take("noftz");
        let name = words.one_of(&["add", "min", "max", "inc", "dec", "cas", "exch", "and", "or", "xor"]);
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let apply = name.and_then(|name| atomic_fn(name, ty));
        let Some(apply) = apply else {
            return self.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        };
        let (dst, rest) = match operands {
            rest if no_result => (None, rest),
            [dst, rest @ ..] => (self.dst(dst, ty)?, rest),
            [] => return self.refuse("expected operands"),
        };
        let (address, b, c) = match (rest, name) {
            ([address, b, c], Some("cas")) => (address, b, Some(self.src(c, ty)?)),
            ([address, b], _) if name != Some("cas") => (address, b, None),
            _ => return self.refuse(format!("`{}` has the wrong number of operands", words.mnemonic())),
        };
        let b = self.src(b, ty)?;
        if matches!(b, Reg::Pred(_)) {
            return self.refuse("an atomic operand cannot be a predicate");
        }
        let address = self.address(address, space)?;
        Ok(Op::Atomic { space, size: (ty.bits() / 8) as u8, apply, dst, address, b, c })
    }
}

/// A format of 16 bits whose sums are those of singles, rounded.
trait Narrow: Copy {
    fn widened(bits: u16) -> f32;
    fn narrowed(value: f32) -> u16;
}

macro_rules! narrow {
    ($($ty:ty),*) => {
        $(impl Narrow for $ty {
            fn widened(bits: u16) -> f32 {
                <$ty>::from_bits(bits).to_f32()
            }

            fn narrowed(value: f32) -> u16 {
                if value.is_nan() { NAN } else { <$ty>::from_f32(value).to_bits() }
            }
        })*
    };
}

narrow!(f16, bf16);

/// A single holds more than twice the bits, so rounding twice is rounding once.
fn sum_of<N: Narrow>(a: u16, b: u16) -> u16 {
    N::narrowed(N::widened(a) + N::widened(b))
}

fn pair_sum<N: Narrow>(a: u64, b: u64) -> u64 {
    let part = |shift: u32| u64::from(sum_of::<N>((a >> shift) as u16, (b >> shift) as u16)) << shift;
    part(0) | part(16)
}

/// What an atomic operation stores, given the old value and its operands.
fn atomic_fn(name: &str, ty: Ty) -> Option<AtomicFn> {
    Some(match (name, ty) {
        ("add", Ty::U(32) | Ty::S(32)) => |old, b, _| u64::from((old as u32).wrapping_add(b as u32)),
        ("add", Ty::U(64) | Ty::S(64)) => |old, b, _| old.wrapping_add(b),
        ("add", Ty::F32) => |old, b, _| u64::from((f32::from_bits(old as u32) + f32::from_bits(b as u32)).to_bits()),
        ("add", Ty::F16) => |old, b, _| u64::from(sum_of::<f16>(old as u16, b as u16)),
        ("add", Ty::Bf16) => |old, b, _| u64::from(sum_of::<bf16>(old as u16, b as u16)),
        ("add", Ty::F16x2) => |old, b, _| pair_sum::<f16>(old, b),
        ("add", Ty::Bf16x2) => |old, b, _| pair_sum::<bf16>(old, b),
        ("add", Ty::F64) => |old, b, _| (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
        ("min", Ty::U(32) | Ty::U(64)) => |old, b, _| old.min(b),
        ("max", Ty::U(32) | Ty::U(64)) => |old, b, _| old.max(b),
        ("min", Ty::S(32)) => |old, b, _| u64::from((old as i32).min(b as i32) as u32),
        ("max", Ty::S(32)) => |old, b, _| u64::from((old as i32).max(b as i32) as u32),
        ("min", Ty::S(64)) => |old, b, _| (old as i64).min(b as i64) as u64,
        ("max", Ty::S(64)) => |old, b, _| (old as i64).max(b as i64) as u64,
        ("inc", Ty::U(32)) => |old, b, _| if old >= b { 0 } else { old + 1 },
        ("dec", Ty::U(32)) => |old, b, _| if old == 0 || old > b { b } else { old - 1 },
        ("exch", Ty::B(32) | Ty::B(64)) => |_, b, _| b,
        ("cas", Ty::B(16) | Ty::B(32) | Ty::B(64)) => |old, b, c| if old == b { c } else { old },
        ("and", Ty::B(32) | Ty::B(64)) => |old, b, _| old & b,
        ("or", Ty::B(32) | Ty::B(64)) => |old, b, _| old | b,
        ("xor", Ty::B(32) | Ty::B(64)) => |old, b, _| old ^ b,
        _ => return None,
    })
}
