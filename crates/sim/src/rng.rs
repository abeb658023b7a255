//! Chance, from one seed.

use redrive_engine::env::Seeded;

/// A seeded source of numbers with the few questions the simulation asks.
#[derive(Debug)]
pub struct Rng(Seeded);

impl Rng {
    /// Numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Seeded::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&self) -> u64 {
        self.0.bits()
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.bits() % n }
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// The same as [`Rng::range`], for lengths.
    pub fn size(&self, low: usize, high: usize) -> usize {
        usize::try_from(self.range(low as u64, high as u64)).unwrap_or(low)
    }

    /// A span of milliseconds from `low` to `high`, both included.
    pub fn span(&self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high.saturating_sub(low)).unwrap_or(0);
        low + i64::try_from(self.below(width + 1)).unwrap_or(0)
    }

    /// Yes, with this many chances in a thousand.
    pub fn permille(&self, chance: u64) -> bool {
        self.below(1_000) < chance
    }

    /// One of these.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&self, of: &'a [T]) -> &'a T {
        &of[self.size(0, of.len() - 1)]
    }
}

/// Mixes numbers into one: the same numbers always give the same one.
#[must_use]
pub fn mix(parts: &[u64]) -> u64 {
    let mut z = 0x243f_6a88_85a3_08d3_u64;
    for part in parts {
        z = (z ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z ^= z >> 29;
        z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^= z >> 32;
    }
    z
}

/// Mixes bytes into a number.
#[must_use]
pub fn mix_bytes(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
