//! Tile programs as a source of modules: compiled (feature `llvm`), or taken from `generated/`.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Error;
use crate::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};
use crate::tile::{Def, Elem, Func, OpKind, Param, Region, Scalar, Type, Value};

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// A number.
    Number(u32),
    /// A switch.
    Flag(bool),
    /// One of some words: a type, a precision.
    Word(String),
}

impl fmt::Display for SettingValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Number(value) => value.fmt(formatter),
            SettingValue::Flag(value) => value.fmt(formatter),
            SettingValue::Word(value) => value.fmt(formatter),
        }
    }
}

/// A module of `generated/` as it is linked into the library.
#[derive(Clone, Copy, Debug)]
struct CheckedIn {
    arch: Arch,
    entry: &'static str,
    /// The settings as JSON.
    settings: &'static str,
    num_warps: u32,
    ptx: &'static str,
    /// The metadata: [`KernelMeta`] as JSON.
    meta: &'static str,
}

/// What the generator wrote last.
static CHECKED_IN: &[CheckedIn] = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/generated/tiles.rs"));

/// A kernel as tile IR with the settings that made it.
#[derive(Clone, Debug)]
pub struct TileKernel {
    func: Func,
    num_warps: u32,
    settings: IndexMap<String, SettingValue>,
}

impl TileKernel {
    /// The kernel `func` with programs of `num_warps` warps. `settings`, a struct of numbers, switches and words, says what made it:
    /// it names the file and is kept in the manifest.
    ///
    /// # Errors
    /// [`Error::Settings`] where `settings` is no such struct.
    pub fn new(func: Func, num_warps: u32, settings: &impl Serialize) -> Result<Self, Error> {
        let settings = serde_json::to_value(settings)
            .and_then(serde_json::from_value)
            .map_err(|error| Error::Settings { kernel: func.name.clone(), message: error.to_string() })?;
        Ok(Self { func, num_warps, settings })
    }

    /// The entry's name.
    pub fn name(&self) -> &str {
        &self.func.name
    }

    /// Warps of a program.
    pub fn num_warps(&self) -> u32 {
        self.num_warps
    }

    /// The settings, in their order.
    pub fn settings(&self) -> &IndexMap<String, SettingValue> {
        &self.settings
    }

    /// The name of its file under `generated/<arch>/`, without extension: the entry and its settings, those that are switched off
    /// left out.
    pub fn stem(&self) -> String {
        let mut stem = self.name().trim_start_matches('_').to_owned();
        for (name, value) in &self.settings {
            match value {
                SettingValue::Number(value) => stem.push_str(&format!("_{name}{value}")),
                SettingValue::Flag(true) => stem.push_str(&format!("_{name}")),
                SettingValue::Flag(false) => {}
                SettingValue::Word(value) => stem.push_str(&format!("_{value}")),
            }
        }
        stem
    }

    /// Checks that `arch` has what the kernel needs.
    ///
    /// # Errors
    /// [`Error::Target`]: conversions to and from FP8 came with sm_89.
    pub fn check_target(&self, arch: Arch) -> Result<(), Error> {
        if arch >= Arch::Sm90a || !uses_fp8(&self.func) {
            return Ok(());
        }
        Err(Error::Target { kernel: self.name().to_owned(), what: "FP8 conversions", arch, least: Arch::Sm90a })
    }

    /// The module for `arch`: from `generated/` where it is there, else compiled.
    ///
    /// # Errors
    /// As [`TileKernel::compile`].
    pub fn module(&self, arch: Arch) -> Result<Module, Error> {
        match self.checked_in(arch) {
            Some(module) => Ok(module),
            None => self.compile(arch),
        }
    }

    /// The module for `arch` that is checked in under `generated/` and linked into the library, if there is one: it needs no
    /// compiler.
    pub fn checked_in(&self, arch: Arch) -> Option<Module> {
        let settings = serde_json::to_string(&self.settings).ok()?;
        let found = CHECKED_IN.iter().find(|found| {
            (found.arch, found.entry, found.num_warps) == (arch, self.name(), self.num_warps)
                && found.settings == settings
        })?;
        let meta: KernelMeta = serde_json::from_str(found.meta).ok()?;
        Some(Module { ptx: found.ptx.to_owned(), meta: ModuleMeta { arch, kernels: vec![meta] } })
    }

    /// Compiles the kernel for `arch`; the text is in the printer's normal form. The same kernel gives the same bytes wherever
    /// the same LLVM makes it.
    ///
    /// # Errors
    /// [`Error::Target`] as [`TileKernel::check_target`]; [`Error::NoCompiler`] without feature `llvm`; [`Error::Compile`] where the
    /// compiler refuses the kernel.
    #[cfg(feature = "llvm")]
    pub fn compile(&self, arch: Arch) -> Result<Module, Error> {
        use crate::compile::{Options, compile};
        use crate::ptx::{parse, print};
        use crate::tile::simplify;

        self.check_target(arch)?;
        let failed = |message: String| Error::Compile { kernel: self.name().to_owned(), arch, message };
        let mut func = self.func.clone();
        simplify::canonicalise(&mut func);
        let options = Options { num_warps: self.num_warps, ..Options::new(arch) };
        let compiled = compile(&func, &options).map_err(|error| failed(error.to_string()))?;
        let program = parse(&compiled.ptx)
            .map_err(|fault| Error::Unreadable { file: format!("{arch}/{}.ptx", self.stem()), fault })?;
        let meta = self.meta(compiled.shared)?;
        Ok(Module { ptx: print(&program), meta: ModuleMeta { arch, kernels: vec![meta] } })
    }

    /// The compiler is not part of this build.
    ///
    /// # Errors
    /// [`Error::Target`] as [`TileKernel::check_target`], else [`Error::NoCompiler`].
    #[cfg(not(feature = "llvm"))]
    pub fn compile(&self, arch: Arch) -> Result<Module, Error> {
        self.check_target(arch)?;
        Err(Error::NoCompiler { kernel: self.stem(), arch })
    }

    /// What a launcher must know: the function's parameters, then the scratch pointers.
    #[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "metadata is made with the text"))]
    fn meta(&self, shared: u32) -> Result<KernelMeta, Error> {
        let written = written_params(&self.func);
        let mut params = Vec::with_capacity(self.func.params.len() + 2);
        for (index, param) in self.func.params.iter().enumerate() {
            params.push(self.param(param, written.contains(&index))?);
        }
        params.extend(ParamMeta::scratch());
        Ok(KernelMeta {
            name: self.name().to_owned(),
            params,
            grid: GridRule { x: Extent::Any, y: Extent::Any, z: Extent::Any },
            num_warps: self.num_warps,
            num_ctas: 1,
            shared,
            static_shared: 0,
            tmem_size: 0,
            global_scratch_size: 0,
            global_scratch_align: 1,
            profile_scratch_size: 0,
            profile_scratch_align: 1,
        })
    }

    fn param(&self, param: &Param, written: bool) -> Result<ParamMeta, Error> {
        let unknown = || Error::ParamType {
            kernel: self.name().to_owned(),
            parameter: param.name.clone(),
            ty: param.ty.to_string(),
        };
        let (scalar, pointer) = match param.ty {
            Type::Scalar(Elem::Pointer(scalar)) => (scalar, true),
            Type::Scalar(Elem::Value(scalar)) => (scalar, false),
            _ => return Err(unknown()),
        };
        let ty = dtype(scalar).ok_or_else(unknown)?;
        let align = if pointer { param.divisibility } else { None };
        Ok(ParamMeta {
            name: param.name.clone(),
            ty,
            pointer,
            constant: !pointer || !written,
            align: align.unwrap_or(1).max(ty.bytes() as u32),
        })
    }
}

/// The element type of buffers that hold `scalar`: what has no type of its own there is bytes.
fn dtype(scalar: Scalar) -> Option<DType> {
    match scalar {
        Scalar::I1 | Scalar::I8 | Scalar::F8E4M3 | Scalar::F8E5M2 => Some(DType::U8),
        Scalar::I16 => None,
        Scalar::I32 => Some(DType::I32),
        Scalar::I64 => Some(DType::I64),
        Scalar::F16 => Some(DType::Fp16),
        Scalar::Bf16 => Some(DType::Bf16),
        Scalar::F32 => Some(DType::Fp32),
        Scalar::F64 => Some(DType::Fp64),
    }
}

/// Whether a value, or what a pointer points to, is FP8.
fn uses_fp8(func: &Func) -> bool {
    let fp8 = |value: Value| {
        let scalar = match func.ty(value) {
            Type::Scalar(elem) | Type::Tile(_, elem) => elem.scalar().or(elem.pointee()),
            Type::BlockPtr(_, scalar) | Type::Descriptor(_, scalar) => Some(scalar),
        };
        matches!(scalar, Some(Scalar::F8E4M3 | Scalar::F8E5M2))
    };
    let params = (0..func.params.len()).map(|index| func.param_value(index));
    params.chain(func.all_ops().into_iter().flat_map(|op| func.op(op).results.clone())).any(fp8)
}

/// The parameters that a store or an atomic operation may write through, by place: those that its address comes from.
#[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "metadata is made with the text"))]
fn written_params(func: &Func) -> HashSet<usize> {
    let address = |value: Value| match func.ty(value) {
        Type::Scalar(elem) | Type::Tile(_, elem) => elem.pointee().is_some(),
        Type::BlockPtr(..) | Type::Descriptor(..) => true,
    };
    let mut queue: Vec<Value> = Vec::new();
    for op in func.all_ops() {
        let op = func.op(op);
        if matches!(
            op.kind,
            OpKind::Store { .. } | OpKind::AtomicRmw { .. } | OpKind::AtomicCas { .. } | OpKind::DescriptorStore
        ) {
            queue.push(op.operands[0]);
        }
    }
    // Where an address may come from: the operands of what makes it; in a loop or a branch, all that goes in or is yielded.
    let mut seen: HashSet<Value> = HashSet::new();
    let mut params = HashSet::new();
    while let Some(value) = queue.pop() {
        if !seen.insert(value) {
            continue;
        }
        match func.value(value).def {
            Def::Result(op, _) => {
                queue.extend(func.op(op).operands.iter().copied().filter(|&value| address(value)));
                for &region in &func.op(op).regions {
                    queue.extend(yielded(func, region).into_iter().filter(|&value| address(value)));
                }
            }
            Def::Arg(block, index) if block == func.entry() => _ = params.insert(index as usize),
            Def::Arg(block, _) => {
                let before =
                    func.all_ops().into_iter().map(|op| func.op(op)).filter(|op| op.successors.contains(&block));
                queue.extend(before.flat_map(|op| op.operands.clone()).filter(|&value| address(value)));
                if let Some(parent) = func.parent_op(block) {
                    queue.extend(func.op(parent).operands.iter().copied().filter(|&value| address(value)));
                    for &region in &func.op(parent).regions {
                        queue.extend(yielded(func, region).into_iter().filter(|&value| address(value)));
                    }
                }
            }
        }
    }
    params
}

/// What the blocks of a region end with.
fn yielded(func: &Func, region: Region) -> Vec<Value> {
    let last = |&block: &crate::tile::Block| func.block(block).ops.last().map(|&op| func.op(op).operands.clone());
    func.region(region).blocks.iter().filter_map(last).flatten().collect()
}

/// The Rust text of the table that [`CHECKED_IN`] includes.
pub(super) fn table<'a>(entries: impl Iterator<Item = (&'a TileKernel, Arch)>) -> Result<String, Error> {
    let mut text = String::from(
        "// Made by `cargo xtask generate`: the modules of the tile programs, as the library links them.\n&[\n",
    );
    for (kernel, arch) in entries {
        let settings = serde_json::to_string(&kernel.settings).map_err(|error| Error::Manifest(error.to_string()))?;
        let (entry, num_warps, stem) = (kernel.name(), kernel.num_warps, kernel.stem());
        text.push_str(&format!(
            "    CheckedIn {{\n        arch: Arch::{arch:?},\n        entry: \"{entry}\",\n        settings: r#\"{settings}\"#,\n        \
             num_warps: {num_warps},\n        ptx: include_str!(\"{arch}/{stem}.ptx\"),\n        meta: include_str!(\"{arch}/{stem}.json\"),\n    }},\n"
        ));
    }
    text.push_str("]\n");
    Ok(text)
}
