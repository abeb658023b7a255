//! Spans and numbers as people write them, without loss where that is short enough.

use std::time::Duration;

use crate::output::text::count;

/// From here on a span is called endless: a thousand years.
const ENDLESS: u64 = 1_000 * 365 * 86_400;

/// A span to the millisecond, in all units that are not zero: `750ms`, `1.25s`, `5m`, `1h 30m`.
pub fn exact(span: Duration) -> String {
    let (seconds, ms) = (span.as_secs(), span.subsec_millis());
    if seconds >= ENDLESS {
        return "∞".to_owned();
    }
    if seconds == 0 && ms > 0 {
        return format!("{ms}ms");
    }
    // A day is written as 24h, as in pipeline files; days begin where hours get hard to read.
    let days = if seconds < 2 * 86_400 { 0 } else { seconds / 86_400 };
    let units = [(days, 'd'), (seconds / 3_600 - days * 24, 'h'), (seconds / 60 % 60, 'm')];
    let mut parts: Vec<String> =
        units.into_iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
    if seconds % 60 > 0 || ms > 0 {
        parts.push(format!("{}s", trimmed(format!("{}.{ms:03}", seconds % 60))));
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A number to four digits that matter.
pub fn figure(number: f64) -> String {
    let size = number.abs();
    if number.is_infinite() {
        "∞".to_owned()
    } else if number == 0.0 {
        "0".to_owned()
    } else if size < 1e-9 {
        "≈ 0".to_owned()
    } else if size < 0.001 {
        format!("{number:.1e}").replace(".0e", "e")
    } else if size >= 1e15 {
        format!("{number:.3e}")
    } else if size >= 1_000.0 {
        // Below 1e15 and above zero: every whole number fits.
        count(number.round() as u64)
    } else {
        let places = if size >= 100.0 {
            1
        } else if size >= 10.0 {
            2
        } else if size >= 1.0 {
            3
        } else {
            4
        };
        trimmed(format!("{number:.places$}"))
    }
}

/// A share as a percentage.
pub fn percent(share: f64) -> String {
    format!("{} %", figure(share * 100.0))
}

/// Takes zeros away that say nothing.
fn trimmed(number: String) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact_and_short() {
        let cases = [
            (0, "0s"),
            (750, "750ms"),
            (1_000, "1s"),
            (1_250, "1.25s"),
            (10_000, "10s"),
            (60_000, "1m"),
            (3_780_500, "1h 3m 0.5s"),
            (7_380_000, "2h 3m"),
            (86_400_000, "24h"),
            (180_000_000, "2d 2h"),
        ];
        for (ms, text) in cases {
            assert_eq!(exact(Duration::from_millis(ms)), text);
        }
        assert_eq!(exact(Duration::MAX), "∞");
    }

    #[test]
    fn numbers_keep_what_matters() {
        let cases = [
            (0.0, "0"),
            (1.11, "1.11"),
            (1.0, "1"),
            (100.0, "100"),
            (1_110.0, "1,110"),
            (999.96, "1000"),
            (12.5, "12.5"),
            (0.1, "0.1"),
            (0.000_01, "1e-5"),
            (1e-26, "≈ 0"),
            (f64::INFINITY, "∞"),
            (1e18, "1.000e18"),
        ];
        for (number, text) in cases {
            assert_eq!(figure(number), text);
        }
        assert_eq!(percent(0.125), "12.5 %");
    }
}
