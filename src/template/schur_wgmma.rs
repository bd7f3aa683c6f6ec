//! `templates/schur_wgmma.ptx`: the symmetric update of lower tiles on Hopper's tensor cores.

use askama::Template;

use super::{ParamError, one_of, text, within};
use crate::ptx::{Arch, DType, Extent, GridRule, Module, ParamMeta};

/// Bytes of one plane of a tile of the shadow: 128 rows of 128 bytes.
const PLANE: u32 = 128 * 128;

/// Registers of a thread of the group of four warps that asks for the operands, and of the two that multiply. A multiprocessor has
/// 65536; a launch gives each thread 168, the most that 384 may have.
const PRODUCER_REGISTERS: u32 = 40;
const GROUP_REGISTERS: u32 = 232;

/// How the shadow of a matrix holds it, and what is multiplied.
///
/// A tile of the shadow has 128 rows and 128 bytes along k: 64 elements of two bytes, 32 of four, 128 of one. An operand of two
/// planes stands for their sum, and of the four products that of the second planes is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// Halves: relative error 2⁻¹¹ an element.
    F16,
    /// Halves and the halves that are nearest to what they leave: about 2⁻²² an element, for three products.
    F16x3,
    /// bfloat16: 2⁻⁸.
    Bf16,
    /// TF32, in words of 32 bits: 2⁻¹¹ with the range of FP32.
    Tf32,
    /// TF32 and what it leaves: about 2⁻²².
    Tf32x3,
    /// FP8 with three bits of fraction: 2⁻⁴. The tensor cores keep 13 bits of these sums.
    E4m3,
}

impl Operand {
    /// All of them, in the order of [`Operand::NAMES`].
    pub const ALL: [Operand; 6] =
        [Operand::F16, Operand::F16x3, Operand::Bf16, Operand::Tf32, Operand::Tf32x3, Operand::E4m3];

    /// Their names in settings and entries.
    pub const NAMES: [&'static str; 6] = ["f16", "f16x3", "bf16", "tf32", "tf32x3", "e4m3"];

    /// The name in settings and entries.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Planes of a tile of the shadow.
    pub fn planes(self) -> u32 {
        match self {
            Operand::F16x3 | Operand::Tf32x3 => 2,
            Operand::F16 | Operand::Bf16 | Operand::Tf32 | Operand::E4m3 => 1,
        }
    }

    /// Elements along k of a tile of the shadow.
    pub fn k_of_tile(self) -> u32 {
        match self {
            Operand::F16 | Operand::F16x3 | Operand::Bf16 => 64,
            Operand::Tf32 | Operand::Tf32x3 => 32,
            Operand::E4m3 => 128,
        }
    }

    /// The type of the shadow's elements.
    pub fn dtype(self) -> DType {
        match self {
            Operand::F16 | Operand::F16x3 => DType::Fp16,
            Operand::Bf16 => DType::Bf16,
            Operand::Tf32 | Operand::Tf32x3 => DType::Fp32,
            Operand::E4m3 => DType::U8,
        }
    }

    /// The type in the instruction's name.
    fn in_instruction(self) -> &'static str {
        match self {
            Operand::F16 | Operand::F16x3 => "f16",
            Operand::Bf16 => "bf16",
            Operand::Tf32 | Operand::Tf32x3 => "tf32",
            Operand::E4m3 => "e4m3",
        }
    }

    /// Planes of the rows' and of the columns' tile that are multiplied, the smallest products first.
    fn products(self) -> &'static [(u32, u32)] {
        if self.planes() == 2 { &[(1, 0), (0, 1), (0, 0)] } else { &[(0, 0)] }
    }
}

/// C ← C − D·S·Sᵀ·D on lower tiles of a batch of FP32 matrices, D = diag(`scale`), S from its shadow, by `wgmma`.
///
/// | parameter | type | |
/// |---|---|---|
/// | `c_in`, `c_out` | pointers to fp32 | the matrices, row-major; may be the same memory, else they do not overlap |
/// | `shadow` | pointer, 16-byte aligned | tiles in operand order, see below |
/// | `scale` | pointer to fp32, 16-byte aligned | of row i of matrix m at m·128·`row_tiles` + i |
/// | `stride_in`, `stride_out` | i64 | elements from matrix to matrix |
/// | `ld_in`, `ld_out` | i32 | elements from row to row |
/// | `n` | i32 | order of the matrices |
/// | `batch` | i32 | matrices |
/// | `row_tiles` | i32 | ⌈n/128⌉, the row tiles of a matrix in the shadow |
/// | `k_tiles` | i32 | the k tiles of a row tile in the shadow |
/// | `first_k`, `depth` | i32 | the k tiles that are summed over; at `depth` 0 C is copied |
/// | `first_row`, `first_col`, `cols` | i32 | what is updated, in tiles of 128, see below |
///
/// Updated are the 128×128 tiles (i, j) with `first_col` ≤ j < `first_col` + `cols`, max(j, `first_row`) ≤ i < `row_tiles`; of them
/// the entries with column ≤ row < n. No other entry of C is read or written.
///
/// The shadow's tile (matrix, row tile, k tile) lies at byte 16384·`planes`·((matrix·`row_tiles` + row tile)·`k_tiles` + k tile), its
/// planes one after the other. In a plane row r begins at byte 128·r, and the 16-byte piece c of the row lies at place c ^ (r & 7). Rows
/// from n on must be finite.
///
/// Entries are right to what FP32 sums of the planes' products give, but that the tensor cores cut where FP32 rounds: see `promote`.
///
/// Grid: any number of CTAs along x, of 384 threads, one on a multiprocessor; the tiles are dealt out to them in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SchurWgmma {
    /// What the shadow holds.
    pub operand: Operand,
    /// Columns of a CTA's tile: 128 or 256. Its rows are 128.
    pub columns: u32,
    /// k tiles that are on their way at a time, from 2 on: as many as shared memory holds.
    pub stages: u32,
    /// 0, or after how many k tiles the sum is added to a second one, to nearest (1, 2, 4 or 8, at 128 columns). The tensor cores
    /// cut sums towards zero at every 32 bytes of k, so errors of long sums of one sign add up: to some 2⁻²⁴ of the sum for each step
    /// without, and for each step between two additions with.
    pub promote: u32,
}

#[derive(Template)]
#[template(path = "schur_wgmma.ptx")]
struct Text<'a> {
    arch: Arch,
    name: &'a str,
    params: &'a [ParamMeta],
    kernel: SchurWgmma,
    columns: u32,
    /// Tiles of 128 columns.
    wide: u32,
    stages: u32,
    planes: u32,
    promote: u32,
    producer_registers: u32,
    group_registers: u32,
    /// Tile rows that are taken together.
    band: u32,
    /// The end of the product's name.
    instruction: String,
    transposes: &'static str,
    parts: Vec<Part>,
    steps: Vec<Step>,
    /// The prefix of the registers that hold the whole sum.
    total: &'static str,
}

/// A loop over k tiles: for all columns of a CTA's tile, or for its first 128.
struct Part {
    suffix: &'static str,
    wait: &'static str,
    columns: u32,
    words: String,
}

/// A product: the operands' places in a stage in units of 16 bytes, from the first of each.
struct Step {
    a: u32,
    b: u32,
}

/// Two neighbouring entries of C that a thread owns.
struct Word {
    /// Their place in the sum.
    word: u32,
    /// Where C's values are held.
    held: u32,
    /// `a`, or `b` for 8 rows further down.
    row: &'static str,
    /// The column, from the thread's first on.
    column: u32,
    /// The same in bytes.
    offset: u32,
}

impl Text<'_> {
    /// Words of a thread's sum.
    fn words(&self) -> u32 {
        self.columns / 2
    }

    /// Bytes of a tile with its planes.
    fn tile_bytes(&self) -> u32 {
        self.kernel.tile_bytes()
    }

    fn stage_bytes(&self) -> u32 {
        self.kernel.stage_bytes()
    }

    /// Where a plane of the columns begins in a stage.
    fn b_at(&self, plane: &u32) -> u32 {
        self.tile_bytes() + plane * PLANE * self.wide
    }

    /// The offset of the slots in shared memory.
    fn slots(&self) -> u32 {
        self.stages * self.stage_bytes()
    }

    fn slot_bytes(&self) -> u32 {
        self.kernel.slot_bytes()
    }

    /// The offset of the mbarriers in shared memory. The first are those of full stages.
    fn bars(&self) -> u32 {
        self.slots() + 2 * self.slot_bytes()
    }

    /// From the first mbarrier to those of empty stages, of full slots, of empty slots.
    fn empty(&self) -> u32 {
        8 * self.stages
    }

    fn slot_full(&self) -> u32 {
        2 * self.empty()
    }

    fn slot_empty(&self) -> u32 {
        self.slot_full() + 16
    }

    /// The descriptor of an operand, less its address: atoms of eight rows of 128 bytes, 1024 bytes from one to the next, swizzled.
    fn descriptor(&self) -> u64 {
        1 << 62 | (1024 >> 4) << 32 | 1 << 16
    }

    /// Chunks of 64 columns: the values of C of two of them are held at a time.
    fn chunks(&self) -> u32 {
        self.columns / 64
    }

    /// The entries of a chunk.
    fn chunk(&self, chunk: &u32) -> Vec<Word> {
        let word = |block: u32, half: u32| {
            let column = 64 * chunk + 8 * block;
            Word {
                word: column / 2 + 2 * half,
                held: 32 * (chunk % 2) + 4 * block + 2 * half,
                row: ["a", "b"][half as usize],
                column,
                offset: 4 * column,
            }
        };
        (0..8).flat_map(|block| [word(block, 0), word(block, 1)]).collect()
    }

    /// The entries of the chunk that takes the place of `chunk`.
    fn chunk_after_next(&self, chunk: &u32) -> Vec<Word> {
        self.chunk(&(chunk + 2))
    }

    /// The entries that are asked for before the product is there.
    fn ahead(&self) -> Vec<Word> {
        [0, 1].iter().flat_map(|chunk| self.chunk(chunk)).collect()
    }
}

impl SchurWgmma {
    /// The template's name.
    pub const KERNEL: &'static str = "schur_wgmma";

    /// Threads of a CTA.
    const WARPS: u32 = 12;

    /// Bytes of a tile of the shadow with its planes.
    fn tile_bytes(&self) -> u32 {
        self.operand.planes() * PLANE
    }

    fn stage_bytes(&self) -> u32 {
        self.tile_bytes() * (1 + self.columns / 128)
    }

    /// What tile it is, the rows' scales, the columns' scales.
    fn slot_bytes(&self) -> u32 {
        16 + 4 * (128 + self.columns)
    }

    /// Dynamic shared memory: the ring, two slots, and the mbarriers of both.
    fn shared_bytes(&self) -> u32 {
        self.stages * (self.stage_bytes() + 16) + 2 * (self.slot_bytes() + 16)
    }

    fn validate(&self, arch: Arch) -> Result<(), ParamError> {
        one_of(Self::KERNEL, "columns", self.columns, &[128, 256])?;
        // The emulator and the mbarriers' offsets are good for more; no target has the memory.
        within(Self::KERNEL, "stages", self.stages, 2, 7)?;
        one_of(Self::KERNEL, "promote", self.promote, &[0, 1, 2, 4, 8])?;
        if self.promote > 0 && self.columns != 128 {
            return Err(ParamError::Value {
                kernel: Self::KERNEL,
                parameter: "promote",
                value: self.promote.into(),
                rule: format!("a second sum has registers at 128 columns only, and columns = {}", self.columns),
            });
        }
        if arch != Arch::Sm90a {
            return Err(ParamError::Target { kernel: Self::KERNEL, what: "wgmma", arch, targets: "sm_90a" });
        }
        if self.shared_bytes() > arch.max_shared_bytes() {
            return Err(ParamError::Shared {
                kernel: Self::KERNEL,
                what: format!(
                    "operand = {}, columns = {}, stages = {}",
                    self.operand.name(),
                    self.columns,
                    self.stages
                ),
                needed: self.shared_bytes(),
                arch,
                available: arch.max_shared_bytes(),
            });
        }
        Ok(())
    }

    /// The module for `arch`.
    ///
    /// # Errors
    /// A parameter out of its range, more shared memory than the target has, or a target without `wgmma`: all but `sm_90a`.
    pub fn instantiate(&self, arch: Arch) -> Result<Module, ParamError> {
        self.validate(arch)?;
        let Self { operand, columns, stages, promote } = *self;
        let promoted = if promote > 0 { format!("_p{promote}") } else { String::new() };
        let name = format!("{}_{}_c{columns}_s{stages}{promoted}", Self::KERNEL, operand.name());
        let params = self.params();
        let wide = columns / 128;
        let template = Text {
            arch,
            name: &name,
            params: &params,
            kernel: *self,
            columns,
            wide,
            stages,
            planes: operand.planes(),
            promote,
            producer_registers: PRODUCER_REGISTERS,
            group_registers: GROUP_REGISTERS,
            // A band by as many columns as make a square of the tiles that 132 multiprocessors have at work.
            band: if wide == 2 { 16 } else { 12 },
            instruction: format!("k{0}.f32.{1}.{1}", operand.k_of_tile() / 4, operand.in_instruction()),
            transposes: if operand.dtype().bytes() == 2 { ", 0, 0" } else { "" },
            parts: parts(columns),
            steps: self.steps(),
            total: if promote > 0 { "%sum" } else { "%acc" },
        };
        let text = text::render(Self::KERNEL, &template)?;
        let launch = text::Launch {
            grid: GridRule { x: Extent::Any, y: Extent::Fixed(1), z: Extent::Fixed(1) },
            num_warps: Self::WARPS,
            shared: self.shared_bytes(),
            static_shared: 0,
        };
        Ok(text::module(arch, text, name, params, launch))
    }

    /// The products of a k tile, 32 bytes of k each.
    fn steps(&self) -> Vec<Step> {
        let rows = PLANE / 16;
        let columns = rows * self.columns / 128;
        let of = |&(a, b): &(u32, u32)| (0..4).map(move |k| Step { a: a * rows + 2 * k, b: b * columns + 2 * k });
        self.operand.products().iter().flat_map(of).collect()
    }

    fn params(&self) -> Vec<ParamMeta> {
        // Bulk copies take multiples of 16 bytes.
        let copied = |name, ty| ParamMeta { align: 16, ..ParamMeta::input(name, ty) };
        let mut params = vec![
            ParamMeta::input("c_in", DType::Fp32),
            ParamMeta::output("c_out", DType::Fp32),
            copied("shadow", self.operand.dtype()),
            copied("scale", DType::Fp32),
            ParamMeta::scalar("stride_in", DType::I64),
            ParamMeta::scalar("stride_out", DType::I64),
        ];
        let numbers = [
            "ld_in",
            "ld_out",
            "n",
            "batch",
            "row_tiles",
            "k_tiles",
            "first_k",
            "depth",
            "first_row",
            "first_col",
            "cols",
        ];
        params.extend(numbers.map(|name| ParamMeta::scalar(name, DType::I32)));
        params
    }
}

/// The loops over k tiles that a CTA's tile of `columns` columns needs.
fn parts(columns: u32) -> Vec<Part> {
    let words = |columns: u32| {
        let list: Vec<String> = (0..columns / 2).map(|word| format!("%acc{word}")).collect();
        format!("{{{}}}", list.join(", "))
    };
    let whole = Part { suffix: "", wait: "$L_stage_full", columns, words: words(columns) };
    if columns == 128 {
        return vec![whole];
    }
    vec![whole, Part { suffix: "_half", wait: "$L_stage_full_half", columns: 128, words: words(128) }]
}
