//! LLVM's part: the optimiser, the NVPTX target, and the text.

use inkwell::OptimizationLevel;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};

use super::{Error, Options};
use crate::ptx::Arch;

fn llvm(error: impl ToString) -> Error {
    Error::Llvm(error.to_string())
}

/// LLVM's machine for the target, stating the oldest PTX version that has it.
fn machine(arch: Arch) -> Result<TargetMachine, Error> {
    Target::initialize_nvptx(&InitializationConfig::default());
    let triple = TargetTriple::create("nvptx64-nvidia-cuda");
    let version = format!("+ptx{}", arch.ptx_version().replace('.', ""));
    Target::from_triple(&triple)
        .map_err(llvm)?
        .create_target_machine(
            &triple,
            arch.name(),
            &version,
            OptimizationLevel::Aggressive,
            RelocMode::Default,
            CodeModel::Default,
        )
        .ok_or_else(|| llvm(format!("no machine for {}", arch.name())))
}

/// Optimises `module` and gives its PTX.
pub(super) fn emit(module: &Module, options: &Options) -> Result<String, Error> {
    let machine = machine(options.arch)?;
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module.verify().map_err(llvm)?;
    module.run_passes("default<O3>", &machine, PassBuilderOptions::create()).map_err(llvm)?;
    let text = machine.write_to_memory_buffer(module, FileType::Assembly).map_err(llvm)?;
    let ptx = std::str::from_utf8(text.as_slice()).map_err(llvm)?;
    Ok(ptx.trim_end_matches('\0').to_owned())
}
