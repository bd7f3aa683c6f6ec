//! The intra-chunk solve: for each chunk of 4·16 tokens and each head, the off-diagonal blocks of
//!
//! - Aqk\[i, j\] = scale·Σ_k q\[i, k\]·k\[j, k\]·2^(G\[i, k\] − G\[j, k\]), and of
//! - A\[i, j\] = β\[i\]·Σ_k k\[i, k\]·k\[j, k\]·2^(G\[i, k\] − G\[j, k\]) for j < i,
//!
//! and the blocks of Akk = (I + A)⁻¹ on and below the diagonal.
//!
//! A chunk is four sub-chunks, so ten 16×16 blocks of Akk, named by sub-chunks of row and column. Each pair of sub-chunks is
//! scaled about the gate of the row sub-chunk's first token: exponents of both factors are then not positive, or cancel.
//! The diagonal blocks come in `Akkd`: of A itself, which are inverted here (by forward substitution in the seeds' form, by blocks that double in that
//! for every shape), or, where the gate is
//! safe, already inverted. Block (i, j) of the inverse is −Akk_ii·Σ_u A_iu·Akk_uj over j ≤ u < i.
//!
//! One program a chunk and head; rows past the end of a sequence are neither read nor written. The live state is ten blocks of
//! singles and six operand tiles.

use serde::Serialize;

use crate::kernels::program::{ProgramError, TileProgram, check, check_extent};
use crate::tile::Scalar::{self, Bf16, F16, F32, I32, I64};
use crate::tile::build::{Access, Dot, KernelBuilder, Operand, Tile, boundary, mask};
use crate::tile::{Func, InputPrecision};

/// Sub-chunks of a chunk.
const SUBS: usize = 4;
/// Blocks below the diagonal.
const BELOW: usize = SUBS * (SUBS - 1) / 2;

/// The solve, for one set of shapes.
///
/// Entry: `q`, `k`, `g`, `beta`, `Aqk`, `Akkd`, `Akk`, `scale`, (varlen: `cu_seqlens`, `chunk_indices`), `T`. Grid: chunks ×
/// batch·value heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct InterSolve {
    /// Heads of q and k.
    pub heads: u32,
    /// Heads of the values, gates and β: a multiple of `heads`.
    pub value_heads: u32,
    /// Channels of a key.
    pub key_dim: u32,
    /// Channels that are taken at a time: a power of two from 16 to 128.
    pub block_k: u32,
    /// Tokens of a sub-chunk: a power of two from 16 to 64; a chunk has four.
    pub sub_chunk: u32,
    /// Sequences of different lengths, packed along T.
    pub varlen: bool,
    /// `Akkd` holds inverses already.
    pub safe_gate: bool,
    /// How the block products of the inverse are made.
    pub precision: InputPrecision,
    /// The type of q, k, Aqk and Akk: `bf16`, `f16` or `f32`.
    pub io: Scalar,
    /// The type of β.
    pub beta: Scalar,
}

impl InterSolve {
    fn validate(&self) -> Result<(), ProgramError> {
        let name = Self::NAME;
        check(name, "heads", self.heads, (1..=4096).contains(&self.heads), "it must be from 1 to 4096")?;
        let holds = self.value_heads.is_multiple_of(self.heads) && (1..=4096).contains(&self.value_heads);
        check(name, "value_heads", self.value_heads, holds, "it must be a multiple of heads, and 4096 at most")?;
        check(name, "key_dim", self.key_dim, (1..=1024).contains(&self.key_dim), "it must be from 1 to 1024")?;
        check_extent(name, "sub_chunk", self.sub_chunk, 16, 64)?;
        check_common(name, self.block_k, self.precision, self.io, self.beta)
    }
}

fn check_common(
    name: &'static str,
    block_k: u32,
    precision: InputPrecision,
    io: Scalar,
    beta: Scalar,
) -> Result<(), ProgramError> {
    use InputPrecision::{Ieee, Tf32, Tf32x3};
    check_extent(name, "block_k", block_k, 16, 128)?;
    let holds = matches!(precision, Ieee | Tf32 | Tf32x3);
    check(name, "precision", precision.name(), holds, "it must be ieee, tf32 or tf32x3")?;
    for (parameter, scalar) in [("io", io), ("beta", beta)] {
        check(name, parameter, scalar, matches!(scalar, Bf16 | F16 | F32), "it must be bf16, f16 or f32")?;
    }
    Ok(())
}

/// The solve with the numbers of heads and channels at run time and offsets of 64 bits: one kernel for every shape.
///
/// Entry: as [`InterSolve`]'s, then `H`, `HV`, `K`, where K is a multiple of 16. Sub-chunks have 16 tokens. Grid: chunks × batch·value
/// heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AnyInterSolve {
    /// Channels that are taken at a time: a power of two from 16 to 128.
    pub block_k: u32,
    /// Sequences of different lengths, packed along T.
    pub varlen: bool,
    /// `Akkd` holds inverses already.
    pub safe_gate: bool,
    /// How the block products of the inverse are made.
    pub precision: InputPrecision,
    /// The type of q, k, Aqk and Akk: `bf16`, `f16` or `f32`.
    pub io: Scalar,
    /// The type of β.
    pub beta: Scalar,
}

impl AnyInterSolve {
    /// The channels at a time of the programs that come compiled.
    pub const BLOCK_K: u32 = 32;
}

/// What both programs are built from.
#[derive(Clone, Copy)]
struct Config {
    /// H, HV and K, where they are fixed; else they are parameters, and offsets have 64 bits.
    fixed: Option<[u32; 3]>,
    block_k: u32,
    sub_chunk: u32,
    varlen: bool,
    safe_gate: bool,
    precision: InputPrecision,
    io: Scalar,
    beta: Scalar,
}

/// a·b, folded where both are known.
fn times<'k>(a: Operand<'k>, b: Operand<'k>) -> Operand<'k> {
    match (a, b) {
        (Operand::Int(a), Operand::Int(b)) => Operand::Int(a * b),
        (Operand::Tile(a), b) => (a * b).into(),
        (a, Operand::Tile(b)) => (b * a).into(),
        (a, _) => a,
    }
}

/// The chunk at hand: where its sequence lies, where its rows start, and the arrays from the sequence's first token on.
struct Chunk<'k> {
    t: &'k KernelBuilder,
    /// Tokens of the sequence.
    tokens: Tile<'k>,
    /// The first token of each sub-chunk.
    first: [Tile<'k>; SUBS],
    /// Tokens of a sub-chunk, and their numbers.
    sub: u32,
    o: Tile<'k>,
    /// Which of a sub-chunk's tokens the sequence has.
    inside: [Tile<'k>; SUBS],
    q: Tile<'k>,
    k: Tile<'k>,
    g: Tile<'k>,
    beta: Tile<'k>,
    /// Where β of this sequence and head starts, in two steps.
    first_beta: (Tile<'k>, Tile<'k>),
    aqk: Tile<'k>,
    akkd: Tile<'k>,
    akk: Tile<'k>,
    heads: Operand<'k>,
    value_heads: Operand<'k>,
    key_dim: Operand<'k>,
    config: Config,
}

impl<'k> Chunk<'k> {
    /// A number of tokens as the factor of an offset.
    fn offset(&self, tokens: Tile<'k>) -> Tile<'k> {
        if self.config.fixed.is_some() { tokens } else { tokens.to(I64) }
    }

    /// `rows` × `columns` of an array of `width` columns, whose rows are `pitch` apart.
    fn window(
        &self,
        base: Tile<'k>,
        width: Operand<'k>,
        pitch: Operand<'k>,
        corner: (Tile<'k>, Tile<'k>),
        columns: u32,
    ) -> Tile<'k> {
        let (row, column) = corner;
        self.t.make_block_ptr(base, (self.tokens, width), (pitch, 1), (row, column), &[self.sub, columns], &[1, 0])
    }

    /// One sub-chunk's channels from `channel` on, of a keys' array.
    fn channels(&self, base: Tile<'k>, heads: Operand<'k>, sub: usize, channel: Tile<'k>) -> Tile<'k> {
        let pitch = times(heads, self.key_dim);
        let window = self.window(base, self.key_dim, pitch, (self.first[sub], channel), self.config.block_k);
        self.t.load_with(window, within()).to(F32)
    }

    /// A block of Aqk or Akk: by sub-chunks of row and column.
    fn block(&self, base: Tile<'k>, row: usize, column: usize) -> Tile<'k> {
        let width = self.sub * SUBS as u32;
        let column = self.t.constant(self.sub * column as u32, I32);
        let pitch = times(self.value_heads, width.into());
        self.window(base, width.into(), pitch, (self.first[row], column), self.sub)
    }

    /// A diagonal block as it was given.
    fn diagonal(&self, sub: usize) -> Tile<'k> {
        let zero = self.t.constant(0, I32);
        let (width, pitch) = (self.sub.into(), times(self.value_heads, self.sub.into()));
        let window = self.window(self.akkd, width, pitch, (self.first[sub], zero), self.sub);
        self.t.load_with(window, within()).to(F32)
    }

    fn product(&self, a: Tile<'k>, b: Tile<'k>) -> Tile<'k> {
        self.t.dot_with(a, b, Dot::precision(self.config.precision))
    }
}

/// Within both axes of an array.
fn within<'k>() -> Access<'k> {
    boundary(&[0, 1])
}

/// The place of the block below the diagonal in row by row order: (1, 0), (2, 0), (2, 1), (3, 0), …
const fn below(row: usize, column: usize) -> usize {
    row * (row - 1) / 2 + column
}

/// The sums of the products, a pair (of Aqk, of A) for each block below the diagonal, as loops carry them.
type Sums<'k> = [Tile<'k>; 2 * BELOW];

impl TileProgram for InterSolve {
    const NAME: &'static str = "chunk_kda_fwd_kernel_inter_solve_fused";

    fn num_warps(&self) -> u32 {
        4
    }

    fn program(&self) -> Result<Func, ProgramError> {
        self.validate()?;
        let Self { heads, value_heads, key_dim, block_k, sub_chunk, varlen, safe_gate, precision, io, beta } = *self;
        let fixed = Some([heads, value_heads, key_dim]);
        let t = KernelBuilder::new(Self::NAME);
        build(&t, Config { fixed, block_k, sub_chunk, varlen, safe_gate, precision, io, beta });
        Ok(t.finish()?)
    }
}

impl TileProgram for AnyInterSolve {
    const NAME: &'static str = "kda_inter_solve";

    /// One: a block of 16×16 is one warp's product, which more would repeat.
    fn num_warps(&self) -> u32 {
        1
    }

    fn program(&self) -> Result<Func, ProgramError> {
        let Self { block_k, varlen, safe_gate, precision, io, beta } = *self;
        check_common(Self::NAME, block_k, precision, io, beta)?;
        let t = KernelBuilder::new(Self::NAME);
        build(&t, Config { fixed: None, block_k, sub_chunk: 16, varlen, safe_gate, precision, io, beta });
        Ok(t.finish()?)
    }
}

fn build(t: &KernelBuilder, config: Config) {
    let Config { sub_chunk: sub, io, .. } = config;
    let chunk_len = sub * SUBS as u32;
    let [q, k] = ["q", "k"].map(|name| t.pointer(name, io));
    let (g, beta) = (t.pointer("g", F32), t.pointer("beta", config.beta));
    let (aqk, akkd, akk) = (t.pointer("Aqk", io), t.pointer("Akkd", F32), t.pointer("Akk", io));
    let scale = t.scalar("scale", F32);
    let packed = config.varlen.then(|| (t.pointer("cu_seqlens", I64), t.pointer("chunk_indices", I64)));
    let tokens = t.scalar("T", I32);
    let wide = config.fixed.is_none();
    let [heads, value_heads, key_dim] = match config.fixed {
        Some(numbers) => numbers.map(Operand::from),
        None => [t.scalar("H", I32), t.scalar("HV", I32), t.scalar_by_16("K", I32)].map(Operand::from),
    };

    let (mut chunk, batch_head) = (t.program_id(0), t.program_id(1));
    let (batch, value_head) = (batch_head / value_heads, batch_head % value_heads);
    let group = match (heads, value_heads) {
        (Operand::Int(heads), Operand::Int(value_heads)) => Operand::Int(value_heads / heads),
        (heads, Operand::Tile(value_heads)) => (value_heads / heads).into(),
        (_, value_heads) => value_heads,
    };
    let head = value_head / group;
    let (begin, tokens) = match packed {
        Some((cu_seqlens, chunk_indices)) => {
            let sequence = t.load(chunk_indices + chunk * 2).to(I32);
            chunk = t.load(chunk_indices + chunk * 2 + 1).to(I32);
            let [begin, end] = [cu_seqlens + sequence, cu_seqlens + sequence + 1].map(|place| {
                let token = t.load(place);
                if wide { token } else { token.to(I32) }
            });
            (begin, (end - begin).to(I32))
        }
        None if wide => (batch.to(I64) * tokens, tokens),
        None => (batch * tokens, tokens),
    };
    let start = chunk * chunk_len;
    t.return_if(start.ge(tokens));

    let first: [Tile; SUBS] = std::array::from_fn(|index| start + sub * index as u32);
    let o = t.arange(0, sub as i32);
    let at = begin * value_heads + value_head;
    let at_key = (begin * heads + head) * key_dim;
    let chunk = Chunk {
        t,
        tokens,
        first,
        sub,
        o,
        inside: first.map(|first| (first + o).lt(tokens)),
        q: q + at_key,
        k: k + at_key,
        g: g + at * key_dim,
        beta,
        first_beta: (begin * value_heads, value_head),
        aqk: aqk + at * chunk_len,
        akkd: akkd + at * sub,
        akk: akk + at * chunk_len,
        heads,
        value_heads,
        key_dim,
        config,
    };
    let sums = off_diagonal(&chunk);
    let a = finish_off_diagonal(&chunk, sums, scale);
    let diagonal = diagonal_inverses(&chunk);
    let inverse = merged_inverse(&chunk, diagonal, a);
    for (row, blocks) in inverse.iter().enumerate() {
        for (column, &block) in blocks.iter().enumerate() {
            t.store_with(chunk.block(chunk.akk, row, column), block.to(io), within());
        }
    }
}

/// The sums over the channels of all blocks below the diagonal.
fn off_diagonal<'k>(chunk: &Chunk<'k>) -> Sums<'k> {
    let t = chunk.t;
    let Config { block_k, sub_chunk: sub, .. } = chunk.config;
    let zeros = t.zeros(&[sub, sub], F32);
    let steps = match chunk.key_dim {
        Operand::Tile(key_dim) => ((key_dim + (block_k - 1)) / block_k).into(),
        Operand::Int(key_dim) => Operand::Int((key_dim + i64::from(block_k) - 1) / i64::from(block_k)),
        other => other,
    };
    t.range(0, steps, 1, [zeros; 2 * BELOW], |step, sums| {
        let channel = step * block_k;
        let columns = [(
            chunk.channels(chunk.k, chunk.heads, 0, channel),
            chunk.channels(chunk.g, chunk.value_heads, 0, channel),
        )];
        rows_from(chunk, 1, channel, &columns, sums)
    })
}

/// The sums of the blocks of rows `row` and after, given k and G of the sub-chunks before: each row where it begins before the
/// end of the sequence, and so inside the condition of the one above it.
fn rows_from<'k>(
    chunk: &Chunk<'k>,
    row: usize,
    channel: Tile<'k>,
    columns: &[(Tile<'k>, Tile<'k>)],
    sums: Sums<'k>,
) -> Sums<'k> {
    let Chunk { heads, value_heads, key_dim, .. } = *chunk;
    let block_k = chunk.config.block_k;
    let t = chunk.t;
    if row == SUBS {
        return sums;
    }
    t.update_if(chunk.first[row].lt(chunk.tokens), sums, |mut sums| {
        let q = chunk.channels(chunk.q, heads, row, channel);
        let k = chunk.channels(chunk.k, heads, row, channel);
        let g = chunk.channels(chunk.g, value_heads, row, channel);
        // The gate of the row's first token: both factors are scaled about it.
        let channels = channel + t.arange(0, block_k as i32);
        let middle = chunk.g + chunk.offset(chunk.first[row]) * times(value_heads, key_dim) + channels;
        let middle = t.load_with(middle, mask(channels.lt(key_dim)).other(0)).row();
        let left = t.where_(chunk.inside[row].col(), (g - middle).exp2(), 0).named("left");
        let (q_left, k_left) = (q * left, k * left);
        for (column, &(k, g)) in columns.iter().enumerate() {
            let right = (k * (middle - g).exp2()).trans();
            let pair = 2 * below(row, column);
            sums[pair] += t.dot(q_left, right);
            sums[pair + 1] += t.dot(k_left, right);
        }
        let columns: Vec<_> = columns.iter().copied().chain([(k, g)]).collect();
        rows_from(chunk, row + 1, channel, &columns, sums)
    })
}

/// Stores the blocks of Aqk; gives those of A, scaled by β.
fn finish_off_diagonal<'k>(chunk: &Chunk<'k>, sums: Sums<'k>, scale: Tile<'k>) -> [Tile<'k>; BELOW] {
    let t = chunk.t;
    let mut a: [Tile<'k>; BELOW] = std::array::from_fn(|index| sums[2 * index + 1]);
    for row in 1..SUBS {
        a = t.update_if(chunk.first[row].lt(chunk.tokens), a, |mut a| {
            for column in 0..row {
                let block = (sums[2 * below(row, column)] * scale).to(chunk.config.io);
                t.store_with(chunk.block(chunk.aqk, row, column), block, within());
            }
            let pitch = chunk.value_heads;
            let beta = chunk.beta + chunk.first_beta.0 + chunk.first_beta.1;
            let beta = t.make_block_ptr(beta, (chunk.tokens,), (pitch,), (chunk.first[row],), &[chunk.sub], &[0]);
            let beta = t.load_with(beta, boundary(&[0])).to(F32);
            for a in &mut a[below(row, 0)..below(row + 1, 0)] {
                *a *= beta.col();
            }
            a
        });
    }
    a
}

/// The inverses of I + A's diagonal blocks: given, or made: in the seeds' form by forward substitution, row by row, as there; else in six
/// products.
fn diagonal_inverses<'k>(chunk: &Chunk<'k>) -> [Tile<'k>; SUBS] {
    let t = chunk.t;
    let blocks: [Tile<'k>; SUBS] = std::array::from_fn(|index| chunk.diagonal(index));
    if chunk.config.safe_gate {
        return blocks;
    }
    if chunk.config.fixed.is_none() {
        return blocks.map(|block| inverse_by_doubling(chunk, block));
    }
    let (sub, pitch) = (chunk.sub, chunk.value_heads);
    let o = chunk.o;
    let strictly_lower = o.col().gt(o.row());
    let unit = o.col().eq(o.row());
    let blocks = blocks.map(|block| -t.where_(strictly_lower, block, 0));
    let start = chunk.first[0];
    let mut index = 0;
    blocks.map(|block| {
        // Rows 0 and 1 of −A are those of the inverse (less I) already.
        let first = sub * index;
        index += 1;
        let last = (chunk.tokens - start).minimum(first + sub);
        let [inverse] = t.range(first + 2, last, 1, [block], |i, [inverse]| {
            let row = -t.load(chunk.akkd + chunk.offset(start + i) * pitch * sub + o);
            let mut row = t.where_(o.lt(i - first), row, 0.0);
            row += (row.col() * inverse).sum(0);
            [t.where_(o.eq(i - first).col(), row, inverse)]
        });
        inverse + unit
    })
}

/// The inverse of I + A for a diagonal block of A, by blocks that double: of 4 rows, where A³ is the last power that is not 0, by
/// (I − A)·(I + A²) = I − A + A² − A³; and from the inverse X of blocks to that of blocks of twice the rows by X − X·A·X, where A is what is below
/// them. Unlike the series over the whole block, in which powers of A grow and cancel, this is as exact as substitution; and unlike
/// that it is six products long. Singles' precision in each: the error would be the inverse's own.
fn inverse_by_doubling<'k>(chunk: &Chunk<'k>, block: Tile<'k>) -> Tile<'k> {
    let t = chunk.t;
    let o = chunk.o;
    let precision = match chunk.config.precision {
        InputPrecision::Tf32 => InputPrecision::Tf32x3,
        other => other,
    };
    let product = |a: Tile<'k>, b: Tile<'k>| t.dot_with(a, b, Dot::precision(precision));
    let same = |rows: i64| (o / rows).col().eq((o / rows).row());
    let block = t.where_(o.col().gt(o.row()), block, 0);
    let smallest = t.where_(same(4), block, 0);
    let square = product(smallest, smallest);
    let mut inverse = (o.col().eq(o.row()) - smallest) + (square - product(smallest, square));
    let mut rows = 4;
    while rows < i64::from(chunk.sub) {
        let between = t.where_(same(2 * rows) & !same(rows), block, 0);
        inverse -= product(inverse, product(between, inverse));
        rows *= 2;
    }
    inverse
}

/// The inverse's blocks, row by row, from its diagonal blocks and the blocks of A.
fn merged_inverse<'k>(chunk: &Chunk<'k>, diagonal: [Tile<'k>; SUBS], a: [Tile<'k>; BELOW]) -> Vec<Vec<Tile<'k>>> {
    let mut inverse: Vec<Vec<Tile<'k>>> = vec![Vec::new(); SUBS];
    // By distance from the diagonal: a block needs those nearer to it.
    for row in 0..SUBS {
        inverse[row].resize(row + 1, diagonal[row]);
    }
    for distance in 1..SUBS {
        for row in distance..SUBS {
            let column = row - distance;
            let product = if distance == 1 {
                // Next to the diagonal there is one term: (Akk_ii·A)·Akk_jj.
                chunk.product(chunk.product(diagonal[row], a[below(row, column)]), diagonal[column])
            } else {
                let terms = (column..row).map(|u| chunk.product(a[below(row, u)], inverse[u][column]));
                match terms.reduce(|sum, term| sum + term) {
                    Some(sum) => chunk.product(diagonal[row], sum),
                    None => diagonal[row],
                }
            };
            inverse[row][column] = -product;
        }
    }
    inverse
}
