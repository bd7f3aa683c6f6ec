//! What a device gave, in few bytes: fingerprints where bits must be the same, some results where they need not.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::random::fingerprint;

/// Cases under one fingerprint.
pub const BLOCK: usize = 2048;
/// Results that are kept of an approximation, the first ones and others evenly.
const SAMPLES: usize = 384;

/// Everything that was recorded of a device.
#[derive(Default, Serialize, Deserialize)]
pub struct Recording {
    /// The device's name.
    pub device: String,
    /// By instruction.
    pub entries: IndexMap<String, Entry>,
}

/// What was recorded of one instruction.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A fingerprint of each [`BLOCK`] of results, in hexadecimal, one after the other.
    Blocks(String),
    /// The results of [`samples`], in hexadecimal, with blanks between them.
    Samples(String),
}

/// What is embedded of plain instructions: the `.recorded.json` of a run on a device.
pub fn instructions() -> Recording {
    serde_json::from_str(include_str!("recorded/instructions.json")).expect("the recording reads")
}

/// What is embedded of tensor cores: the `.tensor.recorded.json` of a run on a device.
pub fn tensor() -> Recording {
    serde_json::from_str(include_str!("recorded/tensor.json")).expect("the recording reads")
}

/// Which of `count` cases are kept of an approximation.
pub fn samples(count: usize) -> Vec<usize> {
    let first = SAMPLES / 2;
    let step = (count.saturating_sub(first) / (SAMPLES - first)).max(1);
    (0..first.min(count)).chain((first..count).step_by(step)).take(SAMPLES).collect()
}

impl Entry {
    /// The fingerprints of results.
    pub fn blocks(results: &[u64]) -> Self {
        let block = |words: &[u64]| format!("{:08x}", fingerprint(words.iter().copied()) >> 32);
        Entry::Blocks(results.chunks(BLOCK).map(block).collect())
    }

    /// Some of the results.
    pub fn sampled(results: &[u64]) -> Self {
        let kept: Vec<String> = samples(results.len()).iter().map(|&at| format!("{:x}", results[at])).collect();
        Entry::Samples(kept.join(" "))
    }

    /// The first case of each block whose fingerprint is another in `results`; of another number of blocks, 0.
    pub fn differing_blocks(&self, results: &[u64]) -> Vec<usize> {
        match (self, Self::blocks(results)) {
            (Entry::Blocks(ours), Entry::Blocks(theirs)) if ours.len() == theirs.len() => (0..ours.len() / 8)
                .filter(|at| ours[8 * at..8 * at + 8] != theirs[8 * at..8 * at + 8])
                .map(|at| at * BLOCK)
                .collect(),
            _ => vec![0],
        }
    }

    /// The cases and results that were kept.
    pub fn kept(&self, count: usize) -> Vec<(usize, u64)> {
        let Entry::Samples(text) = self else { return Vec::new() };
        let results = text.split(' ').filter_map(|word| u64::from_str_radix(word, 16).ok());
        samples(count).into_iter().zip(results).collect()
    }
}

#[test]
fn recordings_tell_results_apart() {
    let results: Vec<u64> = (0..5000).map(|at| at * at).collect();
    let (blocks, sampled) = (Entry::blocks(&results), Entry::sampled(&results));
    assert!(blocks.differing_blocks(&results).is_empty());
    let mut other = results.clone();
    other[BLOCK + 7] ^= 1;
    assert_eq!(blocks.differing_blocks(&other), [BLOCK]);
    assert_eq!(blocks.differing_blocks(&results[..100]), [0]);
    assert!(sampled.kept(5000).iter().all(|&(at, result)| result == results[at]));
    assert_eq!(sampled.kept(5000).len(), SAMPLES);
    assert_eq!(Entry::sampled(&results[..50]).kept(50).len(), 50);
}
