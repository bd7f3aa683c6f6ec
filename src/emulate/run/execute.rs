//! What an instruction does to the registers of a warp. Loads, stores and atomics go to [`super::access`], what lanes do
//! together to [`super::collective`].

use super::Run;
use super::access::Access;
use super::cluster::Context;
use super::warp::Warp;
use crate::emulate::alu::{Alu, saturated_f32};
use crate::emulate::lanes::{FULL, LANES, flush};
use crate::emulate::program::{Bool, Compare, Flush, Op, PredicateUse, Slot};

impl Warp {
    pub(super) fn execute(&mut self, op: &Op, active: u32, line: u32, context: &mut Context) -> Run<()> {
        match op {
            // Arithmetic, moves and selections carry on what is not defined; it is found where it is used: as an address, a
            // guard, a value that is stored, what lanes or warps agree on.
            Op::Alu { alu, dst, src, ftz, sat } => {
                self.alu(*alu, *dst, src, *ftz, *sat, active);
                Ok(())
            }
            Op::Set { compare, combine, dst, not, ftz } => {
                let (holds, mut defined) = self.compare(*compare, *ftz);
                let (holds, fails) = match combine {
                    None => (holds, !holds),
                    Some((op, by)) => {
                        let (by, by_defined) = self.carry_predicate(*by);
                        defined &= by_defined;
                        (op.apply(holds, by), op.apply(!holds, by))
                    }
                };
                if let Some(dst) = dst {
                    self.write_predicate_carried(*dst, holds, defined, active);
                }
                if let Some(not) = not {
                    self.write_predicate_carried(*not, fails, defined, active);
                }
                Ok(())
            }
            Op::SetPair { compare, combine, dst } => {
                for (compare, dst) in compare.iter().zip(dst) {
                    let (holds, defined) = self.compare_combined(*compare, false, *combine);
                    if let Some(dst) = dst {
                        self.write_predicate_carried(*dst, holds, defined, active);
                    }
                }
                Ok(())
            }
            Op::SetValue { compare, combine, dst, one, ftz } => {
                let mut values = [0; LANES];
                let mut defined = FULL;
                for (half, compare) in compare.iter().enumerate() {
                    let (holds, half_defined) = self.compare_combined(*compare, *ftz, *combine);
                    defined &= half_defined;
                    for (lane, value) in values.iter_mut().enumerate() {
                        *value |= ((holds >> lane & 1) * one) << (16 * half);
                    }
                }
                self.write32(*dst, &values, active);
                self.define32(*dst, defined, active);
                Ok(())
            }
            Op::Carry { function, dst, src, takes, gives } => {
                let (carry, mut defined) = match takes {
                    Some(slot) => self.carry_predicate(PredicateUse { slot: *slot, negated: false }),
                    None => (0, FULL),
                };
                let mut operands = [[0; LANES]; 3];
                for (operand, src) in operands.iter_mut().zip(src) {
                    let (values, values_defined) = self.carry(*src);
                    *operand = values;
                    defined &= values_defined;
                }
                let mut values = [0; LANES];
                let mut carries = 0;
                for lane in 0..LANES {
                    let (value, carried) = function(operands.map(|operand| operand[lane]), carry >> lane & 1 == 1);
                    values[lane] = value;
                    carries |= u32::from(carried) << lane;
                }
                if let Some(dst) = dst {
                    self.write_carried(*dst, &values, defined, active);
                }
                if let Some(gives) = gives {
                    self.write_predicate_carried(*gives, carries, defined, active);
                }
                Ok(())
            }
            Op::Video { video, dst, src } => {
                let [a, b, c] = src.map(usize::from);
                let (x, y, z) = (&self.bank32[a], &self.bank32[b], &self.bank32[c]);
                let values = std::array::from_fn(|lane| video.apply(x[lane], y[lane], z[lane]));
                let defined = self.ready32[a] & self.ready32[b] & self.ready32[c];
                self.write32(*dst, &values, active);
                self.define32(*dst, defined, active);
                Ok(())
            }
            Op::Logic { op, dst, a, b } => {
                let ((a, a_defined), (b, b_defined)) = (self.carry_predicate(*a), self.carry_predicate(*b));
                // A false operand decides `and`, a true one `or`, whatever the other is.
                let decided = match op {
                    Bool::And => a_defined & !a | b_defined & !b,
                    Bool::Or => a_defined & a | b_defined & b,
                    Bool::Xor => 0,
                };
                self.write_predicate_carried(*dst, op.apply(a, b), a_defined & b_defined | decided, active);
                Ok(())
            }
            Op::SetConstant { dst, value } => {
                self.write_predicate(*dst, *value, active);
                Ok(())
            }
            Op::Move32 { dst, src } => {
                let (values, defined) = (self.bank32[*src as usize], self.ready32[*src as usize]);
                self.write32(*dst, &values, active);
                self.ready32[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Move64 { dst, src } => {
                let (values, defined) = (self.bank64[*src as usize], self.ready64[*src as usize]);
                self.write64(*dst, &values, active);
                self.ready64[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Select32 { dst, a, b, by } => {
                let (by, by_defined) = self.carry_predicate(*by);
                let (a, b) = (*a as usize, *b as usize);
                let values =
                    std::array::from_fn(
                        |lane| {
                            if by >> lane & 1 == 1 { self.bank32[a][lane] } else { self.bank32[b][lane] }
                        },
                    );
                let defined = by_defined & (by & self.ready32[a] | !by & self.ready32[b]);
                self.write32(*dst, &values, active);
                self.ready32[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Select64 { dst, a, b, by } => {
                let (by, by_defined) = self.carry_predicate(*by);
                let (a, b) = (*a as usize, *b as usize);
                let values =
                    std::array::from_fn(
                        |lane| {
                            if by >> lane & 1 == 1 { self.bank64[a][lane] } else { self.bank64[b][lane] }
                        },
                    );
                let defined = by_defined & (by & self.ready64[a] | !by & self.ready64[b]);
                self.write64(*dst, &values, active);
                self.ready64[*dst as usize] &= defined | !active;
                Ok(())
            }
            Op::Pack { dst, parts, bits } => {
                let mut values = [0; LANES];
                // Of each byte, at the finest.
                let mut defined = [FULL; 8];
                let width = (*bits / 8) as usize;
                let mask = u64::MAX >> (64 - bits);
                for (place, part) in parts.iter().enumerate() {
                    let (part, part_defined) = self.carry(*part);
                    defined[place * width..][..width].fill(part_defined);
                    for (value, part) in values.iter_mut().zip(&part) {
                        *value |= (part & mask) << (place as u32 * bits);
                    }
                }
                self.write_parts(*dst, &values, defined, active);
                Ok(())
            }
            Op::Unpack { parts, src, bits } => {
                let (values, _) = self.carry(*src);
                let mask = u64::MAX >> (64 - bits);
                for (place, part) in parts.iter().enumerate() {
                    if let Some(part) = part {
                        let part_values = values.map(|value| value >> (place as u32 * bits) & mask);
                        let defined = self.part_defined(*src, place * (*bits / 8) as usize);
                        self.write_carried(*part, &part_values, defined, active);
                    }
                }
                Ok(())
            }
            Op::Bytes { dst, src, first, count } => {
                let mask = u64::MAX >> (64 - 8 * count);
                let values = self.carry(*src).0.map(|value| value >> (8 * first) & mask);
                let defined: [u32; 8] = std::array::from_fn(|byte| {
                    let is_taken = byte < *count as usize;
                    if is_taken { self.part_defined(*src, byte + *first as usize) } else { FULL }
                });
                self.write_parts(*dst, &values, defined, active);
                Ok(())
            }
            Op::Load { space, size, signed, dst, address } => {
                let access = Access { space: *space, size: u64::from(*size), address, active, line };
                self.load(access, *signed, dst, context)
            }
            Op::Store { space, size, src, address } => {
                let access = Access { space: *space, size: u64::from(*size), address, active, line };
                self.store(access, src, context)
            }
            Op::Atomic { space, size, apply, dst, address, b, c } => {
                let access = Access { space: *space, size: u64::from(*size), address, active, line };
                self.atomic(access, *apply, *dst, (*b, *c), context)
            }
            Op::Clock { dst } => {
                self.write(*dst, &[context.steps; LANES], active);
                Ok(())
            }
            Op::Nothing => Ok(()),
            op => self.collective(op, active, context.environment.checks.sync),
        }
    }

    /// A comparison combined with a predicate, and the lanes in which all that is defined.
    fn compare_combined(&self, compare: Compare, ftz: bool, combine: Option<(Bool, PredicateUse)>) -> (u32, u32) {
        let (holds, defined) = self.compare(compare, ftz);
        match combine {
            None => (holds, defined),
            Some((op, by)) => {
                let (by, by_defined) = self.carry_predicate(by);
                (op.apply(holds, by), defined & by_defined)
            }
        }
    }

    /// A comparison, and the lanes in which its operands are defined.
    pub(super) fn compare(&self, compare: Compare, ftz: bool) -> (u32, u32) {
        match compare {
            Compare::C32(function, a, b) => {
                let (x, y) = (&self.bank32[a as usize], &self.bank32[b as usize]);
                let holds = if ftz { function(&x.map(flush), &y.map(flush)) } else { function(x, y) };
                (holds, self.ready32[a as usize] & self.ready32[b as usize])
            }
            Compare::C64(function, a, b) => {
                let holds = function(&self.bank64[a as usize], &self.bank64[b as usize]);
                (holds, self.ready64[a as usize] & self.ready64[b as usize])
            }
        }
    }

    /// Arithmetic: a lane's result is defined if all its operands are.
    pub(super) fn alu(&mut self, alu: Alu, dst: Slot, src: &[Slot; 4], ftz: Flush, sat: bool, active: u32) {
        let [a, b, c, d] = src.map(usize::from);
        let (r, w) = (&self.bank32, &self.bank64);
        let (ready, wide_ready) = (&self.ready32, &self.ready64);
        let mut narrow = [0; LANES];
        let mut wide = [0; LANES];
        let (is_wide, defined) = match alu {
            Alu::F1(function) => {
                if ftz.operands {
                    function(&r[a].map(flush), &mut narrow)
                } else {
                    function(&r[a], &mut narrow)
                }
                (false, ready[a])
            }
            Alu::F2(function) => {
                if ftz.operands {
                    function(&r[a].map(flush), &r[b].map(flush), &mut narrow);
                } else {
                    function(&r[a], &r[b], &mut narrow);
                }
                (false, ready[a] & ready[b])
            }
            Alu::F3(function) => {
                if ftz.operands {
                    function(&r[a].map(flush), &r[b].map(flush), &r[c].map(flush), &mut narrow);
                } else {
                    function(&r[a], &r[b], &r[c], &mut narrow);
                }
                (false, ready[a] & ready[b] & ready[c])
            }
            Alu::F4(function) => {
                function(&r[a], &r[b], &r[c], &r[d], &mut narrow);
                (false, ready[a] & ready[b] & ready[c] & ready[d])
            }
            Alu::K1(function) => {
                function(&w[a], &mut narrow);
                (false, wide_ready[a])
            }
            Alu::W1(function) => {
                function(&w[a], &mut wide);
                (true, wide_ready[a])
            }
            Alu::W2(function) => {
                function(&w[a], &w[b], &mut wide);
                (true, wide_ready[a] & wide_ready[b])
            }
            Alu::W3(function) => {
                function(&w[a], &w[b], &w[c], &mut wide);
                (true, wide_ready[a] & wide_ready[b] & wide_ready[c])
            }
            Alu::G1(function) => {
                if ftz.operands {
                    function(&r[a].map(flush), &mut wide)
                } else {
                    function(&r[a], &mut wide)
                }
                (true, ready[a])
            }
            Alu::G2(function) => {
                function(&r[a], &r[b], &mut wide);
                (true, ready[a] & ready[b])
            }
            Alu::G3(function) => {
                function(&r[a], &r[b], &w[c], &mut wide);
                (true, ready[a] & ready[b] & wide_ready[c])
            }
            Alu::C64(function) => {
                function(&w[a], &w[b], &r[c], &mut wide);
                (true, wide_ready[a] & wide_ready[b] & ready[c])
            }
            Alu::S64(function) => {
                function(&w[a], &r[b], &mut wide);
                (true, wide_ready[a] & ready[b])
            }
            Alu::B64(function) => {
                function(&w[a], &r[b], &r[c], &mut wide);
                (true, wide_ready[a] & ready[b] & ready[c])
            }
            Alu::I64(function) => {
                function(&w[a], &w[b], &r[c], &r[d], &mut wide);
                (true, wide_ready[a] & wide_ready[b] & ready[c] & ready[d])
            }
        };
        if is_wide {
            self.write64(dst, &wide, active);
            self.ready64[dst as usize] &= defined | !active;
            return;
        }
        if ftz.result {
            narrow = narrow.map(flush);
        }
        if sat {
            narrow = narrow.map(|bits| saturated_f32(f32::from_bits(bits)).to_bits());
        }
        self.write32(dst, &narrow, active);
        self.ready32[dst as usize] &= defined | !active;
    }
}
