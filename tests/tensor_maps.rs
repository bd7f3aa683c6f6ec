//! Tensor copies by maps of the host API, on the emulator, and on a GPU with `TILEWRIGHT_DEVICE=gpu`: boxes inside and over the
//! edges of a tensor, in every swizzle, in and out again.

use std::sync::Arc;

use tilewright::device::{
    self, Buffer, Device, SharedModule, TensorMap, TensorMapElement as Element, TensorMapSwizzle as Swizzle,
};
use tilewright::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

/// Bytes of shared memory that a box may take, and of the raw copy of it.
const BOX_BYTES: usize = 4096;

/// Loads a box, copies shared memory to `raw` as it is, and stores the box by the other map.
fn source(rank: usize) -> String {
    let coordinates: Vec<String> = (0..rank).map(|axis| format!("%c{axis}")).collect();
    let coordinates = coordinates.join(", ");
    let loads: String = (0..rank).map(|axis| format!("    ld.global.b32 %c{axis}, [%where+{}];\n", 4 * axis)).collect();
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
    .reg .b32 %t, %s, %v, %bytes, %i, %box, %c<5>;
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
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [box], [%in, {{{coordinates}}}], [bar];
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
    cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%out, {{{coordinates}}}], [box];
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

/// A tensor of bytes counted up, with the map given, and a box at `place`.
fn check(device: &Arc<dyn Device>, map: &TensorMap, place: &[i32]) {
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
    let place_buffer = Buffer::from_slice(device, place, "where").unwrap();
    let kernel = device.load(&module(place.len())).unwrap().kernel("round_trip").unwrap();
    let args =
        [(&map_in).into(), (&map_out).into(), (&mut raw).into(), (&place_buffer).into(), (box_bytes as i32).into()];
    device.launch(&kernel, [1, 1, 1], &args).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (raw, output) = (raw.to_vec().unwrap(), output.to_vec().unwrap());
    let mut expected_out = before;
    for index in 0..box_bytes / size {
        let (mut rest, mut offset) = (index as u64, Some(0_u64));
        for (axis, &dim) in map.box_dims.iter().enumerate() {
            let coordinate = i64::from(place[axis]) + (rest % u64::from(dim)) as i64;
            rest /= u64::from(dim);
            let stride = if axis == 0 { size as u64 } else { map.strides[axis - 1] };
            let inside = u64::try_from(coordinate).ok().filter(|&at| at < map.dims[axis]);
            offset = offset.zip(inside).map(|(offset, at)| offset + at * stride);
        }
        let found: Vec<u8> = (0..size).map(|byte| raw[swizzled(map.swizzle, index * size + byte)]).collect();
        match offset {
            Some(offset) => {
                let offset = offset as usize;
                assert_eq!(found, tensor[offset..offset + size], "{what}: element {index} of the box");
                expected_out[offset..offset + size].copy_from_slice(&found);
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
    }
    assert!(output == expected_out, "{what}: the copy");
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
        for place in [[0, 0], [4, 8], [30, 41], [-3, -5], [40, 0], [0, 50]] {
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
        check(&device, &map, &[3, 6]);
        map.fill_nan = matches!(element, Element::F16);
        check(&device, &map, &[40, -1]);
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
        &[6, 3, 3, 2, -1],
    );
}
