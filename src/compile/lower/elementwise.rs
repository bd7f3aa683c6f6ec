//! Arithmetic on one element.
//!
//! Approximate functions are the instructions that Triton uses for them: `div.full.f32`, `sqrt.approx.ftz.f32`,
//! `ex2.approx.ftz.f32`, `rsqrt.approx.ftz.f32`. Products of floats may be fused with the sums that use them, as Triton lets them.

use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, FastMathFlags, FloatValue, IntValue};
use inkwell::{FloatPredicate, IntPredicate};

use super::Lowering;
use crate::compile::Error;
use crate::tile::{Binary, Cast, Elem, FloatCompare, IntCompare, Op, OpKind, Rounding, Scalar, Unary, float_value};

fn int_predicate(relation: IntCompare) -> IntPredicate {
    match relation {
        IntCompare::Eq => IntPredicate::EQ,
        IntCompare::Ne => IntPredicate::NE,
        IntCompare::Slt => IntPredicate::SLT,
        IntCompare::Sle => IntPredicate::SLE,
        IntCompare::Sgt => IntPredicate::SGT,
        IntCompare::Sge => IntPredicate::SGE,
        IntCompare::Ult => IntPredicate::ULT,
        IntCompare::Ule => IntPredicate::ULE,
        IntCompare::Ugt => IntPredicate::UGT,
        IntCompare::Uge => IntPredicate::UGE,
    }
}

fn float_predicate(relation: FloatCompare) -> FloatPredicate {
    match relation {
        FloatCompare::False => FloatPredicate::PredicateFalse,
        FloatCompare::Oeq => FloatPredicate::OEQ,
        FloatCompare::Ogt => FloatPredicate::OGT,
        FloatCompare::Oge => FloatPredicate::OGE,
        FloatCompare::Olt => FloatPredicate::OLT,
        FloatCompare::Ole => FloatPredicate::OLE,
        FloatCompare::One => FloatPredicate::ONE,
        FloatCompare::Ord => FloatPredicate::ORD,
        FloatCompare::Ueq => FloatPredicate::UEQ,
        FloatCompare::Ugt => FloatPredicate::UGT,
        FloatCompare::Uge => FloatPredicate::UGE,
        FloatCompare::Ult => FloatPredicate::ULT,
        FloatCompare::Ule => FloatPredicate::ULE,
        FloatCompare::Une => FloatPredicate::UNE,
        FloatCompare::Uno => FloatPredicate::UNO,
        FloatCompare::True => FloatPredicate::PredicateTrue,
    }
}

impl<'c> Lowering<'_, 'c> {
    /// The constant `bits` of a number.
    pub(super) fn constant(&self, op: Op, elem: Option<Elem>, bits: u64) -> Result<BasicValueEnum<'c>, Error> {
        let Some(Elem::Value(scalar)) = elem else { return Err(self.unsupported(op, "an address")) };
        Ok(match super::number(self.context, scalar) {
            BasicTypeEnum::IntType(ty) => ty.const_int(bits, false).into(),
            // A NaN's payload is not LLVM's to keep through a double; every other float is exact there.
            BasicTypeEnum::FloatType(ty) => match float_value(scalar, bits) {
                Some(value) if !value.is_nan() => ty.const_float(value).into(),
                _ => {
                    let raw = self.bits_type(scalar.bits()).const_int(bits, false);
                    self.builder.build_bit_cast(raw, ty, "")?
                }
            },
            _ => return Err(self.unsupported(op, scalar.name())),
        })
    }

    /// The result of an elementwise operation on one element.
    pub(super) fn element(&self, op: Op, operands: &[BasicValueEnum<'c>]) -> Result<BasicValueEnum<'c>, Error> {
        let data = self.func.op(op);
        let result = self.func.ty(data.results[0]);
        let elem = result.elem();
        let builder = &self.builder;
        match &data.kind {
            OpKind::Constant(bits) => self.constant(op, elem, *bits),
            OpKind::ProgramId(axis) | OpKind::NumPrograms(axis) => {
                let register = if matches!(data.kind, OpKind::ProgramId(_)) { "ctaid" } else { "nctaid" };
                let name =
                    format!("llvm.nvvm.read.ptx.sreg.{register}.{}", ["x", "y", "z"][usize::from((*axis).min(2))]);
                let made = self.intrinsic(&name, Some(self.context.i32_type().into()), &[])?;
                made.ok_or_else(|| Error::Llvm(format!("{name} has no result")))
            }
            OpKind::Binary(binary) => match (operands[0], operands[1]) {
                (BasicValueEnum::IntValue(a), BasicValueEnum::IntValue(b)) => self.int_binary(op, *binary, a, b),
                (BasicValueEnum::FloatValue(a), BasicValueEnum::FloatValue(b)) => {
                    let scalar = elem.and_then(Elem::scalar).ok_or_else(|| self.unsupported(op, result.to_string()))?;
                    self.float_binary(op, *binary, scalar, a, b)
                }
                _ => Err(self.unsupported(op, result.to_string())),
            },
            OpKind::Unary(unary) => self.unary(op, *unary, operands[0]),
            OpKind::CmpI(relation) => {
                let (a, b) = (operands[0].into_int_value(), operands[1].into_int_value());
                Ok(builder.build_int_compare(int_predicate(*relation), a, b, "")?.into())
            }
            OpKind::CmpF(relation) => match (operands[0], operands[1]) {
                (BasicValueEnum::FloatValue(a), BasicValueEnum::FloatValue(b)) => {
                    Ok(builder.build_float_compare(float_predicate(*relation), a, b, "")?.into())
                }
                _ => Err(self.unsupported(op, self.func.ty(data.operands[0]).to_string())),
            },
            OpKind::Select => Ok(builder.build_select(operands[0].into_int_value(), operands[1], operands[2], "")?),
            OpKind::Fma => match (operands[0], operands[1], operands[2]) {
                (BasicValueEnum::FloatValue(a), BasicValueEnum::FloatValue(b), BasicValueEnum::FloatValue(c)) => {
                    self.fma(a, b, c)
                }
                _ => Err(self.unsupported(op, result.to_string())),
            },
            OpKind::ClampF { propagate_nan } => {
                let (BasicValueEnum::FloatValue(x), BasicValueEnum::FloatValue(low), BasicValueEnum::FloatValue(high)) =
                    (operands[0], operands[1], operands[2])
                else {
                    return Err(self.unsupported(op, result.to_string()));
                };
                let (larger, smaller) = if *propagate_nan { ("maximum", "minimum") } else { ("maxnum", "minnum") };
                let raised = self.float_intrinsic(larger, &[x, low])?.into_float_value();
                self.float_intrinsic(smaller, &[raised, high])
            }
            OpKind::ExternElementwise { symbol, .. } => self.library_function(op, symbol, operands),
            OpKind::Poison => Ok(self.register_type(op, data.results[0])?.const_zero()),
            OpKind::Cast(cast) => self.cast(op, *cast, operands[0]),
            OpKind::FpToFp(rounding) => self.float_to_float(op, *rounding, operands[0]),
            OpKind::AddPtr => {
                let pointee = elem.and_then(Elem::pointee).ok_or_else(|| self.unsupported(op, result.to_string()))?;
                let i64_type = self.context.i64_type();
                let offset = operands[1].into_int_value();
                let wide = builder.build_int_s_extend_or_bit_cast(offset, i64_type, "")?;
                let bytes = builder.build_int_mul(wide, i64_type.const_int(pointee.bytes().into(), false), "")?;
                Ok(builder.build_int_add(operands[0].into_int_value(), bytes, "")?.into())
            }
            _ => Err(self.unsupported(op, result.to_string())),
        }
    }

    pub(super) fn fma(
        &self,
        a: FloatValue<'c>,
        b: FloatValue<'c>,
        c: FloatValue<'c>,
    ) -> Result<BasicValueEnum<'c>, Error> {
        self.float_intrinsic("fma", &[a, b, c])
    }

    /// `llvm.NAME` on floats of one type.
    fn float_intrinsic(&self, name: &str, args: &[FloatValue<'c>]) -> Result<BasicValueEnum<'c>, Error> {
        let ty = args[0].get_type();
        let suffix = match ty {
            ty if ty == self.context.f16_type() => "f16",
            ty if ty == self.context.bf16_type() => "bf16",
            ty if ty == self.context.f32_type() => "f32",
            _ => "f64",
        };
        let name = format!("llvm.{name}.{suffix}");
        let function = self
            .module
            .get_function(&name)
            .unwrap_or_else(|| self.module.add_function(&name, ty.fn_type(&vec![ty.into(); args.len()], false), None));
        let args: Vec<_> = args.iter().map(|&arg| arg.into()).collect();
        let made = self.builder.build_call(function, &args, "")?.try_as_basic_value().basic();
        made.ok_or_else(|| Error::Llvm(format!("{name} has no result")))
    }

    fn int_binary(
        &self,
        op: Op,
        binary: Binary,
        a: IntValue<'c>,
        b: IntValue<'c>,
    ) -> Result<BasicValueEnum<'c>, Error> {
        let builder = &self.builder;
        let pick = |relation: IntPredicate| -> Result<IntValue<'c>, Error> {
            let first = builder.build_int_compare(relation, a, b, "")?;
            Ok(builder.build_select(first, a, b, "")?.into_int_value())
        };
        Ok(match binary {
            Binary::AddI => builder.build_int_add(a, b, "")?,
            Binary::SubI => builder.build_int_sub(a, b, "")?,
            Binary::MulI => builder.build_int_mul(a, b, "")?,
            Binary::DivSI => builder.build_int_signed_div(a, b, "")?,
            Binary::DivUI => builder.build_int_unsigned_div(a, b, "")?,
            Binary::RemSI => builder.build_int_signed_rem(a, b, "")?,
            Binary::RemUI => builder.build_int_unsigned_rem(a, b, "")?,
            Binary::AndI => builder.build_and(a, b, "")?,
            Binary::OrI => builder.build_or(a, b, "")?,
            Binary::XOrI => builder.build_xor(a, b, "")?,
            Binary::ShlI => builder.build_left_shift(a, b, "")?,
            Binary::ShrSI => builder.build_right_shift(a, b, true, "")?,
            Binary::ShrUI => builder.build_right_shift(a, b, false, "")?,
            Binary::MinSI => pick(IntPredicate::SLT)?,
            Binary::MinUI => pick(IntPredicate::ULT)?,
            Binary::MaxSI => pick(IntPredicate::SGT)?,
            Binary::MaxUI => pick(IntPredicate::UGT)?,
            Binary::MulhiUI => {
                let bits = a.get_type().get_bit_width();
                let wide = self
                    .context
                    .custom_width_int_type(std::num::NonZeroU32::new(2 * bits).expect("wider"))
                    .map_err(|error| Error::Llvm(error.to_owned()))?;
                let (a, b) = (builder.build_int_z_extend(a, wide, "")?, builder.build_int_z_extend(b, wide, "")?);
                let product = builder.build_int_mul(a, b, "")?;
                let high = builder.build_right_shift(product, wide.const_int(bits.into(), false), false, "")?;
                builder.build_int_truncate(high, self.bits_type(bits), "")?
            }
            _ => return Err(self.unsupported(op, a.get_type().to_string())),
        }
        .into())
    }

    fn float_binary(
        &self,
        op: Op,
        binary: Binary,
        scalar: Scalar,
        a: FloatValue<'c>,
        b: FloatValue<'c>,
    ) -> Result<BasicValueEnum<'c>, Error> {
        let builder = &self.builder;
        let made: BasicValueEnum = match binary {
            Binary::AddF => builder.build_float_add(a, b, "")?.into(),
            Binary::SubF => builder.build_float_sub(a, b, "")?.into(),
            Binary::MulF => builder.build_float_mul(a, b, "")?.into(),
            Binary::DivF if scalar == Scalar::F32 => {
                let ty = self.context.f32_type().into();
                return self.instruction("div.full.f32 $0, $1, $2;", "=f,f,f", ty, &[a.into(), b.into()]);
            }
            Binary::PreciseDivF if scalar == Scalar::F32 => {
                let ty = self.context.f32_type().into();
                return self.instruction("div.rn.f32 $0, $1, $2;", "=f,f,f", ty, &[a.into(), b.into()]);
            }
            Binary::DivF if scalar == Scalar::F64 => builder.build_float_div(a, b, "")?.into(),
            Binary::RemF if matches!(scalar, Scalar::F32 | Scalar::F64) => builder.build_float_rem(a, b, "")?.into(),
            Binary::MinNumF => return self.float_intrinsic("minnum", &[a, b]),
            Binary::MaxNumF => return self.float_intrinsic("maxnum", &[a, b]),
            Binary::MinimumF => return self.float_intrinsic("minimum", &[a, b]),
            Binary::MaximumF => return self.float_intrinsic("maximum", &[a, b]),
            _ => return Err(self.unsupported(op, scalar.name())),
        };
        if let Some(instruction) = made.as_instruction_value()
            && instruction.can_use_fast_math_flags()
        {
            instruction
                .set_fast_math_flags(FastMathFlags::AllowContract)
                .map_err(|error| Error::Llvm(error.to_string()))?;
        }
        Ok(made)
    }

    pub(super) fn unary(&self, op: Op, unary: Unary, operand: BasicValueEnum<'c>) -> Result<BasicValueEnum<'c>, Error> {
        let ty = self.func.ty(self.func.op(op).operands[0]);
        let unsupported = || self.unsupported(op, ty.to_string());
        if let (Unary::AbsI, BasicValueEnum::IntValue(value)) = (unary, operand) {
            let zero = value.get_type().const_zero();
            let negative = self.builder.build_int_compare(IntPredicate::SLT, value, zero, "")?;
            let turned = self.builder.build_int_neg(value, "")?;
            return Ok(self.builder.build_select(negative, turned, value, "")?);
        }
        let BasicValueEnum::FloatValue(value) = operand else { return Err(unsupported()) };
        let (single, double) = (ty.number() == Some(Scalar::F32), ty.number() == Some(Scalar::F64));
        let f64_type = self.context.f64_type().into();
        let approximate = |text: &str| {
            if !single {
                return Err(unsupported());
            }
            self.instruction(text, "=f,f", self.context.f32_type().into(), &[operand])
        };
        match unary {
            Unary::NegF => Ok(self.builder.build_float_neg(value, "")?.into()),
            Unary::AbsF => self.float_intrinsic("fabs", &[value]),
            // Triton's flush subnormals of singles.
            Unary::Ceil if single => approximate("cvt.rpi.ftz.f32.f32 $0, $1;"),
            Unary::Floor if single => approximate("cvt.rmi.ftz.f32.f32 $0, $1;"),
            Unary::Ceil => self.float_intrinsic("ceil", &[value]),
            Unary::Floor => self.float_intrinsic("floor", &[value]),
            Unary::Sqrt if double => self.instruction("sqrt.rn.f64 $0, $1;", "=d,d", f64_type, &[operand]),
            Unary::Rsqrt if double => self.instruction("rsqrt.approx.f64 $0, $1;", "=d,d", f64_type, &[operand]),
            Unary::Log if single || double => self.own_function("log", &[operand]),
            Unary::Log2 if single || double => self.own_function("log2", &[operand]),
            Unary::Sin if single || double => self.own_function("sin", &[operand]),
            Unary::Cos if single || double => self.own_function("cos", &[operand]),
            Unary::Erf if single || double => self.own_function("erf", &[operand]),
            Unary::Exp if double => self.own_function("exp", &[operand]),
            Unary::Exp2 if double => self.own_function("exp2", &[operand]),
            Unary::Exp2 => approximate("ex2.approx.ftz.f32 $0, $1;"),
            Unary::Sqrt => approximate("sqrt.approx.ftz.f32 $0, $1;"),
            Unary::Rsqrt => approximate("rsqrt.approx.ftz.f32 $0, $1;"),
            Unary::PreciseSqrt => approximate("sqrt.rn.f32 $0, $1;"),
            // e to x is 2 to x·log2 e, as Triton has it.
            Unary::Exp if single => {
                let log2_e = self.context.f32_type().const_float(std::f64::consts::LOG2_E);
                let scaled = self.builder.build_float_mul(value, log2_e, "")?;
                self.instruction("ex2.approx.f32 $0, $1;", "=f,f", self.context.f32_type().into(), &[scaled.into()])
            }
            _ => Err(unsupported()),
        }
    }

    fn cast(&self, op: Op, cast: Cast, operand: BasicValueEnum<'c>) -> Result<BasicValueEnum<'c>, Error> {
        let data = self.func.op(op);
        let (from, to) = (self.func.ty(data.operands[0]), self.func.ty(data.results[0]));
        let unsupported = || self.unsupported(op, format!("{from} to {to}"));
        let elem = to.elem().ok_or_else(unsupported)?;
        let fp8 = |scalar: Option<Scalar>| matches!(scalar, Some(Scalar::F8E4M3 | Scalar::F8E5M2));
        let is_bits = matches!(cast, Cast::Bitcast | Cast::ArithBitcast);
        if !is_bits && (fp8(from.number()) || fp8(to.number())) {
            return Err(unsupported());
        }
        let builder = &self.builder;
        Ok(match (cast, operand, self.elem_type(elem)) {
            (Cast::ExtSI, BasicValueEnum::IntValue(value), BasicTypeEnum::IntType(ty)) => {
                builder.build_int_s_extend(value, ty, "")?.into()
            }
            (Cast::ExtUI, BasicValueEnum::IntValue(value), BasicTypeEnum::IntType(ty)) => {
                builder.build_int_z_extend(value, ty, "")?.into()
            }
            (Cast::TruncI, BasicValueEnum::IntValue(value), BasicTypeEnum::IntType(ty)) => {
                builder.build_int_truncate(value, ty, "")?.into()
            }
            (Cast::ExtF, BasicValueEnum::FloatValue(value), BasicTypeEnum::FloatType(ty)) => {
                builder.build_float_ext(value, ty, "")?.into()
            }
            (Cast::TruncF, BasicValueEnum::FloatValue(value), BasicTypeEnum::FloatType(ty)) => {
                builder.build_float_trunc(value, ty, "")?.into()
            }
            (Cast::SIToFP, BasicValueEnum::IntValue(value), BasicTypeEnum::FloatType(ty)) => {
                builder.build_signed_int_to_float(value, ty, "")?.into()
            }
            (Cast::UIToFP, BasicValueEnum::IntValue(value), BasicTypeEnum::FloatType(ty)) => {
                builder.build_unsigned_int_to_float(value, ty, "")?.into()
            }
            (Cast::FPToSI, BasicValueEnum::FloatValue(value), BasicTypeEnum::IntType(ty)) => {
                builder.build_float_to_signed_int(value, ty, "")?.into()
            }
            (Cast::FPToUI, BasicValueEnum::FloatValue(value), BasicTypeEnum::IntType(ty)) => {
                builder.build_float_to_unsigned_int(value, ty, "")?.into()
            }
            // Addresses are integers of 64 bits already.
            (Cast::IntToPtr | Cast::PtrToInt, value, _) => value,
            (Cast::Bitcast | Cast::ArithBitcast, value, ty) if value.get_type() == ty => value,
            (Cast::Bitcast | Cast::ArithBitcast, value, ty) => builder.build_bit_cast(value, ty, "")?,
            _ => return Err(unsupported()),
        })
    }

    /// `tt.fp_to_fp`. FP8 goes through the instructions that have it (from sm_89 on), which saturate; from halves it goes through
    /// singles and to bfloats through halves and singles, each exact.
    fn float_to_float(
        &self,
        op: Op,
        rounding: Option<Rounding>,
        operand: BasicValueEnum<'c>,
    ) -> Result<BasicValueEnum<'c>, Error> {
        let data = self.func.op(op);
        let (from, to) = (self.func.ty(data.operands[0]), self.func.ty(data.results[0]));
        let unsupported = || self.unsupported(op, format!("{from} to {to}"));
        let (Some(source), Some(target)) = (from.number(), to.number()) else { return Err(unsupported()) };
        let builder = &self.builder;
        let (f16, f32) = (self.context.f16_type(), self.context.f32_type());
        let single = match (source, operand) {
            (Scalar::F8E4M3 | Scalar::F8E5M2, BasicValueEnum::IntValue(byte)) => {
                let half = self.fp8_to_half(source, byte)?;
                if target == Scalar::F16 {
                    return Ok(half.into());
                }
                builder.build_float_ext(half, f32, "")?
            }
            (Scalar::F16 | Scalar::Bf16, BasicValueEnum::FloatValue(value)) => {
                builder.build_float_ext(value, f32, "")?
            }
            (Scalar::F32, BasicValueEnum::FloatValue(value)) => value,
            _ => return Err(unsupported()),
        };
        match target {
            Scalar::F32 => Ok(single.into()),
            Scalar::F16 | Scalar::Bf16 => {
                let ty = if target == Scalar::F16 { f16 } else { self.context.bf16_type() };
                if rounding != Some(Rounding::Rtz) {
                    return Ok(builder.build_float_trunc(single, ty, "")?.into());
                }
                let text = format!("cvt.rz.{}.f32 $0, $1;", target.name());
                let raw = self.instruction(&text, "=h,f", self.context.i16_type().into(), &[single.into()])?;
                Ok(builder.build_bit_cast(raw, ty, "")?)
            }
            Scalar::F8E4M3 | Scalar::F8E5M2 if rounding != Some(Rounding::Rtz) => {
                Ok(self.single_to_fp8(target, single)?.into())
            }
            // Halves keep the exponent of E5M2: their high byte is the number cut.
            Scalar::F8E5M2 => {
                let word = self.context.i16_type();
                let half = self.instruction("cvt.rz.f16.f32 $0, $1;", "=h,f", word.into(), &[single.into()])?;
                let high = builder.build_right_shift(half.into_int_value(), word.const_int(8, false), false, "")?;
                Ok(builder.build_int_truncate(high, self.context.i8_type(), "")?.into())
            }
            _ => Err(unsupported()),
        }
    }
}
