//! From a rendered template to a module: layout of the text, and the metadata beside it.

use askama::Template;

use super::ParamError;
use crate::ptx::{Arch, DType, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

impl ParamMeta {
    /// The type in a `.param` declaration, as Triton writes it.
    pub(crate) fn ptx_type(&self) -> String {
        if self.pointer {
            return format!(".u64 .ptr .global .align {}", self.align);
        }
        match self.ty {
            DType::U8 => ".u8".into(),
            DType::I16 => ".u16".into(),
            DType::I32 => ".u32".into(),
            DType::I64 => ".u64".into(),
            DType::Fp16 | DType::Bf16 => ".align 2 .b8".into(),
            DType::Fp32 => ".f32".into(),
            DType::Fp64 => ".f64".into(),
        }
    }
}

/// How a template's kernel is launched.
pub(super) struct Launch {
    pub grid: GridRule,
    pub num_warps: u32,
    pub shared: u32,
    pub static_shared: u32,
}

/// The text of `template`, laid out.
pub(super) fn render(kernel: &'static str, template: &impl Template) -> Result<String, ParamError> {
    let text = template.render().map_err(|error| ParamError::Render { kernel, message: error.to_string() })?;
    Ok(tidy(&text))
}

/// A module of the one kernel `name`.
pub(super) fn module(arch: Arch, ptx: String, name: String, params: Vec<ParamMeta>, launch: Launch) -> Module {
    let meta = KernelMeta {
        name,
        params,
        grid: launch.grid,
        num_warps: launch.num_warps,
        num_ctas: 1,
        shared: launch.shared,
        static_shared: launch.static_shared,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: false,
    };
    Module { ptx, meta: ModuleMeta { arch, kernels: vec![meta] } }
}

/// Lays rendered text out: block tags leave blank lines and odd indents behind. Statements are indented by four, labels
/// and module scope by none; a blank line stays only before a comment.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0;
    let mut blank = false;
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            blank = true;
            continue;
        }
        if blank && (line.starts_with("//") || line.starts_with(".visible")) {
            out.push('\n');
        }
        blank = false;
        if matches!(line, "}" | ")") {
            depth -= 1;
        }
        if depth > 0 && !line.ends_with(':') {
            out.push_str("    ");
        }
        out.push_str(line);
        out.push('\n');
        if line == "{" || line.ends_with('(') {
            depth += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::tidy;

    #[test]
    fn statements_are_indented_and_labels_are_not() {
        assert_eq!(
            tidy("\n\n.visible .entry k(\n\n.param .u32 p\n)\n{\n\n  ret;\n\n // why\nadd;\n $L_a:\n}\n"),
            "\n.visible .entry k(\n    .param .u32 p\n)\n{\n    ret;\n\n    // why\n    add;\n$L_a:\n}\n"
        );
    }
}
