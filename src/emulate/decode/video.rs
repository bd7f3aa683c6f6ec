//! Video instructions: `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr`, `vset`, and their forms on halves and bytes.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::program::Op;
use crate::emulate::video::{Merge, Part, Video, VideoOp};
use crate::ptx::model::Operand;

/// The opcode without its number of lanes, which is one where there is no digit.
fn split(opcode: &str) -> (&str, u32) {
    match opcode.as_bytes().last() {
        Some(b'2') => (&opcode[..opcode.len() - 1], 2),
        Some(b'4') => (&opcode[..opcode.len() - 1], 4),
        _ => (opcode, 1),
    }
}

/// A register's name and the selector behind it.
fn selector(operand: &Operand) -> Option<(Operand, &str)> {
    let Operand::Name(name) = operand else { return None };
    let (register, selector) = name.rsplit_once('.')?;
    Some((Operand::Name(register.to_owned()), selector))
}

/// The lanes of a mask such as `b20` or `h1`.
fn lanes(mask: &str, lanes: u32) -> Option<u32> {
    let digits = mask.strip_prefix(if lanes == 2 { 'h' } else { 'b' })?;
    digits.chars().try_fold(0, |mask, digit| {
        let lane = digit.to_digit(10).filter(|lane| *lane < lanes)?;
        Some(mask | 1 << lane)
    })
}

impl Decoder {
    pub(super) fn video(&mut self, opcode: &str, words: &mut Words, operands: &[Operand]) -> Result<Op, Fault> {
        let (name, count) = split(opcode);
        let unknown = format!("the emulator does not know `{}`", words.mnemonic());
        let mut sign = || match words.ty() {
            Ok(Ty::S(32)) => Some(true),
            Ok(Ty::U(32)) => Some(false),
            _ => None,
        };
        // The result of `vset` has no type.
        let signed = if name == "vset" { [Some(false), sign(), sign()] } else { [sign(), sign(), sign()] };
        let [Some(d), Some(a), Some(b)] = signed else { return self.refuse(unknown) };
        let saturates = words.take("sat");
        let shifts = matches!((name, count), ("vshl" | "vshr", 1));
        let wraps = shifts && words.one_of(&["clamp", "wrap"]) == Some("wrap");
        let op = match (name, count) {
            ("vadd", _) => VideoOp::Add,
            ("vsub", _) => VideoOp::Sub,
            ("vabsdiff", _) => VideoOp::AbsDiff,
            ("vmin", _) => VideoOp::Min,
            ("vmax", _) => VideoOp::Max,
            ("vavrg", 2 | 4) => VideoOp::Average,
            ("vshl", 1) => VideoOp::ShiftLeft,
            ("vshr", 1) => VideoOp::ShiftRight,
            ("vset", _) => VideoOp::Set(match words.one_of(&["eq", "ne", "lt", "le", "gt", "ge"]) {
                Some("eq") => i64::eq,
                Some("ne") => i64::ne,
                Some("lt") => i64::lt,
                Some("le") => i64::le,
                Some("gt") => i64::gt,
                Some("ge") => i64::ge,
                _ => return self.refuse(unknown),
            }),
            _ => return self.refuse(unknown),
        };
        // There an H200 saturates otherwise than PTX says, each opcode in its way.
        if saturates && count == 1 && (name == "vshl" || !shifts && a != b) {
            return self.refuse(unknown);
        }
        let combines: &[&str] = if count == 1 { &["add", "min", "max"] } else { &["add"] };
        let mut merge = match words.one_of(combines) {
            Some("add") => Merge::Add,
            Some("min") => Merge::Min,
            Some(_) => Merge::Max,
            None => Merge::Alone,
        };
        let [target, first, second, rest @ ..] = operands else {
            return self.refuse("expected a destination and at least two operands");
        };
        let mut mask = (1 << count) - 1;
        let target = match selector(target) {
            None => target.clone(),
            // A part that saturates does so otherwise on an H200, too.
            Some((register, selector)) if count == 1 && merge == Merge::Alone && !saturates => {
                let Some(part) = Part::from_name(selector) else { return self.refuse(unknown) };
                merge = Merge::Insert(part);
                register
            }
            Some((register, selector)) if count > 1 => {
                let Some(lanes) = lanes(selector, count) else { return self.refuse(unknown) };
                mask = lanes;
                register
            }
            Some(_) => return self.refuse(unknown),
        };
        let mut parts = [Part::WORD; 2];
        let mut src = [0; 3];
        for ((operand, part), slot) in [first, second].into_iter().zip(&mut parts).zip(&mut src) {
            let register = match selector(operand) {
                Some((register, selector)) if self.narrow(operand, Ty::B(32)).is_err() => {
                    // Selections of lanes are seldom written and not known.
                    let Some(found) = Part::from_name(selector).filter(|_| count == 1) else {
                        return self.refuse(unknown);
                    };
                    *part = found;
                    register
                }
                _ => operand.clone(),
            };
            *slot = self.narrow(&register, Ty::B(32))?;
        }
        match (rest, merge) {
            ([c], _) if count > 1 || merge != Merge::Alone => src[2] = self.narrow(c, Ty::B(32))?,
            ([], Merge::Alone) if count == 1 => src[2] = src[0],
            _ => return self.refuse(format!("`{}` has the wrong number of operands", words.mnemonic())),
        }
        let dst = self.narrow_dst(&target, 32)?;
        let video = Video { op, lanes: count, signed: [d, a, b], parts, saturates, wraps, merge, mask };
        Ok(Op::Video { video: Box::new(video), dst, src })
    }
}
