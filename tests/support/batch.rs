//! Batches in a device's memory: laid out with and without gaps, poisoned where kernels have no business, factored, and
//! looked at afterwards.

use tilewright::device::{Arg, Buffer, Device};
use tilewright::kernels::cholesky::{Cholesky, Options, Shape};
use tilewright::ptx::{Extent, Module};

/// A batch as it lies in memory: NaN wherever the kernels have no business to read.
pub fn spread(matrices: &[f32], shape: &Shape) -> Vec<f32> {
    let n = shape.n;
    let mut memory = vec![f32::NAN; shape.elements_a().unwrap()];
    for b in 0..shape.batch {
        for i in 0..n {
            let row = b * shape.stride_a + i * shape.lda;
            memory[row..row + i + 1].copy_from_slice(&matrices[(b * n + i) * n..(b * n + i) * n + i + 1]);
        }
    }
    memory
}

/// One matrix of a batch, contiguous.
pub fn gather(memory: &[f32], b: usize, n: usize, stride: usize, ld: usize) -> Vec<f32> {
    (0..n).flat_map(|i| memory[b * stride + i * ld..][..n].to_vec()).collect()
}

/// What lies between the rows and matrices of a factor before it is written.
pub const UNTOUCHED: f32 = -123.5;

/// How a batch is laid out: apart or in place, with or without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub in_place: bool,
    pub gaps: bool,
}

impl Layout {
    /// One of the four, by two bits.
    pub fn number(number: usize) -> Self {
        Self { in_place: number & 1 == 1, gaps: number & 2 == 2 }
    }

    /// The shape of a batch laid out so; its matrices are not aligned where there are gaps.
    pub fn shape(self, batch: usize, n: usize) -> Shape {
        match (self.gaps, self.in_place) {
            (false, _) => Shape::contiguous(batch, n),
            (true, true) => Shape::strided(batch, n, n + 3, n * (n + 3) + 5),
            (true, false) => {
                Shape { batch, n, lda: n + 3, ldl: n + 1, stride_a: n * (n + 3) + 5, stride_l: n * (n + 2) + 3 }
            }
        }
    }
}

/// Runs `factor` over a laid-out batch; the factors, contiguous, and `info`. What is not a factor's must be as it was.
pub fn run(
    device: &dyn Device,
    matrices: &[f32],
    shape: &Shape,
    in_place: bool,
    factor: impl FnOnce(&Buffer<f32>, &mut Buffer<f32>, &mut Buffer<i32>),
) -> (Vec<f32>, Vec<i32>) {
    let Shape { batch, n, .. } = *shape;
    let a = Buffer::from_slice(device, &spread(matrices, shape), "a").unwrap();
    let mut info = Buffer::from_slice(device, &vec![-99; batch], "info").unwrap();
    let (before, after) = if in_place {
        let mut l = a.view(..).unwrap();
        factor(&a, &mut l, &mut info);
        (spread(matrices, shape), l.to_vec().unwrap())
    } else {
        let poison = vec![UNTOUCHED; shape.elements_l().unwrap()];
        let mut l = Buffer::from_slice(device, &poison, "l").unwrap();
        factor(&a, &mut l, &mut info);
        (poison, l.to_vec().unwrap())
    };
    if !in_place {
        let same = spread(matrices, shape).iter().zip(a.to_vec().unwrap()).all(|(x, y)| x.to_bits() == y.to_bits());
        assert!(same, "{shape:?}: the input was written");
    }
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        let (b, rest) = (index / shape.stride_l, index % shape.stride_l);
        let inside = b < batch && rest / shape.ldl < n && rest % shape.ldl < n;
        assert!(inside || before.to_bits() == after.to_bits(), "{shape:?}: element {index} is not the factor's");
    }
    let factors = (0..batch).flat_map(|b| gather(&after, b, n, shape.stride_l, shape.ldl)).collect();
    (factors, info.to_vec().unwrap())
}

/// Through the host API.
pub fn factor(device: &dyn Device, matrices: &[f32], batch: usize, n: usize, layout: Layout) -> (Vec<f32>, Vec<i32>) {
    factor_shape(device, matrices, layout.shape(batch, n), layout.in_place)
}

/// Through the host API, with any shape whose factors follow each other.
pub fn factor_shape(device: &dyn Device, matrices: &[f32], shape: Shape, in_place: bool) -> (Vec<f32>, Vec<i32>) {
    factor_planned(device, matrices, shape, in_place, &Options::for_device(device))
}

/// The same with a choice of options.
pub fn factor_planned(
    device: &dyn Device,
    matrices: &[f32],
    shape: Shape,
    in_place: bool,
    options: &Options,
) -> (Vec<f32>, Vec<i32>) {
    let cholesky = Cholesky::plan(shape, options).unwrap();
    run(device, matrices, &shape, in_place, |a, l, info| cholesky.factor(device, a, l, info).unwrap())
}

/// Through a module of a chosen specialisation.
pub fn factor_with(
    device: &dyn Device,
    module: &Module,
    matrices: &[f32],
    batch: usize,
    n: usize,
    layout: Layout,
) -> (Vec<f32>, Vec<i32>) {
    let shape = layout.shape(batch, n);
    let per_cta = match &module.meta.kernels[0].grid.x {
        Extent::Ceil { by, .. } => *by as usize,
        other => panic!("{other:?}"),
    };
    let kernel = device.load(&module.clone().into()).unwrap().kernel(&module.meta.kernels[0].name).unwrap();
    run(device, matrices, &shape, layout.in_place, |a, l, info| {
        let args: [Arg; 8] = [
            a.into(),
            l.into(),
            info.into(),
            (shape.stride_a as i64).into(),
            (shape.stride_l as i64).into(),
            (shape.lda as i32).into(),
            (shape.ldl as i32).into(),
            (batch as i32).into(),
        ];
        device.launch(&kernel, [batch.div_ceil(per_cta) as u32, 1, 1], &args).unwrap();
    })
}
