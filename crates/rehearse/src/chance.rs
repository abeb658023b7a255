//! Chance as a function: the same seed, purpose and number give the same draw, in whatever order they are asked for.

use redrive_core::draw::Draw;
use redrive_engine::env::Seeded;

/// What a draw is for, so that two decisions about one call do not hang together.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Whether this fault hits.
    Fault(usize),
    /// How far the latency strays.
    Jitter,
}

/// A number in `[0, 1)`.
pub(crate) fn draw(seed: u64, purpose: Purpose, number: u64) -> f64 {
    let salt = match purpose {
        Purpose::Fault(index) => 1 + index as u64,
        Purpose::Jitter => u64::MAX,
    };
    let mixed = |state: u64, next: u64| Seeded::new(state ^ next).bits();
    Draw::from_bits(mixed(mixed(mixed(seed, 0), salt), number)).value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_hang_on_seed_purpose_and_number() {
        let base = draw(1, Purpose::Jitter, 1);
        assert_eq!(base.to_bits(), draw(1, Purpose::Jitter, 1).to_bits());
        for other in [draw(2, Purpose::Jitter, 1), draw(1, Purpose::Fault(0), 1), draw(1, Purpose::Jitter, 2)]
        {
            assert_ne!(base.to_bits(), other.to_bits());
        }
    }

    #[test]
    fn a_tenth_is_about_a_tenth() {
        let hits = (0..10_000).filter(|n| draw(7, Purpose::Fault(3), *n) < 0.1).count();
        assert!((900..1_100).contains(&hits), "{hits}");
    }
}
