//! A downstream crate: kernels named in `build.rs`, launched from here.
//!
//! Factors two batches of covariance-like matrices, of order 24 and 48, on the GPU if there is one, else on the
//! emulator, and checks the residuals.

use std::error::Error;
use std::process::ExitCode;

use tilewright::device::{self, Buffer, Device};
use tilewright::kernels::cholesky::{Shape, residuals};

/// The launchers that `build.rs` made.
mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

/// Matrices of each order.
const BATCH: usize = 6;
/// The largest residual that counts as right, as a multiple of n·ε·‖A‖₁.
const LARGEST_RESIDUAL: f64 = 0.1;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let (device, why) = device::best()?;
    println!("{}: {why}", device.properties().name);
    factor24(&device)?;
    factor48(&device)
}

/// Through the launcher that was named by kernel and settings.
fn factor24(device: &dyn Device) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::new(device, 24)?;
    let launcher = kernels::PotrfWarpN24::load(device)?;
    let args = kernels::PotrfWarpN24Args {
        a: &batch.a,
        l: &mut batch.l,
        info: &mut batch.info,
        stride_a: 24 * 24,
        stride_l: 24 * 24,
        lda: 24,
        ldl: 24,
        batch: BATCH as i32,
    };
    launcher.launch(device, args)?;
    batch.report("PotrfWarpN24")
}

/// Through the launcher with a name of our own.
fn factor48(device: &dyn Device) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::new(device, 48)?;
    let launcher = kernels::Factor48::load(device)?;
    let args = kernels::Factor48Args {
        a: &batch.a,
        l: &mut batch.l,
        info: &mut batch.info,
        stride_a: 48 * 48,
        stride_l: 48 * 48,
        lda: 48,
        ldl: 48,
        batch: BATCH as i32,
    };
    launcher.launch(device, args)?;
    batch.report("Factor48")
}

/// A batch on the device and on the host.
struct Batch {
    shape: Shape,
    matrices: Vec<f32>,
    a: Buffer<f32>,
    l: Buffer<f32>,
    info: Buffer<i32>,
}

impl Batch {
    /// Kernel matrices of the Ornstein–Uhlenbeck process, exp(−|i − j| / length), each with another length, and a ridge.
    fn new(device: &dyn Device, n: usize) -> Result<Self, device::Error> {
        let entry = |index: usize| {
            let (matrix, row, column) = (index / (n * n), index / n % n, index % n);
            let ridge = if row == column { 0.01 } else { 0.0 };
            (-(row.abs_diff(column) as f32) / (1.0 + 2.0 * matrix as f32)).exp() + ridge
        };
        let matrices: Vec<f32> = (0..BATCH * n * n).map(entry).collect();
        Ok(Self {
            shape: Shape::contiguous(BATCH, n),
            a: Buffer::from_slice(device, &matrices, "a")?,
            l: Buffer::uninit(device, matrices.len(), "l")?,
            info: Buffer::uninit(device, BATCH, "info")?,
            matrices,
        })
    }

    /// Copies the result out and checks it.
    fn report(&self, launcher: &str) -> Result<(), Box<dyn Error>> {
        let failed = self.info.to_vec()?.into_iter().filter(|&info| info != 0).count();
        let residuals = residuals(&self.matrices, &self.l.to_vec()?, &self.shape)?;
        // Not `f64::max`, which would pass over a NaN.
        let worst = residuals.into_iter().max_by(f64::total_cmp).unwrap_or(0.0);
        let n = self.shape.n;
        println!("{launcher}: {BATCH} matrices of order {n}, largest residual {worst:.4}, {failed} failed");
        if failed > 0 || worst.is_nan() || worst > LARGEST_RESIDUAL {
            return Err(format!("{launcher}: wrong result").into());
        }
        Ok(())
    }
}
