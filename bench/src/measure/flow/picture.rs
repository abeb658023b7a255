//! Goodput over time.

use super::provider::Seen;
use crate::svg::Line;

/// Seconds that a point is the mean of.
const WIDTH: usize = 5;

/// Good answers per second, as the mean of the last five seconds.
pub fn smooth(name: &str, colour: &'static str, seen: &Seen) -> Line {
    let each = seen.each_second();
    let mean = |at: usize| {
        let part = &each[at.saturating_sub(WIDTH - 1)..=at];
        part.iter().sum::<u64>() as f64 / part.len() as f64
    };
    // The last second is not a whole one.
    let points = (0..each.len().saturating_sub(1)).map(|at| ((at + 1) as f64, mean(at))).collect();
    Line { name: name.to_owned(), colour, dashes: "", points }
}

/// What the limit allows.
pub fn possible(points: &[(f64, f64)]) -> Line {
    Line { name: "possible".to_owned(), colour: "#7d8590", dashes: "6 4", points: points.to_vec() }
}
