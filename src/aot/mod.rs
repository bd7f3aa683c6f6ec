//! Kernels ahead of time, for C: a header and a source that embed the PTX of a kernel's specialisations as text, load it
//! through the CUDA driver API, and launch the most special one that takes the arguments.
//!
//! No CUDA runtime, no driver and no device are needed to generate; the generated C needs `cuda.h` of CUDA 12 and libcuda. It
//! loads lazily, once for each context, under a lock; it names every error and never ends the program.
//!
//! ```
//! use tilewright::{aot, generate, ptx::Arch};
//!
//! let settings = [("n".to_owned(), "32".to_owned())].into_iter().collect();
//! let modules = [generate::emit("potrf_warp", &settings, Arch::Sm90a)?, generate::emit("potrf_warp", &settings, Arch::Sm80)?];
//! let files = aot::c_files("factor32", &modules)?;
//! assert!(files.header.contains("factor32_status factor32("));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use askama::Template;

use crate::ptx::{Arch, DType, KernelMeta, Module, ParamMeta};

/// The C of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// `<name>.h`.
    pub header: String,
    /// `<name>.c`.
    pub source: String,
}

/// Why the C cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name that is no C identifier.
    #[error(
        "`{0}` cannot name a C function: it must be letters, digits and underscores, no digit first, and no keyword"
    )]
    Name(String),
    /// No specialisation.
    #[error("`{0}` has no specialisation: give at least one")]
    Empty(String),
    /// A module that is not one kernel.
    #[error("specialisation {index} has {found} kernels: each has one")]
    Kernels {
        /// Which one, from 0.
        index: usize,
        /// How many kernels it has.
        found: usize,
    },
    /// Specialisations of different kernels.
    #[error("specialisation {index} takes ({found}), the first one ({expected}): all must take the same parameters")]
    Parameters {
        /// Which one, from 0.
        index: usize,
        /// Its parameters.
        found: String,
        /// Those of the first.
        expected: String,
    },
    /// A kernel whose launch needs more than a grid and arguments.
    #[error("specialisation {index} needs {what}, which the generated launcher does not give")]
    Launch {
        /// Which one, from 0.
        index: usize,
        /// What it needs.
        what: &'static str,
    },
    /// Two specialisations that take the same arguments on the same target, so that the second would never run.
    #[error("specialisations {first} and {second} are for {arch} and take the same arguments")]
    Twice {
        /// The one, from 0.
        first: usize,
        /// The other.
        second: usize,
        /// The target.
        arch: Arch,
    },
    /// A template failed: a fault of ours.
    #[error("the template failed: {0}")]
    Render(String),
}

#[derive(Template)]
#[template(path = "aot/kernel.h", escape = "none", whitespace = "preserve")]
struct Header<'a> {
    name: &'a str,
    upper: &'a str,
    guard: String,
    params: &'a [Param],
    variants: &'a [Variant<'a>],
}

#[derive(Template)]
#[template(path = "aot/kernel.c", escape = "none", whitespace = "preserve")]
struct Source<'a> {
    name: &'a str,
    upper: &'a str,
    params: &'a [Param],
    variants: &'a [Variant<'a>],
    scratch: bool,
    needs: String,
}

/// A parameter of the C function.
struct Param {
    name: String,
    ty: &'static str,
}

/// A specialisation in the order in which they are tried.
struct Variant<'a> {
    index: usize,
    arch: Arch,
    meta: &'a KernelMeta,
    /// The PTX, a C string for each line.
    lines: Vec<String>,
    /// The C expression that says whether it takes the arguments.
    condition: String,
    /// What it asks for, in words.
    asks: Vec<String>,
}

impl Variant<'_> {
    fn promises(&self) -> String {
        if self.asks.is_empty() { "; any arguments".to_owned() } else { format!("; {}", self.asks.join(", ")) }
    }

    fn major(&self) -> u32 {
        self.arch.capability() / 10
    }

    fn minor(&self) -> u32 {
        self.arch.capability() % 10
    }

    fn exact(&self) -> u32 {
        u32::from(self.arch != Arch::Sm80)
    }
}

/// The C of the kernel `name` whose specialisations are `modules`, of one kernel each.
///
/// They are tried from the newest target to the oldest, and of one target from the most special (the largest multiples asked
/// for) to the least.
///
/// # Errors
/// [`Error`], which says which specialisation does not fit.
pub fn c_files(name: &str, modules: &[Module]) -> Result<Files, Error> {
    if !is_identifier(name) {
        return Err(Error::Name(name.to_owned()));
    }
    let mut kernels = Vec::new();
    for (index, module) in modules.iter().enumerate() {
        let [kernel] = &module.meta.kernels[..] else {
            return Err(Error::Kernels { index, found: module.meta.kernels.len() });
        };
        let launch = |what| Err(Error::Launch { index, what });
        if kernel.num_ctas > 1 {
            return launch("a cluster of CTAs");
        }
        if kernel.global_scratch_size > 0 || kernel.profile_scratch_size > 0 {
            return launch("scratch memory");
        }
        kernels.push((index, module, kernel));
    }
    let Some(&(_, _, first)) = kernels.first() else { return Err(Error::Empty(name.to_owned())) };
    for &(index, _, kernel) in &kernels {
        let (found, expected) = (signature(kernel), signature(first));
        if found != expected {
            return Err(Error::Parameters { index, found, expected });
        }
    }
    let params = params(name, &first.params);
    for (place, &(second, module, kernel)) in kernels.iter().enumerate() {
        let same = |&&(_, other, of): &&(usize, &Module, &KernelMeta)| {
            other.meta.arch == module.meta.arch && checks(of, &params) == checks(kernel, &params)
        };
        if let Some(&(first, ..)) = kernels[..place].iter().find(same) {
            return Err(Error::Twice { first, second, arch: module.meta.arch });
        }
    }
    // A stable sort: of equally special ones, that given first.
    kernels.sort_by_key(|(_, module, kernel)| std::cmp::Reverse((module.meta.arch, speciality(kernel))));
    let variants: Vec<Variant> = kernels
        .iter()
        .enumerate()
        .map(|(index, (_, module, kernel))| {
            let checks = checks(kernel, &params);
            let condition = checks.iter().map(Check::expression).collect::<Vec<_>>().join(" && ");
            Variant {
                index,
                arch: module.meta.arch,
                meta: kernel,
                lines: module.ptx.lines().map(escape).collect(),
                condition: if condition.is_empty() { "1".to_owned() } else { condition },
                asks: checks.iter().map(Check::words).collect(),
            }
        })
        .collect();
    let needs = variants.iter().map(|variant| format!(" ({}{})", variant.arch, variant.promises())).collect::<String>();
    let upper = name.to_uppercase();
    let render = |result: askama::Result<String>| result.map_err(|error| Error::Render(error.to_string()));
    let header =
        Header { name, upper: &upper, guard: format!("TILEWRIGHT_{upper}_H"), params: &params, variants: &variants };
    let source =
        Source { name, upper: &upper, params: &params, variants: &variants, scratch: first.scratch_pointers, needs };
    Ok(Files { header: render(header.render())?, source: render(source.render())? })
}

/// What an argument must keep.
#[derive(PartialEq)]
struct Check {
    name: String,
    pointer: bool,
    divisor: u32,
}

impl Check {
    fn expression(&self) -> String {
        format!("{} % {} == 0", self.name, self.divisor)
    }

    fn words(&self) -> String {
        let what = if self.pointer { "aligned to" } else { "a multiple of" };
        format!("{} {what} {}", self.name, self.divisor)
    }
}

/// What `kernel` asks of its arguments: integers and addresses.
fn checks(kernel: &KernelMeta, params: &[Param]) -> Vec<Check> {
    let asked = kernel.params.iter().zip(params).map(|(meta, param)| {
        let divisor = if meta.pointer { meta.align } else { meta.divisible };
        Check { name: param.name.clone(), pointer: meta.pointer, divisor }
    });
    asked.filter(|check| check.divisor > 1).collect()
}

/// How much it asks for.
fn speciality(kernel: &KernelMeta) -> u32 {
    kernel.params.iter().map(|param| if param.pointer { param.align } else { param.divisible }.max(1).ilog2()).sum()
}

/// The parameters in words: what all specialisations must have in common.
fn signature(kernel: &KernelMeta) -> String {
    let words = kernel.params.iter().map(|param| {
        let star = if param.pointer { "*" } else { "" };
        format!("{star}{} {}", param.ty, param.name)
    });
    let mut words: Vec<_> = words.collect();
    if kernel.scratch_pointers {
        words.push("scratch pointers".to_owned());
    }
    words.join(", ")
}

/// The parameters of the C function: a name that C or the launcher has already gets `_arg` behind it.
fn params(function: &str, of: &[ParamMeta]) -> Vec<Param> {
    let mut made: Vec<Param> = Vec::new();
    for (index, meta) in of.iter().enumerate() {
        let free = |name: &str| {
            is_identifier(name)
                && name != function
                && !name.starts_with("tw_")
                && !["stream", "grid_x", "grid_y", "grid_z", "error"].contains(&name)
                && made.iter().all(|param| param.name != name)
        };
        let tries = [meta.name.clone(), format!("{}_arg", meta.name)];
        let name = tries.into_iter().find(|name| free(name)).unwrap_or_else(|| format!("arg_{index}"));
        made.push(Param { name, ty: c_type(meta) });
    }
    made
}

/// Halves are their bits: C has no type for them everywhere.
fn c_type(param: &ParamMeta) -> &'static str {
    if param.pointer {
        return "CUdeviceptr";
    }
    match param.ty {
        DType::U8 => "uint8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::Fp16 | DType::Bf16 => "uint16_t",
        DType::Fp32 => "float",
        DType::Fp64 => "double",
    }
}

const KEYWORDS: &str = "alignas alignof and and_eq asm atomic_cancel auto bitand bitor bool break case catch char class compl \
    const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false \
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private \
    protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast \
    struct switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void \
    volatile wchar_t while xor xor_eq main NULL";

/// Whether C and C++ take `name` for a function or a parameter.
fn is_identifier(name: &str) -> bool {
    let first = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    first
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !KEYWORDS.split_whitespace().any(|word| word == name)
}

/// The inside of a C string literal.
fn escape(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut before = ' ';
    for byte in line.bytes() {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b'\t' => text.push_str("\\t"),
            // Two question marks may begin a trigraph.
            b'?' if before == '?' => text.push_str("\\?"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\{byte:03o}")),
        }
        before = char::from(byte);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_what_it_is_in_a_c_string() {
        assert_eq!(escape("a\t\"b\\c\" ??= é"), "a\\t\\\"b\\\\c\\\" ?\\?= \\303\\251");
    }

    #[test]
    fn names_that_are_taken_are_changed() {
        let named = |name: &str| ParamMeta::scalar(name, DType::I32);
        let of = ["n", "stream", "int", "f", "tw_lock", "n_arg", "n", "é"].map(named);
        let names: Vec<_> = params("f", &of).into_iter().map(|param| param.name).collect();
        assert_eq!(names, ["n", "stream_arg", "int_arg", "f_arg", "arg_4", "n_arg", "arg_6", "arg_7"]);
    }
}
