//! Hostile PTX: texts that are changed at random, launched in shapes and on parameters that are changed too. Whatever comes
//! of a case, it comes soon, in bounded memory and without a panic.
//!
//! ```text
//! TILEWRIGHT_FUZZ_SECONDS=600 TILEWRIGHT_FUZZ_SEED=7 cargo test --test emulate_fuzz -- --nocapture
//! ```
//!
//! A failure says its seed and case, and `TILEWRIGHT_FUZZ_CASE` runs that one alone; the text is left in
//! `target/emulate_fuzz/`. Where Triton's kernels are (`TILEWRIGHT_TRITON_CORPUS`), they are changed as well.

#[path = "../support/corpus.rs"]
mod corpus;

mod case;
mod meter;
mod mutate;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use case::{Case, Seed};
use mutate::{Dictionary, mutate};

/// What one case may take: far more than any does, even where other processes hold the machine's cores.
const MOST_TIME: Duration = Duration::from_secs(30);
/// What one launch may take, in bytes.
const MAX_MEMORY: u64 = 256 << 20;
/// What one case may hold: the launch's memory, the buffers, and what parsing and decoding need.
const MOST_MEMORY: usize = MAX_MEMORY as usize + (128 << 20);

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The texts under a folder, in order of name.
fn seeds(folder: &Path) -> Vec<Seed> {
    let files = corpus::ptx_files(folder);
    files.iter().map(|path| Seed::new(path.display().to_string(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Tensor copies of a rank, which no file has: their maps are the host's. Three, so that they are taken often enough.
fn tensor_copies(rank: usize) -> Vec<Seed> {
    let coordinates = ["%c0", "%c1", "%c0", "%c1", "%c0"][..rank].join(", ");
    let text = format!(
        ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128]) {{
    .shared .align 1024 .b8 box[16384];
    .shared .align 8 .b64 bar;
    .reg .pred %p, %first;
    .reg .b64 %in, %token;
    .reg .b32 %t, %c<2>;
    mov.b64 %in, map;
    cvta.param.u64 %in, %in;
    mov.u32 %t, %tid.x;
    mov.b32 %c0, 0;
    mov.b32 %c1, -2;
    setp.eq.u32 %first, %t, 0;
    @!%first bra $done;
    mbarrier.init.shared::cta.b64 [bar], 1;
    fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 %token, [bar], 64;
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [box], [%in, {{{coordinates}}}], [bar];
$again:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0;
    @!%p bra $again;
    cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group [%in, {{{coordinates}}}], [box];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
$done:
    ret;
}}
"
    );
    (0..3).map(|_| Seed::new(format!("tensor copies of rank {rank}"), text.clone())).collect()
}

struct Corpus {
    /// Small kernels first: they are taken most often, since many cases of them fit into the time of a large one.
    small: Vec<Seed>,
    large: Vec<Seed>,
    dictionary: Dictionary,
}

fn texts() -> Corpus {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut small = seeds(&root.join("tests/emulate"));
    small.extend((1..=5).flat_map(tensor_copies));
    let mut large = seeds(&root.join("generated"));
    assert!(small.len() > 100 && large.len() > 10, "{} small texts, {} large", small.len(), large.len());
    large.extend(corpus::triton().iter().flat_map(|folder| seeds(folder)));
    let dictionary = Dictionary::of(small.iter().chain(&large).map(|seed| seed.text.as_str()));
    Corpus { small, large, dictionary }
}

/// Case number `number` of a seed: the same on every run.
fn make(corpus: &Corpus, seed: u64, number: u64) -> Case {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number));
    let from = if rng.random_ratio(1, 12) { &corpus.large } else { &corpus.small };
    let from = from.choose(&mut rng).unwrap();
    let text = mutate(&mut rng, &from.text, &corpus.dictionary);
    Case::new(&mut rng, from, text, MAX_MEMORY)
}

/// Leaves a case's text where it can be looked at; the path.
fn keep(case: &Case, seed: u64, number: u64) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/emulate_fuzz");
    let path = folder.join(format!("seed{seed}_case{number}.ptx"));
    let _ = std::fs::create_dir_all(&folder);
    let _ = std::fs::write(&path, &case.text);
    path.display().to_string()
}

/// What became of a case.
struct Outcome {
    number: u64,
    case: Arc<Case>,
    result: Result<&'static str, String>,
    took: Duration,
    bytes: usize,
}

/// What the panic hook heard last: `catch_unwind` does not give the place.
static HEARD: Mutex<String> = Mutex::new(String::new());

fn run_one(number: u64, case: Arc<Case>) -> Outcome {
    let live = meter::start();
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| case.run()))
        .map_err(|_| std::mem::take(&mut *HEARD.lock().unwrap_or_else(PoisonError::into_inner)));
    Outcome { number, case, result, took: start.elapsed(), bytes: meter::peak_since(live) }
}

#[test]
fn nothing_hostile_panics_hangs_or_takes_all_memory() {
    let seed = number("TILEWRIGHT_FUZZ_SEED").unwrap_or(1);
    let one = number("TILEWRIGHT_FUZZ_CASE");
    let seconds = Duration::from_secs(number("TILEWRIGHT_FUZZ_SECONDS").unwrap_or(5));
    // Finds every failure of a long run, where it would stop at the first.
    let goes_on = std::env::var_os("TILEWRIGHT_FUZZ_GO_ON").is_some();
    let corpus = texts();
    let me = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == me {
            // Not a case's: the test itself is wrong.
            println!("{info}");
        }
        // The first is the cause; others may follow while it unwinds.
        let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
        if heard.is_empty() {
            *heard = info.to_string();
        }
    }));
    let start = Instant::now();
    let (made, cases) = channel::<(u64, Arc<Case>)>();
    let (ended, outcomes) = channel();
    std::thread::spawn(move || {
        for (number, case) in cases {
            if ended.send(run_one(number, case)).is_err() {
                break;
            }
        }
    });
    let mut kinds: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut failures: BTreeMap<String, String> = BTreeMap::new();
    let (mut slowest, mut largest) = ((Duration::ZERO, 0), (0, 0));
    for number in one.unwrap_or(0).. {
        let case = Arc::new(make(&corpus, seed, number));
        made.send((number, Arc::clone(&case))).unwrap();
        let (what, message) = match outcomes.recv_timeout(MOST_TIME) {
            Err(RecvTimeoutError::Timeout) => ("hang".to_owned(), format!("still running after {MOST_TIME:?}")),
            Err(RecvTimeoutError::Disconnected) => ("end".to_owned(), "the thread that runs cases is gone".to_owned()),
            Ok(Outcome { number, case, result, took, bytes }) => {
                slowest = slowest.max((took, number));
                largest = largest.max((bytes, number));
                match result {
                    Err(message) => (message.lines().next().unwrap_or_default().to_owned(), message),
                    Ok(_) if bytes > MOST_MEMORY => {
                        (format!("memory {}", case.seed), format!("{bytes} bytes were held"))
                    }
                    Ok(kind) => {
                        *kinds.entry(kind).or_default() += 1;
                        (String::new(), String::new())
                    }
                }
            }
        };
        if !what.is_empty() && !failures.contains_key(&what) {
            let path = keep(&case, seed, number);
            let text = format!(
                "TILEWRIGHT_FUZZ_SEED={seed} TILEWRIGHT_FUZZ_CASE={number}: {message}\n    from {}, launched as {:?}, \
                 kept in {path}",
                case.seed, case.config
            );
            println!("{text}");
            failures.insert(what.clone(), text);
            if !goes_on || what == "hang" || what == "end" {
                break;
            }
        }
        if one.is_some() || start.elapsed() >= seconds {
            break;
        }
    }
    let cases: u64 = kinds.values().sum();
    println!(
        "seed {seed}: {cases} cases, {:.0} a second; slowest {:?} (case {}), largest {} KiB (case {}); {kinds:?}",
        cases as f64 / start.elapsed().as_secs_f64(),
        slowest.0,
        slowest.1,
        largest.0 >> 10,
        largest.1
    );
    let _ = std::panic::take_hook();
    assert!(failures.is_empty(), "{}", failures.into_values().collect::<Vec<_>>().join("\n"));
}
