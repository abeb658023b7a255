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
    /// How late a call arrives.
    Network,
    /// How much others take in a period.
    Neighbours,
}

/// A number in `[0, 1)`.
pub(crate) fn draw(seed: u64, purpose: Purpose, number: u64) -> f64 {
    let salt = match purpose {
        Purpose::Fault(index) => 1 + index as u64,
        Purpose::Jitter => u64::MAX,
        Purpose::Network => u64::MAX - 1,
        Purpose::Neighbours => u64::MAX - 2,
    };
    let mixed = |state: u64, next: u64| Seeded::new(state ^ next).bits();
    Draw::from_bits(mixed(mixed(mixed(seed, 0), salt), number)).value()
}

/// How many standard deviations a draw is above the middle, if draws stray normally.
pub(crate) fn normal(draw: f64) -> f64 {
    // Abramowitz and Stegun 26.2.23: at most 0.00045 beside it.
    let tail = draw.min(1.0 - draw).max(1e-12);
    let t = (-2.0 * tail.ln()).sqrt();
    let above = t
        - (2.515_517 + t * (0.802_853 + t * 0.010_328))
            / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    if draw < 0.5 { -above } else { above }
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

    #[test]
    fn normal_draws_are_where_tables_have_them() {
        for (share, above) in [(0.5, 0.0), (0.841_345, 1.0), (0.99, 2.326_348), (0.001, -3.090_232)] {
            assert!((normal(share) - above).abs() < 0.001, "{share}: {}", normal(share));
        }
    }
}
