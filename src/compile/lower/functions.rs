//! Functions beyond one instruction: ours in `functions.ll`, and what stands for the functions of libdevice that Triton's kernels name
//! (`tt.extern_elementwise`). No library of NVIDIA's is read.

use inkwell::memory_buffer::MemoryBuffer;
use inkwell::types::{BasicMetadataTypeEnum, BasicTypeEnum};
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum};

use super::Lowering;
use crate::compile::Error;
use crate::tile::{Op, Scalar, Unary};

/// The functions, as LLVM IR.
const SOURCE: &str = include_str!("functions.ll");
const PREFIX: &str = "tilewright.";

/// What stands for a function of libdevice.
#[derive(Clone, Copy)]
enum Device {
    /// A function of `functions.ll`.
    Own(&'static str),
    /// An operation of the tile IR.
    Same(Unary),
    /// PTX, and LLVM's constraints: the result's and one for each operand.
    Text(&'static str, &'static str),
}

use Device::{Own, Same, Text};

/// By libdevice's name without `__nv_`. Where libdevice flushes subnormals, so does the text.
const DEVICE: &[(&str, Device)] = &[
    ("sinf", Own("sin")),
    ("cosf", Own("cos")),
    ("logf", Own("log")),
    ("log2f", Own("log2")),
    ("log10f", Own("log10")),
    ("log1pf", Own("log1p")),
    ("expm1f", Own("expm1")),
    ("exp10f", Own("exp10")),
    ("tanhf", Own("tanh")),
    ("erff", Own("erf")),
    ("expf", Same(Unary::Exp)),
    ("exp2f", Same(Unary::Exp2)),
    ("sqrtf", Same(Unary::Sqrt)),
    ("rsqrtf", Same(Unary::Rsqrt)),
    ("fabsf", Same(Unary::AbsF)),
    ("fabs", Same(Unary::AbsF)),
    ("floorf", Same(Unary::Floor)),
    ("ceilf", Same(Unary::Ceil)),
    ("floor", Same(Unary::Floor)),
    ("ceil", Same(Unary::Ceil)),
    ("sqrt", Same(Unary::Sqrt)),
    ("rintf", Text("cvt.rni.f32.f32 $0, $1;", "=f,f")),
    ("nearbyintf", Text("cvt.rni.f32.f32 $0, $1;", "=f,f")),
    ("truncf", Text("cvt.rzi.f32.f32 $0, $1;", "=f,f")),
    (
        "roundf",
        Text(
            "{ .reg .f32 h; mov.f32 h, 0f3F000000; copysign.f32 h, $1, h; add.rz.ftz.f32 h, $1, h; cvt.rzi.f32.f32 $0, h; }",
            "=f,f",
        ),
    ),
    ("saturatef", Text("cvt.ftz.sat.f32.f32 $0, $1;", "=f,f")),
    ("fast_log2f", Text("lg2.approx.ftz.f32 $0, $1;", "=f,f")),
    ("fast_sinf", Text("sin.approx.ftz.f32 $0, $1;", "=f,f")),
    ("fast_cosf", Text("cos.approx.ftz.f32 $0, $1;", "=f,f")),
    ("fast_expf", Text("{ .reg .f32 t; mul.f32 t, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, t; }", "=f,f")),
    ("fast_logf", Text("{ .reg .f32 t; lg2.approx.ftz.f32 t, $1; mul.f32 $0, t, 0f3F317218; }", "=f,f")),
    ("fast_dividef", Text("div.approx.ftz.f32 $0, $1, $2;", "=f,f,f")),
    ("copysignf", Text("copysign.f32 $0, $2, $1;", "=f,f,f")),
    ("isinff", Text("{ .reg .pred p; testp.infinite.f32 p, $1; selp.b32 $0, 1, 0, p; }", "=r,f")),
    ("isnanf", Text("{ .reg .pred p; testp.notanumber.f32 p, $1; selp.b32 $0, 1, 0, p; }", "=r,f")),
    ("finitef", Text("{ .reg .pred p; testp.finite.f32 p, $1; selp.b32 $0, 1, 0, p; }", "=r,f")),
    ("popc", Text("popc.b32 $0, $1;", "=r,r")),
    ("clz", Text("clz.b32 $0, $1;", "=r,r")),
    ("brev", Text("brev.b32 $0, $1;", "=r,r")),
    ("ffs", Text("{ .reg .b32 t; brev.b32 t, $1; bfind.shiftamt.u32 t, t; add.s32 $0, t, 1; }", "=r,r")),
];

/// `fadd_rz` and its kin: arithmetic on singles with its rounding in the name.
fn rounded(name: &str) -> Option<(String, &'static str)> {
    let (operation, mode) = name.strip_prefix('f')?.split_once('_')?;
    let mode = match mode {
        "rn" => "rn",
        "rz" => "rz",
        "rd" => "rm",
        "ru" => "rp",
        _ => return None,
    };
    Some(match operation {
        "add" | "sub" | "mul" | "div" => (format!("{operation}.{mode}.ftz.f32 $0, $1, $2;"), "=f,f,f"),
        "rcp" | "sqrt" => (format!("{operation}.{mode}.ftz.f32 $0, $1;"), "=f,f"),
        "maf" => (format!("fma.{mode}.ftz.f32 $0, $1, $2, $3;"), "=f,f,f,f"),
        _ => return None,
    })
}

impl<'c> Lowering<'_, 'c> {
    /// A function of `functions.ll` on a single.
    pub(super) fn own_function(
        &self,
        name: &str,
        operands: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let name = format!("{PREFIX}{name}.f32");
        let function = self.module.get_function(&name).unwrap_or_else(|| {
            let single = self.context.f32_type();
            let types = vec![BasicMetadataTypeEnum::from(single); operands.len()];
            self.module.add_function(&name, single.fn_type(&types, false), None)
        });
        let args: Vec<BasicMetadataValueEnum> = operands.iter().map(|&operand| operand.into()).collect();
        let made = self.builder.build_call(function, &args, "")?.try_as_basic_value().basic();
        made.ok_or_else(|| Error::Llvm(format!("{name} has no result")))
    }

    /// Puts in the functions that were called.
    pub(super) fn link_functions(&self) -> Result<(), Error> {
        if !self.module.get_functions().any(|function| function.get_name().to_bytes().starts_with(PREFIX.as_bytes())) {
            return Ok(());
        }
        let text = MemoryBuffer::create_from_memory_range_copy(SOURCE.as_bytes(), "functions");
        let llvm = |error: inkwell::support::LLVMString| Error::Llvm(error.to_string());
        let functions = self.context.create_module_from_ir(text).map_err(llvm)?;
        self.module.link_in_module(functions).map_err(llvm)
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
        let unsupported = || self.unsupported(op, format!("`{symbol}` ({})", types.join(", ")));
        let name = symbol.strip_prefix("__nv_").ok_or_else(unsupported)?;
        let found = DEVICE.iter().find(|(known, _)| *known == name).map(|&(_, device)| device);
        match found {
            Some(Own(own)) => self.own_function(own, operands),
            Some(Same(unary)) => self.unary(op, unary, operands[0]),
            Some(Text(text, constraints)) => self.text(op, symbol, text, constraints, operands),
            None => {
                let (text, constraints) = rounded(name).ok_or_else(unsupported)?;
                self.text(op, symbol, &text, constraints, operands)
            }
        }
    }

    fn text(
        &self,
        op: Op,
        symbol: &str,
        text: &str,
        constraints: &str,
        operands: &[BasicValueEnum<'c>],
    ) -> Result<BasicValueEnum<'c>, Error> {
        let fits = constraints.split(',').skip(1).zip(operands).all(|(letter, operand)| match letter {
            "f" => operand.get_type() == BasicTypeEnum::from(self.context.f32_type()),
            _ => operand.get_type() == BasicTypeEnum::from(self.context.i32_type()),
        });
        if !fits || constraints.split(',').count() != operands.len() + 1 {
            return Err(self.unsupported(op, format!("`{symbol}` on operands of other types")));
        }
        let result = if constraints.starts_with("=f") { Scalar::F32 } else { Scalar::I32 };
        self.instruction(text, constraints, super::number(self.context, result), operands)
    }
}
