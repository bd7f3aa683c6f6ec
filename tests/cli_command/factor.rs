//! `factor`.

use std::fs;

use ndarray::{Array2, Array3, ArrayD, Axis, ShapeBuilder, s};
use ndarray_npy::read_npy;
use tilewright::device;
use tilewright::kernels::cholesky::residual;

use crate::support::{Folder, Run, command, repository, tilewright};

/// The most that a residual may be, in units of n·ε·‖A‖₁: 0.1, and for the smallest orders what the rounding of a few
/// square roots costs already.
fn bound(n: usize) -> f64 {
    f64::max(0.1, 2.0 / n as f64)
}

fn factor(input: &str, output: &str) -> Run {
    tilewright(["factor", input, "-o", output, "--device", "emulator"])
}

fn data(name: &str) -> String {
    repository(&format!("examples/data/{name}")).to_str().unwrap().to_owned()
}

/// Symmetric, with a dominant diagonal, and no two matrices alike.
fn good(batch: usize, n: usize) -> Array3<f32> {
    Array3::from_shape_fn((batch, n, n), |(matrix, row, column)| {
        if row == column { n as f32 + matrix as f32 } else { 1.0 / (1 + row + column + matrix) as f32 }
    })
}

#[track_caller]
fn assert_factors(a: &ArrayD<f32>, l: &ArrayD<f32>) {
    assert_eq!(a.shape(), l.shape());
    let n = a.shape()[a.ndim() - 1];
    let (a, l) = (a.as_standard_layout(), l.as_standard_layout());
    let pairs = a.as_slice().unwrap().chunks(n * n).zip(l.as_slice().unwrap().chunks(n * n));
    for (matrix, (a, l)) in pairs.enumerate() {
        let value = residual(a, l, n);
        assert!(value <= bound(n), "matrix {matrix}: residual {value}");
        let is_lower =
            (0..n).all(|row| l[row * n + row] > 0.0 && l[row * n + row + 1..(row + 1) * n].iter().all(|&x| x == 0.0));
        assert!(is_lower, "matrix {matrix}");
    }
}

#[test]
fn real_covariances_are_factored() {
    for (name, batch, n, kernel) in [
        ("digits_cov_64.npy", "10", "64", "potrf_rows_n64"),
        ("digits_cov_64_pooled.npy", "1", "64", "potrf_rows_n64"),
        ("breast_cancer_cov_30.npy", "2", "30", "potrf_warp_n30"),
    ] {
        let folder = Folder::new();
        let output = folder.path("L.npy");
        let run = factor(&data(name), &output).ended_with(0);
        assert_eq!(folder.names(), ["L.npy"]);
        assert_factors(&read_npy(data(name)).unwrap(), &read_npy(&output).unwrap());

        assert!(run.row("file").ends_with(&format!("{name} (float32)")));
        assert_eq!(run.row("factors"), output);
        assert_eq!((run.row("batch"), run.row("n")), (batch, n));
        assert!(run.row("device").starts_with("emulator"));
        assert!(run.row("kernel").starts_with(kernel));
        assert!(run.row("time").ends_with('s'));
        assert_eq!(run.row("failed"), format!("0 of {batch}"));
        let units = |row| run.row(row).strip_suffix(" n·ε·‖A‖₁").unwrap().parse::<f64>().unwrap();
        let (worst, median) = (units("worst residual"), units("median residual"));
        assert!(median <= worst && worst <= 0.1 && median > 0.0, "{worst} {median}");
    }
}

#[test]
fn singular_covariances_are_reported() {
    let folder = Folder::new();
    let run = factor(&data("digits_cov_64_raw.npy"), &folder.path("L.npy")).ended_with(1);
    assert_eq!(run.row("failed"), "10 of 10");
    assert_eq!(run.row("worst residual"), "none factored");
    assert_eq!(run.stdout.matches("info 1 (pivot 1 is not a positive finite number)").count(), 10);
    assert_eq!(folder.names(), ["L.npy"]);
}

#[test]
fn a_failed_matrix_is_named_and_its_neighbours_are_not_touched() {
    let folder = Folder::new();
    let matrices = good(3, 5);
    let mut broken = matrices.clone();
    broken[[1, 2, 2]] = -1.0;
    factor(&folder.array("good.npy", &matrices), &folder.path("good_l.npy")).ended_with(0);
    let run = factor(&folder.array("broken.npy", &broken), &folder.path("broken_l.npy")).ended_with(1);
    assert_eq!(run.row("failed"), "1 of 3");
    assert!(run.stdout.ends_with("\n  matrix 1: info 3 (pivot 3 is not a positive finite number)\n"), "{run:#?}");
    let units = run.row("worst residual").strip_suffix(" n·ε·‖A‖₁").unwrap().parse::<f64>().unwrap();
    assert!(units <= bound(5), "a failed matrix has no residual: {units}");

    let read = |name: &str| read_npy::<_, Array3<f32>>(folder.path(name)).unwrap();
    let (good, broken) = (read("good_l.npy"), read("broken_l.npy"));
    for matrix in [0, 2] {
        let bits = |array: &Array3<f32>| array.index_axis(Axis(0), matrix).mapv(f32::to_bits);
        assert_eq!(bits(&good), bits(&broken));
    }
}

#[test]
fn many_failures_are_counted() {
    let folder = Folder::new();
    let mut matrices = good(40, 2);
    matrices.slice_mut(s![..13, 0, 0]).fill(f32::NAN);
    let run = factor(&folder.array("a.npy", &matrices), &folder.path("l.npy")).ended_with(1);
    assert_eq!(run.row("failed"), "13 of 40");
    assert_eq!(run.stdout.matches("info 1").count(), 10);
    assert!(run.stdout.ends_with("  and 3 more\n"));
}

#[test]
fn every_layout_and_type_gives_the_same_factors() {
    let folder = Folder::new();
    let matrices = good(4, 7);
    let mut fortran = Array3::<f32>::zeros((4, 7, 7).f());
    fortran.assign(&matrices);
    let double = matrices.mapv(f64::from);
    let mut fortran_double = Array3::<f64>::zeros((4, 7, 7).f());
    fortran_double.assign(&double);
    // An upper triangle that is not the lower one's mirror: an order that was read wrong would show.
    let mut lower = matrices.clone();
    for row in 0..7 {
        lower.slice_mut(s![.., row, row + 1..]).fill(7.0);
    }
    let mut fortran_lower = Array3::<f32>::zeros((4, 7, 7).f());
    fortran_lower.assign(&lower);

    let factors = |name: &str, input: String, elements: &str| {
        let output = folder.path(name);
        let run = factor(&input, &output).ended_with(0);
        assert!(run.row("file").ends_with(elements), "{run:#?}");
        fs::read(output).unwrap()
    };
    let expected = factors("1", folder.array("c.npy", &matrices), "c.npy (float32)");
    assert_factors(&matrices.clone().into_dyn(), &read_npy(folder.path("1")).unwrap());
    let converted = "(float64, converted to float32)";
    for (name, input, elements) in [
        ("2", folder.array("f.npy", &fortran), "(float32)"),
        ("3", folder.array("d.npy", &double), converted),
        ("4", folder.array("fd.npy", &fortran_double), converted),
        ("5", folder.array("lower.npy", &lower), "(float32)"),
        ("6", folder.array("fl.npy", &fortran_lower), "(float32)"),
    ] {
        assert!(factors(name, input, elements) == expected, "{name}");
    }
}

#[test]
fn nothing_to_factor_is_fine() {
    for shape in [(0, 5, 5), (3, 0, 0), (0, 0, 0)] {
        let folder = Folder::new();
        let input = folder.array("a.npy", &Array3::<f32>::zeros(shape));
        let run = factor(&input, &folder.path("l.npy")).ended_with(0);
        assert_eq!(run.row("failed"), format!("0 of {}", shape.0));
        assert_eq!(read_npy::<_, Array3<f32>>(folder.path("l.npy")).unwrap().dim(), shape);
    }
}

/// A batch that is done in several parts, and large enough to show how long reading takes.
#[test]
fn a_large_batch_is_whole() {
    let folder = Folder::new();
    let matrices = good(4096, 4);
    let run = factor(&folder.array("a.npy", &matrices), &folder.path("l.npy")).ended_with(0);
    assert_eq!(run.row("failed"), "0 of 4096");
    assert_factors(&matrices.into_dyn(), &read_npy(folder.path("l.npy")).unwrap());
}

#[test]
fn large_files_are_read_fast() {
    let folder = Folder::new();
    // Refused after it was read, so that the time is that of reading: 4096 matrices, 17 MB.
    let input = folder.array("a.npy", &Array3::<f32>::zeros((4096, 32, 33)));
    let start = std::time::Instant::now();
    factor(&input, &folder.path("l.npy")).refused("not square: its matrices are 32 × 33");
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds < 2.0, "{seconds} s");
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let folder = Folder::new();
    let whole = fs::read(folder.array("whole.npy", &good(2, 3))).unwrap();
    let edited = |from: &str, to: &str| {
        let header = String::from_utf8(whole[10..128].to_vec()).unwrap();
        // The header keeps its length: blanks go or come before its line break.
        let text = format!("{:117}", header.replace(from, to).trim_end());
        [&whole[..10], &text.as_bytes()[..117], b"\n", &whole[128..]].concat()
    };
    let cases = [
        (folder.array("wide.npy", &Array2::<f32>::zeros((3, 4))), "wide.npy: not square: its matrices are 3 × 4"),
        (folder.array("tall.npy", &Array3::<f64>::zeros((2, 4, 3))), "not square: its matrices are 4 × 3"),
        (folder.array("one.npy", &ndarray::Array1::<f32>::zeros(4)), "it has 1 dimension: expected 2"),
        (folder.array("four.npy", &ndarray::Array4::<f32>::zeros((1, 2, 3, 3))), "it has 4 dimensions: expected 2"),
        (folder.array("int.npy", &Array2::<i32>::zeros((3, 3))), "have the type '<i4': expected float32"),
        (folder.array("bool.npy", &Array2::<bool>::default((3, 3))), "have the type '|b1': expected float32"),
        (folder.file("short.npy", &whole[..whole.len() - 5]), "short.npy: truncated: 5 bytes are missing"),
        (folder.file("header.npy", &whole[..40]), "not a .npy file, or one truncated within its header"),
        (folder.file("long.npy", [&whole[..], b"abc"].concat()), "3 bytes follow the data"),
        (folder.file("huge.npy", edited("(2, 3, 3)", "(2000000, 9999, 9999)")), "bytes are missing"),
        (
            folder.file("vast.npy", edited("(2, 3, 3)", "(9999999999, 9999999999, 9999999999)")),
            "promises more elements than any memory holds",
        ),
        (folder.file("big.npy", edited("<f4", ">f4")), "expected little-endian"),
        (folder.file("text.npy", "1 2 3\n"), "text.npy: not a .npy file"),
        (
            folder.file("words.npy", "these are words and no numbers at all, but there are many of them"),
            "not a .npy file",
        ),
        (folder.file("empty.npy", ""), "not a .npy file: it is empty"),
        (folder.path("missing.npy"), "missing.npy: there is no such file"),
        (folder.path("."), "it is a folder"),
    ];
    let before = folder.names();
    for (input, said) in cases {
        factor(&input, &folder.path("l.npy")).refused(said);
    }
    assert_eq!(folder.names(), before, "nothing is left behind");
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let folder = Folder::new();
    let input = folder.array("a.npy", &good(1, 2));
    for (output, said) in [
        (folder.path("none/l.npy"), format!("there is no folder {}", folder.path("none"))),
        (folder.path("a.npy/l.npy"), "is not a folder".to_owned()),
        (folder.path("."), "it is a folder".to_owned()),
        (String::new(), "a value is required for '--output".to_owned()),
    ] {
        factor(&input, &output).refused(&said);
    }
    assert_eq!(folder.names(), ["a.npy"]);
}

#[cfg(target_os = "linux")]
#[test]
fn devices_are_written_to_and_not_replaced() {
    let folder = Folder::new();
    let input = folder.array("a.npy", &good(1, 2));
    factor(&input, "/dev/null").ended_with(0);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
    factor(&input, "/dev/full").refused("cannot write /dev/full");
}

#[test]
fn output_appears_whole_or_not_at_all() {
    let folder = Folder::new();
    let output = folder.file("l.npy", "old");
    factor(&folder.file("bad.npy", "bad"), &output).refused("not a .npy file");
    assert_eq!(fs::read(&output).unwrap(), b"old");
    // In the place of its own input.
    let matrices = good(2, 3);
    let input = folder.array("a.npy", &matrices);
    factor(&input, &input).ended_with(0);
    assert_factors(&matrices.into_dyn(), &read_npy(&input).unwrap());
    assert_eq!(folder.names(), ["a.npy", "bad.npy", "l.npy"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_rights_are_usual() {
    use std::os::unix::fs::PermissionsExt;

    let folder = Folder::new();
    let input = folder.array("a.npy", &good(1, 2));
    fs::write(folder.path("target.npy"), "old").unwrap();
    std::os::unix::fs::symlink(folder.path("target.npy"), folder.path("link.npy")).unwrap();
    factor(&input, &folder.path("link.npy")).ended_with(0);
    assert!(fs::symlink_metadata(folder.path("link.npy")).unwrap().is_symlink());
    assert_eq!(read_npy::<_, Array3<f32>>(folder.path("target.npy")).unwrap().dim(), (1, 2, 2));
    // As any file that is made here, not a temporary file's owner-only rights.
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("target.npy"), mode("a.npy"));
}

#[test]
fn the_device_is_chosen_by_option_then_environment() {
    let folder = Folder::new();
    let input = folder.array("a.npy", &good(1, 2));
    let output = folder.path("l.npy");
    let with = |name: &str, options: &[&str]| {
        Run::of(command().env("TILEWRIGHT_DEVICE", name).args(["factor", &input, "-o", &output]).args(options))
    };
    let run = with("emulator", &[]).ended_with(0);
    assert!(run.row("device").contains("TILEWRIGHT_DEVICE is `emulator`"), "{run:#?}");
    let run = with("abacus", &["--device", "emulator"]).ended_with(0);
    assert!(run.row("device").contains("was asked for"), "{run:#?}");
    with("abacus", &[]).refused("abacus");
    // With or without a GPU: the command does what the library says.
    match device::by_name("gpu") {
        Ok(_) => drop(with("", &["--device", "gpu"]).ended_with(0)),
        Err(error) => drop(with("", &["--device", "gpu"]).refused(&error.to_string())),
    }
    let run = with("", &["--device", "auto", "--precision", "fast"]).ended_with(0);
    assert_eq!(run.row("failed"), "0 of 1");
}
