//! Models of how a tensor core sums products, and the search for those that a device agrees with.
//!
//! All of them multiply exactly, put the products of a chunk (and mostly the accumulator) on one grid whose finest bit lies
//! some places under the largest exponent among them, cut what is below it, add without loss, and round once.

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::number::{Class, F16, F32, Format, Number, Rounding};

/// One dot product of an instruction: a row of A, a column of B, an element of C.
pub struct Dot {
    /// The elements' codes in order of k.
    pub a: Vec<u32>,
    /// As `a`.
    pub b: Vec<u32>,
    /// The accumulator's code.
    pub c: u32,
}

/// A term of a sum, with the exponent under each convention.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    class: Class,
    negative: bool,
    significand: u64,
    lsb: i32,
    exponents: [i32; 3],
}

/// The exponent by which a product is put on the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exponent {
    /// The sum of the operands' exponents as their formats hold them, so that the product is from 0 to 4 times its power.
    Stored = 0,
    /// The same with subnormal operands normalised first.
    Operands = 1,
    /// That of the product's leading bit.
    Leading = 2,
}

/// What happens to bits below the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Magnitudes are cut.
    TowardsZero,
    /// Two's complements are cut.
    Down,
    /// They round.
    Nearest,
}

/// Where the accumulator comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A term like the products.
    Among,
    /// On the products' grid, which it does not move.
    OnTheGrid,
    /// Added to each chunk's rounded sum, to nearest.
    EachChunk,
    /// Added to the rounded sum of all chunks, to nearest.
    Last,
}

/// Which exponents of zeros count where the grid is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// None.
    Nowhere,
    /// That of an accumulator of zero.
    Accumulator,
    /// And those of products with a zero.
    Everywhere,
}

/// The sign of a chunk's sum that is zero or rounds to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroSign {
    /// Positive.
    Positive,
    /// That of what rounds to zero.
    OfTheSum,
    /// The same, and negative where nothing but negative zeros is added.
    OfTheTerms,
}

/// The order of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// 0, 1, 2, …
    Ascending,
    /// The first two of every four, then the others: fp8 unpacked to pairs of halves.
    Pairs,
}

/// A model of accumulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Bits of the grid under the largest exponent.
    pub bits: i32,
    /// Products summed at once.
    pub chunk: usize,
    /// Their order.
    pub order: Order,
    /// Where the accumulator comes in.
    pub place: Place,
    /// What aligns a product.
    pub exponent: Exponent,
    /// What is done with bits below the grid.
    pub cut: Cut,
    /// Rounding of each chunk's sum to the accumulator's format.
    pub rounding: Rounding,
    /// Zeros' exponents.
    pub zeros: Zeros,
    /// Sums between chunks are kept in f32 where the accumulator is f16.
    pub keep: bool,
    /// Operands of tf32 are rounded to nearest (ties away), rather than cut.
    pub round_operands: bool,
    /// The sign of a result that is zero.
    pub zero: ZeroSign,
    /// A single keeps 13 bits of its fraction.
    pub short: bool,
}

impl Model {
    /// What an H200 was found to do for products of depth `k`.
    ///
    /// `wgmma` of fp8 has 13 bits where all others have 25, and keeps 13 in its result. `mma.sync` unpacks fp8 to halves, which
    /// go through the units for halves in two steps, and adds the accumulator to their sum.
    pub fn of_hopper(k: usize, fp8: bool, group: bool, accumulator: Format) -> Self {
        let unpacked = fp8 && !group;
        let short = fp8 && group;
        Self {
            bits: if short { 13 } else { 25 },
            chunk: if unpacked { k / 2 } else { k },
            order: if unpacked { Order::Pairs } else { Order::Ascending },
            place: if unpacked { Place::Last } else { Place::Among },
            exponent: Exponent::Stored,
            cut: Cut::TowardsZero,
            rounding: if accumulator == F16 { Rounding::Nearest } else { Rounding::TowardsZero },
            zeros: Zeros::Nowhere,
            keep: false,
            round_operands: false,
            zero: ZeroSign::Positive,
            short: short && accumulator == F32,
        }
    }
}

impl std::fmt::Display for Model {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Model { bits, chunk, order, place, exponent, cut, rounding, zeros, keep, round_operands, zero, short } =
            self;
        write!(
            formatter,
            "{bits} bits, chunks of {chunk} ({order:?}), accumulator {place:?}, exponent {exponent:?}, "
        )?;
        write!(formatter, "cut {cut:?}, round {rounding:?}, zeros {zeros:?}, zero {zero:?}")?;
        write!(formatter, "{}", if *keep { ", f32 between chunks" } else { "" })?;
        write!(formatter, "{}", if *round_operands { ", operands rounded" } else { "" })?;
        write!(formatter, "{}", if *short { ", 13 bits kept" } else { "" })
    }
}

/// Dot products made ready for any model: the terms in order of k, with operands cut and with operands rounded.
pub struct Prepared {
    cut: Vec<Term>,
    rounded: Option<Vec<Term>>,
    c: Number,
}

impl Prepared {
    /// From a dot product whose codes `decode_a` and `decode_b` read; the flag asks for rounded operands.
    pub fn new(dot: &Dot, decode: impl Fn(bool, u32, bool) -> Number, accumulator: Format, rounds: bool) -> Self {
        let terms = |rounded: bool| {
            let pairs = dot.a.iter().zip(&dot.b);
            pairs.map(|(&a, &b)| product(&decode(false, a, rounded), &decode(true, b, rounded))).collect()
        };
        Self { cut: terms(false), rounded: rounds.then(|| terms(true)), c: accumulator.decode(dot.c) }
    }
}

fn product(a: &Number, b: &Number) -> Term {
    use Class::{Finite, Infinite, Nan, Zero};
    let class = match (a.class, b.class) {
        (Nan, _) | (_, Nan) | (Zero, Infinite) | (Infinite, Zero) => Nan,
        (Infinite, _) | (_, Infinite) => Infinite,
        (Zero, _) | (_, Zero) => Zero,
        (Finite, Finite) => Finite,
    };
    let mut term = Term {
        class,
        negative: a.negative != b.negative,
        significand: a.significand * b.significand,
        lsb: a.lsb + b.lsb,
        exponents: [a.exponent + b.exponent; 3],
    };
    if class == Finite {
        term.exponents[1] = a.leading() + b.leading();
        term.exponents[2] = term.lsb + 63 - term.significand.leading_zeros() as i32;
    }
    term
}

fn term(number: &Number) -> Term {
    let Number { class, negative, significand, lsb, exponent } = *number;
    let leading = if class == Class::Finite { number.leading() } else { exponent };
    Term { class, negative, significand, lsb, exponents: [exponent, leading, leading] }
}

impl Model {
    /// The result's code in `accumulator`.
    pub fn evaluate(&self, dot: &Prepared, accumulator: Format) -> u32 {
        let terms = dot.rounded.as_ref().filter(|_| self.round_operands).unwrap_or(&dot.cut);
        let between = if self.keep { F32 } else { accumulator };
        let zero = between.decode(0);
        let mut sum = match self.place {
            Place::Among | Place::OnTheGrid | Place::EachChunk => dot.c,
            Place::Last => zero,
        };
        let k = terms.len();
        let mut at = 0;
        while at < k {
            let chunk = (at..(at + self.chunk).min(k)).map(|index| terms[self.place_of(index, k)]);
            at += self.chunk;
            let code = match self.place {
                Place::EachChunk => {
                    let fused = between.decode(self.fuse(chunk, &zero, between));
                    add(&fused, &sum, between)
                }
                _ => self.fuse(chunk, &sum, between),
            };
            sum = between.decode(code);
        }
        if self.place == Place::Last {
            return add(&sum, &dot.c, accumulator);
        }
        recode(&sum, accumulator, self.rounding)
    }

    fn place_of(&self, index: usize, k: usize) -> usize {
        match self.order {
            Order::Ascending => index,
            Order::Pairs => {
                let (half, index) = (index / (k / 2), index % (k / 2));
                index / 2 * 4 + index % 2 + 2 * half
            }
        }
    }

    fn fuse(&self, products: impl Iterator<Item = Term> + Clone, c: &Number, to: Format) -> u32 {
        let c = term(c);
        let all = products.clone().chain(std::iter::once(c));
        if let Some(special) = special(all.clone(), to) {
            return special;
        }
        if self.zero == ZeroSign::OfTheTerms && all.clone().all(|term| term.class == Class::Zero && term.negative) {
            return to.encode(true, 0, 0, self.rounding);
        }
        let convention = self.exponent as usize;
        let counts = |term: &Term, zeros: bool| term.class == Class::Finite || zeros;
        let top_product = products
            .filter(|term| counts(term, self.zeros == Zeros::Everywhere))
            .map(|term| term.exponents[convention])
            .max();
        let top_c = (c.class == Class::Finite || self.zeros != Zeros::Nowhere).then_some(c.exponents[convention]);
        let top = match self.place {
            Place::OnTheGrid => top_product.or(top_c),
            _ => top_product.max(top_c),
        };
        let Some(top) = top else { return 0 };
        let grid = top - self.bits;
        let mut sum = 0_i128;
        for term in all {
            let shift = term.lsb - grid;
            if term.class != Class::Finite {
                continue;
            }
            // An accumulator so far above the grid (where it does not move it) that no product reaches it.
            if shift > 90 {
                return recode_term(&term, to);
            }
            sum += self.on_grid(&term, shift);
        }
        let code = to.encode(sum < 0, sum.unsigned_abs(), grid, self.rounding);
        let code = if self.short { code & !0x3ff } else { code };
        if self.zero == ZeroSign::Positive && to.decode(code).class == Class::Zero { 0 } else { code }
    }

    fn on_grid(&self, term: &Term, shift: i32) -> i128 {
        let signed = if term.negative { -i128::from(term.significand) } else { i128::from(term.significand) };
        if shift >= 0 {
            return signed << shift;
        }
        let shift = shift.unsigned_abs().min(100);
        match self.cut {
            Cut::Down => signed >> shift,
            Cut::TowardsZero if term.negative => -(-signed >> shift),
            Cut::TowardsZero => signed >> shift,
            Cut::Nearest => (signed + (1 << (shift - 1))) >> shift,
        }
    }
}

fn recode_term(term: &Term, to: Format) -> u32 {
    to.encode(term.negative, term.significand.into(), term.lsb, Rounding::Nearest)
}

/// A sum that has no finite value.
fn special(terms: impl Iterator<Item = Term>, to: Format) -> Option<u32> {
    let (mut up, mut down) = (false, false);
    for term in terms {
        match term.class {
            Class::Nan => return Some(to.nan()),
            Class::Infinite if term.negative => down = true,
            Class::Infinite => up = true,
            Class::Zero | Class::Finite => {}
        }
    }
    match (up, down) {
        (true, true) => Some(to.nan()),
        (true, false) => Some(to.infinity()),
        (false, true) => Some(to.encode(true, 1, 4096, Rounding::Nearest)),
        (false, false) => None,
    }
}

/// IEEE's sum, to nearest.
fn add(a: &Number, b: &Number, to: Format) -> u32 {
    let terms = [term(a), term(b)];
    if let Some(special) = special(terms.into_iter(), to) {
        return special;
    }
    let mut sum = crate::number::Exact::default();
    sum.add_number(a, false);
    sum.add_number(b, false);
    let (negative, magnitude, lsb) = sum.parts();
    if magnitude == 0 {
        let both = terms.iter().all(|term| term.class == Class::Zero && term.negative);
        return to.encode(both, 0, 0, Rounding::Nearest);
    }
    to.encode(negative, magnitude, lsb, Rounding::Nearest)
}

fn recode(number: &Number, to: Format, rounding: Rounding) -> u32 {
    match number.class {
        Class::Nan => to.nan(),
        Class::Infinite => to.encode(number.negative, 1, 4096, Rounding::Nearest),
        Class::Zero => to.encode(number.negative, 0, 0, rounding),
        Class::Finite => to.encode(number.negative, number.significand.into(), number.lsb, rounding),
    }
}

/// What the search ranges over.
pub struct Space {
    /// Length of the dot product.
    pub k: usize,
    /// Elements of 8 bits, which come in fours.
    pub bytes: bool,
    /// Operands of tf32, which may be cut or rounded.
    pub tf32: bool,
    /// Executed by a group of warps.
    pub group: bool,
    /// The accumulator's format.
    pub accumulator: Format,
}

impl Space {
    /// Every model.
    pub fn models(&self) -> Vec<Model> {
        let flags = |both: bool| if both { vec![false, true] } else { vec![false] };
        let chunks = [self.k, self.k / 2, self.k / 4].into_iter().filter(|&chunk| chunk >= 2);
        let orders: &[Order] = if self.bytes { &[Order::Ascending, Order::Pairs] } else { &[Order::Ascending] };
        let seed = Model {
            bits: 0,
            chunk: 0,
            order: Order::Ascending,
            place: Place::Among,
            exponent: Exponent::Stored,
            cut: Cut::TowardsZero,
            rounding: Rounding::TowardsZero,
            zeros: Zeros::Nowhere,
            keep: false,
            round_operands: false,
            zero: ZeroSign::Positive,
            short: false,
        };
        let mut models: Vec<Model> = (10..=30).chain([48]).map(|bits| Model { bits, ..seed }).collect();
        let vary = |models: Vec<Model>, variants: &dyn Fn(Model) -> Vec<Model>| -> Vec<Model> {
            models.into_iter().flat_map(variants).collect()
        };
        models = vary(models, &|model| chunks.clone().map(|chunk| Model { chunk, ..model }).collect());
        models = vary(models, &|model| orders.iter().map(|&order| Model { order, ..model }).collect());
        let places = [Place::Among, Place::OnTheGrid, Place::Last, Place::EachChunk];
        models = vary(models, &|model| places.map(|place| Model { place, ..model }).into());
        let exponents = [Exponent::Stored, Exponent::Operands, Exponent::Leading];
        models = vary(models, &|model| exponents.map(|exponent| Model { exponent, ..model }).into());
        models = vary(models, &|m| [Cut::TowardsZero, Cut::Down, Cut::Nearest].map(|cut| Model { cut, ..m }).into());
        let roundings = [Rounding::TowardsZero, Rounding::Nearest, Rounding::TowardsZeroFinite];
        models = vary(models, &|model| roundings.map(|rounding| Model { rounding, ..model }).into());
        let zeros = [Zeros::Nowhere, Zeros::Accumulator, Zeros::Everywhere];
        models = vary(models, &|model| zeros.map(|zeros| Model { zeros, ..model }).into());
        let shorts = flags(self.group && self.bytes && self.accumulator == F32);
        models = vary(models, &|model| shorts.iter().map(|&short| Model { short, ..model }).collect());
        let keeps = flags(self.accumulator == F16);
        models = vary(models, &|model| keeps.iter().map(|&keep| Model { keep, ..model }).collect());
        let rounds = flags(self.tf32);
        vary(models, &|model| rounds.iter().map(|&round_operands| Model { round_operands, ..model }).collect())
    }

    /// The models closest to `results`, best first, with how many of the dot products each gets wrong.
    ///
    /// The field is thinned on samples spread over all dots first, so that thousands of models are affordable.
    pub fn search(&self, dots: &[Prepared], results: &[u32]) -> Vec<(Model, usize)> {
        let mut field: Vec<(Model, usize)> = self.models().into_iter().map(|model| (model, 0)).collect();
        for (samples, left) in [(199, 400), (2003, 60), (dots.len(), 12)] {
            if left == 12 {
                // Too rare to tell models apart by samples.
                let signs = |(model, wrong): (Model, usize)| {
                    [ZeroSign::Positive, ZeroSign::OfTheSum, ZeroSign::OfTheTerms]
                        .map(|zero| (Model { zero, ..model }, wrong))
                };
                field = field.into_iter().flat_map(signs).collect();
            }
            let chosen: Vec<usize> = match samples < dots.len() {
                // Steps that no period of the families has anything in common with.
                true => (0..samples).map(|index| (index * 2_654_435_761) % dots.len()).collect(),
                false => (0..dots.len()).collect(),
            };
            let measure = |(model, _): &(Model, usize)| {
                let wrong = chosen.iter().filter(|&&at| model.evaluate(&dots[at], self.accumulator) != results[at]);
                (*model, wrong.count())
            };
            field = field.par_iter().map(measure).collect();
            // Stable: among equals the simpler, which the list has first, comes first. Equals of the last one stay too.
            field.sort_by_key(|(_, wrong)| *wrong);
            if let Some(&(_, bound)) = field.get(left - 1) {
                let most = if samples < dots.len() { 10 * left } else { left };
                field.truncate(field.partition_point(|(_, wrong)| *wrong <= bound).min(most));
            }
        }
        field
    }
}
