//! Linear algebra over GF(2). A vector is a word whose bits are its components, addition is XOR, and a map is the list of
//! its columns: the images of the input bits.

/// A subspace, built of vectors one by one. It remembers how each vector of its basis is a sum of the given ones.
#[derive(Clone, Debug, Default)]
pub struct Span {
    /// Echelon rows: a vector without the leading bits of the rows before it, and the given vectors that it is the sum of.
    rows: Vec<(u32, u64)>,
    given: u32,
}

impl Span {
    /// The span of `vectors` (at most 64 of them).
    pub fn of(vectors: &[u32]) -> Self {
        let mut span = Self::default();
        span.extend(vectors);
        span
    }

    /// Adds a vector; true when it was not in the span.
    pub fn insert(&mut self, vector: u32) -> bool {
        assert!(self.given < 64, "at most 64 vectors");
        let (rest, sum) = self.reduce_tracked(vector);
        let sum = sum ^ 1 << self.given;
        self.given += 1;
        if rest != 0 {
            self.rows.push((rest, sum));
        }
        rest != 0
    }

    /// Adds vectors.
    pub fn extend(&mut self, vectors: &[u32]) {
        for &vector in vectors {
            self.insert(vector);
        }
    }

    fn reduce_tracked(&self, mut vector: u32) -> (u32, u64) {
        let mut sum = 0;
        // A later row has no leading bit of an earlier one, so that one pass in order is enough.
        for &(row, combination) in &self.rows {
            if vector >> row.ilog2() & 1 != 0 {
                vector ^= row;
                sum ^= combination;
            }
        }
        (vector, sum)
    }

    /// The vector less its part in the span: the same for two vectors that differ by one of the span.
    pub fn reduce(&self, vector: u32) -> u32 {
        self.reduce_tracked(vector).0
    }

    /// True when the vector is in the span.
    pub fn contains(&self, vector: u32) -> bool {
        self.reduce(vector) == 0
    }

    /// The given vectors (bit i for the i-th) whose sum is `vector`. Vectors that depended on earlier ones are not used.
    pub fn solve(&self, vector: u32) -> Option<u64> {
        let (rest, sum) = self.reduce_tracked(vector);
        (rest == 0).then_some(sum)
    }

    /// A basis.
    pub fn basis(&self) -> Vec<u32> {
        self.rows.iter().map(|row| row.0).collect()
    }
}

/// The image of `input`: the sum of the columns of its bits.
pub fn apply(columns: &[u32], input: u32) -> u32 {
    let mut image = 0;
    let mut left = input;
    while left != 0 {
        image ^= columns[left.trailing_zeros() as usize];
        left &= left - 1;
    }
    image
}

/// A basis of the inputs (bit i for the i-th column) whose image is zero.
pub fn kernel(columns: &[u32]) -> Vec<u64> {
    let mut span = Span::default();
    let mut out = Vec::new();
    for (place, &column) in columns.iter().enumerate() {
        let before = span.solve(column);
        span.insert(column);
        out.extend(before.map(|sum| sum ^ 1 << place));
    }
    out
}

/// A basis of the vectors that are in both spans.
pub fn intersection(a: &[u32], b: &[u32]) -> Vec<u32> {
    // Sums that vanish take as much from b as from a.
    let both: Vec<u32> = a.iter().chain(b).copied().collect();
    let mut span = Span::default();
    for sum in kernel(&both) {
        let mask = (1_u64 << a.len()) - 1;
        span.insert(apply(a, (sum & mask) as u32));
    }
    span.basis()
}

/// Those of `candidates` that, one after the other, are not in the span of `base` and of those taken before.
pub fn extension(base: &[u32], candidates: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut span = Span::of(base);
    // A span counts what it is given; one that is not independent need not count.
    candidates.into_iter().filter(|&vector| !span.contains(vector) && span.insert(vector)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rank(vectors: &[u32]) -> usize {
        Span::of(vectors).basis().len()
    }

    fn members(vectors: &[u32]) -> Vec<u32> {
        let mut all: Vec<u32> = (0..1 << vectors.len()).map(|input| apply(vectors, input)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    proptest! {
        #[test]
        fn spans_by_enumeration(vectors in proptest::collection::vec(0_u32..64, 0..7), other in 0_u32..64) {
            let span = Span::of(&vectors);
            let all = members(&vectors);
            prop_assert_eq!(all.len(), 1 << span.basis().len());
            prop_assert_eq!(span.contains(other), all.contains(&other));
            if let Some(sum) = span.solve(other) {
                prop_assert_eq!(apply(&vectors, sum as u32), other);
            }
            prop_assert_eq!(members(&span.basis()), all);
        }

        #[test]
        fn kernels_by_enumeration(columns in proptest::collection::vec(0_u32..16, 0..8)) {
            let found = kernel(&columns);
            let expected = (0..1_u32 << columns.len()).filter(|&input| apply(&columns, input) == 0).count();
            prop_assert_eq!(1 << found.len(), expected);
            prop_assert!(found.iter().all(|&input| apply(&columns, input as u32) == 0));
            let narrow: Vec<u32> = found.iter().map(|&input| input as u32).collect();
            prop_assert_eq!(rank(&narrow), narrow.len());
        }

        #[test]
        fn intersections_by_enumeration(
            a in proptest::collection::vec(0_u32..64, 0..5),
            b in proptest::collection::vec(0_u32..64, 0..5),
        ) {
            let (all_a, all_b) = (members(&a), members(&b));
            let expected: Vec<u32> = all_a.into_iter().filter(|vector| all_b.contains(vector)).collect();
            prop_assert_eq!(members(&intersection(&a, &b)), expected);
            let extended = extension(&a, b.iter().copied());
            let both: Vec<u32> = a.iter().chain(&b).copied().collect();
            let joined: Vec<u32> = a.iter().chain(&extended).copied().collect();
            prop_assert_eq!(members(&joined), members(&both));
            prop_assert_eq!(extended.len(), rank(&both) - rank(&a));
        }
    }
}
