//! `factor IN.npy -o OUT.npy`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use ndarray::ArrayD;

use super::npy::{self, NpyFile};
use super::output::Destination;
use super::table::Table;
use super::{Failure, Outcome};
use crate::device::{self, Buffer, Device, Kind};
use crate::kernels::cholesky::{Cholesky, Options, Precision, Shape, failures, residuals};

/// Failed matrices that are named one by one.
const NAMED_FAILURES: usize = 10;

/// Steps of the progress bar.
const STEPS: usize = 50;

/// What to factor, where to put it, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Symmetric positive definite matrices: an n × n or batch × n × n array of float32 or float64 (which is rounded to
    /// float32), in C or Fortran order. Only the lower triangles are read.
    #[arg(value_name = "IN.npy")]
    input: PathBuf,
    /// The factors: lower triangular, float32, of the input's shape. The factor of a matrix that failed is unspecified.
    #[arg(short, long, value_name = "OUT.npy")]
    output: PathBuf,
    /// Where to run: auto takes the GPU where there is one. If not given, the environment variable TILEWRIGHT_DEVICE
    /// says, else auto.
    #[arg(long, value_enum)]
    device: Option<DeviceName>,
    /// How exact the arithmetic is: full is FP32 throughout, fast may use tensor cores (no kernel does yet).
    #[arg(long, value_enum, default_value_t)]
    precision: PrecisionName,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DeviceName {
    Auto,
    Gpu,
    Emulator,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PrecisionName {
    #[default]
    Full,
    Fast,
}

impl From<PrecisionName> for Precision {
    fn from(name: PrecisionName) -> Self {
        match name {
            PrecisionName::Full => Precision::Full,
            PrecisionName::Fast => Precision::Fast,
        }
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let input = Input::read(&args.input)?;
    let (device, why) = match args.device {
        None => device::best()?,
        Some(DeviceName::Auto) => device::by_name("auto")?,
        Some(DeviceName::Gpu) => device::by_name("gpu")?,
        Some(DeviceName::Emulator) => device::by_name("emulator")?,
    };
    let options = Options { precision: args.precision.into(), ..Options::for_device(&device) };
    let shape = Shape::contiguous(input.batch, input.n);
    let plan = Cholesky::plan(shape, &options).map_err(|error| Failure::in_file(&args.input, error))?;
    let destination = Destination::new(&args.output)?;

    let matrices = input.array.as_slice().unwrap_or_default();
    let factored = factor(&device, matrices, shape, &options)?;
    npy::write(&destination, input.array.shape(), &factored.l)?;

    let kernel = plan.launches().launches().first().map_or("none", |launch| &launch.meta.name);
    let residuals = good_residuals(matrices, &factored, shape)?;
    let failed: Vec<_> = failures(&factored.info).collect();
    let mut table = Table::new(0);
    table.row(["file", &format!("{} ({})", args.input.display(), input.elements)]);
    table.row(["factors", &args.output.display().to_string()]);
    table.row(["n", &input.n.to_string()]);
    table.row(["batch", &input.batch.to_string()]);
    table.row(["device", &format!("{} ({why})", device.properties().name)]);
    table.row(["kernel", kernel]);
    table.row(["time", &format!("{:.3?}", factored.time)]);
    table.row(["worst residual", &units(residuals.last().copied())]);
    table.row(["median residual", &units(residuals.get(residuals.len() / 2).copied())]);
    table.row(["failed", &format!("{} of {}", failed.len(), input.batch)]);
    write!(out, "{table}")?;
    for (matrix, info) in failed.iter().take(NAMED_FAILURES) {
        writeln!(out, "  matrix {matrix}: info {info} (pivot {info} is not a positive finite number)")?;
    }
    if failed.len() > NAMED_FAILURES {
        writeln!(out, "  and {} more", failed.len() - NAMED_FAILURES)?;
    }
    Ok(if failed.is_empty() { Outcome::Fine } else { Outcome::NotFactored })
}

/// The matrices of the input file.
struct Input {
    /// In C order.
    array: ArrayD<f32>,
    /// What the file's elements are, for the table.
    elements: &'static str,
    batch: usize,
    n: usize,
}

impl Input {
    fn read(path: &Path) -> Result<Self, Failure> {
        let file = NpyFile::read(path)?;
        let (array, elements) = if let Some(array) = file.array::<f32>()? {
            (array, "float32")
        } else if let Some(array) = file.array::<f64>()? {
            (array.mapv(|value| value as f32), "float64, converted to float32")
        } else {
            return Err(file.wrong_type("float32 ('<f4') or float64 ('<f8')"));
        };
        let (batch, rows, columns) = match *array.shape() {
            [rows, columns] => (1, rows, columns),
            [batch, rows, columns] => (batch, rows, columns),
            _ => {
                let dimensions = array.ndim();
                return Err(file.failure(format!(
                    "it has {dimensions} dimension{}: expected 2 (one matrix) or 3 (a batch)",
                    if dimensions == 1 { "" } else { "s" }
                )));
            }
        };
        if rows != columns {
            return Err(file.failure(format!("not square: its matrices are {rows} × {columns}")));
        }
        // Matrices of order 0 take no bytes, so that a file of none may promise any number of them.
        if rows == 0 && batch > 1 << 20 {
            return Err(file.failure(format!("a batch of {batch} matrices of order 0: at most {} are taken", 1 << 20)));
        }
        Ok(Self { array, elements, batch, n: rows })
    }
}

struct Factored {
    l: Vec<f32>,
    info: Vec<i32>,
    time: Duration,
}

/// Factors the batch. The emulator gets it in parts, so that there is progress to show; a GPU is done before anybody
/// could look.
fn factor<D: Device>(device: &D, matrices: &[f32], shape: Shape, options: &Options) -> Result<Factored, Failure> {
    let Shape { batch, n, stride_a: stride, .. } = shape;
    let step = match device.properties().kind {
        Kind::Emulator => batch.div_ceil(STEPS).next_multiple_of(8),
        Kind::Gpu => batch,
    };
    let a = Buffer::from_slice(device, matrices, "a")?;
    let l = Buffer::<f32>::uninit(device, matrices.len(), "l")?;
    let info = Buffer::<i32>::uninit(device, batch, "info")?;
    let style = ProgressStyle::with_template("{bar:40} {pos} of {len} matrices, {eta} to go").map_err(Failure::new)?;
    // On a terminal only: elsewhere it prints nothing.
    let bar = ProgressBar::new(batch as u64).with_style(style).with_finish(ProgressFinish::AndClear);
    let mut time = Duration::ZERO;
    let mut start = 0;
    while start < batch {
        let end = batch.min(start + step.max(1));
        let part = Cholesky::plan(Shape::contiguous(end - start, n), options)?;
        let (a, mut l) = (a.view(start * stride..end * stride)?, l.view(start * stride..end * stride)?);
        let mut replay = part.capture(device, &a, &mut l, &mut info.view(start..end)?)?;
        time += device.time(&mut || replay.replay())?;
        bar.set_position(end as u64);
        start = end;
    }
    Ok(Factored { l: l.to_vec()?, info: info.to_vec()?, time })
}

/// The residuals of the matrices that did not fail, smallest first.
fn good_residuals(matrices: &[f32], factored: &Factored, shape: Shape) -> Result<Vec<f64>, Failure> {
    let all = residuals(matrices, &factored.l, &shape)?;
    let mut good: Vec<f64> =
        all.into_iter().zip(&factored.info).filter(|&(_, &info)| info == 0).map(|(residual, _)| residual).collect();
    good.sort_by(f64::total_cmp);
    Ok(good)
}

fn units(residual: Option<f64>) -> String {
    residual.map_or_else(|| "none factored".to_owned(), |residual| format!("{residual:.4} n·ε·‖A‖₁"))
}
