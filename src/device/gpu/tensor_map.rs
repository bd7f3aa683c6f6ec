//! Tensor maps as the driver makes them.

use std::ffi::c_void;

use cudarc::driver::sys::{
    CUtensorMap, CUtensorMapDataType as Type, CUtensorMapFloatOOBfill as Fill, CUtensorMapInterleave as Interleave,
    CUtensorMapL2promotion as Promotion, CUtensorMapSwizzle as Swizzle,
};

use super::driver::driver;
use crate::device::{Error, TENSOR_MAP_BYTES, TensorMap, TensorMapElement, TensorMapSwizzle};

/// The driver's bytes for a map that has been checked.
pub(super) fn encode(map: &TensorMap) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
    let element = match map.element {
        TensorMapElement::U8 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        TensorMapElement::U16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        TensorMapElement::U32 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        TensorMapElement::U64 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        TensorMapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorMapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorMapElement::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        TensorMapElement::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
    };
    let swizzle = match map.swizzle {
        TensorMapSwizzle::None => Swizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        TensorMapSwizzle::B32 => Swizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        TensorMapSwizzle::B64 => Swizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        TensorMapSwizzle::B128 => Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    };
    let fill = if map.fill_nan {
        Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
    } else {
        Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    };
    let steps = vec![1_u32; map.dims.len()];
    // The driver reads one stride at least, though a vector has none.
    let mut strides = map.strides.clone();
    strides.resize(strides.len().max(1), 0);
    let mut encoded = CUtensorMap { opaque: [0; 16] };
    // SAFETY: the map is the driver's own type, with its alignment; each array has as many elements as there are
    // dimensions, and the address is only noted.
    unsafe {
        driver!(cuTensorMapEncodeTiled(
            &raw mut encoded,
            element,
            map.dims.len() as u32,
            map.address as *mut c_void,
            map.dims.as_ptr(),
            strides.as_ptr(),
            map.box_dims.as_ptr(),
            steps.as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle,
            Promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
            fill,
        ))?;
    }
    let mut bytes = [0; TENSOR_MAP_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(encoded.opaque) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}
