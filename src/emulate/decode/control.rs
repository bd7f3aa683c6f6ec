//! Branches, barriers, and what the lanes of a warp do together.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::alu::{canonical, max_f32, min_f32};
use crate::emulate::program::{Op, PredicateUse, ReduceFn, Reduction, Reg, ShuffleMode, Slot, VoteMode};
use crate::ptx::model::{Immediate, Operand};

/// Named barriers of a CTA.
pub(in crate::emulate) const BARRIERS: u32 = 16;
/// Targets of all indexed branches of a kernel at most: their number goes with the square of the text's length.
const MAX_TARGETS: usize = 1 << 20;

impl Decoder {
    fn label(&self, operand: &Operand) -> Result<usize, Fault> {
        let Operand::Name(name) = operand else { return self.refuse("expected a label") };
        match self.search(|scope| scope.labels.get(name).copied()) {
            Some(target) => Ok(target),
            None => self.refuse(format!("the label {name} is not defined")),
        }
    }

    pub(super) fn branch(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("uni");
        let [target] = self.exactly::<1>(operands)?;
        Ok(Op::Branch { target: self.label(target)? })
    }

    pub(super) fn branch_indexed(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("idx");
        words.take("uni");
        let [index, Operand::Name(list)] = operands else {
            return self.refuse("expected an index and the name of a list of targets");
        };
        let Some(count) = self.search(|scope| scope.targets.get(list).map(Vec::len)) else {
            return self.refuse(format!("the list of targets {list} is not defined"));
        };
        // Every branch has a list of its own, and control may go each of its ways.
        self.targets += count;
        if self.targets > MAX_TARGETS {
            return self.refuse(format!("the indexed branches have more than {MAX_TARGETS} targets in all"));
        }
        let names = self.search(|scope| scope.targets.get(list).cloned()).unwrap_or_default();
        let targets = names.into_iter().map(|name| self.label(&Operand::Name(name))).collect::<Result<_, _>>()?;
        Ok(Op::BranchIndexed { index: self.narrow(index, Ty::U(32))?, targets })
    }

    fn members(&mut self, operand: &Operand) -> Result<Slot, Fault> {
        self.narrow(operand, Ty::B(32))
    }

    pub(super) fn shuffle(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let sync = words.take("sync");
        let mode = words.one_of(&["up", "down", "bfly", "idx"]);
        words.take("b32");
        let [target, src, lane, clamp, members] = self.exactly::<5>(operands)?;
        let mode = match mode {
            Some("up") => ShuffleMode::Up,
            Some("down") => ShuffleMode::Down,
            Some("bfly") => ShuffleMode::Butterfly,
            Some(_) => ShuffleMode::Index,
            None => return self.refuse("`shfl` needs one of .up, .down, .bfly, .idx"),
        };
        if !sync {
            return self.refuse("`shfl` without `.sync` is not in PTX for sm_70 and up");
        }
        let (dst, valid) = match target {
            Operand::Pair(dst, valid) => (dst.as_ref(), self.predicate_dst(valid)?),
            dst => (dst, None),
        };
        let ty = Ty::B(32);
        Ok(Op::Shuffle {
            mode,
            dst: self.narrow_dst(dst, 32)?,
            valid,
            src: self.narrow(src, ty)?,
            lane: self.narrow(lane, ty)?,
            clamp: self.narrow(clamp, ty)?,
            members: self.members(members)?,
        })
    }

    pub(super) fn vote(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("sync");
        let mode = words.one_of(&["all", "any", "uni", "ballot"]);
        words.one_of(&["pred", "b32"]);
        let [dst, src, members] = self.exactly::<3>(operands)?;
        let (mode, ty) = match mode {
            Some("all") => (VoteMode::All, Ty::Pred),
            Some("any") => (VoteMode::Any, Ty::Pred),
            Some("uni") => (VoteMode::Uniform, Ty::Pred),
            Some(_) => (VoteMode::Ballot, Ty::B(32)),
            None => return self.refuse("`vote` needs one of .all, .any, .uni, .ballot"),
        };
        let Some(dst) = self.dst(dst, ty)? else { return self.refuse("expected a destination") };
        if matches!((mode, dst), (VoteMode::Ballot, Reg::R64(_))) {
            return self.refuse("a ballot has 32 bits");
        }
        Ok(Op::Vote { mode, dst, src: self.predicate(src)?, members: self.members(members)? })
    }

    pub(super) fn match_sync(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let all = words.one_of(&["any", "all"]) == Some("all");
        words.take("sync");
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [target, src, members] = self.exactly::<3>(operands)?;
        let (dst, valid) = match target {
            Operand::Pair(dst, valid) => (dst.as_ref(), self.predicate_dst(valid)?),
            dst => (dst, None),
        };
        let src = self.src(src, ty)?;
        Ok(Op::Match { all, dst: self.narrow_dst(dst, 32)?, valid, src, members: self.members(members)? })
    }

    pub(super) fn redux(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("sync");
        let name = words.one_of(&["add", "min", "max", "and", "or", "xor"]);
        let (absolute, propagates) = (words.take("abs"), words.take("NaN"));
        let ty = words.ty().map_err(|message| (self.span, message))?;
        if (absolute || propagates) && ty != Ty::F32 {
            return self.refuse(format!("the emulator does not know `{}`", words.mnemonic()));
        }
        let apply: ReduceFn = match (name, ty) {
            (Some(name @ ("min" | "max")), Ty::F32) => float_reduction(name == "min", absolute, propagates),
            (Some("add"), Ty::U(32) | Ty::S(32)) => |a, b| a.wrapping_add(b),
            (Some("min"), Ty::U(32)) => |a, b| a.min(b),
            (Some("max"), Ty::U(32)) => |a, b| a.max(b),
            (Some("min"), Ty::S(32)) => |a, b| (a as i32).min(b as i32) as u32,
            (Some("max"), Ty::S(32)) => |a, b| (a as i32).max(b as i32) as u32,
            (Some("and"), Ty::B(32)) => |a, b| a & b,
            (Some("or"), Ty::B(32)) => |a, b| a | b,
            (Some("xor"), Ty::B(32)) => |a, b| a ^ b,
            _ => return self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        };
        let [dst, src, members] = self.exactly::<3>(operands)?;
        let src = self.narrow(src, ty)?;
        Ok(Op::Reduce { apply, dst: self.narrow_dst(dst, 32)?, src, members: self.members(members)? })
    }

    pub(super) fn elect(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("sync");
        let [Operand::Pair(dst, chosen), members] = operands else {
            return self.refuse("expected `d|p, membermask`");
        };
        let dst = match dst.as_ref() {
            Operand::Sink => None,
            dst => Some(self.narrow_dst(dst, 32)?),
        };
        let Some(chosen) = self.predicate_dst(chosen)? else {
            return self.refuse("`elect` needs a predicate to write");
        };
        Ok(Op::Elect { dst, chosen, members: self.members(members)? })
    }

    pub(super) fn active_mask(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        words.take("b32");
        let [dst] = self.exactly::<1>(operands)?;
        Ok(Op::ActiveMask { dst: self.narrow_dst(dst, 32)? })
    }

    pub(super) fn barrier(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let warp = words.take("warp");
        let cluster = words.take("cluster");
        words.take("cta");
        words.take("aligned");
        let kind = words.one_of(&["sync", "arrive", "wait", "red"]);
        if cluster {
            return self.barrier_cluster(kind, words);
        }
        match (kind, warp) {
            (Some("sync"), true) => {
                let [members] = self.exactly::<1>(operands)?;
                Ok(Op::WarpSync { members: self.members(members)? })
            }
            (Some("red"), false) => self.barrier_reduction(words, operands),
            (Some(kind @ ("sync" | "arrive")), false) => {
                let (id, threads) = match operands {
                    [id] if kind == "sync" => (self.barrier_id(id)?, None),
                    [id, threads] => (self.barrier_id(id)?, Some(self.narrow(threads, Ty::U(32))?)),
                    _ => return self.refuse("expected a barrier and the number of threads"),
                };
                Ok(Op::Barrier { id, threads, wait: kind == "sync", reduce: None })
            }
            _ => self.refuse(format!("the emulator does not know `{}`", words.mnemonic())),
        }
    }

    fn barrier_id(&mut self, operand: &Operand) -> Result<Slot, Fault> {
        if let Operand::Immediate(Immediate::Int(id)) = operand
            && !(0..i64::from(BARRIERS)).contains(id)
        {
            return self.refuse(format!("barrier {id} is not from 0 to {}", BARRIERS - 1));
        }
        self.narrow(operand, Ty::U(32))
    }

    fn barrier_reduction(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let name = words.one_of(&["popc", "and", "or"]);
        words.one_of(&["u32", "pred"]);
        let (dst, id, threads, src) = match operands {
            [dst, id, src] => (dst, id, None, src),
            [dst, id, threads, src] => (dst, id, Some(self.narrow(threads, Ty::U(32))?), src),
            _ => return self.refuse("expected a destination, a barrier, perhaps a number of threads, and a predicate"),
        };
        let reduction = match name {
            Some("popc") => Reduction::Count(self.narrow_dst(dst, 32)?),
            Some(name) => match self.predicate_dst(dst)? {
                Some(dst) if name == "and" => Reduction::And(dst),
                Some(dst) => Reduction::Or(dst),
                None => return self.refuse("expected a predicate as destination"),
            },
            None => return self.refuse("`bar.red` needs one of .popc, .and, .or"),
        };
        let src: PredicateUse = self.predicate(src)?;
        Ok(Op::Barrier { id: self.barrier_id(id)?, threads, wait: true, reduce: Some((reduction, src)) })
    }
}

/// `redux.sync.min` and `max` of singles: numbers before NaN, or with `.NaN` the other way round.
fn float_reduction(min: bool, absolute: bool, propagates: bool) -> ReduceFn {
    fn apply<const MIN: bool, const ABSOLUTE: bool, const PROPAGATES: bool>(a: u32, b: u32) -> u32 {
        let read = |bits: u32| f32::from_bits(if ABSOLUTE { bits & 0x7fff_ffff } else { bits });
        let (a, b) = (read(a), read(b));
        if PROPAGATES && (a.is_nan() || b.is_nan()) {
            return f32::to_bits(canonical(f32::NAN));
        }
        if MIN { min_f32(a, b) } else { max_f32(a, b) }.to_bits()
    }
    match (min, absolute, propagates) {
        (false, false, false) => apply::<false, false, false>,
        (false, false, true) => apply::<false, false, true>,
        (false, true, false) => apply::<false, true, false>,
        (false, true, true) => apply::<false, true, true>,
        (true, false, false) => apply::<true, false, false>,
        (true, false, true) => apply::<true, false, true>,
        (true, true, false) => apply::<true, true, false>,
        (true, true, true) => apply::<true, true, true>,
    }
}
