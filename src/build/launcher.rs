//! The Rust file with the launchers: what `templates/launcher.rs.txt` is filled with.

use askama::Template;

use crate::ptx::{DType, Extent, GridRule, KernelMeta, ParamMeta};

/// The whole file.
#[derive(Template)]
#[template(path = "launcher.rs.txt", escape = "none", whitespace = "preserve")]
pub(super) struct File {
    pub launchers: Vec<Launcher>,
}

/// One kernel's launcher.
pub(super) struct Launcher {
    /// The struct's name.
    pub name: String,
    /// The kernel's name in the catalogue.
    pub kernel: &'static str,
    /// What it does, without a full stop.
    pub summary: &'static str,
    /// `n = 32, rank = 4`.
    pub settings: String,
    /// In the order in which they are tried.
    pub targets: Vec<Target>,
    pub params: Vec<Param>,
    /// True where the caller chooses the grid.
    pub free_grid: bool,
    pub grid_doc: String,
}

/// The files of one target, relative to the Rust file.
pub(super) struct Target {
    pub arch: &'static str,
    pub ptx: String,
    pub meta: String,
}

/// A field of the struct of arguments.
pub(super) struct Param {
    pub name: String,
    pub ty: String,
    pub doc: String,
    pointer: bool,
}

impl Launcher {
    fn target_names(&self) -> String {
        self.targets.iter().map(|target| target.arch).collect::<Vec<_>>().join(", ")
    }

    fn borrows(&self) -> bool {
        self.params.iter().any(|param| param.pointer)
    }

    fn declared_lifetime(&self) -> &'static str {
        if self.borrows() { "<'a>" } else { "" }
    }

    fn used_lifetime(&self) -> &'static str {
        if self.borrows() { "<'_>" } else { "" }
    }
}

/// What the caller passes for each of the kernel's parameters.
pub(super) fn params(meta: &KernelMeta) -> Vec<Param> {
    meta.arguments().iter().map(param).collect()
}

fn param(meta: &ParamMeta) -> Param {
    let element = rust_type(meta.ty);
    let (ty, doc) = match (meta.pointer, meta.constant) {
        (false, _) => (element.to_owned(), format!("The value `{}`", meta.name)),
        (true, true) => {
            (format!("&'a ::tilewright::device::Buffer<{element}>"), format!("The buffer `{}`, read", meta.name))
        }
        (true, false) => {
            (format!("&'a mut ::tilewright::device::Buffer<{element}>"), format!("The buffer `{}`, written", meta.name))
        }
    };
    Param { name: identifier(&meta.name), ty, doc, pointer: meta.pointer }
}

fn rust_type(ty: DType) -> &'static str {
    match ty {
        DType::U8 => "u8",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::Fp16 => "::tilewright::device::f16",
        DType::Bf16 => "::tilewright::device::bf16",
        DType::Fp32 => "f32",
        DType::Fp64 => "f64",
    }
}

/// Words that a field may not be called without `r#`.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod", "move",
    "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

fn identifier(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("r#{name}") } else { name.to_lowercase() }
}

/// Whether the caller chooses the grid, and the rule in words.
pub(super) fn grid(rule: &GridRule) -> (bool, String) {
    let extents = [&rule.x, &rule.y, &rule.z];
    let free = extents.contains(&&Extent::Any);
    let words = extents.map(|extent| match extent {
        Extent::Fixed(value) => value.to_string(),
        Extent::Ceil { of, by: 1 } => of.clone(),
        Extent::Ceil { of, by } => format!("⌈{of} / {by}⌉"),
        Extent::Any => "any".to_owned(),
    });
    (free, format!(" over a grid of {} CTAs", words.join(" × ")))
}

/// `potrf_warp_n32` as `PotrfWarpN32`.
pub(super) fn camel_case(snake: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    snake.split('_').map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_rust() {
        assert_eq!(camel_case("potrf_warp_n32"), "PotrfWarpN32");
        assert_eq!(identifier("type"), "r#type");
        assert_eq!(identifier("stride_a"), "stride_a");
    }

    #[test]
    fn the_grid_is_free_where_one_extent_is() {
        assert_eq!(grid(&GridRule::along("batch", 4)), (false, " over a grid of ⌈batch / 4⌉ × 1 × 1 CTAs".to_owned()));
        let rule = GridRule { x: Extent::Any, ..GridRule::along("batch", 1) };
        assert!(grid(&rule).0);
    }
}
