//! `tt.join`, `tt.cat`, `tt.split`: one bit of an element's index tells two tiles apart. Nothing moves between threads.

use super::{Lowering, Registers};
use crate::compile::Error;
use crate::compile::layout::Layout;
use crate::compile::placed::{doubled, half, side_bit};
use crate::tile::Op;

impl<'c> Lowering<'_, 'c> {
    /// The registers of a `tt.join` or `tt.cat` in `layout`: each from the operand that the bit names.
    pub(super) fn joined(&mut self, op: Op, layout: &Layout) -> Result<Registers<'c>, Error> {
        let data = self.func.op(op);
        let part = data.operands.first().and_then(|&operand| self.func.ty(operand).shape());
        let (Some(bit), Some(part)) = (side_bit(&data.kind, layout.shape), part) else {
            return Err(self.unsupported(op, "scalars"));
        };
        let within = half(layout, bit, part);
        let sides = [self.registers(data.operands[0], &within)?, self.registers(data.operands[1], &within)?];
        let kept: Vec<usize> = (0..layout.reg.len()).filter(|&at| layout.reg[at] != 1 << bit).collect();
        // What the thread decides: the bit may be one of the lane or of the warp.
        let mut of_thread = None;
        for (number, bases) in [(self.lane, &layout.lane), (self.warp, &layout.warp)] {
            for (place, _) in bases.iter().enumerate().filter(|(_, basis)| *basis >> bit & 1 == 1) {
                let set = self.bit_of(number, place as u32)?;
                of_thread = Some(match of_thread {
                    None => set,
                    Some(other) => self.builder.build_xor(other, set, "")?,
                });
            }
        }
        (0..layout.registers())
            .map(|register| {
                let place = kept.iter().enumerate().fold(0, |place, (to, from)| place | (register >> from & 1) << to);
                let side = layout.index(register, 0, 0) >> bit & 1;
                let [own, other] = [side, side ^ 1].map(|side| sides[side as usize][place as usize]);
                match of_thread {
                    None => Ok(own),
                    Some(turned) => Ok(self.builder.build_select(turned, other, own, "")?),
                }
            })
            .collect()
    }

    /// `tt.split`: both halves of an element are in one thread.
    pub(super) fn split(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let Some(whole) = self.func.ty(data.operands[0]).shape() else { return Err(self.unsupported(op, "scalars")) };
        let layouts = self.layouts;
        for (side, &result) in data.results.iter().enumerate() {
            for (place, layout) in layouts.wanted(result).iter().enumerate() {
                let registers = self.registers(data.operands[0], &doubled(layout, whole))?;
                let made = registers.into_iter().skip(side).step_by(2).collect();
                self.values.insert((result, place), made);
            }
        }
        Ok(())
    }

    /// `tt.unsplat`: a tile of one element is in every thread.
    pub(super) fn unsplat(&mut self, op: Op) -> Result<(), Error> {
        let data = self.func.op(op);
        let layout = self.layouts.wanted(data.operands[0]).first().cloned();
        let layout = layout.ok_or_else(|| self.unsupported(op, self.func.ty(data.operands[0]).to_string()))?;
        let registers = self.registers(data.operands[0], &layout)?;
        self.set_scalar(data.results[0], registers[0]);
        Ok(())
    }
}
