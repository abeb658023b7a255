//! Named places where a test can make a write fail, to show that nothing is paid for twice.
//!
//! `REDRIVE_FAIL_AT=PLACE:SHARE` makes that share of the visits to a place fail, in an order that is the same each time.
//! Without it a place costs one load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which place fails, and how often.
struct Target {
    place: String,
    share: f64,
    visits: AtomicU64,
}

static TARGET: OnceLock<Option<Target>> = OnceLock::new();

/// Whether this visit to a place is one that fails.
pub fn strikes(place: &'static str) -> bool {
    let target = TARGET.get_or_init(|| {
        let wanted = std::env::var("REDRIVE_FAIL_AT").ok()?;
        let (place, share) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        let share = share.parse().ok().filter(|share: &f64| (0.0..=1.0).contains(share))?;
        Some(Target { place: place.to_owned(), share, visits: AtomicU64::new(0) })
    });
    let Some(target) = target else { return false };
    target.place == place && is_struck(target.visits.fetch_add(1, Ordering::Relaxed), target.share)
}

/// Spreads the visits that fail evenly and without a pattern that a loop could fall in step with.
fn is_struck(visit: u64, share: f64) -> bool {
    let mut mixed = visit.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((mixed >> 32) as f64) < share * 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::is_struck;

    #[test]
    fn about_the_share_of_visits_fails() {
        for share in [0.0, 0.2, 0.5, 1.0] {
            let struck = (0..10_000).filter(|visit| is_struck(*visit, share)).count() as f64;
            assert!((struck / 10_000.0 - share).abs() < 0.02, "{share}: {struck}");
        }
    }
}
