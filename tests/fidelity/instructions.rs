//! Instruction after instruction on the emulator and on a device.

use indexmap::IndexMap;
use serde::Serialize;
use tilewright::device::Device;

use crate::known;
use crate::launch::{self, Launch};
use crate::operands::{Kind, cases, distance, value};
use crate::recorded::{self, Entry, Recording};
use crate::report::write;
use crate::table::{Bound, Promise, Row, rows};

/// How a comparison came out, the good ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs, and there is nothing to compare it with.
    Unrecorded,
    /// Every bit is the same.
    Identical,
    /// An approximation within its bound.
    Within,
    /// Different bits, as [`known::ACCEPTED`] says.
    Accepted,
    /// The emulator does not know the instruction, as [`known::GAPS`] says.
    Gap,
    /// The emulator does not run it, and nothing says so.
    Refused,
    /// The device does not take it.
    NotOnDevice,
    /// An approximation beyond its bound.
    Beyond,
    /// Bits differ that must not.
    Different,
}

/// What came of one instruction.
#[derive(Serialize)]
pub struct Outcome {
    instruction: String,
    verdict: Verdict,
    compared: usize,
    different: usize,
    /// In units of the last place; none where one result is NaN and the other is not.
    greatest_distance: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    promise: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Cases that differ: the worst, then the first ones.
    examples: Vec<Example>,
}

/// Operands and results, in hexadecimal.
#[derive(Serialize)]
struct Example {
    operands: Vec<String>,
    emulator: String,
    device: String,
}

/// A row with its operands.
struct Work {
    row: Row,
    cases: Vec<Vec<u64>>,
}

impl Work {
    fn new(row: Row) -> Self {
        Self { cases: cases(&row.name, &row.operands), row }
    }

    fn run(&self, device: &dyn Device) -> Result<Vec<u64>, String> {
        let input: Vec<u32> =
            self.cases.iter().flatten().flat_map(|&word| [word as u32, (word >> 32) as u32]).collect();
        let launch = Launch {
            ptx: &self.row.kernel(),
            warps: 4,
            ctas: self.cases.len() as u32 / 128,
            input: &input,
            output_words: 2 * self.cases.len(),
        };
        let words = launch::run(device, &launch)?;
        Ok(words.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect())
    }

    /// The emulator's results on the cases `at` against the device's.
    fn compare(&self, pairs: impl Iterator<Item = (usize, u64, u64)>) -> Outcome {
        let result = self.row.result;
        let (mut compared, mut different, mut greatest, mut beyond) = (0, 0, 0, 0);
        let mut shown: Vec<(usize, u64, u64)> = Vec::new();
        for (at, ours, theirs) in pairs {
            compared += 1;
            if ours == theirs {
                continue;
            }
            different += 1;
            let far = distance(result, ours, theirs);
            let broken = match self.row.bound {
                Bound::Exact => true,
                Bound::Within(promise) => {
                    let holds = promise.concerns(&self.row, &self.cases[at]);
                    holds && !promise.keeps(result, ours, theirs)
                }
            };
            beyond += usize::from(broken);
            // The worst in the first place: what breaks a bound before what does not, then the farthest.
            if broken && beyond == 1 || far > greatest && (broken || beyond == 0) {
                shown.insert(0, (at, ours, theirs));
            } else {
                shown.push((at, ours, theirs));
            }
            shown.truncate(5);
            greatest = greatest.max(far);
        }
        let (bad, promise) = match self.row.bound {
            Bound::Exact => (Verdict::Different, None),
            Bound::Within(promise) => (Verdict::Beyond, Some(promise.why.to_owned())),
        };
        let accepted = known::ACCEPTED.iter().find(|(name, _)| *name == self.row.name);
        let verdict = match (different, beyond, accepted) {
            (0, ..) => Verdict::Identical,
            (_, 0, _) => Verdict::Within,
            (_, _, Some(_)) => Verdict::Accepted,
            _ => bad,
        };
        let note = match (verdict, accepted) {
            (Verdict::Accepted, Some((_, why))) => Some((*why).to_owned()),
            (Verdict::Beyond, _) => Some(format!("{beyond} beyond the bound")),
            _ => None,
        };
        Outcome {
            instruction: self.row.name.clone(),
            verdict,
            compared,
            different,
            greatest_distance: (greatest != u64::MAX).then_some(greatest),
            promise,
            note,
            examples: shown.iter().map(|&(at, ours, theirs)| self.example(at, ours, theirs)).collect(),
        }
    }

    fn example(&self, at: usize, ours: u64, theirs: u64) -> Example {
        let hex = |kind: Kind, bits: u64| format!("{bits:0width$x}", width = kind.bits() as usize / 4);
        let operands = self.row.operands.iter().zip(&self.cases[at]);
        Example {
            operands: operands.map(|(kind, bits)| hex(*kind, *bits)).collect(),
            emulator: hex(self.row.result, ours),
            device: hex(self.row.result, theirs),
        }
    }

    fn failed(&self, verdict: Verdict, note: String) -> Outcome {
        Outcome {
            instruction: self.row.name.clone(),
            verdict,
            compared: 0,
            different: 0,
            greatest_distance: None,
            promise: None,
            note: Some(note),
            examples: Vec::new(),
        }
    }

    fn refused(&self, error: String) -> Outcome {
        let gap = known::GAPS.iter().any(|gap| known::names(gap, &self.row.name));
        self.failed(if gap { Verdict::Gap } else { Verdict::Refused }, error)
    }

    /// What is recorded of the device's results.
    fn entry(&self, results: &[u64]) -> Entry {
        match self.row.bound {
            Bound::Exact => Entry::blocks(results),
            Bound::Within(_) => Entry::sampled(results),
        }
    }

    /// The emulator against what was recorded.
    fn against_recording(&self, ours: &[u64], entry: &Entry) -> Outcome {
        match entry {
            Entry::Samples(_) => {
                let kept = entry.kept(ours.len());
                self.compare(kept.into_iter().map(|(at, theirs)| (at, ours[at], theirs)))
            }
            Entry::Blocks(_) => {
                let blocks = entry.differing_blocks(ours);
                let mut outcome = self.compare(std::iter::empty());
                outcome.compared = ours.len();
                if let Some(first) = blocks.first() {
                    let accepted = known::ACCEPTED.iter().any(|(name, _)| *name == self.row.name);
                    outcome.verdict = if accepted { Verdict::Accepted } else { Verdict::Different };
                    outcome.different = blocks.len();
                    outcome.note = Some(format!("{} block(s) differ, the first from case {first}", blocks.len()));
                }
                outcome
            }
        }
    }
}

impl Promise {
    /// Whether it says anything about these operands.
    fn concerns(&self, row: &Row, operands: &[u64]) -> bool {
        let (Some(&kind), Some(&bits)) = (row.operands.last(), operands.last()) else { return true };
        [false, true].into_iter().all(|high| {
            let magnitude = value(kind, bits, high).abs();
            magnitude == 0.0 || !magnitude.is_finite() || (self.range[0]..=self.range[1]).contains(&magnitude)
        })
    }

    fn keeps(&self, kind: Kind, ours: u64, theirs: u64) -> bool {
        let close = |high: bool| {
            let (ours, theirs) = (value(kind, ours, high), value(kind, theirs, high));
            (ours - theirs).abs() <= self.absolute || ours.is_nan() && theirs.is_nan()
        };
        distance(kind, ours, theirs) <= self.ulp || close(false) && close(true)
    }
}

/// Prints all outcomes, the bad ones last, and what they come to.
fn print(outcomes: &mut [Outcome], device: &str) {
    outcomes.sort_by_key(|outcome| outcome.verdict);
    println!("{:<34}{:>8}{:>10}{:>12}  verdict on {device}", "instruction", "results", "different", "ulp");
    for outcome in outcomes.iter() {
        let Outcome { instruction, verdict, compared, different, greatest_distance, promise, note, examples } = outcome;
        let distance = greatest_distance.map_or("NaN".to_owned(), |distance| distance.to_string());
        print!("{instruction:<34}{compared:>8}{different:>10}{distance:>12}  {verdict:?}");
        [promise, note].into_iter().flatten().for_each(|text| print!("; {text}"));
        if let Some(Example { operands, emulator, device }) = examples.first() {
            print!("; of {} the emulator makes {emulator}, the device {device}", operands.join(" "));
        }
        println!();
    }
    let mut counts: IndexMap<String, usize> = IndexMap::new();
    outcomes.iter().for_each(|outcome| *counts.entry(format!("{:?}", outcome.verdict)).or_default() += 1);
    println!("{} instructions: {counts:?}", outcomes.len());
}

/// The outcomes by opcode, as the table of a document.
fn markdown(outcomes: &[Outcome]) -> String {
    let mut groups: IndexMap<&str, Vec<&Outcome>> = IndexMap::new();
    for outcome in outcomes {
        let opcode = outcome.instruction.split(['.', ' ', '+']).next().unwrap_or_default();
        groups.entry(opcode).or_default().push(outcome);
    }
    groups.sort_keys();
    let mut text = "| instruction | forms | results | identical forms | different results | greatest distance |\n|---|---|---|---|---|---|\n".to_owned();
    for (opcode, group) in groups {
        let ran: Vec<&&Outcome> = group.iter().filter(|outcome| outcome.compared > 0).collect();
        let sum = |of: fn(&Outcome) -> usize| ran.iter().map(|outcome| of(outcome)).sum::<usize>();
        let identical = ran.iter().filter(|outcome| outcome.verdict == Verdict::Identical).count();
        let farthest = ran.iter().try_fold(0, |most, outcome| Some(outcome.greatest_distance?.max(most)));
        let farthest = farthest.map_or("NaN".to_owned(), |ulp| ulp.to_string());
        text.push_str(&format!(
            "| `{opcode}` | {} of {} | {} | {identical} | {} | {farthest} |\n",
            ran.len(),
            group.len(),
            sum(|outcome| outcome.compared),
            sum(|outcome| outcome.different),
        ));
    }
    text
}

/// Fails with what must not be.
fn judge(outcomes: &[Outcome]) {
    let bad = outcomes.iter().filter(|outcome| outcome.verdict >= Verdict::Refused);
    let bad: Vec<String> = bad
        .map(|Outcome { instruction, verdict, note, .. }| {
            format!("{instruction}: {verdict:?} {}", note.as_deref().unwrap_or_default())
        })
        .collect();
    assert!(bad.is_empty(), "{} instructions:\n{}", bad.len(), bad.join("\n"));
}

#[test]
fn instructions_against_a_device() {
    let emulator = launch::open("emulator").expect("the emulator is always there");
    let recorded = recorded::instructions();
    let Some(gpu) = launch::gpu() else {
        let mut outcomes = Vec::new();
        for work in rows().into_iter().map(Work::new) {
            let entry = recorded.entries.get(&work.row.name);
            outcomes.push(match (work.run(&emulator), entry) {
                (Err(error), _) => work.refused(error),
                (Ok(ours), Some(entry)) => work.against_recording(&ours, entry),
                (Ok(_), None) => work.failed(Verdict::Unrecorded, "not recorded".to_owned()),
            });
        }
        print(&mut outcomes, &format!("what was recorded of {:?}", recorded.device));
        return judge(&outcomes);
    };
    let name = gpu.properties().name.clone();
    let mut new = Recording { device: name.clone(), ..Recording::default() };
    let mut outcomes = Vec::new();
    for work in rows().into_iter().map(Work::new) {
        let theirs = work.run(&gpu);
        if let Ok(theirs) = &theirs {
            new.entries.insert(work.row.name.clone(), work.entry(theirs));
        }
        outcomes.push(match (work.run(&emulator), theirs) {
            (_, Err(error)) => work.failed(Verdict::NotOnDevice, error),
            (Err(error), _) => work.refused(error),
            (Ok(ours), Ok(theirs)) => {
                let pairs = ours.iter().zip(&theirs).enumerate();
                work.compare(pairs.map(|(at, (&ours, &theirs))| (at, ours, theirs)))
            }
        });
    }
    print(&mut outcomes, &name);
    write("json", serde_json::to_string_pretty(&outcomes).unwrap_or_default().as_bytes());
    write("recorded.json", serde_json::to_string_pretty(&new).unwrap_or_default().as_bytes());
    write("md", markdown(&outcomes).as_bytes());
    judge(&outcomes);
}

/// Results that differ are seen, by the bits or by the bound, at once and against a recording.
#[test]
fn planted_differences_are_found() {
    let emulator = launch::open("emulator").expect("the emulator is always there");
    let verdict = |name: &str, change: fn(usize, u64) -> u64, recorded: bool| {
        let row = rows().into_iter().find(|row| row.name == name).expect(name);
        let work = Work::new(row);
        let ours = work.run(&emulator).expect(name);
        let theirs: Vec<u64> = ours.iter().enumerate().map(|(at, &result)| change(at, result)).collect();
        let outcome = match recorded {
            true => work.against_recording(&ours, &work.entry(&theirs)),
            false => {
                let pairs = ours.iter().zip(&theirs).enumerate();
                work.compare(pairs.map(|(at, (&ours, &theirs))| (at, ours, theirs)))
            }
        };
        assert!(outcome.compared > 0, "{name}");
        outcome.verdict
    };
    let same: fn(usize, u64) -> u64 = |_, result| result;
    let one_bit: fn(usize, u64) -> u64 = |at, result| result ^ u64::from(at == 5000);
    // Of finite results: a bit more makes a NaN of an infinity, which no bound allows.
    let near: fn(usize, u64) -> u64 = |_, result| if result & 0x7f80_0000 == 0x7f80_0000 { result } else { result ^ 1 };
    let far: fn(usize, u64) -> u64 = |at, result| if at < 60 { result ^ 0xff } else { result };
    for recorded in [false, true] {
        for name in ["add.rn.f32", "mul.hi.u32", "prmt.b32.f4e", "cvt.rzi.s64.f64", "redux.sync.add.u32"] {
            assert_eq!(verdict(name, same, recorded), Verdict::Identical, "{name}");
            assert_eq!(verdict(name, one_bit, recorded), Verdict::Different, "{name}");
        }
        for name in ["rsqrt.approx.f32", "ex2.approx.ftz.f32"] {
            assert_eq!(verdict(name, same, recorded), Verdict::Identical, "{name}");
            assert_eq!(verdict(name, near, recorded), Verdict::Within, "{name}");
            assert_eq!(verdict(name, far, recorded), Verdict::Beyond, "{name}");
        }
    }
}
