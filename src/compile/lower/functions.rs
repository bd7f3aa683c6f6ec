//! Functions beyond one instruction: ours in `functions.ll` (singles) and `doubles.ll`, and what stands for the functions of libdevice that Triton's
//! kernels name (`tt.extern_elementwise`): instructions, those, and more of ours in `library.ll` and `powers.ll`. No library of NVIDIA's is read.

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::types::{BasicMetadataTypeEnum, BasicType, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum};

use super::Lowering;
use super::library::{Device, FUNCTIONS, rounded};
use crate::compile::Error;
use crate::tile::{Op, Scalar, Value};

/// The functions, as LLVM IR: how their names end, and the text. Each may call those of the texts behind it.
const SOURCES: [(&str, &str); 4] = [
    (".lib", include_str!("library.ll")),
    (".lib", include_str!("powers.ll")),
    (".f32", include_str!("functions.ll")),
    (".f64", include_str!("doubles.ll")),
];
const PREFIX: &str = "tilewright.";

/// The letter of a type in a signature of the table, which is PTX's constraint too.
fn letter(scalar: Option<Scalar>) -> char {
    match scalar {
        Some(Scalar::F32) => 'f',
        Some(Scalar::F64) => 'd',
        Some(Scalar::I32) => 'r',
        Some(Scalar::I64) => 'l',
        _ => '?',
    }
}

impl<'c> Lowering<'_, 'c> {
    /// A function of `functions.ll` or of `doubles.ll`, as the operands are singles or doubles.
    pub(super) fn own_function(
        &self,
        name: &str,
        operands: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let float = operands[0].get_type();
        let ending = if float == BasicTypeEnum::from(self.context.f64_type()) { "f64" } else { "f32" };
        self.call_own(&format!("{name}.{ending}"), float, operands)
    }

    fn call_own(
        &self,
        name: &str,
        result: BasicTypeEnum<'c>,
        operands: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let name = format!("{PREFIX}{name}");
        let function = self.module.get_function(&name).unwrap_or_else(|| {
            let types: Vec<BasicMetadataTypeEnum> = operands.iter().map(|operand| operand.get_type().into()).collect();
            self.module.add_function(&name, result.fn_type(&types, false), None)
        });
        let args: Vec<BasicMetadataValueEnum> = operands.iter().map(|&operand| operand.into()).collect();
        let made = self.builder.build_call(function, &args, "")?.try_as_basic_value().basic();
        made.ok_or_else(|| Error::Llvm(format!("{name} has no result")))
    }

    /// Puts in the functions that were called.
    pub(super) fn link_functions(&self) -> Result<(), Error> {
        for (ending, source) in SOURCES {
            let is_ours = |name: &[u8]| name.starts_with(PREFIX.as_bytes()) && name.ends_with(ending.as_bytes());
            if !self.module.get_functions().any(|function| is_ours(function.get_name().to_bytes())) {
                continue;
            }
            let text = MemoryBuffer::create_from_memory_range_copy(source.as_bytes(), "functions");
            let llvm = |error: inkwell::support::LLVMString| Error::Llvm(error.to_string());
            let functions = self.context.create_module_from_ir(text).map_err(llvm)?;
            self.module.link_in_module(functions).map_err(llvm)?;
        }
        Ok(())
    }

    /// `tt.extern_elementwise` on one element.
    pub(super) fn library_function(
        &self,
        op: Op,
        symbol: &str,
        operands: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let data = self.func.op(op);
        let types: Vec<String> = data.operands.iter().map(|&value| self.func.ty(value).to_string()).collect();
        let refused = || self.unsupported(op, format!("`{symbol}` ({})", types.join(", ")));
        let name = symbol.strip_prefix("__nv_").ok_or_else(refused)?;
        let letters = |value: &Value| letter(self.func.ty(*value).number());
        let found: String = data.results.iter().chain(&data.operands).map(letters).collect();
        let check = |signature: &str| if found == signature { Ok(()) } else { Err(refused()) };
        let result = self.register_type(op, data.results[0])?;
        match FUNCTIONS.iter().find(|(known, ..)| *known == name) {
            Some(&(_, signature, device)) => {
                check(signature)?;
                match device {
                    Device::Own(own) => self.call_own(own, result, operands),
                    Device::Same(unary) => self.unary(op, unary, operands[0]),
                    Device::Text(text) => self.text(signature, text, result, operands),
                }
            }
            None => {
                let (signature, text) = rounded(name).ok_or_else(refused)?;
                check(&signature)?;
                self.text(&signature, &text, result, operands)
            }
        }
    }

    fn text(
        &self,
        signature: &str,
        text: &str,
        result: BasicTypeEnum<'c>,
        operands: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let letters: Vec<String> = signature.chars().map(String::from).collect();
        self.instruction(text, &format!("={}", letters.join(",")), result, operands)
    }
}
