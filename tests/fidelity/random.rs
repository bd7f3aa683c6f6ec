//! Random numbers whose sequence never changes: what a device was recorded on is made again from the seed.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// A sequence that `name` and `salt` choose.
    pub fn new(name: &str, salt: u64) -> Self {
        // FNV-1a over the name.
        let seed = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Self(seed ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An integer from `low` to `high`, both included.
    pub fn range(&mut self, low: i32, high: i32) -> i32 {
        let span = (i64::from(high) - i64::from(low) + 1) as u64;
        (i64::from(low) + (self.bits() % span) as i64) as i32
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.bits().is_multiple_of(n)
    }

    /// From −1 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// ±1.x · 2^e with e from `low` to `high`.
    pub fn scaled(&mut self, low: i32, high: i32) -> f64 {
        let value = (1.0 + self.unit().abs()) * 2.0_f64.powi(self.range(low, high));
        if self.one_in(2) { -value } else { value }
    }
}

/// FNV-1a over words: the fingerprint under which results are recorded.
pub fn fingerprint(words: impl IntoIterator<Item = u64>) -> u64 {
    words
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
