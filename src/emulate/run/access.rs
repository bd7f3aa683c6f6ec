//! Loads, stores and atomics: addresses of the lanes, then each space's memory.

use super::cluster::Context;
use super::shared::Accessor;
use super::warp::Warp;
use super::{FaultKind, Run, trouble};
use crate::emulate::lanes::{FULL, LANES, Lanes64, lanes};
use crate::emulate::program::{
    Address, AddressBase, AtomicFn, LOCAL_WINDOW, MemorySpace, PARAM_WINDOW, Reg, SHARED_WINDOW,
};

/// The most elements of one vector access.
const MAX_ELEMENTS: usize = 8;

/// What a load, a store and an atomic have in common.
#[derive(Clone, Copy)]
pub(super) struct Access<'a> {
    pub space: MemorySpace,
    /// Bytes of one element.
    pub size: u64,
    pub address: &'a Address,
    pub active: u32,
    pub line: u32,
}

/// The space of a generic address, and the address in it.
pub(super) fn resolve(space: MemorySpace, address: u64) -> (MemorySpace, u64) {
    match space {
        MemorySpace::Generic if address >= SHARED_WINDOW => (MemorySpace::Shared, address - SHARED_WINDOW),
        MemorySpace::Generic if address >= LOCAL_WINDOW => (MemorySpace::Local, address - LOCAL_WINDOW),
        MemorySpace::Generic if address >= PARAM_WINDOW => (MemorySpace::Param, address - PARAM_WINDOW),
        MemorySpace::Generic => (MemorySpace::Global, address),
        space => (space, address),
    }
}

impl Warp {
    fn addresses(&self, access: &Access) -> Run<Lanes64> {
        self.lane_addresses(access.address, access.active)
    }

    /// The address of each lane.
    pub(super) fn lane_addresses(&self, address: &Address, active: u32) -> Run<Lanes64> {
        let offset = address.offset;
        Ok(match address.base {
            AddressBase::Constant => [offset as u64; LANES],
            AddressBase::R32(slot) => {
                // 32-bit addresses wrap in 32 bits.
                self.read32(slot, active)?.map(|base| u64::from(base.wrapping_add(offset as u32)))
            }
            AddressBase::R64(slot) => self.read64(slot, active)?.map(|base| base.wrapping_add_signed(offset)),
        })
    }

    pub(super) fn load(&mut self, access: Access, signed: bool, dst: &[Option<Reg>], context: &mut Context) -> Run<()> {
        let Access { space, size, active, line, .. } = access;
        let addresses = self.addresses(&access)?;
        let length = size * dst.len() as u64;
        let mut values = [[0_u64; LANES]; MAX_ELEMENTS];
        let values = &mut values[..dst.len()];
        let first = active.trailing_zeros() as usize;
        let same = active == FULL && addresses.iter().all(|&address| address == addresses[first]);
        if same && matches!(space, MemorySpace::Shared | MemorySpace::Param) {
            // One address for all lanes: the usual way to read shared memory that a whole warp works from.
            let by = Accessor { order: &self.order, lane: first, line };
            for (element, values) in values.iter_mut().enumerate() {
                let at = addresses[first] + size * element as u64;
                let value = if space == MemorySpace::Shared {
                    let (rank, at) = context.locate(at, first)?;
                    if element == 0 {
                        context.shared[rank].check(at, length, first)?;
                    }
                    context.shared[rank].load(at, size, by, active)?
                } else {
                    load_param(context, at, size, first)?
                };
                *values = [value; LANES];
            }
        } else {
            for lane in lanes(active) {
                let (space, address) = resolve(space, addresses[lane]);
                match space {
                    MemorySpace::Global | MemorySpace::Generic => {
                        let offset = context.global.check(address, length, lane)?;
                        let by = Accessor { order: &self.order, lane, line };
                        for (element, values) in values.iter_mut().enumerate() {
                            values[lane] = context.global.load(offset + size * element as u64, size, by)?;
                        }
                    }
                    MemorySpace::Shared => {
                        let (rank, address) = context.locate(address, lane)?;
                        let shared = &mut context.shared[rank];
                        shared.check(address, length, lane)?;
                        let by = Accessor { order: &self.order, lane, line };
                        for (element, values) in values.iter_mut().enumerate() {
                            let at = address + size * element as u64;
                            values[lane] = shared.load(at, size, by, 1 << lane)?;
                        }
                    }
                    MemorySpace::Local => {
                        let at = self.local_range(address, length, lane, context)?;
                        for (element, values) in values.iter_mut().enumerate() {
                            let at = at + (size as usize) * element;
                            values[lane] = self.load_local(at, size as usize, lane, context)?;
                        }
                    }
                    MemorySpace::Param => {
                        for (element, values) in values.iter_mut().enumerate() {
                            values[lane] = load_param(context, address + size * element as u64, size, lane)?;
                        }
                    }
                }
            }
        }
        for (dst, values) in dst.iter().zip(values) {
            if signed && size < 8 {
                let shift = 64 - 8 * size as u32;
                *values = values.map(|value| ((value << shift) as i64 >> shift) as u64);
            }
            if let Some(dst) = dst {
                self.write(*dst, values, active);
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, access: Access, src: &[Reg], context: &mut Context) -> Run<()> {
        context.progress += 1;
        let Access { space, size, active, line, .. } = access;
        let addresses = self.addresses(&access)?;
        let length = size * src.len() as u64;
        let mut values = [[0_u64; LANES]; MAX_ELEMENTS];
        for (values, src) in values.iter_mut().zip(src) {
            *values = self.read(*src, active)?;
        }
        let mask = u64::MAX >> (64 - 8 * size);
        let values = &values[..src.len()];
        for lane in lanes(active) {
            let (space, address) = resolve(space, addresses[lane]);
            match space {
                MemorySpace::Global | MemorySpace::Generic => {
                    let offset = context.global.check(address, length, lane)?;
                    let by = Accessor { order: &self.order, lane, line };
                    for (element, values) in values.iter().enumerate() {
                        context.global.store(offset + size * element as u64, size, values[lane] & mask, by)?;
                    }
                }
                MemorySpace::Shared => {
                    let (rank, address) = context.locate(address, lane)?;
                    let shared = &mut context.shared[rank];
                    shared.check(address, length, lane)?;
                    let by = Accessor { order: &self.order, lane, line };
                    for (element, values) in values.iter().enumerate() {
                        shared.store(address + size * element as u64, size, values[lane] & mask, by)?;
                    }
                }
                MemorySpace::Local => {
                    let at = self.local_range(address, length, lane, context)?;
                    for (element, values) in values.iter().enumerate() {
                        let at = at + size as usize * element;
                        let bytes = &values[lane].to_le_bytes()[..size as usize];
                        self.local[at..at + size as usize].copy_from_slice(bytes);
                        self.local_written[at..at + size as usize].fill(true);
                    }
                }
                MemorySpace::Param => return trouble(FaultKind::Bounds, lane, "parameters cannot be written"),
            }
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        access: Access,
        apply: AtomicFn,
        dst: Option<Reg>,
        (b, c): (Reg, Option<Reg>),
        context: &mut Context,
    ) -> Run<()> {
        context.progress += 1;
        let Access { space, size, active, line, .. } = access;
        let addresses = self.addresses(&access)?;
        let b = self.read(b, active)?;
        let c = c.map(|c| self.read(c, active)).transpose()?.unwrap_or([0; LANES]);
        let mut olds = [0; LANES];
        // Lane by lane: the order among lanes is open, and this one is always the same.
        for lane in lanes(active) {
            let update = |old: u64| apply(old, b[lane], c[lane]);
            let (space, address) = resolve(space, addresses[lane]);
            olds[lane] = match space {
                MemorySpace::Global => {
                    let offset = context.global.check(address, size, lane)?;
                    context.global.update(offset, size, lane, &update)?
                }
                MemorySpace::Shared => {
                    let (rank, address) = context.locate(address, lane)?;
                    context.shared[rank].check(address, size, lane)?;
                    context.shared[rank].update(address, size, Accessor { order: &self.order, lane, line }, &update)?
                }
                _ => return trouble(FaultKind::Bounds, lane, "atomics work on global and shared memory only"),
            };
        }
        if let Some(dst) = dst {
            self.write(dst, &olds, active);
        }
        Ok(())
    }

    /// Where `length` bytes at a lane's local address lie in the warp's local memory.
    fn local_range(&self, address: u64, length: u64, lane: usize, context: &Context) -> Run<usize> {
        let bytes = u64::from(context.environment.code.local_bytes);
        if address.saturating_add(length) > bytes {
            let message =
                format!("{length} bytes at local address {address:#x} are not inside the thread's {bytes} bytes");
            return trouble(FaultKind::Bounds, lane, message);
        }
        if !address.is_multiple_of(length) {
            let message = format!("local address {address:#x} is not a multiple of the access's {length} bytes");
            return trouble(FaultKind::Alignment, lane, message);
        }
        Ok(lane * bytes as usize + address as usize)
    }

    fn load_local(&self, at: usize, size: usize, lane: usize, context: &Context) -> Run<u64> {
        if context.environment.checks.init && !self.local_written[at..at + size].iter().all(|&written| written) {
            let message = format!("{size} bytes of local memory are read and nothing wrote them");
            return trouble(FaultKind::Uninitialised, lane, message);
        }
        Ok(self.local[at..at + size].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }
}

pub(super) fn load_param(context: &Context, address: u64, size: u64, lane: usize) -> Run<u64> {
    if !address.is_multiple_of(size) {
        let message = format!("parameter offset {address} is not a multiple of the access's {size} bytes");
        return trouble(FaultKind::Alignment, lane, message);
    }
    let params = context.environment.params;
    let range = usize::try_from(address).ok().and_then(|at| params.get(at..at.checked_add(size as usize)?));
    match range {
        Some(bytes) => Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))),
        None => {
            let bytes = params.len();
            let message = format!("{size} bytes at parameter offset {address} are not inside the {bytes} bytes given");
            trouble(FaultKind::Bounds, lane, message)
        }
    }
}
