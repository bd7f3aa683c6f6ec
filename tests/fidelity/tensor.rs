//! Tensor-core instructions: what they give on a device, against the exact sum, against models of accumulation, and
//! against the emulator.

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};
use tilewright::device::Device;

use crate::accumulate::{Dot, Model, Prepared, Space};
use crate::families::{Family, WARPS};
use crate::known;
use crate::launch::{self, Launch};
use crate::number::{Class, Exact, F32, Format, Number, Rounding};
use crate::recorded::{self, Entry, Recording};
use crate::report::write;
use crate::shapes::{Accumulator, Element, M, Matrices, N, SHAPES, Shape};

/// What was found of one instruction.
#[derive(Serialize, Deserialize)]
pub struct Found {
    instruction: String,
    /// Why there are no results.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The best models, with how many results they get wrong.
    models: Vec<(String, usize)>,
    families: Vec<FamilyFound>,
    /// What the emulator does, in a sentence.
    emulator: String,
    /// Dot products that the best model gets wrong.
    examples: Vec<Example>,
}

/// What was found of one family of operands.
#[derive(Serialize, Deserialize)]
struct FamilyFound {
    family: String,
    compared: usize,
    /// Results that are the exact sum rounded to nearest, and rounded towards zero.
    nearest: usize,
    towards_zero: usize,
    /// The greatest error in units of the result's last place.
    ulp: f64,
    /// The base-2 logarithm of the greatest error over the greatest term.
    relative: f64,
    /// What the best model gets wrong.
    model: usize,
    /// Results of the emulator that differ.
    emulator: Option<usize>,
}

/// One dot product with all that is known of it, in hexadecimal.
#[derive(Serialize, Deserialize)]
struct Example {
    family: String,
    a: String,
    b: String,
    c: String,
    device: String,
    model: String,
    exact: String,
}

impl Example {
    fn text(&self, who: &str) -> String {
        let Self { family, a, b, c, device, exact, .. } = self;
        format!("{family}: a {a} · b {b} + {c} = {exact} exactly; {who} has {device}")
    }
}

/// A shape with its operands.
pub struct Work {
    shape: &'static Shape,
    families: Vec<(Family, Vec<Matrices>)>,
}

impl Work {
    /// The operands of an instruction.
    pub fn new(shape: &'static Shape) -> Self {
        let families = Family::of(shape).iter();
        let families = families.map(|&family| (family, (0..WARPS).map(|warp| family.matrices(shape, warp)).collect()));
        Self { shape, families: families.collect() }
    }

    /// D of every family and warp, one after the other, as `device` has it.
    pub fn run(&self, device: &dyn Device) -> Result<Vec<u32>, String> {
        let all: Vec<&Matrices> = self.families.iter().flat_map(|(_, matrices)| matrices).collect();
        run(self.shape, device, &all)
    }

    fn dots(&self) -> Vec<(Family, Dot)> {
        let mut dots = Vec::new();
        for (family, matrices) in &self.families {
            for matrices in matrices {
                dots.extend((0..M * N).map(|at| (*family, dot(self.shape, matrices, at))));
            }
        }
        dots
    }

    /// The exact results of integers; `None` of floats.
    fn integers(&self) -> Option<Vec<u32>> {
        let Accumulator::S32(saturates) = self.shape.accumulator else { return None };
        let exact = |dot: &Dot| {
            let products = dot.a.iter().zip(&dot.b);
            let sum: i64 = products.map(|(&a, &b)| self.shape.a.integer(a) * self.shape.b.integer(b)).sum();
            let sum = sum + i64::from(dot.c.cast_signed());
            if saturates { sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32 } else { sum as i32 }.cast_unsigned()
        };
        Some(self.dots().iter().map(|(_, dot)| exact(dot)).collect())
    }

    fn space(&self, accumulator: Format) -> Space {
        let Shape { a, k, .. } = *self.shape;
        Space { k, bytes: a.bits() == 8, tf32: a == Element::Tf32, group: self.shape.is_group(), accumulator }
    }

    /// The results that `model` gives.
    pub fn modelled(&self, model: &Model, accumulator: Format) -> Vec<u32> {
        self.prepare(accumulator).iter().map(|dot| model.evaluate(dot, accumulator)).collect()
    }

    fn prepare(&self, accumulator: Format) -> Vec<Prepared> {
        let Shape { a, b, .. } = *self.shape;
        let unpacked = !self.shape.is_group();
        let decode = |second: bool, code: u32, round: bool| if second { b } else { a }.number(code, round, unpacked);
        let dots = self.dots().into_iter();
        dots.map(|(_, dot)| Prepared::new(&dot, decode, accumulator, a == Element::Tf32)).collect()
    }

    /// The models closest to `results`.
    pub fn search(&self, accumulator: Format, results: &[u32]) -> Vec<(Model, usize)> {
        self.space(accumulator).search(&self.prepare(accumulator), results)
    }

    /// All that `results` show, with what the emulator gives beside them.
    pub fn examine(&self, results: &[u32], emulated: &Result<Vec<u32>, String>) -> Found {
        let dots = self.dots();
        let (models, expected) = match self.shape.accumulator {
            Accumulator::Float(format) => {
                let models = self.search(format, results);
                let expected = models.first().map(|(model, _)| self.modelled(model, format)).unwrap_or_default();
                (models.iter().map(|(model, wrong)| (model.to_string(), *wrong)).collect(), expected)
            }
            Accumulator::S32(_) => {
                let expected = self.integers().unwrap_or_default();
                let wrong = expected.iter().zip(results).filter(|(a, b)| a != b).count();
                (vec![("exact integers".to_owned(), wrong)], expected)
            }
        };
        let emulator = match emulated {
            Err(error) => format!("does not run it: {error}"),
            Ok(words) => match words.iter().zip(results).filter(|(ours, theirs)| ours != theirs).count() {
                0 => format!("bit-identical on {}", results.len()),
                wrong => format!("differs on {wrong} of {}", results.len()),
            },
        };
        let per_family = WARPS * M * N;
        let families = self.families.iter().enumerate().map(|(index, (family, _))| {
            let range = index * per_family..(index + 1) * per_family;
            let differing = |other: &[u32]| range.clone().filter(|&at| other[at] != results[at]).count();
            let mut found = FamilyFound {
                family: format!("{family:?}"),
                compared: per_family,
                nearest: 0,
                towards_zero: 0,
                ulp: 0.0,
                relative: f64::NEG_INFINITY,
                model: differing(&expected),
                emulator: emulated.as_ref().ok().map(|words| differing(words)),
            };
            for at in range.clone() {
                if let Accumulator::Float(format) = self.shape.accumulator {
                    found.add(&Error::of(self.shape, format, &dots[at].1, results[at]));
                }
            }
            found
        });
        let families = families.collect();
        let wrong = (0..results.len()).filter(|&at| expected[at] != results[at]);
        // A few of each family, spread.
        let mut examples: Vec<Example> = Vec::new();
        for at in wrong {
            let (family, dot) = &dots[at];
            let family = format!("{family:?}");
            if examples.iter().filter(|example| example.family == family).count() < 6 {
                examples.push(self.example(family, dot, results[at], expected[at]));
            }
        }
        Found { instruction: self.shape.name(), error: None, models, families, emulator, examples }
    }

    fn example(&self, family: String, dot: &Dot, device: u32, model: u32) -> Example {
        let hex = |codes: &[u32], bits: usize| {
            codes.iter().map(|code| format!("{code:0width$x}", width = bits / 4)).collect::<Vec<_>>().join(" ")
        };
        let exact = match self.shape.accumulator {
            Accumulator::Float(format) => format!("{:08x}", Error::of(self.shape, format, dot, device).nearest),
            Accumulator::S32(_) => format!("{model:08x}"),
        };
        Example {
            family,
            a: hex(&dot.a, self.shape.a.bits()),
            b: hex(&dot.b, self.shape.b.bits()),
            c: format!("{:08x}", dot.c),
            device: format!("{device:08x}"),
            model: format!("{model:08x}"),
            exact,
        }
    }
}

/// Runs one warp for each of `all` on `device`.
fn run(shape: &Shape, device: &dyn Device, all: &[&Matrices]) -> Result<Vec<u32>, String> {
    let input: Vec<u32> = all.iter().flat_map(|matrices| shape.pack(matrices)).collect();
    let per_warp = 32 * shape.counts()[2];
    let launch = Launch {
        ptx: &shape.kernel(),
        warps: shape.warps(),
        ctas: all.len() as u32,
        input: &input,
        output_words: all.len() * per_warp,
    };
    let words = launch::run(device, &launch)?;
    Ok(words.chunks(per_warp).flat_map(|words| shape.unpack(words)).collect())
}

fn dot(shape: &Shape, matrices: &Matrices, at: usize) -> Dot {
    let (row, column) = (at / N, at % N);
    Dot {
        a: matrices.a[row * shape.k..(row + 1) * shape.k].to_vec(),
        b: matrices.b[column * shape.k..(column + 1) * shape.k].to_vec(),
        c: matrices.c[at],
    }
}

/// How far a result is from the exact sum.
struct Error {
    nearest: u32,
    towards_zero: u32,
    result: u32,
    ulp: f64,
    relative: f64,
}

impl Error {
    fn of(shape: &Shape, format: Format, dot: &Dot, result: u32) -> Self {
        let mut sum = Exact::default();
        let mut top = i32::MIN;
        let mut finite = true;
        let mut add = |number: &Number, other: Option<&Number>| {
            let classes = [number.class, other.map_or(Class::Finite, |other| other.class)];
            finite &= classes.iter().all(|class| matches!(class, Class::Finite | Class::Zero));
            if classes == [Class::Finite; 2] {
                let (negative, significand, lsb) = other.map_or((false, 1, 0), |o| (o.negative, o.significand, o.lsb));
                sum.add(number.negative ^ negative, number.significand * significand, number.lsb + lsb);
                top = top.max(number.leading() + other.map_or(0, Number::leading));
            }
        };
        for (&a, &b) in dot.a.iter().zip(&dot.b) {
            add(&shape.a.number(a, false, true), Some(&shape.b.number(b, false, true)));
        }
        add(&format.decode(dot.c), None);
        if !finite {
            return Self {
                nearest: format.nan(),
                towards_zero: format.nan(),
                result,
                ulp: 0.0,
                relative: f64::NEG_INFINITY,
            };
        }
        let (negative, magnitude, lsb) = sum.parts();
        let [nearest, towards_zero] =
            [Rounding::Nearest, Rounding::TowardsZeroFinite].map(|how| format.encode(negative, magnitude, lsb, how));
        let number = format.decode(result);
        let mut difference = sum;
        difference.add_number(&number, true);
        let finite = matches!(number.class, Class::Finite | Class::Zero);
        let error = if finite { difference.log2() } else { f64::NEG_INFINITY };
        Self {
            nearest,
            towards_zero,
            result,
            ulp: (error - f64::from(number.lsb)).exp2(),
            relative: error - f64::from(top),
        }
    }
}

impl FamilyFound {
    fn add(&mut self, error: &Error) {
        self.nearest += usize::from(error.result == error.nearest);
        self.towards_zero += usize::from(error.result == error.towards_zero);
        self.ulp = self.ulp.max(error.ulp);
        self.relative = self.relative.max(error.relative);
    }
}

/// Prints what was found of an instruction.
fn print(found: &Found) {
    println!("\n{}", found.instruction);
    if let Some(error) = &found.error {
        println!("  no results: {error}");
    }
    for (model, wrong) in found.models.iter().take(5) {
        println!("  {wrong:>6} wrong: {model}");
    }
    if !found.families.is_empty() {
        println!("  emulator: {}", found.emulator);
        println!(
            "  {:<17}{:>8}{:>9}{:>9}{:>12}{:>10}{:>8}{:>9}",
            "family", "results", "nearest", "to zero", "ulp", "2^error", "model", "emulator"
        );
    }
    for family in &found.families {
        let FamilyFound { family, compared, nearest, towards_zero, ulp, relative, model, emulator } = family;
        let emulator = emulator.map_or("-".to_owned(), |count| count.to_string());
        println!(
            "  {family:<17}{compared:>8}{nearest:>9}{towards_zero:>9}{ulp:>12.2e}{relative:>10.2}{model:>8}{emulator:>9}"
        );
    }
    for example in found.examples.iter().take(2) {
        println!("  {}, the model {}", example.text("the device"), example.model);
    }
}

/// Raw results of an earlier run on a device, in place of one: `TILEWRIGHT_FIDELITY_TENSOR` names its `.tensor.bin`.
fn replayed() -> Option<Vec<u32>> {
    let path = std::env::var_os("TILEWRIGHT_FIDELITY_TENSOR")?;
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// What is recorded of an instruction: a fingerprint for each family.
fn entry(results: &[u32]) -> Entry {
    Entry::blocks(&results.iter().map(|&word| u64::from(word)).collect::<Vec<_>>())
}

#[test]
fn tensor_cores_against_models() {
    let earlier = replayed();
    let gpu = if earlier.is_none() { launch::gpu() } else { None };
    if earlier.is_none() && gpu.is_none() {
        println!("tensor cores: no results to search a model for");
        return;
    }
    let emulator = launch::open("emulator").expect("the emulator is always there");
    let mut recording = Recording {
        device: gpu.as_ref().map_or("an earlier run".to_owned(), |gpu| gpu.properties().name.clone()),
        ..Recording::default()
    };
    let mut raw: Vec<u8> = Vec::new();
    let mut at = 0;
    let mut all = Vec::new();
    for work in SHAPES.iter().map(Work::new) {
        let length = work.families.len() * WARPS * M * N;
        let results = match (&earlier, &gpu) {
            (Some(words), _) => {
                words.get(at..at + length).map(<[u32]>::to_vec).ok_or("the file is too short".to_owned())
            }
            (None, Some(gpu)) => work.run(gpu),
            (None, None) => Err("no device".to_owned()),
        };
        at += length;
        // Every instruction has its place in the file, whether it ran or not.
        let words = results.clone().unwrap_or_else(|_| vec![0; length]);
        raw.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let found = match results {
            Ok(results) => {
                recording.entries.insert(work.shape.name(), entry(&results));
                work.examine(&results, &work.run(&emulator))
            }
            Err(error) => Found {
                instruction: work.shape.name(),
                error: Some(error),
                models: Vec::new(),
                families: Vec::new(),
                emulator: String::new(),
                examples: Vec::new(),
            },
        };
        print(&found);
        all.push(found);
        // After each, so that a run that is cut short leaves what it had.
        write("tensor.bin", &raw);
        write("tensor.recorded.json", serde_json::to_string_pretty(&recording).unwrap_or_default().as_bytes());
        write("tensor.json", serde_json::to_string_pretty(&all).unwrap_or_default().as_bytes());
    }
}

/// The search finds each of some models again from its results alone: for tf32, for halves and for fp8.
#[test]
fn the_search_finds_a_planted_model() {
    use crate::accumulate::{Cut, Exponent, Order, Place, ZeroSign, Zeros};
    let floats = SHAPES.iter().filter(|shape| matches!(shape.accumulator, Accumulator::Float(_)));
    let missed: Vec<String> = floats
        .step_by(6)
        .enumerate()
        .collect::<Vec<_>>()
        .into_par_iter()
        .filter_map(|(index, shape)| {
            let Accumulator::Float(format) = shape.accumulator else { return None };
            let bytes = shape.a.bits() == 8;
            let planted = Model {
                bits: [24, 25, 23][index % 3],
                chunk: shape.k / if bytes { 2 } else { [1, 2][index / 2 % 2] },
                order: if bytes { Order::Pairs } else { Order::Ascending },
                place: if bytes { Place::Last } else { Place::Among },
                exponent: Exponent::Stored,
                cut: [Cut::TowardsZero, Cut::Down][index % 2],
                rounding: if format == F32 { Rounding::TowardsZero } else { Rounding::Nearest },
                zeros: Zeros::Accumulator,
                keep: false,
                round_operands: false,
                zero: [ZeroSign::Positive, ZeroSign::OfTheTerms][usize::from(!bytes && index % 2 == 1)],
                short: false,
            };
            let work = Work::new(shape);
            let found = work.search(format, &work.modelled(&planted, format));
            let (best, wrong) = found.first()?;
            // Halves hide some of the width: there a model that cannot be told apart will do.
            let key = |model: &Model| (model.bits, model.chunk, model.place, model.cut, model.rounding, model.zero);
            let same = format != F32 || key(best) == key(&planted);
            (*wrong != 0 || !same).then(|| format!("{}: planted {planted}; found {best} ({wrong} wrong)", shape.name()))
        })
        .collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

impl Work {
    /// What the instruction should give: exact integers, and of floats what the model has that a device was found to follow.
    fn expected(&self) -> (Vec<u32>, String) {
        match self.shape.accumulator {
            Accumulator::S32(_) => (self.integers().unwrap_or_default(), "the exact integer".to_owned()),
            Accumulator::Float(format) => {
                let model = Model::of_hopper(self.shape.k, self.shape.a.bits() == 8, self.shape.is_group(), format);
                (self.modelled(&model, format), format!("the model of {model}"))
            }
        }
    }

    /// Where `results` are not what is expected, in words.
    fn misses(&self, results: &[u32], who: &str) -> Vec<String> {
        let (expected, model) = self.expected();
        let dots = self.dots();
        let wrong = (0..dots.len()).filter(|&at| results.get(at) != Some(&expected[at]));
        wrong
            .map(|at| {
                let (family, dot) = &dots[at];
                let result = results.get(at).copied().unwrap_or_default();
                let example = self.example(format!("{family:?}"), dot, result, expected[at]);
                format!("{}: {}, {model} {}", self.shape.name(), example.text(who), example.model)
            })
            .collect()
    }
}

/// What the emulator does is what a device was found to do.
#[test]
fn the_emulator_follows_the_model() {
    let emulator = launch::open("emulator").expect("the emulator is always there");
    let mut missed = Vec::new();
    for work in SHAPES.iter().map(Work::new) {
        let name = work.shape.name();
        let accepted = known::ACCEPTED.iter().find(|(instruction, _)| *instruction == name);
        match (work.run(&emulator).map(|results| work.misses(&results, "the emulator")), accepted) {
            (Err(error), _) => missed.push(format!("{name}: {error}")),
            (Ok(misses), None) => missed.extend(misses),
            (Ok(misses), Some((_, why))) if misses.is_empty() => {
                missed.push(format!("{name} is as it should be: it is no longer true that {why}"));
            }
            (Ok(misses), Some((_, why))) => println!("{name}: {} results differ, since {why}", misses.len()),
        }
    }
    let shown: Vec<&str> = missed.iter().step_by(1 + missed.len() / 24).map(String::as_str).collect();
    assert!(missed.is_empty(), "{} results, among them:\n{}", missed.len(), shown.join("\n"));
}

/// The model gives what was recorded of a device.
#[test]
fn the_model_is_what_was_recorded() {
    let recording = recorded::tensor();
    let mut known = known::MISSED.to_vec();
    let mut missed = Vec::new();
    for work in SHAPES.iter().map(Work::new) {
        let name = work.shape.name();
        let Some(recorded) = recording.entries.get(&name) else {
            println!("{name}: not recorded");
            continue;
        };
        let expected: Vec<u64> = work.expected().0.into_iter().map(u64::from).collect();
        for first in recorded.differing_blocks(&expected) {
            let family = format!("{:?}", work.families[first / (WARPS * M * N)].0);
            if let Some(place) = known.iter().position(|known| (known.0, known.1) == (name.as_str(), family.as_str())) {
                println!("{name}, {family}: {}", known.remove(place).2);
                continue;
            }
            missed.push(format!("{name}, {family}: {} has other results", recording.device));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    assert!(known.is_empty(), "the model has what it is said to miss: {known:?}");
    // A family is one block, so that a difference names it.
    assert_eq!(recorded::BLOCK, WARPS * M * N);
}
