//! The arguments of a launch: their grammar, and their block in the entry's layout.

use std::path::PathBuf;
use std::str::FromStr;

use super::value::{Element, Kind};
use crate::ptx::model::{Function, Variable, type_bytes};

/// The grammar, for `--help`.
pub(super) const GRAMMAR: &str = "\
Arguments, one --arg for each parameter of the entry, in its order:
  TYPE:VALUE            a number: f32:1.5, i32:-7, u64:0x10
  buf:TYPE:COUNT        a buffer of COUNT elements that nothing has written
  buf:TYPE:COUNT=zeros  … of zeros
  buf:TYPE:COUNT=iota   … of 0, 1, 2, …
  buf:TYPE:COUNT=random … of random numbers, the same on every run: from [-1, 1) for
                        floating-point types, from all values for integers
  buf:TYPE:COUNT=X.npy  … from a .npy file of that type and count, of any shape
TYPE is one of f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64; f16 and bf16
are float32 in files.

Example, for a kernel scale(x, y, factor, n):
  tilewright run scale.ptx --grid 4 --block 256 --arg buf:f32:1024=iota \\
      --arg buf:f32:1024 --arg f32:2.5 --arg i32:1024 --out 1=y.npy";

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arg {
    /// A number.
    Scalar {
        /// Its type.
        element: Element,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A buffer, whose address is passed.
    Buffer {
        /// The type of its elements.
        element: Element,
        /// How many.
        count: usize,
        /// What it holds.
        fill: Fill,
    },
}

/// What a buffer holds before the launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fill {
    /// Nothing: reading it is a fault.
    Nothing,
    /// Zeros.
    Zeros,
    /// 0, 1, 2, …
    Iota,
    /// Random numbers.
    Random,
    /// The elements of a `.npy` file.
    File(PathBuf),
}

impl FromStr for Arg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, rest) = text.split_once(':').ok_or("expected TYPE:VALUE or buf:TYPE:COUNT[=FILL]")?;
        if first != "buf" {
            let element = element(first)?;
            let bytes = element.parse(rest).ok_or_else(|| format!("`{rest}` is no {first}"))?;
            return Ok(Arg::Scalar { element, bytes });
        }
        let (name, rest) = rest.split_once(':').ok_or("expected buf:TYPE:COUNT[=FILL]")?;
        let element = element(name)?;
        let (count, fill) = match rest.split_once('=') {
            None => (rest, Fill::Nothing),
            Some((count, "zeros")) => (count, Fill::Zeros),
            Some((count, "iota")) => (count, Fill::Iota),
            Some((count, "random")) => (count, Fill::Random),
            Some((count, file)) if file.ends_with(".npy") => (count, Fill::File(file.into())),
            Some((_, other)) => return Err(format!("`{other}` is none of zeros, iota, random, FILE.npy")),
        };
        let count: usize = count.parse().map_err(|_| format!("`{count}` is no number of elements"))?;
        if count.checked_mul(element.bytes()).is_none_or(|bytes| i64::try_from(bytes).is_err()) {
            return Err(format!("{count} elements are more than any memory holds"));
        }
        Ok(Arg::Buffer { element, count, fill })
    }
}

fn element(name: &str) -> Result<Element, String> {
    Element::named(name).ok_or_else(|| {
        let known: Vec<_> = Element::ALL.iter().map(|element| element.name()).collect();
        format!("`{name}` is no type: expected one of {}, or buf", known.join(", "))
    })
}

impl Arg {
    /// Whether `parameter` can take it, by size and kind of number; if not, what differs.
    fn fits(&self, parameter: &Variable) -> Result<(), String> {
        let (size, kind, what) = match self {
            Arg::Scalar { element, bytes } => (bytes.len(), element.kind(), element.name()),
            Arg::Buffer { .. } => (8, Kind::Integer, "an address"),
        };
        let kind_fits = match parameter.ty.as_bytes().first() {
            Some(b'f') => kind == Kind::Float,
            Some(b's' | b'u') => kind == Kind::Integer,
            _ => true,
        };
        if parameter.bytes() == size as u64 && kind_fits {
            return Ok(());
        }
        Err(format!("it is .{} of {} bytes, and the argument is {what} of {size}", parameter.ty, parameter.bytes()))
    }
}

/// Checks that the entry takes `args`.
///
/// # Errors
/// Says which parameter takes what, when number, size or kind differ.
pub(super) fn check(entry: &Function, args: &[Arg]) -> Result<(), String> {
    if entry.params.len() != args.len() {
        let takes: Vec<_> =
            entry.params.iter().map(|parameter| format!(".{} {}", parameter.ty, parameter.name)).collect();
        return Err(format!(
            "entry {} takes {} arguments and {} are given: it has ({})",
            entry.name,
            entry.params.len(),
            args.len(),
            takes.join(", ")
        ));
    }
    for (index, (parameter, arg)) in entry.params.iter().zip(args).enumerate() {
        arg.fits(parameter)
            .map_err(|reason| format!("argument {index} does not fit parameter {}: {reason}", parameter.name))?;
    }
    Ok(())
}

/// The parameter block: `values`, one for each parameter of `entry`, each at its alignment.
pub(super) fn pack(entry: &Function, values: &[Vec<u8>]) -> Vec<u8> {
    let mut block = Vec::new();
    for (parameter, value) in entry.params.iter().zip(values) {
        let natural = type_bytes(&parameter.ty).unwrap_or(1) * u64::from(parameter.vector.unwrap_or(1));
        let align = natural.max(parameter.align.unwrap_or(1).into()) as usize;
        block.resize(block.len().next_multiple_of(align), 0);
        block.extend_from_slice(value);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(params: &str) -> Function {
        let text = format!(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k({params}) {{ ret; }}");
        crate::ptx::parse(&text).unwrap().entries().next().unwrap().clone()
    }

    fn args(texts: &[&str]) -> Vec<Arg> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_grammar() {
        assert_eq!(args(&["f32:1.5"])[0], Arg::Scalar { element: Element::F32, bytes: 1.5f32.to_le_bytes().into() });
        let buffer = |count, fill| Arg::Buffer { element: Element::F16, count, fill };
        for (text, expected) in [
            ("buf:f16:0", buffer(0, Fill::Nothing)),
            ("buf:f16:7=zeros", buffer(7, Fill::Zeros)),
            ("buf:f16:7=iota", buffer(7, Fill::Iota)),
            ("buf:f16:7=random", buffer(7, Fill::Random)),
            ("buf:f16:7=a=b:c.npy", buffer(7, Fill::File("a=b:c.npy".into()))),
        ] {
            assert_eq!(text.parse(), Ok(expected));
        }
        for (text, said) in [
            ("7", "expected TYPE:VALUE"),
            ("q8:7", "`q8` is no type"),
            ("i32:7.5", "`7.5` is no i32"),
            ("u8:256", "`256` is no u8"),
            ("buf:f32", "expected buf:TYPE:COUNT"),
            ("buf:f32:-1", "no number of elements"),
            ("buf:f32:4=ones", "none of zeros, iota, random, FILE.npy"),
            ("buf:f64:9223372036854775807", "more than any memory"),
        ] {
            let fault = text.parse::<Arg>().unwrap_err();
            assert!(fault.contains(said), "{text}: {fault}");
        }
    }

    #[test]
    fn arguments_are_checked_against_the_entry() {
        let entry = entry(".param .u64 .ptr .global .align 1 x, .param .f32 y, .param .align 2 .b8 z[2]");
        assert_eq!(check(&entry, &args(&["buf:f32:4", "f32:1", "f16:1"])), Ok(()));
        let fault = |texts: &[&str]| check(&entry, &args(texts)).unwrap_err();
        assert!(fault(&["f32:1"]).contains("takes 3 arguments and 1 are given: it has (.u64 x, .f32 y, .b8 z)"));
        assert!(fault(&["buf:f32:4", "i32:1", "f16:1"]).contains("argument 1 does not fit parameter y"));
        assert!(fault(&["i32:4", "f32:1", "f16:1"]).contains("it is .u64 of 8 bytes, and the argument is i32 of 4"));
        assert!(fault(&["buf:f32:4", "f32:1", "f32:1"]).contains("argument 2"));
    }

    #[test]
    fn the_block_is_aligned() {
        let entry = entry(".param .u8 a, .param .u64 b, .param .align 2 .b8 c[2], .param .u32 d");
        let values = vec![vec![1], 2u64.to_le_bytes().to_vec(), vec![3, 3], 4u32.to_le_bytes().to_vec()];
        let block = pack(&entry, &values);
        assert_eq!(block.len(), 24);
        assert_eq!((block[0], block[8], block[16], block[17], block[20]), (1, 2, 3, 3, 4));
    }
}
