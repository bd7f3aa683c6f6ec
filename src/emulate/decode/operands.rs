//! Operands: names, literals and addresses to registers. A literal becomes a register that holds it from the start.

use super::words::Ty;
use super::{Decoder, Fault, Place, Register, Width};
use crate::emulate::lanes::LANES;
use crate::emulate::program::{Address, AddressBase, MemorySpace, PredicateUse, Reg, Slot, Special};
use crate::ptx::model::{Immediate, Operand, Space};

/// The bits of a literal read as an `f32`, or as an `f64` where `wide`.
pub(super) fn float_bits(value: Immediate, wide: bool) -> u64 {
    let as_f64 = match value {
        Immediate::F32(bits) if !wide => return bits.into(),
        Immediate::F32(bits) => f64::from(f32::from_bits(bits)),
        Immediate::F64(bits) => f64::from_bits(bits),
        Immediate::Int(value) => value as f64,
        Immediate::UInt(value) => value as f64,
    };
    if wide { as_f64.to_bits() } else { (as_f64 as f32).to_bits().into() }
}

/// The bits of a literal for an operand of type `ty`.
fn literal_bits(value: Immediate, ty: Ty) -> u64 {
    match value {
        Immediate::Int(value) if !ty.is_float() => value as u64,
        Immediate::UInt(value) if !ty.is_float() => value,
        Immediate::F32(bits) if !matches!(ty, Ty::F64) => bits.into(),
        Immediate::F64(bits) if !ty.is_float() => bits,
        _ => float_bits(value, ty == Ty::F64),
    }
}

impl Decoder {
    /// Exactly `count` operands.
    pub(super) fn exactly<'a, const N: usize>(&self, operands: &'a [Operand]) -> Result<&'a [Operand; N], Fault> {
        operands.try_into().or_else(|_| self.refuse(format!("expected {N} operands, found {}", operands.len())))
    }

    fn register(&self, name: &str) -> Option<Register> {
        self.search(|scope| scope.registers.get(name).copied())
    }

    fn place(&self, name: &str) -> Option<Place> {
        self.search(|scope| scope.places.get(name).copied())
    }

    pub(super) fn predicate_register(&self, name: &str) -> Result<Slot, Fault> {
        match self.register(name) {
            Some(Register { slot, width: Width::Predicate }) => Ok(slot),
            Some(_) => self.refuse(format!("{name} is no predicate register")),
            None => self.refuse(format!("{name} is not declared")),
        }
    }

    /// A predicate that is read: `%p` or `!%p`.
    pub(super) fn predicate(&self, operand: &Operand) -> Result<PredicateUse, Fault> {
        match operand {
            Operand::Name(name) => Ok(PredicateUse { slot: self.predicate_register(name)?, negated: false }),
            Operand::Not(inner) => {
                let inner = self.predicate(inner)?;
                Ok(PredicateUse { negated: !inner.negated, ..inner })
            }
            _ => self.refuse("expected a predicate register"),
        }
    }

    /// A register that holds `value` from the start.
    pub(super) fn constant32(&mut self, value: u32) -> Result<Slot, Fault> {
        if let Some(&slot) = self.constants32.get(&value) {
            return Ok(slot);
        }
        let Some(slot) = self.new_slot(Width::Narrow(32)) else { return self.refuse("too many constants") };
        self.bank32[slot as usize] = [value; LANES];
        self.ready32[slot as usize] = true;
        self.constants32.insert(value, slot);
        Ok(slot)
    }

    /// As [`Decoder::constant32`], of 64 bits.
    pub(super) fn constant64(&mut self, value: u64) -> Result<Slot, Fault> {
        if let Some(&slot) = self.constants64.get(&value) {
            return Ok(slot);
        }
        let Some(slot) = self.new_slot(Width::Wide) else { return self.refuse("too many constants") };
        self.bank64[slot as usize] = [value; LANES];
        self.ready64[slot as usize] = true;
        self.constants64.insert(value, slot);
        Ok(slot)
    }

    fn special(&mut self, special: Special) -> Result<Slot, Fault> {
        if let Some((slot, _)) = self.specials.iter().find(|(_, other)| *other == special) {
            return Ok(*slot);
        }
        let Some(slot) = self.new_slot(Width::Narrow(32)) else { return self.refuse("too many registers") };
        self.ready32[slot as usize] = true;
        self.specials.push((slot, special));
        Ok(slot)
    }

    /// The address that a variable's name stands for.
    fn variable_address(&self, operand: &Operand) -> Option<u64> {
        match operand {
            Operand::Name(name) => self.place(name).map(|place| place.address),
            Operand::Offset(name, offset) => self.place(name).map(|place| place.address.wrapping_add_signed(*offset)),
            _ => None,
        }
    }

    /// An operand of at most 32 bits that is read.
    pub(super) fn narrow(&mut self, operand: &Operand, ty: Ty) -> Result<Slot, Fault> {
        if let Operand::Immediate(value) = operand {
            if matches!(value, Immediate::F64(_)) && !ty.is_float() {
                return self.refuse("a floating literal where an operand of bits is expected");
            }
            let bits = literal_bits(*value, ty) as u32;
            return self.constant32(if ty.bits() < 32 { bits & ((1 << ty.bits()) - 1) } else { bits });
        }
        if let Operand::Name(name) = operand {
            if let Some(register) = self.register(name) {
                return match register.width {
                    Width::Narrow(bits) if bits >= ty.bits() => Ok(register.slot),
                    _ => self.refuse(format!("{name} has not the width of a {}-bit operand", ty.bits())),
                };
            }
            if let Some(special) = Special::from_name(name) {
                return self.special(special);
            }
            if name == "WARP_SZ" {
                return self.constant32(LANES as u32);
            }
        }
        match self.variable_address(operand) {
            Some(address) => self.constant32(address as u32),
            None => self.unknown(operand),
        }
    }

    /// An operand of 64 bits that is read.
    pub(super) fn wide(&mut self, operand: &Operand, ty: Ty) -> Result<Slot, Fault> {
        if let Operand::Immediate(value) = operand {
            return self.constant64(literal_bits(*value, ty));
        }
        if let Operand::Name(name) = operand
            && let Some(register) = self.register(name)
        {
            return match register.width {
                Width::Wide => Ok(register.slot),
                _ => self.refuse(format!("{name} has not the width of a 64-bit operand")),
            };
        }
        if matches!(operand, Operand::Name(name) if name == "WARP_SZ") {
            return self.constant64(LANES as u64);
        }
        match self.variable_address(operand) {
            Some(address) => self.constant64(address),
            None => self.unknown(operand),
        }
    }

    fn unknown<T>(&self, operand: &Operand) -> Result<T, Fault> {
        match operand {
            Operand::Name(name) | Operand::Offset(name, _) => self.refuse(format!("{name} is not declared")),
            _ => self.refuse("expected a register or a literal"),
        }
    }

    /// A register of at most 32 bits that is written.
    pub(super) fn narrow_dst(&self, operand: &Operand, bits: u32) -> Result<Slot, Fault> {
        match self.any_dst(operand)? {
            Some((Reg::R32(slot), width)) if width >= bits => Ok(slot),
            _ => self.refuse(format!("expected a destination register of {bits} bits")),
        }
    }

    /// A register of 64 bits that is written.
    pub(super) fn wide_dst(&self, operand: &Operand) -> Result<Slot, Fault> {
        match self.any_dst(operand)? {
            Some((Reg::R64(slot), _)) => Ok(slot),
            _ => self.refuse("expected a destination register of 64 bits"),
        }
    }

    /// A predicate that is written.
    pub(super) fn predicate_dst(&self, operand: &Operand) -> Result<Option<Slot>, Fault> {
        match operand {
            Operand::Sink => Ok(None),
            Operand::Name(name) => {
                let slot = self.predicate_register(name)?;
                self.written.borrow_mut().push(Reg::Pred(slot));
                Ok(Some(slot))
            }
            _ => self.refuse("expected a predicate register as destination"),
        }
    }

    /// A destination and its bits; `None` for `_`.
    fn any_dst(&self, operand: &Operand) -> Result<Option<(Reg, u32)>, Fault> {
        let name = match operand {
            Operand::Sink => return Ok(None),
            Operand::Name(name) => name,
            _ => return self.refuse("expected a destination register"),
        };
        let Some(Register { slot, width }) = self.register(name) else {
            return self.refuse(format!("{name} is not declared, or cannot be written"));
        };
        let (reg, bits) = width.register(slot);
        self.written.borrow_mut().push(reg);
        Ok(Some((reg, bits)))
    }

    /// A destination for a value of type `ty`: a register at least as wide, or `_`.
    pub(super) fn dst(&self, operand: &Operand, ty: Ty) -> Result<Option<Reg>, Fault> {
        match self.any_dst(operand)? {
            None => Ok(None),
            Some((Reg::Pred(_), _)) if ty != Ty::Pred => self.refuse("a predicate register cannot hold that type"),
            Some((reg, bits)) if bits >= ty.bits() => Ok(Some(reg)),
            Some(_) => self.refuse(format!("the destination is narrower than {} bits", ty.bits())),
        }
    }

    /// A source of type `ty`, in the bank of its width.
    pub(super) fn src(&mut self, operand: &Operand, ty: Ty) -> Result<Reg, Fault> {
        if ty.bits() == 64 {
            return self.wide(operand, ty).map(Reg::R64);
        }
        // A narrow value may be stored from a wide register.
        if let Operand::Name(name) = operand
            && let Some(Register { slot, width: Width::Wide }) = self.register(name)
        {
            return Ok(Reg::R64(slot));
        }
        self.narrow(operand, ty).map(Reg::R32)
    }

    /// `[base+offset]` in `space`.
    pub(super) fn address(&mut self, operand: &Operand, space: MemorySpace) -> Result<Address, Fault> {
        let Operand::Address { base, offset, coordinates } = operand else {
            return self.refuse("expected an address in brackets");
        };
        if !coordinates.is_empty() {
            return self.refuse("addresses with coordinates are not supported");
        }
        let base = match base.as_ref() {
            Operand::Immediate(Immediate::Int(value)) => {
                return Ok(Address { base: AddressBase::Constant, offset: offset.wrapping_add(*value) });
            }
            Operand::Name(name) => {
                if let Some(register) = self.register(name) {
                    match register.width {
                        Width::Wide => AddressBase::R64(register.slot),
                        Width::Narrow(32) => AddressBase::R32(register.slot),
                        _ => return self.refuse(format!("{name} cannot hold an address")),
                    }
                } else if let Some(place) = self.place(name) {
                    let fits = match space {
                        MemorySpace::Generic => matches!(place.space, Space::Global),
                        MemorySpace::Global => matches!(place.space, Space::Global),
                        MemorySpace::Shared => place.space == Space::Shared,
                        MemorySpace::Local => place.space == Space::Local,
                        MemorySpace::Param => place.space == Space::Param,
                    };
                    if !fits {
                        let space_name = place.space.name();
                        return self.refuse(format!("{name} is in .{space_name}, which is not the access's space"));
                    }
                    let offset = place.address.wrapping_add_signed(*offset) as i64;
                    return Ok(Address { base: AddressBase::Constant, offset });
                } else {
                    return self.refuse(format!("{name} is not declared"));
                }
            }
            _ => return self.refuse("expected a register or a variable as the address"),
        };
        Ok(Address { base, offset: *offset })
    }
}
