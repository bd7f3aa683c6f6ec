//! `.npy` files: arrays of one type in, arrays out.

use std::io;
use std::path::Path;

use ndarray::{ArrayD, ArrayView, ArrayViewD, IxDyn};
use ndarray_npy::{ReadNpyExt, ReadableElement, ViewElement, ViewNpyError, ViewNpyExt, WritableElement, WriteNpyExt};

use super::failure::Failure;
use super::files;
use super::output::Destination;

/// The bytes of a `.npy` file.
pub(super) struct NpyFile<'a> {
    path: &'a Path,
    bytes: Vec<u8>,
}

impl<'a> NpyFile<'a> {
    /// Reads the file; what is in it is looked at later.
    pub(super) fn read(path: &'a Path) -> Result<Self, Failure> {
        Ok(Self { path, bytes: files::read(path)? })
    }

    /// The array in C order, or `None` where its elements are of another type.
    pub(super) fn array<T>(&self) -> Result<Option<ArrayD<T>>, Failure>
    where
        T: ViewElement + ReadableElement + Clone,
    {
        if !self.shape_is_addressable() {
            return Err(self.failure("its header promises more elements than any memory holds"));
        }
        // A view first: it compares the header with the length of the file before anything is allocated.
        match ArrayViewD::<T>::view_npy(&self.bytes) {
            Ok(view) => Ok(Some(view.as_standard_layout().into_owned())),
            // The length is right, the file's header has an odd size.
            Err(ViewNpyError::MisalignedData) => {
                let array = ArrayD::<T>::read_npy(&self.bytes[..]).map_err(|error| self.failure(error))?;
                Ok(Some(array.as_standard_layout().into_owned()))
            }
            Err(ViewNpyError::WrongDescriptor(_)) => Ok(None),
            Err(error) => Err(self.describe(error)),
        }
    }

    /// Whether the product of the extents that are not zero stays in range: a file with an empty extent promises no data,
    /// whatever the others are, and the reader does not expect them to overflow.
    fn shape_is_addressable(&self) -> bool {
        let header = String::from_utf8_lossy(&self.bytes[..self.bytes.len().min(1 << 16)]);
        let Some((_, tail)) = header.split_once("'shape'") else { return true };
        let extents = tail.split_once('(').and_then(|(_, tail)| tail.split_once(')')).map_or("", |(inner, _)| inner);
        extents
            .split(',')
            .map(str::trim)
            .filter(|extent| !extent.is_empty())
            .try_fold(1_u64, |product, extent| match extent.parse::<u64>() {
                Ok(extent) => product.checked_mul(extent.max(1)).filter(|&product| product <= 1 << 48),
                // What is no number is left to the reader to refuse, but for one too large to be any.
                Err(_) if extent.bytes().all(|byte| byte.is_ascii_digit()) => None,
                Err(_) => Some(product),
            })
            .is_some()
    }

    /// A failure that says which types would have been right.
    pub(super) fn wrong_type(&self, expected: &str) -> Failure {
        match ArrayViewD::<f32>::view_npy(&self.bytes) {
            Err(ViewNpyError::WrongDescriptor(found)) => {
                self.failure(format!("its elements have the type {found}: expected {expected}"))
            }
            _ => self.failure(format!("its elements have the type '<f4': expected {expected}")),
        }
    }

    /// A failure about this file.
    pub(super) fn failure(&self, reason: impl std::fmt::Display) -> Failure {
        Failure::in_file(self.path, reason)
    }

    fn describe(&self, error: ViewNpyError) -> Failure {
        match error {
            ViewNpyError::MissingBytes(count) => {
                self.failure(format!("truncated: {count} bytes are missing of the data that its header promises"))
            }
            ViewNpyError::ExtraBytes(count) => self.failure(format!("{count} bytes follow the data")),
            ViewNpyError::NonNativeEndian => {
                self.failure("its bytes are in the order of another machine: expected little-endian elements")
            }
            ViewNpyError::Io(_) if self.bytes.is_empty() => self.failure("not a .npy file: it is empty"),
            ViewNpyError::Io(_) => self.failure("not a .npy file, or one truncated within its header"),
            ViewNpyError::ParseHeader(error) => self.failure(format!("not a .npy file: {error}")),
            other => self.failure(other),
        }
    }
}

/// Writes `values` as a C-order array of `shape`; the file appears whole or not at all.
pub(super) fn write<T: WritableElement>(
    destination: &Destination,
    shape: &[usize],
    values: &[T],
) -> Result<(), Failure> {
    let view = ArrayView::from_shape(IxDyn(shape), values).map_err(Failure::new)?;
    destination.write(|file| view.write_npy(file).map_err(io::Error::other))
}
