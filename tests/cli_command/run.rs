//! `run`.

use ndarray::{Array1, Array2};
use ndarray_npy::read_npy;

use crate::support::{Folder, Run, tilewright};

const HEADER: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// y[i] = factor·x[i] for i < n.
const SCALE: &str = "
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 factor, .param .u32 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %rd<6>;
    .reg .f32 %f<4>;
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.u32 %r1, %r2, %r3, %r1;
    ld.param.u32 %r4, [n];
    setp.ge.u32 %p, %r1, %r4;
    @%p bra $end;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3;
    add.u64 %rd5, %rd2, %rd3;
    ld.param.f32 %f1, [factor];
    ld.global.f32 %f2, [%rd4];
    mul.f32 %f3, %f2, %f1;
    st.global.f32 [%rd5], %f3;
$end:
    ret;
}
";

/// Thread i writes i to word i of shared memory and reads that of its neighbour.
fn exchange(barrier: &str) -> String {
    format!(
        "{HEADER}.visible .entry exchange(.param .u64 y)
.reqntid 64
{{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[256];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %r3, tile;
    add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    {barrier}
    xor.b32 %r2, %r2, 128;
    add.u32 %r4, %r3, %r2;
    ld.shared.u32 %r3, [%r4];
    ld.param.u64 %rd1, [y];
    cvta.to.global.u64 %rd1, %rd1;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r3;
    ret;
}}
"
    )
}

fn scale(folder: &Folder) -> String {
    folder.file("scale.ptx", format!("{HEADER}{SCALE}"))
}

/// `tilewright run FILE OPTIONS`, the options parted by blanks.
fn run(file: &str, options: &str) -> Run {
    tilewright(["run", file].into_iter().chain(options.split_whitespace()))
}

#[test]
fn a_kernel_runs_and_its_buffers_are_shown_and_saved() {
    let folder = Folder::new();
    let file = scale(&folder);
    let y = folder.path("y.npy");
    let run = run(
        &file,
        &format!(
            "--grid 2 --block 64 --arg buf:f32:100=iota --arg buf:f32:100 --arg f32:2.5 --arg i32:100 --out 1={y}"
        ),
    )
    .ended_with(0);
    assert_eq!((run.row("entry"), run.row("CTAs")), ("scale", "2"));
    let count = |row| run.row(row).parse::<u64>().unwrap();
    // 128 threads run the 6 instructions before the branch and the one after it; 28 branch, 100 run the 11 between.
    assert_eq!(count("thread instructions"), 128 * 7 + 28 + 100 * 11);
    assert_eq!(count("warp instructions"), 4 * 19);
    assert_eq!(run.row("argument 0"), "f32 × 100: 0 1 2 3 4 5 6 7 …");
    assert_eq!(run.row("argument 1"), "f32 × 100: 0 2.5 5 7.5 10 12.5 15 17.5 …");
    let expected: Array1<f32> = (0..100).map(|index| index as f32 * 2.5).collect();
    assert_eq!(read_npy::<_, Array1<f32>>(y).unwrap(), expected);
    assert_eq!(folder.names(), ["scale.ptx", "y.npy"]);
}

#[test]
fn buffers_come_from_files() {
    let folder = Folder::new();
    let file = scale(&folder);
    let x = folder.array("x.npy", &Array2::from_shape_fn((2, 3), |(row, column)| (10 * row + column) as f32));
    let with = |x: &str, count: u32| {
        run(
            &file,
            &format!("--grid 1 --block 32 --arg buf:f32:{count}={x} --arg buf:f32:6 --arg f32:-1 --arg u32:{count}"),
        )
    };
    assert_eq!(with(&x, 6).ended_with(0).row("argument 1"), "f32 × 6: -0 -1 -2 -10 -11 -12");
    with(&x, 5).refused("x.npy: it has 6 elements, and the buffer has 5");
    let wrong = folder.array("wrong.npy", &Array1::<f64>::zeros(6));
    with(&wrong, 6).refused("have the type '<f8': expected float32 ('<f4')");
    with(&folder.path("none.npy"), 6).refused("none.npy: there is no such file");
}

#[test]
fn random_buffers_are_the_same_on_every_run() {
    let folder = Folder::new();
    let file = scale(&folder);
    let options = "--grid 1 --block 32 --arg buf:f32:8=random --arg buf:f32:8=random --arg f32:1 --arg u32:8";
    let once = run(&file, options).ended_with(0);
    assert_eq!(once.row("argument 0"), once.row("argument 1"));
    assert_eq!(once.row("argument 0"), run(&file, options).ended_with(0).row("argument 0"));
    let untouched = run(&file, &options.replace("u32:8", "u32:0")).ended_with(0);
    assert_ne!(untouched.row("argument 0"), untouched.row("argument 1"), "each buffer has numbers of its own");
}

#[test]
fn half_precision_and_stated_blocks() {
    let folder = Folder::new();
    // y[thread] = x: a 16-bit value as Triton passes one, an entry that states its block.
    let file = folder.file(
        "half.ptx",
        format!(
            "{HEADER}.visible .entry half(.param .align 2 .b8 x[2], .param .u64 y)
.reqntid 4
{{
    .reg .b16 %h;
    .reg .b32 %r;
    .reg .b64 %rd<3>;
    ld.param.b16 %h, [x];
    ld.param.u64 %rd1, [y];
    mov.u32 %r, %tid.x;
    mul.wide.u32 %rd2, %r, 2;
    add.u64 %rd1, %rd1, %rd2;
    st.global.b16 [%rd1], %h;
    ret;
}}
"
        ),
    );
    let y = folder.path("y.npy");
    for ty in ["f16", "bf16"] {
        let run = run(&file, &format!("--grid 1 --arg {ty}:1.5 --arg buf:{ty}:5=zeros --out 1={y}")).ended_with(0);
        assert_eq!(run.row("argument 1"), format!("{ty} × 5: 1.5 1.5 1.5 1.5 0"));
        let saved = read_npy::<_, Array1<f32>>(&y).unwrap();
        assert_eq!(saved.to_vec(), [1.5, 1.5, 1.5, 1.5, 0.0]);
    }
}

#[test]
fn an_emitted_kernel_runs() {
    let folder = Folder::new();
    let file = folder.path("k.ptx");
    tilewright(["emit", "potrf_warp", "--set", "n=2", "-o", &file]).ended_with(0);
    let a = folder.array("a.npy", &Array2::<f32>::from_shape_vec((2, 2), vec![4.0, 0.0, 2.0, 10.0]).unwrap());
    let run = run(
        &file,
        &format!(
            "--grid 1 --arg buf:f32:4={a} --arg buf:f32:4 --arg buf:i32:1 --arg i64:4 --arg i64:4 --arg i32:2 --arg \
             i32:2 --arg i32:1"
        ),
    )
    .ended_with(0);
    assert_eq!(run.row("argument 1"), "f32 × 4: 2 0 1 3");
    assert_eq!(run.row("argument 2"), "i32 × 1: 0");
}

#[test]
fn what_a_kernel_does_wrong_is_shown_with_its_line() {
    let folder = Folder::new();
    let file = scale(&folder);
    let y = folder.path("y.npy");
    let with = |x: &str, y_elements: u32| {
        run(
            &file,
            &format!("--grid 2 --block 64 --arg {x} --arg buf:f32:{y_elements} --arg f32:1 --arg u32:100 --out 1={y}"),
        )
    };
    let store = ["st.global.f32 [%rd5], %f3;"];
    let load = ["ld.global.f32 %f2, [%rd4];"];
    with("buf:f32:100=iota", 99).refused_with_excerpt("scale, line 28: out of bounds", &store);
    with("buf:f32:100", 100).refused_with_excerpt("scale, line 26: uninitialised", &load);
    with("u64:0", 100).refused_with_excerpt("scale, line 26: out of bounds", &load);
    assert_eq!(folder.names(), ["scale.ptx"], "no file of a launch that failed");

    let synced = folder.file("synced.ptx", exchange("bar.sync 0;"));
    let fine = run(&synced, "--grid 1 --arg buf:u32:64").ended_with(0);
    assert_eq!(fine.row("argument 0"), "u32 × 64: 32 33 34 35 36 37 38 39 …");
    let racing = folder.file("racing.ptx", exchange(""));
    run(&racing, "--grid 1 --arg buf:u32:64").refused_with_excerpt("exchange, line ", &[".shared.u32"]);

    let endless = folder.file("endless.ptx", format!("{HEADER}.entry k() {{\n$top:\n    bra $top;\n}}\n"));
    run(&endless, "--grid 1 --block 32 --max-steps 100").refused_with_excerpt("step limit", &["bra $top;"]);
}

#[test]
fn an_unknown_instruction_is_shown() {
    let folder = Folder::new();
    let file =
        folder.file("k.ptx", format!("{HEADER}.entry k() {{\n    frobnicate.sync.u32 %r1, %r2;\n    ret;\n}}\n"));
    run(&file, "--grid 1 --block 32")
        .refused_with_excerpt("k.ptx: k, line 5: ", &["ptx:5:5", "frobnicate.sync.u32 %r1, %r2;"]);
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let folder = Folder::new();
    let file = scale(&folder);
    let two = folder.file("two.ptx", format!("{HEADER}.entry a() {{ ret; }}\n.entry b() {{ ret; }}\n"));
    let none = folder.file("none.ptx", format!("{HEADER}.func f() {{ ret; }}\n"));
    let good = "--arg buf:f32:4 --arg buf:f32:4 --arg f32:1 --arg u32:4";
    for (file, options, said) in [
        (&folder.path("missing.ptx"), "--grid 1", "missing.ptx: there is no such file"),
        (&file, &format!("--block 32 {good}"), "--grid <X[,Y,Z]>"),
        (&file, &format!("--grid 1 {good}"), "--block must be given: entry scale does not state it"),
        (&file, "--grid x --block 1", "expected one to three whole numbers"),
        (&file, "--grid 1,1,1,1 --block 1", "expected one to three whole numbers"),
        (&file, &format!("--grid 1 --block 2048 {good}"), "scale cannot be launched"),
        (&file, "--grid 1 --block 32", "entry scale takes 4 arguments and 0 are given"),
        (&file, &format!("--grid 1 --block 32 {good} --arg u32:4"), "takes 4 arguments and 5 are given"),
        (
            &file,
            &format!("--grid 1 --block 32 {}", good.replace("f32:1", "i32:1")),
            "argument 2 does not fit parameter factor",
        ),
        (&file, "--grid 1 --block 32 --arg buf:f32:x", "`x` is no number of elements"),
        (&file, "--grid 1 --block 32 --arg u33:1", "`u33` is no type"),
        (&file, &format!("--grid 1 --block 32 {} ", good.replace("buf:f32:4 ", "buf:f32:999999999999 ")), "argument 0"),
        (&file, &format!("--grid 1 --block 32 {good} --out 2=y.npy"), "argument 2 is no buffer"),
        (&file, &format!("--grid 1 --block 32 {good} --out 9=y.npy"), "argument 9 is no buffer"),
        (&file, &format!("--grid 1 --block 32 {good} --out y.npy"), "expected INDEX=FILE.npy"),
        (&file, &format!("--grid 1 --block 32 {good} --out 1=/none/y.npy"), "there is no folder /none"),
        (&file, &format!("--entry b --grid 1 --block 32 {good}"), "it has no entry `b`: expected one of scale"),
        (&two, "--grid 1 --block 32", "--entry must name one of its entries: a, b"),
        (&none, "--grid 1 --block 32", "it has no entry"),
    ] {
        run(file, options).refused(said);
    }
    assert_eq!(run(&two, "--entry b --grid 1,2,3 --block 8,4").ended_with(0).row("CTAs"), "6");
}

#[test]
fn a_debuggers_view_as_text() {
    let folder = Folder::new();
    let file = scale(&folder);
    let with = |view: &str| {
        run(
            &file,
            &format!("--grid 2 --block 64 --arg buf:f32:100=iota --arg buf:f32:100 --arg f32:2 --arg u32:100 {view}"),
        )
    };
    // The branch is taken by the last 28 threads.
    let trace = with("--trace --trace-cta 1 --trace-warp 1 --lines 16..17").ended_with(0);
    let shown: Vec<_> = trace.stdout.lines().take(4).collect();
    let expected = [
        "CTA 1,0,0 warp 1 line 16, active 0xffffffff: setp.ge.u32 %p, %r1, %r4;",
        "    %p holds in 0xfffffff0",
        "CTA 1,0,0 warp 1 line 17, active 0xfffffff0: @%p bra $end;",
        "",
    ];
    assert_eq!(shown, expected);
    assert_eq!(trace.row("CTAs"), "2");
    let short = with("--trace=2").ended_with(0);
    assert!(short.stdout.contains("\n74 more instructions are left out (--trace=COUNT)\n"), "{}", short.stdout);

    let stop = with("--stop 28:2").ended_with(0);
    for part in [
        "stopped before line 28 of scale, hit 2: CTA [0, 0, 0], warp 1\n    st.global.f32 [%rd5], %f3;\n",
        "\n  %f3    0: 0x42800000 0x42840000 ",
        "shared memory: none\n",
    ] {
        assert!(stop.stdout.contains(part), "expected `{part}`: {}", stop.stdout);
    }
    // Only the first warp has written.
    assert_eq!((stop.row("CTAs"), stop.row("argument 1")), ("1", "f32 × 100: 0 2 4 6 8 10 12 14 …"));
    let missed = with("--stop 28:9").ended_with(0);
    assert!(missed.stdout.starts_with("not stopped: warps came to line 28 4 times, not 9\n"), "{}", missed.stdout);

    let profile = with("--profile").ended_with(0);
    let load = profile.stdout.lines().find(|line| line.ends_with("ld.global.f32 %f2, [%rd4];")).unwrap();
    let cells: Vec<_> = load.split_whitespace().take(8).collect();
    assert_eq!(cells, ["26", "4", "100", "25.0", "400", "13", "96", "%"]);
}

#[test]
fn a_debuggers_view_as_json_and_in_a_file() {
    let folder = Folder::new();
    let file = folder.file("synced.ptx", exchange("bar.sync 0;"));
    let output = folder.path("seen.json");
    let view = "--trace=3 --stop 17:2 --profile --format json";
    let printed = run(&file, &format!("--grid 1 --arg buf:u32:64 {view}")).ended_with(0);
    let lines: Vec<serde_json::Value> =
        printed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line.as_object().unwrap().keys().next().unwrap().as_str()).collect();
    assert_eq!(kinds, ["trace", "trace", "trace", "stop", "profile", "seen", "run"]);
    assert_eq!(lines[0]["trace"]["writes"][0]["register"], "%r1");
    assert_eq!(
        (&lines[3]["stop"]["warp"], &lines[3]["stop"]["shared"]["initialised"][0]["end"]),
        (&0.into(), &256.into())
    );
    assert_eq!(lines[4]["profile"]["total"]["wavefronts"], 3);
    assert_eq!((&lines[5]["seen"]["hits"], &lines[6]["run"]["entry"]), (&2.into(), &"exchange".into()));

    let saved = run(&file, &format!("--grid 1 --arg buf:u32:64 {view} --output {output}")).ended_with(0);
    assert_eq!(saved.stdout.lines().count(), 1);
    let whole = std::fs::read_to_string(&output).unwrap();
    let (seen, summary) = printed.stdout.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(whole, format!("{seen}\n"));
    assert!(summary.starts_with("{\"run\":") && saved.stdout.starts_with("{\"run\":"));
    assert_eq!(folder.names(), ["seen.json", "synced.ptx"]);
}

#[test]
fn what_led_to_a_fault_is_traced() {
    let folder = Folder::new();
    let file = folder.file("racing.ptx", exchange(""));
    let output = folder.path("trace.txt");
    run(&file, &format!("--grid 1 --arg buf:u32:64 --trace --output {output}"))
        .refused_with_excerpt("exchange, line ", &[".shared.u32"]);
    let trace = std::fs::read_to_string(&output).unwrap();
    let last = trace.lines().rfind(|line| line.starts_with("CTA")).unwrap();
    assert!(last.contains("warp 0 line 18") && last.ends_with("ld.shared.u32 %r3, [%r4];  <- fault"), "{last}");
}

#[test]
fn a_view_of_nothing_is_refused() {
    let folder = Folder::new();
    let file = scale(&folder);
    for (view, said) in [
        ("--trace-cta 0", "--trace-cta goes with --trace or --stop"),
        ("--trace-warp 0 --profile", "--trace-warp goes with --trace or --stop"),
        ("--lines 15..16 --stop 15", "--lines goes with --trace"),
        ("--output seen.txt", "--output goes with --trace, --stop or --profile"),
        ("--trace --output /none/seen.txt", "there is no folder /none"),
        ("--trace --lines 16..15", "expected the first and the last line"),
        ("--trace=x", "invalid value 'x' for '--trace"),
        ("--trace --trace-cta 0,0,0,0", "expected one to three whole numbers"),
        ("--stop 0", "expected a line and perhaps which time"),
        ("--stop 15:0", "expected a line and perhaps which time"),
        ("--format xml", "invalid value 'xml'"),
        ("--stop 29", "scale cannot be observed so: line 29 has no instruction of it; the next is in line 30"),
        ("--trace --trace-cta 7", "CTA [7, 0, 0] is not in the grid [1, 1, 1]"),
    ] {
        let options = "--grid 1 --block 32 --arg buf:f32:4 --arg buf:f32:4 --arg f32:1 --arg u32:4";
        run(&file, &format!("{options} {view}")).refused(said);
    }
}

/// What `cp.async` brought goes to a bulk store without a fence: a fault where PTX's rule is asked for.
#[test]
fn a_fence_after_copies_is_asked_for() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/emulate/async_copy_then_store_lenient_clean.ptx");
    let launch = "--grid 1 --block 32 --arg buf:u32:32=iota --arg buf:u32:32";
    run(file, launch).ended_with(0);
    let refused = run(file, &format!("{launch} --fence-copies"));
    assert_eq!(refused.code, 2, "{refused:#?}");
    assert!(refused.stderr.contains("no fence.proxy.async between"), "{}", refused.stderr);
}
