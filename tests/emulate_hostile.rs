//! Shapes and declarations that are legal text and absurd in size: each is refused with a message, none overflows,
//! panics or runs for ever.

use tilewright::emulate::{Error, Kernel, LaunchConfig, Memory, Options, launch};

const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n";

fn entry(params: &str, directives: &str, body: &str) -> String {
    format!("{HEAD}.visible .entry k({params})\n{directives}\n{{\n{body}\n}}\n")
}

fn decode(source: &str) -> Result<Kernel, Error> {
    Kernel::new(source, None)
}

fn run(source: &str, config: &LaunchConfig, options: &Options) -> Result<(), Error> {
    let kernel = decode(source)?;
    launch(&kernel, config, &vec![0; kernel.param_bytes() as usize], &Memory::new(), options).map(|_| ())
}

#[test]
fn parameters_too_large_to_count_are_refused() {
    for params in [
        ".param .align 8 .b8 x[18446744073709551615]",
        ".param .align 8 .b64 x[4611686018427387904]",
        ".param .b8 x[4294967296][4294967296]",
        ".param .b8 x[18446744073709551608],\n.param .b64 y,\n.param .b64 z",
        ".param .b8 x[4294967296]",
    ] {
        let error = decode(&entry(params, "", "ret;")).expect_err(params);
        assert!(error.to_string().contains("parameter"), "{params}: {error}");
    }
    // A large array that a launch could still pass.
    let kernel = decode(&entry(".param .align 16 .b8 x[4000],\n.param .u8 y,\n.param .u64 z", "", "ret;")).unwrap();
    assert_eq!(kernel.param_bytes(), 4016);
}

#[test]
fn blocks_too_large_to_count_are_refused() {
    let source = entry("", "", "ret;");
    for block in [[u32::MAX; 3], [1 << 22, 1 << 21, 1 << 21], [0, 1, 1], [1025, 1, 1], [1 << 31, 2, 1]] {
        let config = LaunchConfig { block, ..LaunchConfig::default() };
        let error = run(&source, &config, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("threads"), "{block:?}: {error}");
    }
    for grid in [[u32::MAX; 3], [i32::MAX as u32, 65535, 65535], [1, 65536, 1], [1, 1, 65536]] {
        let config = LaunchConfig { grid, ..LaunchConfig::default() };
        let error = run(&source, &config, &Options::default()).unwrap_err().to_string();
        assert!(error.contains("grid"), "{grid:?}: {error}");
    }
}

#[test]
fn a_most_block_too_large_to_count_limits_nothing() {
    let source = entry("", ".maxntid 4294967295, 4294967295, 4294967295", "ret;");
    run(&source, &LaunchConfig { block: [1024, 1, 1], ..LaunchConfig::default() }, &Options::default()).unwrap();
    let source = entry("", ".maxntid 65536, 65536", "ret;");
    run(&source, &LaunchConfig { block: [8, 8, 1], ..LaunchConfig::default() }, &Options::default()).unwrap();
    let source = entry("", ".maxntid 32", "ret;");
    let config = LaunchConfig { block: [33, 1, 1], ..LaunchConfig::default() };
    let error = run(&source, &config, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("more than the 32 threads"), "{error}");
}

#[test]
fn shared_memory_too_large_to_count_is_refused() {
    let source = entry("", "", ".shared .align 4 .b8 x[20];\nret;");
    let config = LaunchConfig { dynamic_shared: u32::MAX, ..LaunchConfig::default() };
    for max_shared in [None, Some(u64::MAX)] {
        let options = Options { max_shared, ..Options::default() };
        let error = run(&source, &config, &options).unwrap_err().to_string();
        assert!(error.contains("shared memory"), "{error}");
    }
}

#[test]
fn memory_too_large_to_count_is_refused() {
    let memory = Memory::with_limit(u64::MAX);
    for bytes in [u64::MAX, u64::MAX - 255, 1 << 63, 1 << 48] {
        let error = memory.alloc(bytes, "all").unwrap_err().to_string();
        assert!(error.contains("`all`") && error.contains(&bytes.to_string()), "{error}");
    }
    // Nothing was taken by the refusals, and empty buffers are apart.
    let (one, two) = (memory.alloc(0, "one").unwrap(), memory.alloc(0, "two").unwrap());
    assert_ne!(one, two);
    assert!(memory.write(one, &[1]).is_err());
    memory.write(one, &[]).unwrap();
    assert!(memory.fill(one, 0, u64::MAX).is_err());
    assert!(memory.read(u64::MAX, &mut [0]).is_err());
}

#[test]
fn alignments_beyond_reason_are_refused() {
    for align in ["3", "0", "4294967295", "2147483648"] {
        let body = format!(".shared .align {align} .b8 x[4];\n.shared .align {align} .b8 y[4];\nret;");
        let result = run(&entry("", "", &body), &LaunchConfig::default(), &Options::default());
        assert!(result.is_err(), "{align}");
    }
}

#[test]
fn scopes_nested_very_deep_end_in_an_answer() {
    for depth in [10, 1000, 100_000] {
        let source = entry("", "", &format!("{}ret;{}", "{".repeat(depth), "}".repeat(depth)));
        let result = run(&source, &LaunchConfig::default(), &Options::default());
        assert!(depth > 10 || result.is_ok(), "{depth}: {result:?}");
    }
}
