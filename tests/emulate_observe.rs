//! The debugger's view: exact traces, stops and costs of small kernels whose costs are known.

use serde_json::Value as Json;
use tilewright::emulate::observe::{AccessKind, Memory, Observe, ProfileLine, Seen, Stop, launch_observed};
use tilewright::emulate::{Checks, Error, FaultKind, Kernel, LaunchConfig, Options, Statistics, launch};
use tilewright::ptx::Arch;
use tilewright::template::PotrfBlock;

/// An entry `k` with one pointer parameter, some registers and 4096 bytes of shared memory. Its body starts at line 11.
fn kernel(body: &str) -> Kernel {
    let text = format!(
        ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{{
    .reg .pred %p<4>;
    .reg .b16 %h<4>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<8>;
    .shared .align 16 .b8 tile[4096];
{body}
}}
"
    );
    Kernel::new(&text, None).unwrap_or_else(|error| panic!("{error}"))
}

fn block(threads: u32) -> LaunchConfig {
    LaunchConfig { block: [threads, 1, 1], ..LaunchConfig::default() }
}

/// Runs with a buffer of 8192 zero bytes.
fn observe(kernel: &Kernel, config: &LaunchConfig, observe: &Observe) -> (Result<Statistics, Error>, Seen) {
    let memory = tilewright::emulate::Memory::new();
    let address = memory.alloc(8192, "buffer").unwrap();
    memory.fill(address, 0, 8192).unwrap();
    launch_observed(kernel, config, &address.to_le_bytes(), &memory, &Options::default(), observe)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn trace() -> Observe {
    Observe { trace: Some(1000), ..Observe::default() }
}

fn text(seen: &Seen) -> String {
    seen.events.iter().map(ToString::to_string).collect()
}

/// The profile's line 13 of 32 threads that access shared memory there at `multiplier` × their number.
fn shared(access: &str, multiplier: u32) -> ProfileLine {
    line_13(&format!("mul.lo.u32 %r2, %r1, {multiplier};"), access)
}

fn line_13(address: &str, access: &str) -> ProfileLine {
    let kernel = kernel(&format!("    mov.u32 %r1, %tid.x;\n    {address}\n    {access}\n    ret;"));
    let (outcome, seen) = observe(&kernel, &block(32), &Observe { profile: true, ..Observe::default() });
    let profile = seen.profile.unwrap();
    assert_eq!(outcome.unwrap().warp_instructions, profile.total.warp_instructions);
    profile.line(13).unwrap().clone()
}

#[test]
fn bank_conflicts_have_their_known_degrees() {
    let store = "st.shared.b32 [%r2], %r1;";
    for (access, multiplier, wavefronts, conflicts) in [
        (store, 4, 1, 0),
        (store, 8, 2, 1),
        (store, 12, 1, 0),
        (store, 64, 16, 15),
        (store, 128, 32, 31),
        // By halves and by quarters.
        ("st.shared.v2.b32 [%r2], {%r1, %r1};", 8, 2, 0),
        ("st.shared.v2.b32 [%r2], {%r1, %r1};", 16, 4, 2),
        ("st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1};", 16, 4, 0),
        ("st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1};", 32, 8, 4),
        ("st.shared.v4.b32 [%r2], {%r1, %r1, %r1, %r1};", 128, 32, 28),
        // Matrices of eight rows of 16 bytes, at the addresses that the lanes name.
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r1, %r1, %r1, %r1};", 16, 4, 0),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r1, %r1, %r1, %r1};", 128, 32, 28),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r1};", 64, 4, 3),
        // Bytes of one word are one access; lanes that add to one word do so one after another.
        ("st.shared.u8 [%r2], %r1;", 1, 1, 0),
        ("st.shared.u8 [%r2], %r1;", 128, 32, 31),
    ] {
        let line = shared(access, multiplier);
        let counters = line.counters;
        assert_eq!(
            (counters.shared_accesses, counters.wavefronts, counters.conflicts),
            (1, wavefronts, conflicts),
            "{access} × {multiplier}"
        );
        assert_eq!((counters.global_accesses, line.text.as_str()), (0, access));
    }
}

#[test]
fn one_word_for_all_lanes_is_free_but_for_atomics() {
    let read = |address: &str, access: &str| {
        let body = format!(
            "    mov.u32 %r1, %tid.x;\n    {address}\n    st.shared.v4.b32 [tile], {{%r3, %r3, %r3, %r3}};\n    \
             bar.sync 0;\n    {access}\n    ret;"
        );
        let (outcome, seen) = observe(&kernel(&body), &block(32), &Observe { profile: true, ..Observe::default() });
        outcome.unwrap();
        let counters = seen.profile.unwrap().line(15).unwrap().counters;
        (counters.wavefronts, counters.conflicts)
    };
    assert_eq!(read("mov.u32 %r3, 0;", "ld.shared.u32 %r4, [tile];"), (1, 0));
    assert_eq!(read("mov.u32 %r3, 0;", "ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [tile];"), (4, 0));
    assert_eq!(read("mov.u32 %r3, 0;", "red.shared.add.u32 [tile], %r1;"), (32, 31));
}

#[test]
fn global_accesses_move_sectors() {
    let global = |multiplier: u32, access: &str| {
        let address =
            format!("ld.param.u64 %rd1, [k_param_0]; mul.wide.u32 %rd2, %r1, {multiplier}; add.u64 %rd3, %rd1, %rd2;");
        let counters = line_13(&address, access).counters;
        (counters.global_bytes, counters.sectors, counters.coalescing().unwrap())
    };
    let load = "ld.global.u32 %r3, [%rd3];";
    assert_eq!(global(4, load), (128, 4, 1.0));
    assert_eq!(global(8, load), (128, 8, 0.5));
    assert_eq!(global(128, load), (128, 32, 0.125));
    // One sector for all lanes: each byte is used many times.
    assert_eq!(global(0, load), (128, 1, 4.0));
    // From the second word on, a row of 128 bytes is in five sectors.
    assert_eq!(global(4, "ld.global.u32 %r3, [%rd3+4];"), (128, 5, 0.8));
    assert_eq!(global(16, "st.global.v4.b32 [%rd3], {%r1, %r1, %r1, %r1};"), (512, 16, 1.0));
    assert_eq!(global(4, "red.global.add.u32 [%rd3], %r1;"), (128, 4, 1.0));
    assert_eq!(global(16, "cp.async.cg.shared.global [tile], [%rd3], 16; cp.async.wait_all;").1, 16);
}

/// The lanes below 8 add, the others multiply.
const SPLIT: &str = "    mov.u32 %r1, %laneid;
    setp.lt.u32 %p1, %r1, 8;
    @%p1 bra $add;
    mul.lo.u32 %r2, %r1, 3;
    bra $join;
$add:
    add.u32 %r2, %r1, 1;
$join:
    mov.u32 %r3, %r2;
    ret;";

#[test]
fn divergence_is_counted() {
    let kernel = kernel(SPLIT);
    let config = LaunchConfig { grid: [5, 2, 1], ..block(48) };
    let (outcome, seen) = observe(&kernel, &config, &Observe { profile: true, ..Observe::default() });
    let (statistics, profile) = (outcome.unwrap(), seen.profile.unwrap());
    assert_eq!(profile.total.warp_instructions, statistics.warp_instructions);
    assert_eq!(profile.total.thread_instructions, statistics.thread_instructions);
    // Ten CTAs of a full warp and half a one.
    let counts = |line: u32| {
        let counters = profile.line(line).unwrap().counters;
        (counters.warp_instructions, counters.thread_instructions, counters.splits)
    };
    assert_eq!((counts(13), counts(14), counts(17)), ((20, 160, 20), (20, 320, 0), (20, 160, 0)));
    assert_eq!(profile.line(11).unwrap().active_lanes, 24.0);
    assert!(profile.line(16).is_none(), "a label is no instruction");
    assert_eq!(
        launch(&kernel, &config, &[0; 8], &tilewright::emulate::Memory::new(), &Options::default()),
        Ok(statistics)
    );
}

#[test]
fn a_profile_as_text_and_as_json() {
    let body = "    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [k_param_0];
    mad.wide.u32 %rd2, %r1, 8, %rd1;
    ld.global.u32 %r2, [%rd2];
    shl.b32 %r3, %r1, 4;
    st.shared.u32 [%r3], %r2;
    setp.lt.u32 %p1, %r1, 4;
    @%p1 st.global.u32 [%rd2], %r2;
    ret;";
    let (_, seen) = observe(&kernel(body), &block(32), &Observe { profile: true, ..Observe::default() });
    let profile = seen.profile.unwrap();
    insta::assert_snapshot!(profile, @r#"
    line  warp  thread  lanes  splits  waves  conflicts  bytes  sectors  used
      11     1      32   32.0                                                  mov.u32 %r1, %tid.x;
      12     1      32   32.0                                                  ld.param.u64 %rd1, [k_param_0];
      13     1      32   32.0                                                  mad.wide.u32 %rd2, %r1, 8, %rd1;
      14     1      32   32.0                              128        8  50 %  ld.global.u32 %r2, [%rd2];
      15     1      32   32.0                                                  shl.b32 %r3, %r1, 4;
      16     1      32   32.0              4          3                        st.shared.u32 [%r3], %r2;
      17     1      32   32.0                                                  setp.lt.u32 %p1, %r1, 4;
      18     1       4    4.0                               16        1  50 %  @%p1 st.global.u32 [%rd2], %r2;
      19     1      32   32.0                                                  ret;
     all     9     260   28.9              4          3    144        9  50 %  k, 1 CTAs
    "#);
    let json: Json = serde_json::to_value(&profile).unwrap();
    assert_eq!((&json["kernel"], &json["total"]["sectors"]), (&"k".into(), &9.into()));
    let line = json["lines"].as_array().unwrap().iter().find(|line| line["line"] == 16).unwrap();
    assert_eq!((&line["conflicts"], &line["active_lanes"]), (&3.into(), &32.0.into()));
}

#[test]
fn a_trace_shows_lanes_addresses_and_values() {
    let body = "    mov.u32 %r1, %tid.x;
    ld.param.u64 %rd1, [k_param_0];
    mad.wide.u32 %rd2, %r1, 4, %rd1;
    setp.gt.u32 %p1, %r1, 1;
    @%p1 st.global.u32 [%rd2], %r1;
    mov.u32 %r2, 7;
    cvt.u16.u32 %h1, %r1;
    mov.b32 {%h2, %h3}, %r9;
    @%p1 add.u32 %r9, %r1, %r2;
    st.shared.v2.u32 [tile+8], {%r2, 0};
    mov.u32 %r8, %r9;
    ret;";
    let (outcome, seen) = observe(&kernel(body), &block(3), &trace());
    assert_eq!(outcome.unwrap().warp_instructions as usize, seen.events.len());
    insta::assert_snapshot!(text(&seen), @r#"
    CTA 0,0,0 warp 0 line 11, active 0x00000007: mov.u32 %r1, %tid.x;
        %r1 = 0x00000000 0x00000001 0x00000002
    CTA 0,0,0 warp 0 line 12, active 0x00000007: ld.param.u64 %rd1, [k_param_0];
        load param, 8 bytes at 0x0, all lanes
        %rd1 = 3 × 0x0000001000000000
    CTA 0,0,0 warp 0 line 13, active 0x00000007: mad.wide.u32 %rd2, %r1, 4, %rd1;
        %rd2 = 0x0000001000000000 0x0000001000000004 0x0000001000000008
    CTA 0,0,0 warp 0 line 14, active 0x00000007: setp.gt.u32 %p1, %r1, 1;
        %p1 holds in 0x00000004
    CTA 0,0,0 warp 0 line 15, active 0x00000004: @%p1 st.global.u32 [%rd2], %r1;
        store global, 4 bytes at 0x1000000008
        stored %r1 = 0x00000002
    CTA 0,0,0 warp 0 line 16, active 0x00000007: mov.u32 %r2, 7;
        %r2 = 3 × 0x00000007
    CTA 0,0,0 warp 0 line 17, active 0x00000007: cvt.u16.u32 %h1, %r1;
        %h1 = 0x0000 0x0001 0x0002
    CTA 0,0,0 warp 0 line 18, active 0x00000007: mov.b32 {%h2, %h3}, %r9;
        %h2 is undefined
        %h3 is undefined
    CTA 0,0,0 warp 0 line 19, active 0x00000004: @%p1 add.u32 %r9, %r1, %r2;
        %r9 = 0x00000009
    CTA 0,0,0 warp 0 line 20, active 0x00000007: st.shared.v2.u32 [tile+8], {%r2, 0};
        store shared, 8 bytes at 0x8, all lanes
        stored %r2 = 3 × 0x00000007
        stored constant = 3 × 0x00000000
    CTA 0,0,0 warp 0 line 21, active 0x00000007: mov.u32 %r8, %r9;
        %r8 = 0x00000009, undefined in 0x00000003
    CTA 0,0,0 warp 0 line 22, active 0x00000007: ret;
    "#);
    let store = &seen.events[4];
    assert_eq!(
        (store.active, store.accesses[0].kind, store.accesses[0].memory),
        (4, AccessKind::Store, Memory::Global)
    );
    assert_eq!(store.stored[0].values, [2]);
    let json = serde_json::to_string(store).unwrap();
    insta::assert_snapshot!(json, @r#"{"cta":[0,0,0],"warp":0,"line":15,"text":"@%p1 st.global.u32 [%rd2], %r1;","active":"0x00000004","writes":[],"accesses":[{"memory":"global","kind":"store","bytes":4,"lanes":"0x00000004","addresses":["0x1000000008"]}],"stored":[{"register":"%r1","bits":32,"lanes":"0x00000004","values":["0x2"]}],"faulted":false}"#);
}

#[test]
fn a_trace_has_its_filters() {
    let kernel = kernel(SPLIT);
    let config = LaunchConfig { grid: [2, 2, 1], ..block(64) };
    let (_, all) = observe(&kernel, &config, &trace());
    // Eight warps of eight steps, the CTAs in order.
    assert_eq!(all.events.len(), 64);
    let order: Vec<_> = all.events.iter().map(|event| (event.cta[1], event.cta[0], event.warp)).collect();
    assert!(order.is_sorted());
    let (_, one) =
        observe(&kernel, &config, &Observe { cta: Some([1, 0, 0]), warp: Some(1), lines: Some(13..=17), ..trace() });
    let seen: Vec<_> = one.events.iter().map(|event| (event.cta, event.warp, event.line, event.active)).collect();
    let at = |line, active| ([1, 0, 0], 1, line, active);
    assert_eq!(seen, [at(13, 0xff), at(17, 0xff), at(14, 0xffff_ff00), at(15, 0xffff_ff00)]);
    let (outcome, few) = observe(&kernel, &config, &Observe { trace: Some(10), ..Observe::default() });
    assert_eq!((few.events.as_slice(), few.left_out), (&all.events[..10], 54));
    assert_eq!(outcome.unwrap().warp_instructions, 64, "the launch goes on without the trace");
}

#[test]
fn a_trace_ends_at_the_instruction_that_faulted() {
    let body = "    mov.u32 %r1, %tid.x;\n    mul.lo.u32 %r2, %r1, 1024;\n    st.shared.u32 [%r2], %r1;\n    ret;";
    let (outcome, seen) = observe(&kernel(body), &block(5), &Observe { profile: true, ..trace() });
    let Err(Error::Fault(fault)) = outcome else { panic!("expected a fault: {outcome:?}") };
    assert_eq!((fault.kind, fault.line), (FaultKind::Bounds, 13));
    let last = seen.events.last().unwrap();
    assert!(last.faulted && last.line == 13 && last.accesses[0].addresses == [0, 1024, 2048, 3072, 4096]);
    assert!(seen.events.iter().filter(|event| event.faulted).count() == 1 && seen.profile.is_none());
    // The step limit is reached between instructions.
    let endless = kernel("$top:\n    bra $top;");
    let options = Options { max_steps: Some(5), ..Options::default() };
    let memory = tilewright::emulate::Memory::new();
    let (outcome, seen) = launch_observed(&endless, &block(1), &[0; 8], &memory, &options, &trace()).unwrap();
    assert!(matches!(outcome, Err(Error::Fault(fault)) if fault.kind == FaultKind::Steps));
    assert_eq!(seen.events.iter().map(|event| event.faulted).collect::<Vec<_>>(), [false; 5]);
}

/// Three times round, each thread writes ten times the round to its word.
const LOOP: &str = "    .reg .b32 %i;
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 2;
    mov.u32 %i, 0;
$again:
    add.u32 %i, %i, 1;
    mul.lo.u32 %r3, %i, 10;
    {
        .reg .b32 %r3;
        add.u32 %r3, %r1, 256;
    }
    setp.lt.u32 %p1, %r1, 4;
    st.shared.u32 [%r2], %r3;
    bar.sync 0;
    setp.lt.u32 %p2, %i, 3;
    @%p2 bra $again;
    ret;";

fn stop(line: u32, hit: u64) -> Observe {
    Observe { stop: Some(Stop { line, hit }), ..Observe::default() }
}

#[test]
fn a_stop_shows_registers_and_shared_memory() {
    let kernel = kernel(LOOP);
    // The second warp has ten lanes. It is the last at the barrier, so it comes to its second store before the first does.
    let (outcome, seen) = observe(&kernel, &block(42), &Observe { warp: Some(1), ..stop(23, 2) });
    let snapshot = seen.stop.unwrap();
    insta::assert_snapshot!(snapshot, @r#"
    stopped before line 23 of k, hit 2: CTA [0, 0, 0], warp 1
        st.shared.u32 [%r2], %r3;
    lanes: 0x000003ff active, 0x000003ff alive
    predicates
      %p1            holds in 0x00000000
      %p2            holds in 0x000003ff
    registers
      %r1             0: 0x00000020 0x00000021 0x00000022 0x00000023 0x00000024 0x00000025 0x00000026 0x00000027
                      8: 0x00000028 0x00000029
      %r2             0: 0x00000080 0x00000084 0x00000088 0x0000008c 0x00000090 0x00000094 0x00000098 0x0000009c
                      8: 0x000000a0 0x000000a4
      %r3 (line 8)   10 × 0x00000014
      %i             10 × 0x00000002
      %r3 (line 19)   0: 0x00000120 0x00000121 0x00000122 0x00000123 0x00000124 0x00000125 0x00000126 0x00000127
                      8: 0x00000128 0x00000129
    undefined in all lanes: 23 more registers
    shared memory: 4096 bytes; .. was not written
      0x0000  0a 00 00 00  0a 00 00 00  0a 00 00 00  0a 00 00 00
      *
      0x00a0  0a 00 00 00  0a 00 00 00  .. .. .. ..  .. .. .. ..
      0x00b0  .. .. .. ..  .. .. .. ..  .. .. .. ..  .. .. .. ..
      *
    "#);
    assert_eq!((snapshot.warp, snapshot.hit, snapshot.alive), (1, 2, 0x3ff));
    assert!(outcome.unwrap().warp_instructions < 40, "the launch ends there");
    let json: Json = serde_json::to_value(&snapshot).unwrap();
    assert_eq!(json["shared"]["bytes"].as_str().unwrap().len(), 8192);
    assert_eq!(json["shared"]["initialised"], serde_json::json!([{"start": 0, "end": 168}]));
    let r1 = json["registers"].as_array().unwrap().iter().find(|register| register["register"] == "%r1").unwrap();
    assert_eq!((&r1["bits"], &r1["lanes"], &r1["values"][9]), (&32.into(), &"0x000003ff".into(), &"0x29".into()));
}

#[test]
fn hits_are_counted_over_all_warps_or_one() {
    let kernel = kernel(LOOP);
    let at = |observe_: Observe| {
        let (_, seen) = observe(&kernel, &LaunchConfig { grid: [2, 1, 1], ..block(64) }, &observe_);
        (seen.hits, seen.stop.map(|snapshot| (snapshot.cta[0], snapshot.warp)))
    };
    assert_eq!(at(stop(23, 1)), (1, Some((0, 0))));
    assert_eq!(at(stop(23, 2)), (2, Some((0, 1))));
    assert_eq!(at(stop(23, 7)), (7, Some((1, 0))));
    assert_eq!(at(Observe { cta: Some([1, 0, 0]), ..stop(23, 2) }), (2, Some((1, 1))));
    assert_eq!(at(stop(23, 13)), (12, None));
    // A barrier that a warp waits at is one hit.
    assert_eq!(at(stop(24, 13)), (12, None));
}

#[test]
fn a_wait_that_is_asked_again_is_one_hit_and_one_event() {
    // Warp 1 is the last at the barrier and goes on; it waits for an mbarrier that warp 0 arrives at later.
    let kernel = kernel(
        "    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared.b64 [tile], 1;
    bar.sync 0;
    setp.eq.u32 %p2, %r1, 0;
    @%p2 mbarrier.arrive.shared.b64 %rd1, [tile];
$wait:
    mbarrier.test_wait.parity.shared.b64 %p3, [tile], 0;
    @!%p3 bra $wait;
    ret;",
    );
    let (outcome, seen) = observe(&kernel, &block(64), &Observe { profile: true, ..trace() });
    let statistics = outcome.unwrap();
    let waits = seen.events.iter().filter(|event| event.line == 18 && event.warp == 1).count();
    assert_eq!(waits, 1);
    let profile = seen.profile.unwrap();
    assert_eq!(profile.total.warp_instructions, statistics.warp_instructions);
    assert!(profile.line(18).unwrap().counters.warp_instructions > 2, "the wait was asked again");
    let (_, seen) = observe(&kernel, &block(64), &stop(18, 3));
    assert_eq!((seen.hits, seen.stop), (2, None));
}

#[test]
fn observation_changes_nothing() {
    let kernel = kernel(LOOP);
    let memory = tilewright::emulate::Memory::new();
    let plain = launch(&kernel, &block(64), &[0; 8], &memory, &Options::default()).unwrap();
    let (observed, seen) = observe(&kernel, &block(64), &Observe { profile: true, ..trace() });
    assert_eq!((observed, seen.events.len() as u64), (Ok(plain), plain.warp_instructions));
}

#[test]
fn a_watched_kernel_computes_the_same() {
    let (n, batch) = (80, 3);
    let module = PotrfBlock { n, block: 16, warps: 4 }.instantiate(Arch::Sm80).unwrap();
    let meta = &module.meta.kernels[0];
    let kernel = Kernel::new(&module.ptx, None).unwrap();
    let config = LaunchConfig { grid: [batch, 1, 1], dynamic_shared: meta.shared, ..block(32 * meta.num_warps) };
    let run = |observe: Option<&Observe>| {
        let memory = tilewright::emulate::Memory::new();
        let entry =
            |at: u32| if at / n % n == at % n { n as f32 } else { 1.0 / (1.0 + (at / n % n).abs_diff(at % n) as f32) };
        let input: Vec<u8> = (0..batch * n * n).flat_map(|at| entry(at).to_le_bytes()).collect();
        let address = memory.alloc(input.len() as u64, "a").unwrap();
        memory.write(address, &input).unwrap();
        let info = memory.alloc(4 * u64::from(batch), "info").unwrap();
        let wide = [address, address, info, (n * n).into(), (n * n).into()].into_iter().flat_map(u64::to_le_bytes);
        let params: Vec<u8> = wide.chain([n, n, batch].into_iter().flat_map(u32::to_le_bytes)).collect();
        let options = Options::default();
        let (statistics, seen) = match observe {
            None => (launch(&kernel, &config, &params, &memory, &options), None),
            Some(observe) => {
                let (outcome, seen) = launch_observed(&kernel, &config, &params, &memory, &options, observe).unwrap();
                (outcome, Some(seen))
            }
        };
        let mut output = vec![0; input.len()];
        memory.read(address, &mut output).unwrap();
        assert_ne!(input, output);
        ((statistics.unwrap(), output), seen)
    };
    let (plain, _) = run(None);
    let profiled = Observe { profile: true, ..Observe::default() };
    for observe in [profiled.clone(), Observe { trace: Some(500), ..profiled }, stop(1, 1)] {
        // A line that all kernels have, and a hit that none comes to.
        let end = module.ptx.lines().position(|line| line.trim() == "ret;").unwrap() as u32 + 1;
        let observe = Observe { stop: observe.stop.map(|_| Stop { line: end, hit: 1 << 40 }), ..observe };
        let (watched, seen) = run(Some(&observe));
        assert!(watched == plain, "{observe:?}");
        let seen = seen.unwrap();
        let traced = seen.events.len() as u64 + seen.left_out;
        assert_eq!(traced, if observe.trace.is_some() { plain.0.warp_instructions } else { 0 });
        if let Some(profile) = seen.profile {
            let counted = (profile.total.warp_instructions, profile.total.thread_instructions, profile.ctas);
            assert_eq!(counted, (plain.0.warp_instructions, plain.0.thread_instructions, 3));
        }
    }
}

#[test]
fn what_can_not_be_seen_is_refused() {
    let kernel = kernel(LOOP);
    let memory = tilewright::emulate::Memory::new();
    for (observe, said) in [
        (stop(15, 1), "k cannot be observed so: line 15 has no instruction of it; the next is in line 16"),
        (stop(99, 1), "line 99 has no instruction of it"),
        (stop(23, 0), "hits are counted from 1"),
        (Observe { lines: Some(1..=10), ..trace() }, "lines 1 to 10 have no instruction of it"),
        (Observe { cta: Some([0, 1, 0]), ..trace() }, "CTA [0, 1, 0] is not in the grid [1, 1, 1]"),
        (Observe { warp: Some(1), ..trace() }, "warp 1 is not among the 1 of a CTA"),
    ] {
        let refused = launch_observed(&kernel, &block(32), &[0; 8], &memory, &Options::default(), &observe);
        let error = refused.map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Observe { .. }) && error.to_string().contains(said), "{error}");
    }
}

#[test]
fn shared_memory_has_no_marks_where_nobody_looks() {
    let kernel = kernel(LOOP);
    let memory = tilewright::emulate::Memory::new();
    let options = Options { checks: Checks { init: false, ..Options::default().checks }, ..Options::default() };
    let (_, seen) = launch_observed(&kernel, &block(32), &[0; 8], &memory, &options, &stop(24, 1)).unwrap();
    let shared = seen.stop.unwrap().shared;
    assert_eq!((shared.initialised.is_none(), shared.bytes[4], shared.bytes.len()), (true, 10, 4096));
}
