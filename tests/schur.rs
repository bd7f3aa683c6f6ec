//! The update of lower tiles on the tensor cores, `schur_wgmma`, against f64.
//!
//! On the emulator with all checks on, or on the GPU with `TILEWRIGHT_DEVICE=gpu` (a Hopper card).

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::StandardNormal;
use support::shadow::Shadow;
use tilewright::device::{Arg, Buffer, Device, Error};
use tilewright::emulate::{self, FaultKind};
use tilewright::ptx::{Arch, Module};
use tilewright::template::{Operand, ParamError, SchurWgmma};

/// Rows and columns of a tile.
const TILE: usize = 128;

/// What is updated, and how it lies.
#[derive(Clone, Copy, Debug)]
struct Case {
    n: usize,
    batch: usize,
    k_tiles: usize,
    first_k: usize,
    depth: usize,
    first_row: usize,
    first_col: usize,
    cols: usize,
    /// Elements between the end of a row and the next.
    gap: usize,
    /// Elements before the first.
    offset: usize,
    in_place: bool,
    ctas: u32,
}

impl Case {
    /// Every tile of one matrix of order `n`, over all of `depth` k tiles, with no gaps.
    fn of(n: usize, depth: usize) -> Self {
        Self {
            n,
            batch: 1,
            k_tiles: depth,
            first_k: 0,
            depth,
            first_row: 0,
            first_col: 0,
            cols: n.div_ceil(TILE),
            gap: 0,
            offset: 0,
            in_place: false,
            ctas: 2,
        }
    }

    fn ld(&self) -> usize {
        self.n + self.gap
    }

    fn stride(&self) -> usize {
        self.n * self.ld() + self.gap
    }

    fn index(&self, matrix: usize, i: usize, j: usize) -> usize {
        matrix * self.stride() + i * self.ld() + j
    }

    fn elements(&self) -> usize {
        self.index(self.batch - 1, self.n - 1, self.n - 1) + 1
    }

    /// Whether entry (i, j) is updated.
    fn is_wanted(&self, i: usize, j: usize) -> bool {
        let (row, col) = (i / TILE, j / TILE);
        j <= i && (self.first_col..self.first_col + self.cols).contains(&col) && row >= self.first_row
    }

    /// The entries that are updated.
    fn wanted(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let Case { n, batch, .. } = *self;
        let entries = (0..batch).flat_map(move |b| (0..n).flat_map(move |i| (0..=i).map(move |j| (b, i, j))));
        entries.filter(|&(_, i, j)| self.is_wanted(i, j))
    }

    /// Whether a tile of the shadow has to do with what is updated.
    fn needs(&self, row_tile: usize, k_tile: usize) -> bool {
        let is_column = (self.first_col..self.first_col + self.cols).contains(&row_tile);
        let is_row = row_tile >= self.first_row.max(self.first_col);
        (is_row || is_column) && (self.first_k..self.first_k + self.depth).contains(&k_tile)
    }
}

/// Matrices of n by k with rows of very different sizes; `positive` where all entries are.
fn matrices(case: &Case, k: usize, positive: bool, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut values = Vec::with_capacity(case.batch * case.n * k);
    for _ in 0..case.batch * case.n {
        let size = 2.0_f32.powi(rng.random_range(-12..4));
        values.extend((0..k).map(|_| {
            let value: f32 = rng.sample(StandardNormal);
            size * if positive { value.abs() } else { value }
        }));
    }
    values
}

fn device() -> std::sync::Arc<dyn Device> {
    let device = support::device();
    assert_eq!(device.properties().arch, Arch::Sm90a, "the kernel is for Hopper");
    device
}

/// Runs `module` over `c` as the case says. What is not updated must be as it was; returns all of the output.
fn run(module: &Module, case: &Case, shadow: &Shadow, c: &[f32]) -> Result<Vec<f32>, Error> {
    let device = device();
    let entry = device.load(&module.clone().into())?.kernel(&module.meta.kernels[0].name)?;
    let place = |values: &[f32], label: &str| {
        let mut memory = vec![f32::NAN; case.offset];
        memory.extend_from_slice(values);
        Buffer::from_slice(&*device, &memory, label).unwrap().view(case.offset..).unwrap()
    };
    let before = if case.in_place { c.to_vec() } else { vec![support::batch::UNTOUCHED; c.len()] };
    let c_in = place(c, "c_in");
    let mut c_out = if case.in_place { c_in.view(..).unwrap() } else { place(&before, "c_out") };
    let scale = Buffer::from_slice(&*device, &shadow.scale, "scale").unwrap();
    let number = |value: usize| Arg::from(value as i32);
    let args = [
        (&c_in).into(),
        (&mut c_out).into(),
        shadow.arg(&*device),
        (&scale).into(),
        (case.stride() as i64).into(),
        (case.stride() as i64).into(),
        number(case.ld()),
        number(case.ld()),
        number(case.n),
        number(case.batch),
        number(shadow.row_tiles),
        number(shadow.k_tiles),
        number(case.first_k),
        number(case.depth),
        number(case.first_row),
        number(case.first_col),
        number(case.cols),
    ];
    device.launch(&entry, [case.ctas, 1, 1], &args)?;
    let after = c_out.to_vec()?;
    let mut expected = before;
    for (b, i, j) in case.wanted() {
        expected[case.index(b, i, j)] = after[case.index(b, i, j)];
    }
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert!(bits(&expected) == bits(&after), "{case:?}: written where nothing is to be updated");
    assert!(case.in_place || bits(c) == bits(&c_in.to_vec()?), "{case:?}: the input was written");
    Ok(after)
}

/// Numbers where something is updated, NaN elsewhere.
fn input(case: &Case, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut c = vec![f32::NAN; case.elements()];
    for (b, i, j) in case.wanted() {
        c[case.index(b, i, j)] = rng.sample(StandardNormal);
    }
    c
}

/// The shadow of random matrices, with NaN in the tiles that have nothing to do with the case, and the matrices.
fn random_shadow(operand: Operand, case: &Case, positive: bool, seed: u64) -> (Shadow, Vec<f32>) {
    let values = matrices(case, case.k_tiles * operand.k_of_tile() as usize, positive, seed);
    let mut shadow = Shadow::new(operand, &values, case.n, case.k_tiles);
    shadow.spoil(|row_tile, k_tile| case.needs(row_tile, k_tile));
    (shadow, values)
}

/// One entry by f64: what the planes' products give, and how far the tensor cores may be from it.
///
/// A product of 32 bytes of k is added to the sum after all addends were cut to a grid of so many bits under the largest, and the sum is cut
/// to its format (docs/emulator.md). The sizes are those of the sums on the way, step by step.
fn by_f64(kernel: &SchurWgmma, case: &Case, shadow: &Shadow, (b, i, j): (usize, usize, usize)) -> (f64, f64) {
    let operand = kernel.operand;
    let of_tile = operand.k_of_tile() as usize;
    let (grid, fraction) = if operand == Operand::E4m3 { (13, 13) } else { (25, 23) };
    let each = 2.0_f64.powi(-fraction) + (of_tile / 4 + 1) as f64 * 2.0_f64.powi(-grid);
    let products: &[(usize, usize)] = if operand.planes() == 2 { &[(1, 0), (0, 1), (0, 0)] } else { &[(0, 0)] };
    let k = shadow.k_tiles * of_tile;
    let row = |plane: usize, i: usize| &shadow.planes[plane][(b * case.n + i) * k..][..k];
    let scale = |i: usize| f64::from(shadow.scale[b * shadow.row_tiles * TILE + i]);
    let (mut sum, mut second, mut bound) = (0.0, 0.0, 0.0);
    for tile in 0..case.depth {
        for &(p, q) in products {
            let first = (case.first_k + tile) * of_tile;
            for step in (first..first + of_tile).step_by(of_tile / 4) {
                let range = step..step + of_tile / 4;
                let terms = row(p, i)[range.clone()].iter().zip(&row(q, j)[range]).map(|(x, y)| x * y);
                let (more, largest) =
                    terms.fold((0.0, 0.0), |(more, largest), x: f64| (more + x, f64::max(largest, x.abs())));
                let before: f64 = sum;
                sum += more;
                bound += each * before.abs().max(f64::abs(sum)).max(largest);
            }
        }
        if kernel.promote > 0 && ((tile + 1) % kernel.promote as usize == 0 || tile + 1 == case.depth) {
            second += sum;
            sum = 0.0;
            bound += 2.0_f64.powi(-24) * f64::abs(second);
        }
    }
    let scale = scale(i) * scale(j);
    ((second + sum) * scale, bound * scale)
}

/// Runs the case and holds every entry to its bound; returns the root mean square of error over size, Σ|Sᵢₖ·Sⱼₖ|.
fn check(kernel: SchurWgmma, case: Case, seed: u64) {
    let module = kernel.instantiate(Arch::Sm90a).unwrap();
    let (shadow, _) = random_shadow(kernel.operand, &case, false, seed);
    let c = input(&case, seed + 1);
    let after = run(&module, &case, &shadow, &c).unwrap_or_else(|error| panic!("{kernel:?}, {case:?}: {error}"));
    assert!(case.wanted().next().is_some());
    for (b, i, j) in case.wanted() {
        let at = case.index(b, i, j);
        let (product, bound) = by_f64(&kernel, &case, &shadow, (b, i, j));
        let exact = f64::from(c[at]) - product;
        let bound = 1.01 * bound + 2.0_f64.powi(-24) * exact.abs();
        let error = (f64::from(after[at]) - exact).abs();
        assert!(
            error <= bound,
            "{kernel:?}, {case:?}: entry {:?} is {} and not {exact}: {error} over {bound}",
            (b, i, j),
            after[at]
        );
    }
}

fn kernel(operand: Operand, columns: u32, stages: u32) -> SchurWgmma {
    SchurWgmma { operand, columns, stages, promote: 0 }
}

/// Every operand, at both widths where the ring fits.
fn kernels() -> Vec<SchurWgmma> {
    let mut kernels: Vec<_> = Operand::ALL
        .into_iter()
        .flat_map(|operand| {
            let planes = operand.planes();
            [kernel(operand, 128, 6 / planes), kernel(operand, 256, 4 / planes)]
        })
        .collect();
    kernels.push(SchurWgmma { promote: 1, ..kernel(Operand::F16x3, 128, 3) });
    kernels.push(SchurWgmma { promote: 2, ..kernel(Operand::F16, 128, 2) });
    kernels
}

#[test]
fn every_operand_at_both_widths() {
    let case = Case { batch: 2, gap: 2, cols: 9, ctas: 3, ..Case::of(300, 2) };
    for (number, kernel) in kernels().into_iter().enumerate() {
        check(kernel, case, number as u64);
        check(kernel, Case { k_tiles: 3, first_k: 1, in_place: true, gap: 1, ctas: 1, ..case }, 100 + number as u64);
    }
}

/// Edges, offsets, odd words, parts of the triangle, more CTAs than tiles, more k tiles than stages.
#[test]
fn every_part_of_the_triangle() {
    let cases = [
        Case { batch: 3, first_col: 1, cols: 1, gap: 2, in_place: true, ctas: 1, ..Case::of(257, 2) },
        Case { first_row: 2, cols: 2, ctas: 2, ..Case::of(512, 3) },
        Case { first_row: 2, cols: 3, ctas: 2, gap: 4, ..Case::of(512, 1) },
        Case { first_col: 1, cols: 3, gap: 2, offset: 1, in_place: true, ctas: 5, ..Case::of(640, 1) },
        Case { first_col: 1, cols: 3, gap: 2, offset: 2, in_place: true, ctas: 5, ..Case::of(640, 1) },
        Case { first_row: 3, first_col: 2, cols: 1, k_tiles: 4, first_k: 3, depth: 1, ..Case::of(500, 4) },
        Case { batch: 5, ctas: 7, gap: 2, ..Case::of(100, 1) },
        Case { batch: 2, ctas: 1, ..Case::of(1, 1) },
        Case { batch: 2, ctas: 2, ..Case::of(256, 13) },
    ];
    for (number, case) in cases.into_iter().enumerate() {
        for kernel in [
            kernel(Operand::F16, 128, 2),
            kernel(Operand::F16, 256, 4),
            kernel(Operand::F16x3, 256, 2),
            SchurWgmma { promote: 4, ..kernel(Operand::F16, 128, 5) },
        ] {
            check(kernel, case, number as u64);
        }
    }
}

/// More tile rows than a band has, in which the columns begin at different heights.
#[test]
fn several_bands() {
    let case = Case { first_col: 3, cols: 20, ctas: 5, in_place: true, ..Case::of(2300, 1) };
    for columns in [128, 256] {
        check(kernel(Operand::F16, columns, 2), case, 7);
        check(kernel(Operand::F16, columns, 4), Case { first_row: 7, first_col: 1, cols: 6, ..case }, 8);
    }
}

/// No k tiles: a copy. No tiles: nothing.
#[test]
fn nothing_to_add_and_nothing_to_do() {
    for columns in [128, 256] {
        for promote in [0, 4 * (2 - columns / 128)] {
            let kernel = SchurWgmma { promote, ..kernel(Operand::F16, columns, 2) };
            check(kernel, Case { batch: 2, k_tiles: 1, depth: 0, ..Case::of(200, 1) }, 3);
            let module = kernel.instantiate(Arch::Sm90a).unwrap();
            for case in [
                Case { cols: 0, ..Case::of(200, 1) },
                Case { first_col: 2, cols: 1, ..Case::of(200, 1) },
                Case { first_row: 2, ..Case::of(200, 1) },
            ] {
                let (shadow, _) = random_shadow(kernel.operand, &case, false, 3);
                assert_eq!(case.wanted().count(), 0);
                run(&module, &case, &shadow, &input(&case, 4)).unwrap();
            }
        }
    }
}

/// Errors of the update by `kernel` against the exact products of FP32 matrices, and those of sums in FP32, one after the other, both as
/// root mean squares over Σ|Lᵢₖ·Lⱼₖ|. All entries are within `bound` of it.
fn errors(kernel: SchurWgmma, case: Case, positive: bool, bound: f64) -> (f64, f64) {
    let module = kernel.instantiate(Arch::Sm90a).unwrap();
    let (shadow, values) = random_shadow(kernel.operand, &case, positive, 11);
    let k = case.k_tiles * kernel.operand.k_of_tile() as usize;
    let c: Vec<f32> = input(&case, 12).iter().map(|value| 0.0 * value).collect();
    let after = run(&module, &case, &shadow, &c).unwrap();
    let (mut ours, mut theirs, mut count) = (0.0, 0.0, 0.0);
    for (b, i, j) in case.wanted() {
        let row = |i: usize| &values[(b * case.n + i) * k..][..k];
        let terms = || row(i).iter().zip(row(j)).map(|(&x, &y)| (x, y));
        let exact: f64 = terms().map(|(x, y)| f64::from(x) * f64::from(y)).sum();
        let size: f64 = terms().map(|(x, y)| (f64::from(x) * f64::from(y)).abs()).sum();
        let single: f32 = terms().fold(0.0, |sum, (x, y)| x.mul_add(y, sum));
        let error = (f64::from(-after[case.index(b, i, j)]) - exact) / size;
        assert!(error.abs() <= bound, "{kernel:?}, {case:?}: entry {:?}: {error}", (b, i, j));
        ours += error * error;
        theirs += ((f64::from(single) - exact) / size).powi(2);
        count += 1.0;
    }
    (f64::sqrt(ours / count), f64::sqrt(theirs / count))
}

/// Two planes give what FP32 gives. Each operand is off by 2⁻²² at most and the product that is left out is 2⁻²² of the whole:
/// 3·2⁻²². Each of the 12 steps of a k tile cuts its 9 or 17 addends at 2⁻²⁵ of the largest and the sum at 2⁻²³.
#[test]
fn two_planes_are_as_good_as_singles() {
    for (operand, depth) in [(Operand::F16x3, 3), (Operand::Tf32x3, 3)] {
        let case = Case { cols: 2, ..Case::of(160, depth) };
        let addends = f64::from(operand.k_of_tile() / 4 + 1);
        let bound = 3.0 * 2.0_f64.powi(-22) + 12.0 * depth as f64 * (addends / 4.0 + 1.0) * 2.0_f64.powi(-23);
        for (columns, stages) in [(128, 3), (256, 2)] {
            let (ours, theirs) = errors(kernel(operand, columns, stages), case, false, bound);
            println!("{operand:?} {columns}: {ours:e}, FP32 {theirs:e}");
            assert!(ours <= 4.0 * theirs, "{operand:?} {columns}: {ours} against {theirs} in FP32");
        }
        // One plane is far from that.
        let one = if operand == Operand::F16x3 { Operand::F16 } else { Operand::Tf32 };
        let (ours, theirs) = errors(kernel(one, 128, 2), case, false, 2.0_f64.powi(-10));
        assert!(ours >= 30.0 * theirs, "{one:?}: {ours} against {theirs} in FP32");
    }
}

/// Sums of one sign, where all that the tensor cores cut adds up: with a second sum they are as good as those of FP32.
#[test]
fn a_second_sum_keeps_long_sums_right() {
    let case = Case { first_row: 1, cols: 1, ctas: 1, ..Case::of(130, 48) };
    let of = |promote| {
        let (ours, theirs) = errors(SchurWgmma { promote, ..kernel(Operand::F16x3, 128, 3) }, case, true, 1e-4);
        println!("promote {promote}: {ours:e}, FP32 {theirs:e}");
        (ours, theirs)
    };
    let (never, theirs) = of(0);
    let (often, _) = of(2);
    assert!(often <= theirs, "{often} against {theirs} in FP32");
    assert!(never >= 8.0 * often, "{never} without, {often} with");
}

/// The emulator sees what would be luck on a card: a wait, a fence or an arrival that is left out.
#[test]
fn what_is_left_out_is_found() {
    if std::env::var_os(tilewright::device::ENVIRONMENT).is_some_and(|name| name == "gpu") {
        println!("skipped: faults are the emulator's to find");
        return;
    }
    let whole = kernel(Operand::F16, 256, 2).instantiate(Arch::Sm90a).unwrap();
    // The loop that waits, from its label to its branch.
    let wait = |label: &str| {
        let text = &whole.ptx[whole.ptx.find(&format!("{label}:")).unwrap()..];
        let end = format!("bra {label};\n");
        text[..text.find(&end).unwrap() + end.len()].to_owned()
    };
    // What is left out, the k tiles at which that matters, and the fault. (With more k tiles than stages the ring alone keeps the
    // copies less than two tiles ahead, and the slots need no wait.)
    let faults = [
        (wait("$L_stage_full"), 5, FaultKind::Uninitialised),
        (wait("$L_stage_full_half"), 5, FaultKind::Race),
        (wait("$L_stage_empty"), 5, FaultKind::Sync),
        (wait("$L_slot_full"), 5, FaultKind::Uninitialised),
        (wait("$L_slot_empty"), 1, FaultKind::Sync),
        ("wgmma.wait_group.sync.aligned 0;".to_owned(), 5, FaultKind::Uninitialised),
        ("wgmma.wait_group.sync.aligned 1;".to_owned(), 5, FaultKind::Race),
        ("wgmma.fence.sync.aligned;".to_owned(), 5, FaultKind::Sync),
        ("wgmma.commit_group.sync.aligned;".to_owned(), 5, FaultKind::Race),
        ("@%give mbarrier.arrive.shared::cta.b64 _, [%before];".to_owned(), 5, FaultKind::Sync),
    ];
    for (line, depth, expected) in faults {
        let case = Case { ctas: 1, in_place: true, ..Case::of(384, depth) };
        let (shadow, _) = random_shadow(Operand::F16, &case, false, 5);
        let c = input(&case, 6);
        run(&whole, &case, &shadow, &c).unwrap();
        let ptx = whole.ptx.replace(&line, "");
        assert_ne!(ptx, whole.ptx, "`{line}` is not in the text");
        match run(&Module { ptx, meta: whole.meta.clone() }, &case, &shadow, &c) {
            Err(Error::Emulator(emulate::Error::Fault(fault))) if fault.kind == expected => {}
            Err(error) => panic!("without `{line}`: {error}"),
            Ok(_) => panic!("without `{line}` nothing is found"),
        }
    }
}

#[test]
fn parameters_are_checked() {
    let good = kernel(Operand::F16, 256, 4);
    let message = |kernel: SchurWgmma, arch| kernel.instantiate(arch).unwrap_err().to_string();
    assert_eq!(
        message(SchurWgmma { columns: 64, ..good }, Arch::Sm90a),
        "schur_wgmma: columns = 64 is not allowed: it must be one of 128, 256"
    );
    assert_eq!(
        message(SchurWgmma { stages: 1, ..good }, Arch::Sm90a),
        "schur_wgmma: stages = 1 is not allowed: it must be from 2 to 7"
    );
    assert_eq!(
        message(SchurWgmma { promote: 4, ..good }, Arch::Sm90a),
        "schur_wgmma: promote = 4 is not allowed: a second sum has registers at 128 columns only, and columns = 256"
    );
    assert_eq!(message(good, Arch::Sm100a), "schur_wgmma needs wgmma, which sm_100a does not have: it is for sm_90a");
    assert!(matches!(
        SchurWgmma { stages: 5, ..good }.instantiate(Arch::Sm90a),
        Err(ParamError::Shared { needed, available: 232_448, .. }) if needed > 5 * 48 * 1024
    ));
}
