//! Types: elements, shapes, and the types of values.

use std::fmt;

/// The element of a tile, or a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scalar {
    /// A truth value; one byte in memory.
    I1,
    /// 8 bits; signedness is the operation's.
    I8,
    /// 16 bits.
    I16,
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
    /// OCP FP8 with 4 exponent bits: finite, one NaN pattern of each sign. Triton's `float8e4nv`.
    F8E4M3,
    /// OCP FP8 with 5 exponent bits. Triton's `float8e5`.
    F8E5M2,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
}

impl Scalar {
    /// Every scalar type.
    pub const ALL: [Scalar; 11] = [
        Scalar::I1,
        Scalar::I8,
        Scalar::I16,
        Scalar::I32,
        Scalar::I64,
        Scalar::F8E4M3,
        Scalar::F8E5M2,
        Scalar::F16,
        Scalar::Bf16,
        Scalar::F32,
        Scalar::F64,
    ];

    /// Bits of a value.
    pub const fn bits(self) -> u32 {
        match self {
            Scalar::I1 => 1,
            Scalar::I8 | Scalar::F8E4M3 | Scalar::F8E5M2 => 8,
            Scalar::I16 | Scalar::F16 | Scalar::Bf16 => 16,
            Scalar::I32 | Scalar::F32 => 32,
            Scalar::I64 | Scalar::F64 => 64,
        }
    }

    /// Bytes of an element in memory: an `i1` takes one.
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        !self.is_int()
    }

    /// Whether it is an integer, `i1` included.
    pub const fn is_int(self) -> bool {
        matches!(self, Scalar::I1 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64)
    }

    /// MLIR's name: `f32`, `bf16`, `f8E4M3FN`.
    pub const fn name(self) -> &'static str {
        match self {
            Scalar::I1 => "i1",
            Scalar::I8 => "i8",
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F8E4M3 => "f8E4M3FN",
            Scalar::F8E5M2 => "f8E5M2",
            Scalar::F16 => "f16",
            Scalar::Bf16 => "bf16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// The type that MLIR calls `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scalar| scalar.name() == name)
    }
}

/// By its name.
impl serde::Serialize for Scalar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What one element of a tile, or a scalar value, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// A number.
    Value(Scalar),
    /// The address of a number in global memory.
    Pointer(Scalar),
}

impl Elem {
    /// Bits in a register.
    pub const fn bits(self) -> u32 {
        match self {
            Elem::Value(scalar) => scalar.bits(),
            Elem::Pointer(_) => 64,
        }
    }

    /// The number's type, or `None` for a pointer.
    pub const fn scalar(self) -> Option<Scalar> {
        match self {
            Elem::Value(scalar) => Some(scalar),
            Elem::Pointer(_) => None,
        }
    }

    /// What the pointer points to, or `None` for a number.
    pub const fn pointee(self) -> Option<Scalar> {
        match self {
            Elem::Value(_) => None,
            Elem::Pointer(scalar) => Some(scalar),
        }
    }
}

impl From<Scalar> for Elem {
    fn from(scalar: Scalar) -> Self {
        Elem::Value(scalar)
    }
}

impl fmt::Display for Elem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Elem::Value(scalar) => scalar.fmt(f),
            Elem::Pointer(scalar) => write!(f, "!tt.ptr<{scalar}>"),
        }
    }
}

/// The extents of a tile: one to [`Shape::MAX_RANK`] dimensions, each a power of two, [`Shape::MAX_ELEMENTS`] elements at
/// most, the last dimension contiguous in a row-major walk.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    rank: u8,
    dims: [u32; Shape::MAX_RANK],
}

/// Extents that no tile has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A dimension that is no power of two.
    #[error("dimension {axis} of shape {dims:?} is {extent}: the extents of a tile are powers of two")]
    NotPowerOfTwo {
        /// The extents asked for.
        dims: Vec<u32>,
        /// Which of them is wrong.
        axis: usize,
        /// Its value.
        extent: u32,
    },
    /// None, or too many dimensions.
    #[error("shape {0:?} has {n} dimensions: a tile has 1 to {max}", n = .0.len(), max = Shape::MAX_RANK)]
    Rank(Vec<u32>),
    /// Too many elements.
    #[error("shape {0:?} has more than {max} elements", max = Shape::MAX_ELEMENTS)]
    TooLarge(Vec<u32>),
}

impl Shape {
    /// The most dimensions: Triton's sort has one of extent 2 for each bit of the index, and one more.
    pub const MAX_RANK: usize = 16;
    /// The most elements: Triton's own limit, 2²⁰.
    pub const MAX_ELEMENTS: u64 = 1 << 20;

    /// A shape of these extents.
    ///
    /// # Errors
    /// [`ShapeError`] where an extent is no power of two, or the rank or the number of elements is out of range.
    pub fn new(dims: &[u32]) -> Result<Self, ShapeError> {
        if dims.is_empty() || dims.len() > Self::MAX_RANK {
            return Err(ShapeError::Rank(dims.to_vec()));
        }
        if let Some(axis) = dims.iter().position(|extent| !extent.is_power_of_two()) {
            return Err(ShapeError::NotPowerOfTwo { dims: dims.to_vec(), axis, extent: dims[axis] });
        }
        if dims
            .iter()
            .try_fold(1_u64, |all, &extent| all.checked_mul(extent.into()))
            .is_none_or(|n| n > Self::MAX_ELEMENTS)
        {
            return Err(ShapeError::TooLarge(dims.to_vec()));
        }
        let mut all = [1; Self::MAX_RANK];
        all[..dims.len()].copy_from_slice(dims);
        Ok(Self { rank: dims.len() as u8, dims: all })
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[u32] {
        &self.dims[..self.rank()]
    }

    /// How many dimensions.
    pub fn rank(&self) -> usize {
        self.rank.into()
    }

    /// How many elements.
    pub fn elements(&self) -> u32 {
        self.dims().iter().product()
    }

    /// The shape with an axis of extent `extent` put in at `axis`, or `None` where there is no room for it.
    pub fn inserted(&self, axis: usize, extent: u32) -> Option<Self> {
        let mut dims = self.dims().to_vec();
        if axis > dims.len() {
            return None;
        }
        dims.insert(axis, extent);
        Self::new(&dims).ok()
    }

    /// The shape without `axis`, or `None` where that leaves no dimension (a scalar) or there is no such axis.
    pub fn removed(&self, axis: usize) -> Option<Self> {
        let mut dims = self.dims().to_vec();
        if axis >= dims.len() {
            return None;
        }
        dims.remove(axis);
        Self::new(&dims).ok()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dims().fmt(f)
    }
}

/// `128x32`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (axis, extent) in self.dims().iter().enumerate() {
            write!(f, "{}{extent}", if axis > 0 { "x" } else { "" })?;
        }
        Ok(())
    }
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// One number or address, the same in every thread of the program.
    Scalar(Elem),
    /// A tile of numbers or addresses, spread over the threads of the program.
    Tile(Shape, Elem),
    /// A block pointer: a window of this shape in a strided array of numbers (`tt.make_tensor_ptr`).
    BlockPtr(Shape, Scalar),
    /// A tensor descriptor whose boxes have this shape (`tt.make_tensor_descriptor`).
    Descriptor(Shape, Scalar),
}

impl Type {
    /// A scalar number.
    pub const fn scalar(scalar: Scalar) -> Self {
        Type::Scalar(Elem::Value(scalar))
    }

    /// A scalar address.
    pub const fn pointer(pointee: Scalar) -> Self {
        Type::Scalar(Elem::Pointer(pointee))
    }

    /// The element, or `None` for block pointers and descriptors.
    pub const fn elem(self) -> Option<Elem> {
        match self {
            Type::Scalar(elem) | Type::Tile(_, elem) => Some(elem),
            Type::BlockPtr(..) | Type::Descriptor(..) => None,
        }
    }

    /// The number's type where it is a number or a tile of numbers.
    pub fn number(self) -> Option<Scalar> {
        self.elem().and_then(Elem::scalar)
    }

    /// The shape of a tile, or `None` for anything else.
    pub const fn shape(self) -> Option<Shape> {
        match self {
            Type::Tile(shape, _) => Some(shape),
            _ => None,
        }
    }

    /// The same shape (or none) with another element, for scalars and tiles.
    pub fn with_elem(self, elem: impl Into<Elem>) -> Self {
        match self {
            Type::Scalar(_) => Type::Scalar(elem.into()),
            Type::Tile(shape, _) => Type::Tile(shape, elem.into()),
            other => other,
        }
    }

    /// A scalar (where `shape` is `None`) or tile of `elem`.
    pub fn of(shape: Option<Shape>, elem: impl Into<Elem>) -> Self {
        match shape {
            None => Type::Scalar(elem.into()),
            Some(shape) => Type::Tile(shape, elem.into()),
        }
    }
}

/// MLIR's text: `tensor<128x32x!tt.ptr<f32>>`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(elem) => elem.fmt(f),
            Type::Tile(shape, elem) => write!(f, "tensor<{shape}x{elem}>"),
            Type::BlockPtr(shape, scalar) => write!(f, "!tt.ptr<tensor<{shape}x{scalar}>>"),
            Type::Descriptor(shape, scalar) => write!(f, "!tt.tensordesc<tensor<{shape}x{scalar}>>"),
        }
    }
}
