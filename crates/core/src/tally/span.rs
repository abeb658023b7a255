//! Ranges by which times are counted.

/// A range of milliseconds that is counted as one: exact below 16, then eight to a doubling, so that a share of many can be
/// told within a few per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HealSpan {
    /// From so many on.
    pub from: u64,
    /// Up to, not including, so many.
    pub to: u64,
}

impl HealSpan {
    /// The number of the range that holds so many milliseconds.
    #[must_use]
    pub fn number(ms: u64) -> u16 {
        let Some(octave) = ms.checked_ilog2().filter(|octave| *octave >= 4) else {
            return u16::try_from(ms).unwrap_or(0);
        };
        let eighth = (ms >> (octave - 3)) & 7;
        u16::try_from(16 + u64::from(octave - 4) * 8 + eighth).unwrap_or(u16::MAX)
    }

    /// The range of that number.
    #[must_use]
    pub fn of(number: u16) -> Self {
        let Some(above) = number.checked_sub(16).map(u64::from) else {
            return Self { from: number.into(), to: u64::from(number) + 1 };
        };
        let shift = u32::try_from(above / 8 + 1).unwrap_or(u32::MAX);
        let at = |eighths: u64| eighths.checked_mul(1_u64.checked_shl(shift).unwrap_or(u64::MAX));
        let (from, to) = (at(8 + above % 8), at(9 + above % 8));
        Self { from: from.unwrap_or(u64::MAX), to: to.unwrap_or(u64::MAX) }
    }

    /// The range below a power of two, by which older versions counted.
    #[must_use]
    pub fn below_power(power: u16) -> Self {
        let at = |power: u16| 1_u64.checked_shl(power.into()).unwrap_or(u64::MAX);
        Self { from: power.checked_sub(1).map_or(0, at), to: at(power) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_span_is_in_the_range_of_its_number_and_ranges_are_narrow() {
        let some = (0..2_000).chain((11..63).flat_map(|e| [(1_u64 << e) - 1, 1 << e, 3 << (e - 1)]));
        for ms in some.chain([i64::MAX.unsigned_abs()]) {
            let span = HealSpan::of(HealSpan::number(ms));
            assert!(span.from <= ms && ms < span.to, "{ms}: {span:?}");
            assert!(span.to - span.from <= (ms / 8).max(1), "{ms}: {span:?}");
        }
        assert_eq!(HealSpan::below_power(0), HealSpan { from: 0, to: 1 });
        assert_eq!(HealSpan::below_power(5), HealSpan { from: 16, to: 32 });
        assert_eq!(HealSpan::of(u16::MAX).to, u64::MAX);
    }
}
