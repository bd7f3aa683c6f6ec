//! Tensor copies by maps of the host API, on the emulator, and on a GPU with `TILEWRIGHT_DEVICE=gpu`: boxes inside and over the
//! edges of a tensor, in every swizzle, in and out again; and what a card refuses, which the emulator explains.

use std::sync::Arc;

use tilewright::device::{
    self, Buffer, Device, SharedModule, TensorMap, TensorMapElement as Element, TensorMapSwizzle as Swizzle,
};
use tilewright::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

/// Bytes of shared memory that a box may take, and of the raw copy of it.
const BOX_BYTES: usize = 4096;

/// Loads a box, copies shared memory to `raw` as it is, and stores the box by the other map; `where` has the coordinates of
/// both, one after the other.
fn source(rank: usize) -> String {
    let coordinates = |first: usize| -> String {
        (first..first + rank).map(|axis| format!("%c{axis}")).collect::<Vec<_>>().join(", ")
    };
    let (from, to) = (coordinates(0), coordinates(rank));
    let loads: String =
        (0..2 * rank).map(|axis| format!("    ld.global.b32 %c{axis}, [%where+{}];\n", 4 * axis)).collect();
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.visible .entry round_trip(
    .param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4
)
.reqntid 32
{{
    .shared .align 1024 .b8 box[{BOX_BYTES}];
    .shared .align 8 .b64 bar;
    .reg .pred %p, %first;
    .reg .b64 %in, %out, %raw, %where, %token, %at;
    .reg .b32 %t, %s, %v, %bytes, %i, %box, %c<10>;
    ld.param.u64 %in, [p0];
    ld.param.u64 %out, [p1];
    ld.param.u64 %raw, [p2];
    ld.param.u64 %where, [p3];
    ld.param.u32 %bytes, [p4];
{loads}    mov.u32 %t, %tid.x;
    setp.eq.u32 %first, %t, 0;
    @!%first bra $wait;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 %token, [bar], %bytes;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [box], [%in, {{{from}}}], [bar];
$wait:
    bar.sync 0;
$again:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
    @!%p bra $again;
    shl.b32 %i, %t, 2;
    mov.u32 %box, box;
$copy:
    setp.ge.u32 %p, %i, %bytes;
    @%p bra $copied;
    add.u32 %s, %box, %i;
    ld.shared.b32 %v, [%s];
    cvt.u64.u32 %at, %i;
    add.u64 %at, %raw, %at;
    st.global.b32 [%at], %v;
    add.u32 %i, %i, 128;
    bra $copy;
$copied:
    @!%first bra $done;
    cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%out, {{{to}}}], [box];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
$done:
    ret;
}}
"
    )
}

fn module(rank: usize) -> SharedModule {
    let params = vec![
        ParamMeta::input("map_in", DType::U8),
        ParamMeta::input("map_out", DType::U8),
        ParamMeta::output("raw", DType::U8),
        ParamMeta::input("where", DType::I32),
        ParamMeta::scalar("bytes", DType::I32),
    ];
    let kernel = KernelMeta {
        name: "round_trip".to_owned(),
        params,
        grid: GridRule { x: Extent::Fixed(1), y: Extent::Fixed(1), z: Extent::Fixed(1) },
        num_warps: 1,
        num_ctas: 1,
        shared: 0,
        static_shared: BOX_BYTES as u32 + 8,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: false,
    };
    SharedModule::new(Module { ptx: source(rank), meta: ModuleMeta { arch: Arch::Sm90a, kernels: vec![kernel] } })
}

/// Where the hardware puts byte `at` of a box: 16-byte pieces by bits of the address above them.
fn swizzled(swizzle: Swizzle, at: usize) -> usize {
    let mask = match swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 3,
        Swizzle::B128 => 7,
    };
    at ^ (at >> 7 & mask) << 4
}

/// A tensor of bytes counted up, with the map given: a box from `place` on, stored to the same place, or where that is before
/// the tensor, which a store may not be, to its start.
fn check(device: &Arc<dyn Device>, map: &TensorMap, place: &[i32]) {
    let to: Vec<i32> = place.iter().map(|&at| at.max(0)).collect();
    if let Err(error) = try_check(device, map, place, &to) {
        panic!("{map:?} at {place:?}: {error}");
    }
}

fn try_check(device: &Arc<dyn Device>, map: &TensorMap, place: &[i32], to: &[i32]) -> Result<(), device::Error> {
    let what = format!("{map:?} at {place:?}");
    let size = map.element.bytes() as usize;
    let last = map.dims.iter().skip(1).zip(&map.strides).map(|(dim, stride)| (dim - 1) * stride).sum::<u64>();
    let bytes = last as usize + map.dims[0] as usize * size;
    // Bytes that are never NaN or a subnormal, which a copy of floats might change.
    let tensor: Vec<u8> = (0..bytes).map(|at| (at * 7 / 5 % 64 + 32) as u8).collect();
    let before = vec![0xa5_u8; bytes];
    let input = Buffer::from_slice(device, &tensor, "tensor").unwrap();
    let output = Buffer::from_slice(device, &before, "copy").unwrap();
    let box_bytes = map.box_bytes() as usize;
    let mut raw = Buffer::from_slice(device, &vec![0xee_u8; box_bytes], "raw").unwrap();
    let at = |address: u64| device.tensor_map(&TensorMap { address, ..map.clone() }).unwrap();
    let maps = [at(input.address()), at(output.address())];
    let [map_in, map_out] = maps.map(|map| Buffer::from_slice(device, &map, "map").unwrap());
    let place_buffer = Buffer::from_slice(device, &[place, to].concat(), "where").unwrap();
    let kernel = device.load(&module(place.len())).unwrap().kernel("round_trip").unwrap();
    let args =
        [(&map_in).into(), (&map_out).into(), (&mut raw).into(), (&place_buffer).into(), (box_bytes as i32).into()];
    device.launch(&kernel, [1, 1, 1], &args)?;
    let (raw, output) = (raw.to_vec()?, output.to_vec()?);
    let mut expected_out = before;
    for index in 0..box_bytes / size {
        // Where an element of the box is in the tensor, counted from `origin`.
        let offset = |origin: &[i32]| {
            let (mut rest, mut offset) = (index as u64, 0_u64);
            for (axis, &dim) in map.box_dims.iter().enumerate() {
                let coordinate = i64::from(origin[axis]) + (rest % u64::from(dim)) as i64;
                rest /= u64::from(dim);
                let stride = if axis == 0 { size as u64 } else { map.strides[axis - 1] };
                offset += u64::try_from(coordinate).ok().filter(|&at| at < map.dims[axis])? * stride;
            }
            Some(offset as usize)
        };
        let found: Vec<u8> = (0..size).map(|byte| raw[swizzled(map.swizzle, index * size + byte)]).collect();
        match offset(place) {
            Some(offset) => {
                assert_eq!(found, tensor[offset..offset + size], "{what}: element {index} of the box");
            }
            None if map.fill_nan => {
                let is_nan = match map.element {
                    Element::F32 => f32::from_le_bytes(found.as_slice().try_into().unwrap()).is_nan(),
                    _ => half::f16::from_le_bytes(found.as_slice().try_into().unwrap()).is_nan(),
                };
                assert!(is_nan, "{what}: element {index} is {found:?}");
            }
            None => assert_eq!(found, vec![0; size], "{what}: element {index} of the box"),
        }
        // A store writes 16 bytes at a time, whole where they start inside, though a row may end before they do.
        let in_piece = index % map.box_dims[0] as usize % (16 / size);
        let mut start = to.to_vec();
        start[0] -= in_piece as i32;
        if let Some(offset) = offset(&start).map(|offset| offset + in_piece * size) {
            expected_out[offset..offset + size].copy_from_slice(&found);
        }
    }
    let wrong: Vec<usize> = (0..bytes).filter(|&at| output[at] != expected_out[at]).collect();
    assert!(
        wrong.is_empty(),
        "{what}: the copy has other bytes at {wrong:?}: {:x?} and not {:x?}",
        wrong.iter().map(|&at| output[at]).collect::<Vec<_>>(),
        wrong.iter().map(|&at| expected_out[at]).collect::<Vec<_>>()
    );
    Ok(())
}

fn device() -> Arc<dyn Device> {
    let name = std::env::var(device::ENVIRONMENT).unwrap_or_else(|_| "emulator".to_owned());
    device::by_name(&name).unwrap_or_else(|error| panic!("{error}")).0
}

#[test]
fn boxes_in_every_swizzle() {
    let device = device();
    for (swizzle, columns) in [(Swizzle::None, 24), (Swizzle::B32, 8), (Swizzle::B64, 16), (Swizzle::B128, 32)] {
        let map = TensorMap::matrix(Element::F32, 0, [50, 40], [16, columns], swizzle);
        for place in [[0, 0], [4, 8], [28, 41], [-4, -5], [40, 0], [0, 50]] {
            check(&device, &map, &place);
        }
    }
}

#[test]
fn elements_and_dimensions() {
    let device = device();
    for (element, inner) in
        [(Element::U8, 32), (Element::F16, 16), (Element::F64, 6), (Element::Bf16, 40), (Element::U32, 12)]
    {
        let mut map = TensorMap::matrix(element, 0, [9, 48], [5, inner], Swizzle::None);
        check(&device, &map, &[16, 6]);
        map.fill_nan = matches!(element, Element::F16);
        check(&device, &map, &[32, -1]);
    }
    check(
        &device,
        &TensorMap {
            element: Element::F32,
            address: 0,
            dims: vec![100],
            strides: vec![],
            box_dims: vec![64],
            swizzle: Swizzle::None,
            fill_nan: true,
        },
        &[60],
    );
    // Rows with gaps, five dimensions, each over an edge.
    check(
        &device,
        &TensorMap {
            element: Element::U16,
            address: 0,
            dims: vec![12, 5, 4, 3, 3],
            strides: vec![32, 160, 656, 1968],
            box_dims: vec![8, 3, 2, 2, 2],
            swizzle: Swizzle::None,
            fill_nan: false,
        },
        &[8, 3, 3, 2, -1],
    );
}

/// The last row's 16 bytes go beyond what a buffer of the tensor alone has.
#[test]
fn stores_over_the_end_of_rows() {
    let (emulator, _) = device::by_name("emulator").unwrap();
    let map = TensorMap { strides: vec![32], ..TensorMap::matrix(Element::U16, 0, [4, 12], [4, 8], Swizzle::None) };
    try_check(&emulator, &map, &[8, -1], &[0, 0]).unwrap();
    let error = try_check(&emulator, &map, &[8, 0], &[8, 0]).unwrap_err().to_string();
    assert!(error.contains("16 bytes at global address") && error.contains("`copy`"), "{error}");
}

/// A card calls these illegal instructions, after which its context is gone; so they are asked of the emulator alone.
#[test]
fn coordinates_that_a_card_refuses() {
    let (emulator, _) = device::by_name("emulator").unwrap();
    let map = TensorMap::matrix(Element::F32, 0, [50, 40], [16, 24], Swizzle::None);
    for (from, to, words) in [
        ([3, 0], [0, 0], "the innermost coordinate 3 is 12 bytes into a row"),
        ([0, 0], [2, 1], "the innermost coordinate 2 is 8 bytes into a row"),
        ([-4, 0], [-4, 0], "the coordinate -4 of a box that is stored"),
        ([0, -3], [0, -3], "the coordinate -3 of a box that is stored"),
    ] {
        let error = try_check(&emulator, &map, &from, &to).unwrap_err().to_string();
        assert!(error.contains(words), "{from:?}, {to:?}: {error}");
    }
}
