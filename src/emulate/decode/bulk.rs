//! Bulk and tensor copies, and addresses in a cluster.

use super::words::{Ty, Words};
use super::{Decoder, Fault};
use crate::emulate::program::Op;
use crate::ptx::model::Operand;

impl Decoder {
    pub(super) fn copy_bulk(&mut self, words: &mut Words, _operands: &[Operand]) -> Result<Op, Fault> {
        self.refuse(format!("the emulator does not know `{}`", words.mnemonic()))
    }

    pub(super) fn map_address(&mut self, words: &mut Words, _operands: &[Operand]) -> Result<Op, Fault> {
        self.refuse(format!("the emulator does not know `{}`", words.mnemonic()))
    }

    pub(super) fn cta_rank(&mut self, words: &mut Words, _operands: &[Operand]) -> Result<Op, Fault> {
        let _ = Ty::B(32);
        self.refuse(format!("the emulator does not know `{}`", words.mnemonic()))
    }
}
