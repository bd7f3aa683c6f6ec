//! Bulk and tensor copies, and addresses in a cluster.
//!
//! A copy into shared memory reads its source when it is issued and writes when a wait on its mbarrier needs it to; a copy
//! out of shared memory reads when it is issued, and writes global memory when its group is waited for or the warp ends.

use std::collections::VecDeque;

use super::access::{load_param, resolve};
use super::budget::ENTRY;
use super::cluster::Context;
use super::mbarrier::{Deferred, Payload};
use super::order::Agent;
use super::shared::{Accessor, AsyncAccessor};
use super::warp::Warp;
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{LANES, lanes};
use crate::emulate::program::{
    Address, AsyncOp, BulkPlace, CLUSTER_SHARED_LOG2, Completion, MemorySpace, Reg, SHARED_WINDOW, SharedAddress, Slot,
};
use crate::emulate::tensor::descriptor::Swizzle;
use crate::emulate::tensor_map::{TENSOR_MAP_BYTES, TensorMap, TensorMapSwizzle};

/// Bytes of a copy that take about as long as a plain instruction.
const BYTES_OF_STEP: u64 = 128;

/// Bytes on their way to global memory.
struct BulkStore {
    lane: usize,
    line: u32,
    clock: u32,
    address: u64,
    bytes: Vec<u8>,
}

impl BulkStore {
    /// Bytes that it takes until it is complete.
    fn held(&self) -> u64 {
        ENTRY + self.bytes.len() as u64
    }
}

/// Stores that lanes committed together. Each waits for its own.
struct BulkGroup {
    /// The lanes that have not waited for it.
    pending: u32,
    /// Those among them that have not waited for its sources either.
    unread: u32,
    stores: Vec<BulkStore>,
}

/// The bulk stores of a warp that are not complete.
#[derive(Default)]
pub(super) struct BulkStores {
    open: Vec<BulkStore>,
    /// Groups, oldest first.
    groups: VecDeque<BulkGroup>,
    /// The clock up to which a wait was told that the sources are read.
    read: u32,
}

impl Warp {
    /// Executes a bulk instruction.
    pub(super) fn bulk(&mut self, op: &AsyncOp, active: u32, line: u32, context: &mut Context) -> Run<()> {
        match op {
            AsyncOp::Bulk { to, from, size, completion } => {
                let sizes = *self.read32(*size, active)?;
                for lane in lanes(active) {
                    let size = u64::from(sizes[lane]);
                    if size == 0 || !size.is_multiple_of(16) {
                        let message = format!("a bulk copy of {size} bytes: it takes a multiple of 16");
                        return trouble(FaultKind::Alignment, lane, message);
                    }
                    match to {
                        BulkPlace::Shared(to) => self.bulk_in(to, from, size, completion, (lane, line), context)?,
                        BulkPlace::Global(to) => self.bulk_out(to, from, size, (lane, line), context)?,
                    }
                }
            }
            AsyncOp::BulkTensor { map, coordinates, shared, completion } => {
                for lane in lanes(active) {
                    self.copy_box(map, coordinates, shared, completion, (lane, line), context)?;
                }
            }
            AsyncOp::BulkCommit => {
                context.take(ENTRY, active.trailing_zeros() as usize)?;
                let BulkStores { open, groups, .. } = &mut self.bulk_stores;
                let stores = open.extract_if(.., |store| active >> store.lane & 1 == 1).collect();
                groups.push_back(BulkGroup { pending: active, unread: active, stores });
            }
            AsyncOp::BulkWait { left, read } => self.wait_bulk(*left, *read, active, context)?,
            AsyncOp::MapAddress { dst, address, rank } => {
                let ranks = *self.read32(*rank, active)?;
                let addresses = self.read(*address, active)?;
                let generic = matches!(dst, Reg::R64(_));
                let mut out = [0; LANES];
                for lane in lanes(active) {
                    let (window, address) = match addresses[lane] {
                        address if generic && address >= SHARED_WINDOW => (SHARED_WINDOW, address - SHARED_WINDOW),
                        address => (0, address),
                    };
                    let (_, inside) = context.locate(address, lane)?;
                    if ranks[lane] as usize >= context.shared.len() {
                        let count = context.shared.len();
                        let message = format!("CTA {} of a cluster of {count}", ranks[lane]);
                        return trouble(FaultKind::Bounds, lane, message);
                    }
                    out[lane] = window + (u64::from(ranks[lane] + 1) << CLUSTER_SHARED_LOG2 | inside);
                }
                self.write(*dst, &out, active);
            }
            AsyncOp::RankOf { dst, address } => {
                let addresses = self.read(*address, active)?;
                let mut out = [0; LANES];
                for lane in lanes(active) {
                    let address = addresses[lane];
                    let address = if address >= SHARED_WINDOW { address - SHARED_WINDOW } else { address };
                    out[lane] = context.locate(address, lane)?.0 as u32;
                }
                self.write32(*dst, &out, active);
            }
            _ => {}
        }
        Ok(())
    }

    fn global_address(&self, address: &Address, lane: usize) -> Run<u64> {
        match resolve(MemorySpace::Generic, self.lane_addresses(address, 1 << lane)?[lane]) {
            (MemorySpace::Global | MemorySpace::Generic, address) => Ok(address),
            (_, address) => trouble(FaultKind::Bounds, lane, format!("{address:#x} is no address of global memory")),
        }
    }

    /// Into shared memory, from global memory or another CTA's.
    fn bulk_in(
        &mut self,
        to: &SharedAddress,
        from: &BulkPlace,
        size: u64,
        completion: &Completion,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let (_, place) = self.places(to, 1 << lane, context)?[0];
        // Before anything is made: a size is any 32 bits.
        context.shared[place.0].check_range(place.1, size, 16, lane)?;
        context.count_work(size / BYTES_OF_STEP);
        let mut bytes = vec![0; size as usize];
        match from {
            BulkPlace::Global(from) => {
                let address = self.global_address(from, lane)?;
                let offset = context.global.check_bytes(address, size, 16, lane)?;
                context.global.load_into(offset, &mut bytes, Accessor { order: &self.order, lane, line })?;
            }
            BulkPlace::Shared(from) => {
                let (_, (rank, address)) = self.places(from, 1 << lane, context)?[0];
                let (agent, clock) = match completion {
                    Completion::Barrier { barrier, .. } => {
                        let (_, place) = self.places(barrier, 1 << lane, context)?[0];
                        self.order.issue_bulk(place)
                    }
                    Completion::Group => self.order.issue(Agent::Bulk),
                };
                let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: true };
                read_shared(context, (rank, address), &mut bytes, by)?;
            }
        }
        self.defer_writes(vec![(place.1, bytes)], place.0, completion, (lane, line), context)
    }

    /// Marks bytes of shared memory as on their way, and leaves them with the mbarrier that says when they are there.
    fn defer_writes(
        &mut self,
        pieces: Vec<(u64, Vec<u8>)>,
        rank: usize,
        completion: &Completion,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let Completion::Barrier { barrier, multicast } = completion else {
            return trouble(FaultKind::Trap, lane, "a copy into shared memory completes on an mbarrier");
        };
        let (_, (barrier_rank, barrier)) = self.places(barrier, 1 << lane, context)?[0];
        let targets: Vec<(usize, usize)> = match multicast {
            None => vec![(rank, barrier_rank)],
            Some(mask) => {
                let mask = self.read32(*mask, 1 << lane)?[lane] & 0xffff;
                lanes(mask).map(|rank| (rank, rank)).collect()
            }
        };
        let at = self.at();
        let total: u64 = pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        for (rank, barrier_rank) in targets {
            if rank.max(barrier_rank) >= context.shared.len() {
                let message = format!("CTA {rank} of a cluster of {}", context.shared.len());
                return trouble(FaultKind::Bounds, lane, message);
            }
            context.count_work(total / BYTES_OF_STEP);
            let (agent, clock) = self.order.issue_bulk((barrier_rank, barrier));
            let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: true };
            for (address, bytes) in &pieces {
                let shared = &mut context.shared[rank];
                shared.check_range(*address, bytes.len() as u64, 16, lane)?;
                shared.write_async(*address, bytes.len() as u64, by)?;
            }
            let writes = pieces
                .iter()
                .map(|(address, bytes)| Payload { rank, address: *address, bytes: bytes.clone() })
                .collect();
            let work = Deferred { completes: vec![(agent, clock)], writes, arrivals: 0, bytes: total, at };
            context.mbarrier_defer((barrier_rank, barrier), work, Accessor { order: &self.order, lane, line })?;
        }
        Ok(())
    }

    /// Out of shared memory.
    fn bulk_out(
        &mut self,
        to: &Address,
        from: &BulkPlace,
        size: u64,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let BulkPlace::Shared(from) = from else {
            return trouble(FaultKind::Trap, lane, "a bulk copy between two places of global memory");
        };
        let address = self.global_address(to, lane)?;
        context.global.check_bytes(address, size, 16, lane)?;
        let (_, place) = self.places(from, 1 << lane, context)?[0];
        context.shared[place.0].check_range(place.1, size, 16, lane)?;
        context.count_work(size / BYTES_OF_STEP);
        let mut bytes = vec![0; size as usize];
        let (agent, clock) = self.order.issue(Agent::BulkStore);
        let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: true };
        read_shared(context, place, &mut bytes, by)?;
        self.push_store(BulkStore { lane, line, clock, address, bytes }, context)
    }

    fn push_store(&mut self, store: BulkStore, context: &mut Context) -> Run<()> {
        context.take(store.held(), store.lane)?;
        self.bulk_stores.open.push(store);
        Ok(())
    }

    fn wait_bulk(&mut self, left: usize, read: bool, active: u32, context: &mut Context) -> Run<()> {
        context.count_work(self.bulk_stores.groups.len() as u64 / 4);
        let mut later = [0; LANES];
        let mut landed = Vec::new();
        for group in self.bulk_stores.groups.iter_mut().rev() {
            let done = waited(group.pending & active, left, &mut later);
            group.unread &= !done;
            if !read {
                group.pending &= !done;
                landed.push(group.stores.extract_if(.., |store| done >> store.lane & 1 == 1).collect::<Vec<_>>());
            }
        }
        let BulkStores { open, groups, .. } = &self.bulk_stores;
        let unread =
            groups.iter().flat_map(|group| group.stores.iter().filter(|store| group.unread >> store.lane & 1 == 1));
        // All before the first that nothing waited for.
        let first = unread.chain(open).map(|store| store.clock).min();
        let clock = first.map_or(self.order.issued[Agent::BulkStore as usize], |clock| clock - 1);
        self.order.complete(Agent::BulkStore, clock);
        self.bulk_stores.read = self.bulk_stores.read.max(clock);
        let before = self.bulk_stores.groups.len();
        self.bulk_stores.groups.retain(|group| group.pending != 0);
        context.give(ENTRY * (before - self.bulk_stores.groups.len()) as u64);
        landed.into_iter().rev().try_for_each(|stores| self.land_stores(stores, context))
    }

    fn land_stores(&mut self, stores: Vec<BulkStore>, context: &mut Context) -> Run<()> {
        context.progress += 1;
        context.give(stores.iter().map(BulkStore::held).sum());
        for BulkStore { lane, line, address, bytes, .. } in stores {
            let by = Accessor { order: &self.order, lane, line };
            for (place, chunk) in (address..).step_by(4).zip(bytes.chunks(4)) {
                let offset = context.global.check(place, 4, lane)?;
                let value = chunk.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
                context.global.store(offset, 4, value, by)?;
            }
        }
        Ok(())
    }

    /// The warp has returned: its stores still complete, but their sources must have been waited for.
    pub(super) fn end_bulk(&mut self, context: &mut Context) -> Run<()> {
        let last = self.order.issued[Agent::BulkStore as usize];
        if last > self.bulk_stores.read && context.environment.checks.sync {
            let message = "the warp returns while a bulk store may still read shared memory: nothing waited for it";
            return trouble(FaultKind::Sync, 0, message);
        }
        context.give(ENTRY * self.bulk_stores.groups.len() as u64);
        let mut stores: Vec<BulkStore> = self.bulk_stores.groups.drain(..).flat_map(|group| group.stores).collect();
        stores.append(&mut self.bulk_stores.open);
        self.land_stores(stores, context)
    }

    fn copy_box(
        &mut self,
        map: &Address,
        coordinates: &[Slot],
        shared: &SharedAddress,
        completion: &Completion,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let map = self.tensor_map(map, (lane, line), context)?;
        if coordinates.len() != map.dims.len() {
            let message = format!("{} coordinates for a tensor of {} dimensions", coordinates.len(), map.dims.len());
            return trouble(FaultKind::Trap, lane, message);
        }
        let mut origin = Vec::with_capacity(coordinates.len());
        for slot in coordinates {
            origin.push(i64::from(self.read32(*slot, 1 << lane)?[lane] as i32));
        }
        // What an H200 refuses as an illegal instruction: the first of these in copies both ways, the other in stores.
        let element = map.element.bytes();
        if origin[0] * element as i64 % 16 != 0 {
            let message = format!(
                "the innermost coordinate {} is {} bytes into a row of the tensor, which is no multiple of 16",
                origin[0],
                origin[0] * element as i64
            );
            return trouble(FaultKind::Alignment, lane, message);
        }
        if let (Completion::Group, Some(negative)) = (completion, origin.iter().find(|&&at| at < 0)) {
            let message =
                format!("the coordinate {negative} of a box that is stored: only loads may start before a tensor");
            return trouble(FaultKind::Bounds, lane, message);
        }
        let (_, (rank, start)) = self.places(shared, 1 << lane, context)?[0];
        context.shared[rank].check_range(start, map.box_bytes(), 128, lane)?;
        context.count_work(map.box_bytes() / 16);
        let row_bytes = u64::from(map.box_dims[0]) * element;
        let swizzle = match map.swizzle {
            TensorMapSwizzle::None => Swizzle::None,
            TensorMapSwizzle::B32 => Swizzle::B32,
            TensorMapSwizzle::B64 => Swizzle::B64,
            TensorMapSwizzle::B128 => Swizzle::B128,
        };
        let rows: u64 = map.box_dims[1..].iter().map(|&dim| u64::from(dim)).product();
        let mut pieces = Vec::new();
        for row in 0..rows {
            // The row's place in the tensor, or nowhere.
            let mut rest = row;
            let mut base = Some(map.address);
            for (axis, &dim) in map.box_dims.iter().enumerate().skip(1) {
                let index = origin[axis] + (rest % u64::from(dim)) as i64;
                rest /= u64::from(dim);
                let inside = u64::try_from(index).ok().filter(|&index| index < map.dims[axis]);
                base = base
                    .zip(inside)
                    .and_then(|(base, index)| base.checked_add(index.checked_mul(map.strides[axis - 1])?));
            }
            let place = |column: u64| {
                let index = u64::try_from(origin[0] + column as i64).ok().filter(|&index| index < map.dims[0])?;
                base?.checked_add(index * element)
            };
            for piece in 0..row_bytes / 16 {
                let address = swizzle.apply(start + row * row_bytes + 16 * piece);
                let columns = piece * 16 / element..(piece + 1) * 16 / element;
                if matches!(completion, Completion::Group) {
                    // All of it where it starts inside: an H200 writes 16 bytes at a time, also over the end of a row.
                    if let Some(to) = place(columns.start) {
                        self.store_piece((rank, address), to, (lane, line), context)?;
                    }
                    continue;
                }
                let mut bytes = Vec::with_capacity(16);
                for column in columns {
                    let value = match place(column) {
                        Some(from) => {
                            let offset = context.global.check(from, element, lane)?;
                            context.global.load(offset, element, Accessor { order: &self.order, lane, line })?
                        }
                        None if map.fill_nan => map.element.nan(),
                        None => 0,
                    };
                    bytes.extend(&value.to_le_bytes()[..element as usize]);
                }
                pieces.push((address, bytes));
            }
        }
        match completion {
            Completion::Group => Ok(()),
            Completion::Barrier { .. } => self.defer_writes(pieces, rank, completion, (lane, line), context),
        }
    }

    /// 16 bytes of a box on their way to a tensor.
    fn store_piece(
        &mut self,
        place: (usize, u64),
        to: u64,
        (lane, line): (usize, u32),
        context: &mut Context,
    ) -> Run<()> {
        let (agent, clock) = self.order.issue(Agent::BulkStore);
        let by = AsyncAccessor { agent, clock, order: &self.order, lane, line, proxied: true };
        let mut bytes = vec![0; 16];
        read_shared(context, place, &mut bytes, by)?;
        context.global.check_bytes(to, 16, 16, lane)?;
        self.push_store(BulkStore { lane, line, clock, address: to, bytes }, context)?;
        Ok(())
    }

    fn tensor_map(&self, map: &Address, (lane, line): (usize, u32), context: &mut Context) -> Run<TensorMap> {
        let (space, address) = resolve(MemorySpace::Generic, self.lane_addresses(map, 1 << lane)?[lane]);
        let mut bytes = [0; TENSOR_MAP_BYTES];
        match space {
            MemorySpace::Param => {
                for (at, byte) in (address..).zip(&mut bytes) {
                    *byte = load_param(context, at, 1, lane)? as u8;
                }
            }
            MemorySpace::Global | MemorySpace::Generic => {
                let offset = context.global.check_bytes(address, TENSOR_MAP_BYTES as u64, 64, lane)?;
                context.global.load_into(offset, &mut bytes, Accessor { order: &self.order, lane, line })?;
            }
            _ => return trouble(FaultKind::Bounds, lane, "a tensor map is in global memory or among the parameters"),
        }
        match TensorMap::decode(&bytes) {
            Some(map) => Ok(map),
            None => {
                let message =
                    format!("there is no tensor map at {address:#x} (the emulator's are made by `TensorMap::encode`)");
                trouble(FaultKind::Trap, lane, message)
            }
        }
    }
}

/// Of `members`, those that wait for a group of which each is a member, where `later` of its groups came after: all but the
/// last `left` are waited for.
pub(super) fn waited(members: u32, left: usize, later: &mut [usize; LANES]) -> u32 {
    let mut done = 0;
    for lane in lanes(members) {
        done |= u32::from(later[lane] >= left) << lane;
        later[lane] += 1;
    }
    done
}

/// Reads shared memory asynchronously.
fn read_shared(context: &mut Context, (rank, address): (usize, u64), bytes: &mut [u8], by: AsyncAccessor) -> Run<()> {
    let shared = &mut context.shared[rank];
    shared.check_range(address, bytes.len() as u64, 16, by.lane)?;
    shared.read_async(address, bytes.len() as u64, by)?;
    for (at, chunk) in (address..).step_by(4).zip(bytes.chunks_mut(4)) {
        chunk.copy_from_slice(&(shared.get(at, 4) as u32).to_le_bytes());
    }
    Ok(())
}
