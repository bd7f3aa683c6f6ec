//! Small kernels written by hand, with their metadata.

use tilewright::device::SharedModule;
use tilewright::ptx::{Arch, DType, Extent, GridRule, KernelMeta, Module, ModuleMeta, ParamMeta};

/// Elements that one CTA of `vector_add` and `scale` takes.
pub const PER_CTA: u32 = 64;

/// The metadata of a kernel with neither clusters nor scratch.
pub fn meta(name: &str, params: Vec<ParamMeta>, grid: GridRule, num_warps: u32, shared: u32) -> KernelMeta {
    KernelMeta {
        name: name.to_owned(),
        params,
        grid,
        num_warps,
        num_ctas: 1,
        shared,
        static_shared: 0,
        tmem_size: 0,
        global_scratch_size: 0,
        global_scratch_align: 1,
        profile_scratch_size: 0,
        profile_scratch_align: 1,
        scratch_pointers: false,
    }
}

/// A module of one kernel.
pub fn module(arch: Arch, ptx: &str, kernel: KernelMeta) -> SharedModule {
    SharedModule::new(Module { ptx: ptx.to_owned(), meta: ModuleMeta { arch, kernels: vec![kernel] } })
}

/// `z[i] = x[i] + y[i]` for i < n.
pub fn vector_add() -> SharedModule {
    let params = vec![
        ParamMeta { align: 16, ..ParamMeta::input("x", DType::Fp32) },
        ParamMeta::input("y", DType::Fp32),
        ParamMeta::output("z", DType::Fp32),
        ParamMeta::scalar("n", DType::I32),
    ];
    let kernel = meta("vector_add", params, GridRule::along("n", PER_CTA), 2, 0);
    module(
        Arch::Sm80,
        ".version 7.0
.target sm_80
.address_size 64
.visible .entry vector_add(
    .param .u64 vector_add_param_0,
    .param .u64 vector_add_param_1,
    .param .u64 vector_add_param_2,
    .param .u32 vector_add_param_3
)
.reqntid 64
{
    .reg .pred %p<1>;
    .reg .b32 %r<5>;
    .reg .b64 %rd<10>;
    .reg .f32 %f<3>;
    ld.param.u64 %rd0, [vector_add_param_0];
    ld.param.u64 %rd1, [vector_add_param_1];
    ld.param.u64 %rd2, [vector_add_param_2];
    ld.param.u32 %r0, [vector_add_param_3];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 64, %r2;
    setp.ge.s32 %p0, %r3, %r0;
    @%p0 bra $L_end;
    cvta.to.global.u64 %rd3, %rd0;
    cvta.to.global.u64 %rd4, %rd1;
    cvta.to.global.u64 %rd5, %rd2;
    mul.wide.s32 %rd6, %r3, 4;
    add.s64 %rd7, %rd3, %rd6;
    add.s64 %rd8, %rd4, %rd6;
    add.s64 %rd9, %rd5, %rd6;
    ld.global.f32 %f0, [%rd7];
    ld.global.f32 %f1, [%rd8];
    add.rn.f32 %f2, %f0, %f1;
    st.global.f32 [%rd9], %f2;
$L_end:
    ret;
}
",
        kernel,
    )
}

/// `x[i] = factor · x[i] + term` for i < n; each parameter of another size, so that their packing shows.
pub fn scale() -> SharedModule {
    let params = vec![
        ParamMeta::scalar("factor", DType::Fp32),
        ParamMeta::output("x", DType::Fp32),
        ParamMeta::scalar("n", DType::I32),
        ParamMeta::scalar("term", DType::Fp64),
    ];
    let kernel = meta("scale", params, GridRule::along("n", PER_CTA), 2, 0);
    module(
        Arch::Sm80,
        ".version 7.0
.target sm_80
.address_size 64
.visible .entry scale(
    .param .f32 scale_param_0,
    .param .u64 scale_param_1,
    .param .u32 scale_param_2,
    .param .f64 scale_param_3
)
.reqntid 64
{
    .reg .pred %p<1>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .reg .f32 %f<4>;
    .reg .f64 %fd<1>;
    ld.param.f32 %f0, [scale_param_0];
    ld.param.u64 %rd0, [scale_param_1];
    ld.param.u32 %r0, [scale_param_2];
    ld.param.f64 %fd0, [scale_param_3];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.s32 %r3, %r1, 64, %r2;
    setp.ge.s32 %p0, %r3, %r0;
    @%p0 bra $L_end;
    cvt.rn.f32.f64 %f1, %fd0;
    cvta.to.global.u64 %rd1, %rd0;
    mul.wide.s32 %rd2, %r3, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f2, [%rd3];
    fma.rn.f32 %f3, %f2, %f0, %f1;
    st.global.f32 [%rd3], %f3;
$L_end:
    ret;
}
",
        kernel,
    )
}

/// `out[i] = x[31 − i]` for one warp, through the two ends of `shared` bytes of dynamic shared memory. Any grid.
/// For `arch`, whose limit of shared memory holds.
pub fn reverse_through_shared(arch: Arch, shared: u32) -> SharedModule {
    let params = vec![ParamMeta::input("x", DType::I32), ParamMeta::output("out", DType::I32)];
    let grid = GridRule { x: Extent::Any, y: Extent::Fixed(1), z: Extent::Fixed(1) };
    let kernel = meta("reverse", params, grid, 1, shared);
    let last = shared - 128;
    let ptx = format!(
        ".version {}
.target {arch}
.address_size 64
.extern .shared .align 16 .b8 tile[];
.visible .entry reverse(
    .param .u64 reverse_param_0,
    .param .u64 reverse_param_1
)
.reqntid 32
{{
    .reg .b32 %r<9>;
    .reg .b64 %rd<7>;
    ld.param.u64 %rd0, [reverse_param_0];
    ld.param.u64 %rd1, [reverse_param_1];
    cvta.to.global.u64 %rd2, %rd0;
    cvta.to.global.u64 %rd3, %rd1;
    mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 2;
    mov.u32 %r2, tile;
    add.s32 %r3, %r2, %r1;
    cvt.u64.u32 %rd4, %r1;
    add.s64 %rd5, %rd2, %rd4;
    add.s64 %rd6, %rd3, %rd4;
    ld.global.u32 %r4, [%rd5];
    st.shared.u32 [%r3+{last}], %r4;
    bar.sync 0;
    sub.s32 %r5, 124, %r1;
    add.s32 %r6, %r2, %r5;
    ld.shared.u32 %r7, [%r6+{last}];
    st.shared.u32 [%r3], %r7;
    bar.sync 0;
    ld.shared.u32 %r8, [%r3];
    st.global.u32 [%rd6], %r8;
    ret;
}}
",
        arch.ptx_version()
    );
    module(arch, &ptx, kernel)
}

/// A module with an instruction that PTX does not have.
pub fn broken() -> SharedModule {
    let grid = GridRule { x: Extent::Fixed(1), y: Extent::Fixed(1), z: Extent::Fixed(1) };
    module(
        Arch::Sm80,
        ".version 7.0
.target sm_80
.address_size 64
.visible .entry broken()
{
    .reg .b32 %r<2>;
    frobnicate.b32 %r0, %r1;
    ret;
}
",
        meta("broken", Vec::new(), grid, 1, 0),
    )
}
