//! Shadows of matrices: tiles in operand order for the tensor cores, made on the CPU.

use half::{bf16, f16};
use tilewright::device::{Arg, Buffer, Device};
use tilewright::template::Operand;

/// Rows of a tile, and bytes of a row in a plane of it.
const TILE: usize = 128;

/// The shadow of a batch of matrices of n rows and `k_tiles` tiles of k.
pub struct Shadow {
    pub operand: Operand,
    pub n: usize,
    pub row_tiles: usize,
    pub k_tiles: usize,
    pub bytes: Vec<u8>,
    /// A power of two for each row of the batch's tiles.
    pub scale: Vec<f32>,
    /// What the planes hold: `planes[p][(matrix·n + row)·k + column]`.
    pub planes: Vec<Vec<f64>>,
}

/// A number in the operand's format, to nearest: its bits and its value.
fn encode(operand: Operand, value: f32) -> (u32, f64) {
    match operand {
        Operand::F16 | Operand::F16x3 => {
            let held = f16::from_f32(value);
            (held.to_bits().into(), held.to_f64())
        }
        Operand::Bf16 => {
            let held = bf16::from_f32(value);
            (held.to_bits().into(), held.to_f64())
        }
        Operand::Tf32 | Operand::Tf32x3 => {
            let bits = value.to_bits();
            let held = (bits + 0xfff + (bits >> 13 & 1)) & !0x1fff;
            (held, f32::from_bits(held).into())
        }
        Operand::E4m3 => {
            let decode = |code: u32| {
                let (field, fraction) = (code as i32 >> 3 & 15, f64::from(code & 7) / 8.0);
                let size =
                    if field == 0 { fraction * 2.0_f64.powi(-6) } else { (1.0 + fraction) * 2.0_f64.powi(field - 7) };
                if code & 128 == 0 { size } else { -size }
            };
            let far = |code: &u32| (decode(*code) - f64::from(value)).abs();
            let code = (0..256).filter(|code| code & 127 != 127).min_by(|x, y| far(x).total_cmp(&far(y))).unwrap();
            (code, decode(code))
        }
    }
}

impl Shadow {
    /// The shadow of `matrices`: n by `k_tiles` tiles of k each, row-major, contiguous.
    pub fn new(operand: Operand, matrices: &[f32], n: usize, k_tiles: usize) -> Self {
        let k = k_tiles * operand.k_of_tile() as usize;
        let batch = matrices.len() / (n * k).max(1);
        let row_tiles = n.div_ceil(TILE);
        let planes = operand.planes() as usize;
        let width = TILE / operand.k_of_tile() as usize;
        let largest = if operand == Operand::E4m3 { 8 } else { 14 };
        let mut shadow = Self {
            operand,
            n,
            row_tiles,
            k_tiles,
            bytes: vec![0; batch * row_tiles * k_tiles * planes * TILE * TILE],
            scale: vec![1.0; batch * row_tiles * TILE],
            planes: vec![vec![0.0; matrices.len()]; planes],
        };
        for (index, row) in matrices.chunks(k).enumerate() {
            let (matrix, i) = (index / n, index % n);
            let size = row.iter().fold(0.0_f32, |size, value| size.max(value.abs()));
            // The least power of two that is not less than the row's largest entry over 2^largest.
            let scale = if size > 0.0 { 2.0_f32.powi(size.log2().ceil() as i32 - largest) } else { 1.0 };
            shadow.scale[matrix * row_tiles * TILE + i] = scale;
            for (column, value) in row.iter().enumerate() {
                let mut rest = value / scale;
                for plane in 0..planes {
                    let (bits, held) = encode(operand, rest);
                    rest -= held as f32;
                    shadow.planes[plane][index * k + column] = held;
                    let (k_tile, along) = (column * width / TILE, column * width % TILE);
                    let at = shadow.tile(matrix, i / TILE, k_tile, plane) + place(i % TILE, along);
                    shadow.bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
                }
            }
        }
        shadow
    }

    /// Where a plane of a tile begins.
    fn tile(&self, matrix: usize, row_tile: usize, k_tile: usize, plane: usize) -> usize {
        let tile = (matrix * self.row_tiles + row_tile) * self.k_tiles + k_tile;
        (tile * self.operand.planes() as usize + plane) * TILE * TILE
    }

    /// Fills the tiles of all matrices that `wanted(row tile, k tile)` does not name with NaN.
    pub fn spoil(&mut self, wanted: impl Fn(usize, usize) -> bool) {
        let size = self.operand.planes() as usize * TILE * TILE;
        let (row_tiles, k_tiles) = (self.row_tiles, self.k_tiles);
        for (index, tile) in self.bytes.chunks_mut(size).enumerate() {
            if !wanted(index / k_tiles % row_tiles, index % k_tiles) {
                tile.fill(0xff);
            }
        }
    }

    /// The sum of the planes times the scale: what the shadow stands for.
    pub fn value(&self, matrix: usize, i: usize, column: usize) -> f64 {
        let index = (matrix * self.n + i) * self.k_tiles * self.operand.k_of_tile() as usize + column;
        let scale = f64::from(self.scale[matrix * self.row_tiles * TILE + i]);
        self.planes.iter().map(|plane| plane[index]).sum::<f64>() * scale
    }

    /// The shadow in a device's memory, as an argument of the operand's type.
    pub fn arg(&self, device: &dyn Device) -> Arg {
        fn typed<T: tilewright::device::Element>(device: &dyn Device, bytes: &[u8]) -> Arg {
            let elements: Vec<T> = bytemuck::pod_collect_to_vec(bytes);
            (&Buffer::from_slice(device, &elements, "shadow").unwrap()).into()
        }
        match self.operand {
            Operand::F16 | Operand::F16x3 => typed::<f16>(device, &self.bytes),
            Operand::Bf16 => typed::<bf16>(device, &self.bytes),
            Operand::Tf32 | Operand::Tf32x3 => typed::<f32>(device, &self.bytes),
            Operand::E4m3 => typed::<u8>(device, &self.bytes),
        }
    }
}

/// Where byte `along` of row `row` lies in a plane: 16-byte pieces are exchanged by the row's number.
fn place(row: usize, along: usize) -> usize {
    row * TILE + ((along / 16) ^ (row % 8)) * 16 + along % 16
}
