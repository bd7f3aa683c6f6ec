//! Bulk and tensor copies, and addresses in a cluster.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::program::{AsyncOp, BulkPlace, Completion, MemorySpace, Op, SharedAddress};
use crate::ptx::model::{Immediate, Operand};

/// A state space of a bulk copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Global,
    Shared,
}

impl Decoder {
    fn unknown_bulk<T>(&self, words: &Words) -> Result<T, Fault> {
        self.refuse(format!("the emulator does not know `{}`", words.mnemonic()))
    }

    fn bulk_place(&mut self, end: End, operand: &Operand) -> Result<BulkPlace, Fault> {
        Ok(match end {
            End::Global => BulkPlace::Global(self.address(operand, MemorySpace::Global)?),
            End::Shared => BulkPlace::Shared(self.shared_end(operand)?),
        })
    }

    fn shared_end(&mut self, operand: &Operand) -> Result<SharedAddress, Fault> {
        Ok(SharedAddress { address: self.address(operand, MemorySpace::Shared)?, generic: false })
    }

    pub(super) fn copy_bulk(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        if words.take("prefetch") {
            words.take_all(|_| true);
            return Ok(Op::Nothing);
        }
        if words.take("commit_group") {
            return Ok(Op::Async(Box::new(AsyncOp::BulkCommit)));
        }
        if words.take("wait_group") {
            let [Operand::Immediate(Immediate::Int(left))] = operands else {
                return self.refuse("expected the number of groups that may be pending");
            };
            let (left, read) = (usize::try_from(*left).unwrap_or(0), words.take("read"));
            return Ok(Op::Async(Box::new(AsyncOp::BulkWait { left, read })));
        }
        let tensor = words.take("tensor");
        let rank: Option<usize> = words.find(|word| word.strip_suffix('d')?.parse().ok());
        words.take("tile");
        words.take("L2::cache_hint");
        let mut end = || {
            words.find(|word| match word {
                "global" => Some(End::Global),
                "shared::cluster" | "shared::cta" => Some(End::Shared),
                _ => None,
            })
        };
        // The order of the modifiers is that of destination and source.
        let (Some(to), Some(from)) = (end(), end()) else { return self.unknown_bulk(words) };
        let by_barrier = words.take("mbarrier::complete_tx::bytes");
        let by_group = words.take("bulk_group");
        let multicast = words.take("multicast::cluster");
        words.take("cta_group::1");
        if by_barrier == by_group || by_barrier != (to == End::Shared) {
            return self.unknown_bulk(words);
        }
        if tensor {
            return self.copy_tensor_box(rank, to, multicast, words, operands);
        }
        let (operands, rest) = match operands {
            [to, from, size, rest @ ..] => ([to, from, size], rest),
            _ => return self.refuse("expected a destination, a source and a number of bytes"),
        };
        let completion = self.completion(by_barrier, multicast, rest)?;
        let [destination, source, size] = operands;
        Ok(Op::Async(Box::new(AsyncOp::Bulk {
            to: self.bulk_place(to, destination)?,
            from: self.bulk_place(from, source)?,
            size: self.narrow(size, Ty::U(32))?,
            completion,
        })))
    }

    /// The mbarrier and the mask of CTAs; a cache policy after them has no effect.
    fn completion(&mut self, by_barrier: bool, multicast: bool, rest: &[Operand]) -> Result<Completion, Fault> {
        if !by_barrier {
            return Ok(Completion::Group);
        }
        let [barrier, rest @ ..] = rest else { return self.refuse("expected an mbarrier") };
        let barrier = self.shared_end(barrier)?;
        let multicast = match (multicast, rest) {
            (false, _) => None,
            (true, [mask, ..]) => Some(self.narrow(mask, Ty::B(16))?),
            (true, []) => return self.refuse("expected a mask of CTAs"),
        };
        Ok(Completion::Barrier { barrier, multicast })
    }

    fn copy_tensor_box(
        &mut self,
        rank: Option<usize>,
        to: End,
        multicast: bool,
        words: &Words,
        operands: &[Operand],
    ) -> Result<Op, Fault> {
        let (map, shared, rest) = match (to, operands) {
            (End::Shared, [shared, map, rest @ ..]) => (map, shared, rest),
            (End::Global, [map, shared, rest @ ..]) => (map, shared, rest),
            _ => return self.refuse("expected a tensor map with coordinates, and an address of shared memory"),
        };
        let Operand::Address { base, offset, coordinates } = map else {
            return self.refuse("expected `[map, {coordinates}]`");
        };
        let listed = match coordinates.as_slice() {
            [list] => self.listed(list).to_vec(),
            _ => return self.unknown_bulk(words),
        };
        if rank != Some(listed.len()) {
            return self.refuse(format!("{} coordinates do not fit the instruction's dimensions", listed.len()));
        }
        let map = Operand::Address { base: base.clone(), offset: *offset, coordinates: Vec::new() };
        Ok(Op::Async(Box::new(AsyncOp::BulkTensor {
            map: self.address(&map, MemorySpace::Generic)?,
            coordinates: listed.iter().map(|operand| self.narrow(operand, Ty::S(32))).collect::<Result<_, _>>()?,
            shared: self.shared_end(shared)?,
            completion: self.completion(to == End::Shared, multicast, rest)?,
        })))
    }

    /// `mapa`.
    pub(super) fn map_address(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.is_asynchronous = true;
        words.take("shared::cluster");
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [dst, address, rank] = self.exactly::<3>(operands)?;
        let Some(dst) = self.dst(dst, ty)? else { return Ok(Op::Nothing) };
        let (address, rank) = (self.src(address, ty)?, self.narrow(rank, Ty::U(32))?);
        Ok(Op::Async(Box::new(AsyncOp::MapAddress { dst, address, rank })))
    }

    /// `getctarank`.
    pub(super) fn cta_rank(&mut self, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        self.is_asynchronous = true;
        words.take("shared::cluster");
        let ty = words.ty().map_err(|message| (self.span, message))?;
        let [dst, address] = self.exactly::<2>(operands)?;
        let (dst, address) = (self.narrow_dst(dst, 32)?, self.src(address, ty)?);
        Ok(Op::Async(Box::new(AsyncOp::RankOf { dst, address })))
    }
}
