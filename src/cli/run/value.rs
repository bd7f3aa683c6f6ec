//! Element types of arguments and buffers: how each is read from the command line and from files, made up, and shown.

use std::fmt::Display;

use half::{bf16, f16};
use ndarray_npy::{ReadableElement, ViewElement, WritableElement};

/// A type that an argument or the elements of a buffer may have.
pub(super) trait Value: bytemuck::Pod + Display {
    /// The type of its elements in a `.npy` file.
    type File: ViewElement + ReadableElement + WritableElement + Copy;

    /// From the command line.
    fn parse(text: &str) -> Option<Self>;
    /// Element `index` of 0, 1, 2, …, wrapped to what the type holds.
    fn counted(index: usize) -> Self;
    /// From random bits: floating-point numbers from [-1, 1), integers from all that there are.
    fn random(bits: u64) -> Self;
    /// From a file's element.
    fn from_file(value: Self::File) -> Self;
    /// To a file's element.
    fn to_file(self) -> Self::File;
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(impl Value for $ty {
            type File = $ty;

            fn parse(text: &str) -> Option<Self> {
                match text.strip_prefix("0x") {
                    Some(digits) => <$ty>::from_str_radix(digits, 16).ok(),
                    None => text.parse().ok(),
                }
            }
            fn counted(index: usize) -> Self {
                index as $ty
            }
            fn random(bits: u64) -> Self {
                bits as $ty
            }
            fn from_file(value: $ty) -> Self {
                value
            }
            fn to_file(self) -> $ty {
                self
            }
        })*
    };
}

/// `$ty` stands as `$file` in files; `$of` makes it of one.
macro_rules! floats {
    ($($ty:ty, $file:ty, $of:expr;)*) => {
        $(impl Value for $ty {
            type File = $file;

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn counted(index: usize) -> Self {
                $of(index as $file)
            }
            fn random(bits: u64) -> Self {
                // 24 bits: exact in f32 and f64.
                $of((bits >> 40) as $file / (1u32 << 23) as $file - 1.0)
            }
            fn from_file(value: $file) -> Self {
                $of(value)
            }
            fn to_file(self) -> $file {
                self.into()
            }
        })*
    };
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);
floats! {
    f16, f32, f16::from_f32;
    bf16, f32, bf16::from_f32;
    f32, f32, f32::from;
    f64, f64, f64::from;
}

/// What kind of number a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Integer,
}

/// The types by name: the enum, and a way to call something generic over [`Value`] with the type of a variant.
macro_rules! elements {
    ($($variant:ident $name:literal $ty:ty, $kind:ident, $file:literal;)*) => {
        /// A [`Value`] type by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Element {
            $(#[doc = $name] $variant,)*
        }

        impl Element {
            /// All of them.
            pub(super) const ALL: &[Element] = &[$(Element::$variant),*];

            /// The name on the command line.
            pub(super) fn name(self) -> &'static str {
                match self { $(Element::$variant => $name,)* }
            }

            /// The type of a `.npy` file for it, for messages.
            pub(super) fn file(self) -> &'static str {
                match self { $(Element::$variant => $file,)* }
            }

            /// Floating point or integer.
            pub(super) fn kind(self) -> Kind {
                match self { $(Element::$variant => Kind::$kind,)* }
            }

            /// Calls `visitor` with the type.
            pub(super) fn visit<V: Visitor>(self, visitor: V) -> V::Output {
                match self { $(Element::$variant => visitor.visit::<$ty>(),)* }
            }
        }
    };
}

elements! {
    F16 "f16" f16, Float, "float32 ('<f4')";
    Bf16 "bf16" bf16, Float, "float32 ('<f4')";
    F32 "f32" f32, Float, "float32 ('<f4')";
    F64 "f64" f64, Float, "float64 ('<f8')";
    I8 "i8" i8, Integer, "int8 ('|i1')";
    I16 "i16" i16, Integer, "int16 ('<i2')";
    I32 "i32" i32, Integer, "int32 ('<i4')";
    I64 "i64" i64, Integer, "int64 ('<i8')";
    U8 "u8" u8, Integer, "uint8 ('|u1')";
    U16 "u16" u16, Integer, "uint16 ('<u2')";
    U32 "u32" u32, Integer, "uint32 ('<u4')";
    U64 "u64" u64, Integer, "uint64 ('<u8')";
}

/// Something that is done with a type known only by name.
pub(super) trait Visitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<T: Value>(self) -> Self::Output;
}

impl Element {
    /// The type of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|element| element.name() == name)
    }

    /// Bytes of one element.
    pub(super) fn bytes(self) -> usize {
        struct Size;
        impl Visitor for Size {
            type Output = usize;
            fn visit<T: Value>(self) -> usize {
                size_of::<T>()
            }
        }
        self.visit(Size)
    }

    /// The bytes of one element that `text` names.
    pub(super) fn parse(self, text: &str) -> Option<Vec<u8>> {
        struct Parse<'a>(&'a str);
        impl Visitor for Parse<'_> {
            type Output = Option<Vec<u8>>;
            fn visit<T: Value>(self) -> Option<Vec<u8>> {
                T::parse(self.0).map(|value| bytemuck::bytes_of(&value).to_vec())
            }
        }
        self.visit(Parse(text))
    }

    /// The bytes of elements 0, 1, 2, … .
    pub(super) fn iota(self, count: usize) -> Vec<u8> {
        struct Iota(usize);
        impl Visitor for Iota {
            type Output = Vec<u8>;
            fn visit<T: Value>(self) -> Vec<u8> {
                bytes_of((0..self.0).map(T::counted))
            }
        }
        self.visit(Iota(count))
    }

    /// The bytes of random elements: the same ones for the same seed.
    pub(super) fn random(self, count: usize, seed: u64) -> Vec<u8> {
        struct Random(usize, u64);
        impl Visitor for Random {
            type Output = Vec<u8>;
            fn visit<T: Value>(self) -> Vec<u8> {
                let Random(count, mut state) = self;
                bytes_of((0..count).map(|_| T::random(split_mix(&mut state))))
            }
        }
        self.visit(Random(count, seed))
    }

    /// The elements in `bytes` as text.
    pub(super) fn show(self, bytes: &[u8]) -> Vec<String> {
        struct Show<'a>(&'a [u8]);
        impl Visitor for Show<'_> {
            type Output = Vec<String>;
            fn visit<T: Value>(self) -> Vec<String> {
                self.0
                    .chunks_exact(size_of::<T>())
                    .map(|one| bytemuck::pod_read_unaligned::<T>(one).to_string())
                    .collect()
            }
        }
        self.visit(Show(bytes))
    }
}

/// The bytes of `values`, one after the other.
pub(super) fn bytes_of<T: Value>(values: impl Iterator<Item = T>) -> Vec<u8> {
    values.flat_map(|value| bytemuck::bytes_of(&value).to_vec()).collect()
}

/// The next number of the SplitMix64 generator.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_shown() {
        for (element, text, shown) in [
            (Element::F32, "1.5", "1.5"),
            (Element::F16, "-2", "-2"),
            (Element::Bf16, "inf", "inf"),
            (Element::I32, "-7", "-7"),
            (Element::U64, "0xff", "255"),
            (Element::U8, "255", "255"),
        ] {
            let bytes = element.parse(text).unwrap();
            assert_eq!(bytes.len(), element.bytes());
            assert_eq!(element.show(&bytes), [shown]);
        }
        for (element, text) in [(Element::U8, "256"), (Element::U32, "-1"), (Element::I32, "1.5"), (Element::F32, "x")]
        {
            assert_eq!(element.parse(text), None, "{element:?} {text}");
        }
    }

    #[test]
    fn made_up_values() {
        assert_eq!(Element::F16.show(&Element::F16.iota(3)), ["0", "1", "2"]);
        assert_eq!(Element::U8.show(&Element::U8.iota(258))[256..], ["0", "1"]);
        let random = Element::F32.random(1000, 1);
        assert_eq!(random, Element::F32.random(1000, 1));
        assert_ne!(random, Element::F32.random(1000, 2));
        let values: Vec<f32> = Element::F32.show(&random).iter().map(|text| text.parse().unwrap()).collect();
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        let mean = values.iter().sum::<f32>() / 1000.0;
        assert!(mean.abs() < 0.1, "{mean}");
    }
}
