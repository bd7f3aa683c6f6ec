//! Shapes, declarations and loops that are legal text and absurd in size: each is refused with a message, none overflows,
//! panics or runs for ever.

use tilewright::emulate::{Error, Fault, FaultKind, Kernel, LaunchConfig, Memory, Options, launch};

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

/// One thread, with two buffers whose addresses are `%a` and `%b`, an mbarrier for one arrival and 64 KiB of shared memory.
fn one_thread(body: &str) -> String {
    let head = ".reg .b64 %a, %b, %x;
        .reg .b32 %i, %j;
        .reg .pred %p;
        .shared .align 16 .b8 data[65536];
        .shared .align 8 .b64 bar;
        ld.param.u64 %a, [a];
        ld.param.u64 %b, [b];
        mbarrier.init.shared::cta.b64 [bar], 1;
        fence.proxy.async.shared::cta;";
    entry(".param .u64 a, .param .u64 b", "", &format!("{head}\n{body}\nret;"))
}

/// What comes of one thread over two buffers of so many bytes, all written.
fn run_one_thread(body: &str, bytes: [u64; 2], options: &Options) -> Result<(), Error> {
    let kernel = decode(&one_thread(body))?;
    let memory = Memory::new();
    let addresses = bytes.map(|bytes| memory.alloc(bytes, "buffer").unwrap());
    for (address, bytes) in addresses.into_iter().zip(bytes) {
        memory.fill(address, 0, bytes).unwrap();
    }
    let params: Vec<u8> = addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
    launch(&kernel, &LaunchConfig::default(), &params, &memory, options).map(|_| ())
}

fn fault_of(result: Result<(), Error>, what: &str) -> Fault {
    match result {
        Err(Error::Fault(fault)) => *fault,
        other => panic!("{what}: {other:?}"),
    }
}

/// A list of targets that many branches share makes as many ways as their product.
#[test]
fn indexed_branches_have_so_many_targets() {
    let count = 2000;
    let labels: String = (0..count).map(|index| format!("l{index}: ret;\n")).collect();
    let list: Vec<String> = (0..count).map(|index| format!("l{index}")).collect();
    let branches = "brx.idx %i, ts;\n".repeat(count);
    let body = format!(".reg .b32 %i;\n{labels}ts: .branchtargets {};\n{branches}ret;", list.join(", "));
    let error = decode(&entry("", "", &body)).unwrap_err().to_string();
    assert!(error.contains("more than 1048576 targets"), "{error}");
}

#[test]
fn a_predicate_has_no_place_in_memory() {
    for body in ["st.global.pred [%a], 1;", "ld.shared.pred %p, [data];", "st.shared.v2.pred [data], {%p, %p};"] {
        let error = decode(&one_thread(body)).unwrap_err().to_string();
        assert!(error.contains("predicate"), "{body}: {error}");
    }
}

#[test]
fn a_bulk_copy_is_checked_before_room_is_made_for_it() {
    let into = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%a], 4294967280, [bar];";
    let within =
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [data], [data], 4294967280, [bar];";
    let out = "cp.async.bulk.global.shared::cta.bulk_group [%a], [data], 4294967280;";
    for body in [into, within, out] {
        let fault = fault_of(run_one_thread(body, [64, 64], &Options::default()), body);
        assert_eq!(fault.kind, FaultKind::Bounds, "{fault}");
    }
}

#[test]
fn a_range_that_begins_in_one_buffer_and_ends_in_another_is_outside() {
    // Buffers are 128 KiB apart at most here: the last byte is in the second one.
    let options = Options { max_shared: Some(1 << 20), ..Options::default() };
    let body = ".shared .align 16 .b8 large[200000];
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [large], [%a], SIZE, [bar];";
    for size in [65536 + 16, 131_072 + 16] {
        let body = body.replace("SIZE", &size.to_string());
        let fault = fault_of(run_one_thread(&body, [64, 64], &options), &body);
        assert!(fault.kind == FaultKind::Bounds && fault.message.contains(&size.to_string()), "{fault}");
    }
}

#[test]
fn an_mbarrier_counts_no_further_than_it_can() {
    let complete = "again: mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 4294967295;\nbra again;";
    let fault = fault_of(run_one_thread(complete, [64, 64], &Options::default()), complete);
    assert!(fault.kind == FaultKind::Sync && fault.message.contains("4294967295 bytes"), "{fault}");
    let arrive = "mbarrier.init.shared::cta.b64 [data], 1048575;
        again: cp.async.mbarrier.arrive.shared::cta.b64 [data];\nbra again;";
    let fault = fault_of(run_one_thread(arrive, [64, 64], &Options::default()), arrive);
    assert!(fault.kind == FaultKind::Sync && fault.message.contains("1048575"), "{fault}");
}

/// Work that is issued for ever and never waited for ends at the memory limit.
#[test]
fn pending_work_is_bounded() {
    let bodies = [
        "again: cp.async.commit_group;\nbra again;",
        "again: cp.async.ca.shared.global [data], [%a], 16;\nbra again;",
        "again: cp.async.bulk.commit_group;\nbra again;",
        "again: cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];\nbra again;",
        "st.shared.u64 [data], 0;\nst.shared.u64 [data+8], 0;\nfence.proxy.async.shared::cta;
         again: cp.async.bulk.global.shared::cta.bulk_group [%a], [data], 16;\nbra again;",
        "again: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%a], 16384, [bar];\nbra again;",
    ];
    let options = Options { max_memory: Some(8 << 20), ..Options::default() };
    for body in bodies {
        let fault = fault_of(run_one_thread(body, [16384, 64], &options), body);
        assert_eq!(fault.kind, FaultKind::Memory, "{body}: {fault}");
        assert!(fault.message.contains("its limit is 8388608 (`Options::max_memory`)"), "{fault}");
    }
    // What is waited for is given back.
    let body = "mov.b32 %i, 0;
        again: cp.async.ca.shared.global [data], [%a], 16;
        cp.async.commit_group;
        cp.async.wait_group 0;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group 0;
        add.u32 %i, %i, 1;
        setp.lt.u32 %p, %i, 200000;
        @%p bra again;";
    run_one_thread(body, [64, 64], &options).unwrap();
}

#[test]
fn wgmma_groups_that_nobody_waits_for_are_bounded() {
    let source = entry("", "", "again: wgmma.commit_group.sync.aligned;\nbra again;");
    let config = LaunchConfig { block: [128, 1, 1], ..LaunchConfig::default() };
    let options = Options { max_memory: Some(8 << 20), ..Options::default() };
    let fault = fault_of(run(&source, &config, &options), "wgmma");
    assert_eq!(fault.kind, FaultKind::Memory, "{fault}");
}

#[test]
fn marks_of_global_memory_count() {
    let body = "mov.b64 %x, %a;
        again: st.global.u32 [%x], 1;
        add.s64 %x, %x, 262144;
        bra again;";
    let options = Options { max_memory: Some(16 << 20), ..Options::default() };
    let fault = fault_of(run_one_thread(body, [64 << 20, 64], &options), body);
    assert_eq!(fault.kind, FaultKind::Memory, "{fault}");
    // Without marks it runs to the buffer's end.
    let options = Options { max_memory: Some(16 << 20), ..Options::unchecked() };
    let fault = fault_of(run_one_thread(body, [64 << 20, 64], &options), body);
    assert_eq!(fault.kind, FaultKind::Bounds, "{fault}");
}

/// What a launch needs from the start is refused with what it asks for and the limit.
#[test]
fn a_launch_takes_no_more_memory_than_it_may() {
    let block = [1024, 1, 1];
    let local = entry("", "", ".local .align 4 .b8 x[524288];\nret;");
    let registers = entry("", "", ".reg .b64 %r<50000>;\n.reg .b32 %s<50000>;\nret;");
    let shared = entry("", "", ".shared .align 4 .b8 x[200000];\ncp.async.wait_all;\nst.shared.u8 [x], 0;\nret;");
    for (source, word) in [(&local, "local"), (&registers, "registers"), (&shared, "shared")] {
        // A cluster of the most CTAs, by the limit that there is unless another is given.
        let config = LaunchConfig { block, grid: [16, 1, 1], cluster: [16, 1, 1], ..LaunchConfig::default() };
        let error = run(source, &config, &Options::default()).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{word}: {error}");
        let message = error.to_string();
        assert!(message.starts_with("k cannot be launched: a cluster of 16 CTAs takes"), "{message}");
        assert!(message.contains(word) && message.contains("the limit is 4294967296"), "{message}");
        let config = LaunchConfig { block: [32, 1, 1], ..LaunchConfig::default() };
        let error = run(source, &config, &Options { max_memory: Some(1 << 20), ..Options::default() }).unwrap_err();
        assert!(error.to_string().contains("the limit is 1048576"), "{error}");
    }
    let module = format!("{HEAD}.global .align 4 .b8 x[4000000];\n.visible .entry k()\n{{\nret;\n}}\n");
    let options = Options { max_memory: Some(1 << 20), ..Options::default() };
    assert!(run(&module, &LaunchConfig::default(), &options).is_err());
    run(&module, &LaunchConfig::default(), &Options { max_memory: None, ..Options::default() }).unwrap();
}

/// Where memory is short, CTAs run one after another rather than not at all.
#[test]
fn ctas_that_do_not_fit_together_run_in_turn() {
    let source = entry(
        ".param .u64 out",
        "",
        ".local .align 4 .b32 x[16384];\n.reg .b64 %o, %l;\n.reg .b32 %c;
         ld.param.u64 %o, [out];\nmov.u32 %c, %ctaid.x;\nst.local.u32 [x+1024], %c;\nld.local.u32 %c, [x+1024];
         mad.wide.u32 %o, %c, 4, %o;\nst.global.u32 [%o], %c;\nret;",
    );
    let memory = Memory::new();
    let out = memory.alloc(4 * 64, "out").unwrap();
    let config = LaunchConfig { grid: [64, 1, 1], ..LaunchConfig::default() };
    // A CTA takes 4 MiB of local memory, and the marks of `out` one.
    let options = Options { max_memory: Some(6 << 20), ..Options::default() };
    let statistics = launch(&decode(&source).unwrap(), &config, &out.to_le_bytes(), &memory, &options).unwrap();
    assert_eq!(statistics.ctas, 64);
    let mut bytes = [0; 4 * 64];
    memory.read(out, &mut bytes).unwrap();
    assert!(bytes.chunks(4).enumerate().all(|(index, word)| word == (index as u32).to_le_bytes()));
}

#[test]
fn a_grid_without_end_ends() {
    let source = entry("", "", "ret;");
    let config = LaunchConfig { grid: [i32::MAX as u32, 1, 1], ..LaunchConfig::default() };
    let options = Options { max_launch_steps: Some(10_000), ..Options::default() };
    let fault = fault_of(run(&source, &config, &options), "grid");
    assert!(fault.kind == FaultKind::Steps && fault.message.contains("of 10000 steps"), "{fault}");
    assert!(Options::default().max_launch_steps.is_some());
    // Making a CTA of much memory counts: a few of these are as much as many of those.
    let large = entry("", "", ".local .align 4 .b8 x[524288];\nret;");
    let fault = fault_of(run(&large, &config, &options), "large");
    assert!(fault.cta[0] < 16, "{fault}");
    // A launch that ends within its steps does.
    run(&source, &LaunchConfig { grid: [100, 1, 1], ..config }, &options).unwrap();
}

#[test]
fn loops_that_wait_for_nothing_end() {
    let options = Options { max_steps: Some(200_000), ..Options::default() };
    let cases = [
        ("again: nanosleep.u32 1000000000;\nbra again;", FaultKind::Steps),
        ("again: bar.sync 0;\nbra again;", FaultKind::Steps),
        ("again: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\n@!%p bra again;", FaultKind::Sync),
        ("again: mbarrier.test_wait.parity.shared::cta.b64 %p, [bar], 0;\n@!%p bra again;", FaultKind::Sync),
        // Something goes on, but not what is waited for.
        (
            "again: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;\nst.shared.u32 [data], 1;\n@!%p bra again;",
            FaultKind::Steps,
        ),
        ("bar.sync 1, 64;", FaultKind::Sync),
    ];
    for (body, kind) in cases {
        let fault = fault_of(run_one_thread(body, [64, 64], &options), body);
        assert_eq!(fault.kind, kind, "{body}: {fault}");
    }
}

/// A step that copies much counts for more than one.
#[test]
fn large_copies_count_as_steps() {
    let body = "again: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%a], 65536, [bar];
        bra again;";
    let options = Options { max_steps: Some(20_000), max_memory: None, ..Options::default() };
    let fault = fault_of(run_one_thread(body, [65536, 64], &options), body);
    assert!(fault.kind == FaultKind::Steps && fault.message.contains("copies and products"), "{fault}");
}
