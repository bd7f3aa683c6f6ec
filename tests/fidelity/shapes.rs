//! The tensor-core instructions under test, their operands' formats and where their fragments' elements lie.

use crate::number::{BF16, Class, E4M3, E5M2, F16, F32, Format, Number, Top};

/// What an element of A or B is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A single of which 10 bits of significand count.
    Tf32,
    /// A float.
    Float(Format),
    /// A signed byte.
    S8,
    /// An unsigned byte.
    U8,
}

/// What counts of a tf32: the upper 19 bits.
const TF32: Format = Format { significand: 10, exponent: 8, top: Top::Ieee };

impl Element {
    /// Bits in a register.
    pub fn bits(self) -> usize {
        match self {
            Element::Tf32 => 32,
            Element::Float(format) => 1 + (format.significand + format.exponent) as usize,
            Element::S8 | Element::U8 => 8,
        }
    }

    /// The format that its values have.
    pub fn format(self) -> Format {
        match self {
            Element::Tf32 => TF32,
            Element::Float(format) => format,
            Element::S8 | Element::U8 => F32,
        }
    }

    /// The code nearest to a value.
    pub fn nearest(self, value: f64) -> u32 {
        match self {
            Element::Tf32 => F32.nearest(value),
            Element::Float(format) => format.nearest(value),
            Element::S8 => value.clamp(-128.0, 127.0) as i8 as u8 as u32,
            Element::U8 => value.clamp(0.0, 255.0) as u8 as u32,
        }
    }

    /// A code of its format as it stands in a register.
    pub fn code(self, code: u32) -> u32 {
        if self == Element::Tf32 { code << 13 } else { code }
    }

    /// A float's code as a number. Of tf32 the lowest bits are cut, or round it to nearest, ties away from zero; fp8 may be
    /// unpacked to halves.
    pub fn number(self, code: u32, round: bool, unpacked: bool) -> Number {
        match self {
            Element::Tf32 => {
                let number = F32.decode(code);
                if matches!(number.class, Class::Nan | Class::Infinite) {
                    return number;
                }
                let carried = if round { code.wrapping_add(0x1000) } else { code };
                Number { negative: number.negative, ..TF32.decode(carried >> 13) }
            }
            // As halves: their exponents are what is aligned.
            Element::Float(format) if unpacked && format.significand < 7 => {
                let number = format.decode(code);
                let value = number.significand as f64 * 2.0_f64.powi(number.lsb);
                match number.class {
                    Class::Finite => Number { negative: number.negative, ..F16.decode(F16.nearest(value)) },
                    Class::Zero => Number { exponent: F16.least(), ..number },
                    _ => number,
                }
            }
            Element::Float(format) => format.decode(code),
            Element::S8 | Element::U8 => F32.decode(0),
        }
    }

    /// A byte's value.
    pub fn integer(self, code: u32) -> i64 {
        if self == Element::S8 { i64::from(code as u8 as i8) } else { i64::from(code as u8) }
    }
}

/// What C and D are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulator {
    /// A float.
    Float(Format),
    /// A signed word; the flag says that it saturates.
    S32(bool),
}

/// One instruction.
pub struct Shape {
    /// Its text without operands.
    pub instruction: &'static str,
    /// `.version` that has it.
    pub version: &'static str,
    /// `.target` that has it.
    pub target: &'static str,
    /// Elements of A.
    pub a: Element,
    /// Elements of B.
    pub b: Element,
    /// Elements of C and D.
    pub accumulator: Accumulator,
    /// Length of the dot products.
    pub k: usize,
}

const fn shape(
    instruction: &'static str,
    [version, target]: [&'static str; 2],
    [a, b]: [Element; 2],
    accumulator: Accumulator,
    k: usize,
) -> Shape {
    Shape { instruction, version, target, a, b, accumulator, k }
}

const AMPERE: [&str; 2] = ["7.0", "sm_80"];
const ADA: [&str; 2] = ["8.4", "sm_89"];
const NARROW: [&str; 2] = ["8.7", "sm_89"];
const HOPPER: [&str; 2] = ["8.0", "sm_90a"];
const HOPPER_MIXED: [&str; 2] = ["8.4", "sm_90a"];
const SINGLE: Accumulator = Accumulator::Float(F32);
const HALF: Accumulator = Accumulator::Float(F16);
const HALVES: [Element; 2] = [Element::Float(F16); 2];
const BRAINS: [Element; 2] = [Element::Float(BF16); 2];
const E4M3S: [Element; 2] = [Element::Float(E4M3); 2];
const E5M2S: [Element; 2] = [Element::Float(E5M2); 2];
const TF32S: [Element; 2] = [Element::Tf32; 2];

/// Every instruction.
#[rustfmt::skip]
pub const SHAPES: &[Shape] = &[
    shape("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", AMPERE, TF32S, SINGLE, 8),
    shape("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32", AMPERE, TF32S, SINGLE, 4),
    shape("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", AMPERE, HALVES, SINGLE, 16),
    shape("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", AMPERE, HALVES, SINGLE, 8),
    shape("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", AMPERE, BRAINS, SINGLE, 16),
    shape("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", AMPERE, BRAINS, SINGLE, 8),
    shape("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", AMPERE, HALVES, HALF, 16),
    shape("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16", AMPERE, HALVES, HALF, 8),
    shape("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", ADA, E4M3S, SINGLE, 32),
    shape("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", ADA, E5M2S, SINGLE, 32),
    shape("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", ADA, [Element::Float(E4M3), Element::Float(E5M2)], SINGLE, 32),
    shape("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", NARROW, E4M3S, HALF, 32),
    shape("mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32", NARROW, E4M3S, SINGLE, 16),
    shape("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", AMPERE, [Element::S8; 2], Accumulator::S32(false), 32),
    shape("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32", AMPERE, [Element::S8; 2], Accumulator::S32(true), 32),
    shape("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", AMPERE, [Element::U8, Element::S8], Accumulator::S32(false), 32),
    shape("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", AMPERE, [Element::S8; 2], Accumulator::S32(false), 16),
    shape("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", HOPPER, TF32S, SINGLE, 8),
    shape("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", HOPPER, HALVES, SINGLE, 16),
    shape("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", HOPPER, BRAINS, SINGLE, 16),
    shape("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", HOPPER, HALVES, HALF, 16),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", HOPPER, E4M3S, SINGLE, 32),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", HOPPER, E5M2S, SINGLE, 32),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", HOPPER, [Element::Float(E4M3), Element::Float(E5M2)], SINGLE, 32),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3", HOPPER, E4M3S, HALF, 32),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8", HOPPER, [Element::S8; 2], Accumulator::S32(false), 32),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.satfinite.s32.s8.s8", HOPPER, [Element::S8; 2], Accumulator::S32(true), 32),
    shape("wgmma.mma_async.sync.aligned.m64n8k32.s32.u8.s8", HOPPER_MIXED, [Element::U8, Element::S8], Accumulator::S32(false), 32),
];

/// Rows of A and of D.
pub const M: usize = 16;
/// Columns of B and of D.
pub const N: usize = 8;
const LANES: usize = 32;

/// The matrices of one warp: A by rows, B by columns, C by rows.
pub struct Matrices {
    /// M × k codes.
    pub a: Vec<u32>,
    /// N × k codes.
    pub b: Vec<u32>,
    /// M × N codes.
    pub c: Vec<u32>,
}

/// `%a0, %a1, …`
fn list(name: &str, count: usize) -> String {
    (0..count).map(|index| format!("%{name}{index}")).collect::<Vec<_>>().join(", ")
}

impl Shape {
    /// `m16n8k8.f32.tf32`: what tells it from others, in few letters.
    pub fn name(&self) -> String {
        let name = self.instruction.replace("wgmma.mma_async.sync.aligned", "wgmma");
        name.replace("mma.sync.aligned.", "").replace(".row.col", "")
    }

    /// Whether a group of four warps executes it.
    pub fn is_group(&self) -> bool {
        self.instruction.starts_with("wgmma")
    }

    /// Warps that execute it. Those of a group all have the same rows of A, and the results of the first are looked at.
    pub fn warps(&self) -> u32 {
        if self.is_group() { 4 } else { 1 }
    }

    fn registers(&self, element: Element) -> usize {
        self.k * element.bits() / 32
    }

    /// Registers of a lane for A, B, and C or D.
    pub fn counts(&self) -> [usize; 3] {
        let c = if self.accumulator == HALF { 2 } else { 4 };
        // A has 16 rows, B has 8 columns, over 32 lanes.
        [self.registers(self.a) / 2, self.registers(self.b) / 4, c]
    }

    /// Row (or column) and place along k of the element `part` of register `register`; `rows` is 2 where registers take
    /// turns between rows g and g + 8.
    fn place(element: Element, lane: usize, register: usize, part: usize, rows: usize) -> (usize, usize) {
        let parts = 32 / element.bits();
        let (group, thread) = (lane / 4, lane % 4);
        (group + 8 * (register % rows), register / rows * 4 * parts + thread * parts + part)
    }

    /// Row and column of the element `part` of register `register` of D.
    fn place_of_d(&self, lane: usize, register: usize, part: usize) -> (usize, usize) {
        let (group, thread) = (lane / 4, lane % 4);
        match self.accumulator == HALF {
            true => (group + 8 * register, 2 * thread + part),
            false => (group + 8 * (register / 2), 2 * thread + register % 2),
        }
    }

    /// The registers of all lanes, lane after lane: A's, B's, C's.
    pub fn pack(&self, matrices: &Matrices) -> Vec<u32> {
        let [a, b, c] = self.counts();
        let mut words = Vec::with_capacity(LANES * (a + b + c));
        let gather = |element: Element, source: &[u32], lane: usize, register: usize, rows: usize| {
            (0..32 / element.bits()).fold(0, |word, part| {
                let (row, k) = Self::place(element, lane, register, part, rows);
                word | source[row * self.k + k] << (part * element.bits())
            })
        };
        for lane in 0..LANES {
            words.extend((0..a).map(|register| gather(self.a, &matrices.a, lane, register, 2)));
            words.extend((0..b).map(|register| gather(self.b, &matrices.b, lane, register, 1)));
            let parts = 4 / c;
            words.extend((0..c).map(|register| {
                (0..parts).fold(0, |word, part| {
                    let (row, column) = self.place_of_d(lane, register, part);
                    word | matrices.c[row * N + column] << (16 * part)
                })
            }));
        }
        words
    }

    /// D by rows from the registers of all lanes.
    pub fn unpack(&self, words: &[u32]) -> Vec<u32> {
        let c = self.counts()[2];
        let parts = 4 / c;
        let mut d = vec![0; M * N];
        for (index, word) in words.iter().enumerate() {
            for part in 0..parts {
                let (row, column) = self.place_of_d(index / c, index % c, part);
                d[row * N + column] = if parts == 1 { *word } else { word >> (16 * part) & 0xffff };
            }
        }
        d
    }

    /// A kernel whose CTAs each load their fragments, execute the instruction once and store D.
    pub fn kernel(&self) -> String {
        let [a, b, c] = self.counts();
        let (mut loads, mut stores) = (String::new(), String::new());
        for (index, name) in [("a", a), ("b", b), ("c", c)]
            .iter()
            .flat_map(|(name, count)| (0..*count).map(move |index| format!("{name}{index}")))
            .enumerate()
        {
            loads.push_str(&format!("    ld.global.b32 %{name}, [%in+{}];\n", 4 * index));
        }
        let d = if self.is_group() { "c" } else { "d" };
        for index in 0..c {
            stores.push_str(&format!("    st.global.b32 [%out+{}], %{d}{index};\n", 4 * index));
        }
        let product = if self.is_group() {
            self.group_product()
        } else {
            let (d, a, b, c) = (list("d", c), list("a", a), list("b", b), list("c", c));
            format!("    {} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};\n", self.instruction)
        };
        let ty = if self.accumulator == SINGLE { "f32" } else { "b32" };
        format!(
            ".version {version}\n.target {target}\n.address_size 64
.visible .entry {entry}(.param .u64 {entry}_param_0, .param .u64 {entry}_param_1)
.reqntid {threads}
{{
    .shared .align 128 .b8 tile[{tile}];
    .reg .pred %yes, %others;
    .reg .b64 %in, %out, %desc;
    .reg .b32 %thread, %lane, %cta, %all, %at;
    .reg .b32 %a<{a}>, %b<{b}>;
    .reg .{ty} %c<{c}>, %d<{c}>;
    ld.param.u64 %in, [{entry}_param_0];
    ld.param.u64 %out, [{entry}_param_1];
    mov.u32 %thread, %tid.x;
    and.b32 %lane, %thread, 31;
    setp.ge.u32 %others, %thread, 32;
    mov.u32 %cta, %ctaid.x;
    mad.lo.u32 %all, %cta, 32, %lane;
    mad.wide.u32 %in, %all, {stride}, %in;
    mad.wide.u32 %out, %all, {out}, %out;
{loads}{product}    @%others ret;\n{stores}    ret;\n}}\n",
            version = self.version,
            target = self.target,
            entry = crate::launch::ENTRY,
            threads = 32 * self.warps(),
            tile = 128 * b,
            stride = 4 * (a + b + c),
            out = 4 * c,
        )
    }

    /// The product by a group, which has B in shared memory: eight rows of 16 bytes a register, as the lanes hold them.
    fn group_product(&self) -> String {
        let [a, b, c] = self.counts();
        let mut text = "    mov.u32 %at, tile;\n    mad.lo.u32 %at, %lane, 4, %at;\n".to_owned();
        for index in 0..b {
            text.push_str(&format!("    st.shared.b32 [%at+{}], %b{index};\n", 128 * index));
        }
        // Factors of one, and where the format has both ways B's is that along K.
        let rest = match (self.accumulator, self.a.bits()) {
            (Accumulator::S32(_), _) => "",
            (_, 16) => ", 1, 1, 0",
            _ => ", 1, 1",
        };
        text.push_str(&format!(
            "    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.u32 %at, tile;
    shr.u32 %at, %at, 4;
    cvt.u64.u32 %desc, %at;
    or.b64 %desc, %desc, 0x1000080000;
    setp.eq.u32 %yes, 0, 0;
    wgmma.fence.sync.aligned;
    {instruction} {{{d}}}, {{{a}}}, %desc, %yes{rest};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
",
            instruction = self.instruction,
            d = list("c", c),
            a = list("a", a),
        ));
        text
    }
}
