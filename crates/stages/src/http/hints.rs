//! How long a service asks to be left alone.

use std::time::Duration;

use redrive_core::classify;
use redrive_core::time::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Pairs of headers that say when a limit is reset, and what is left of it.
const RESETS: [(&str, &str); 4] = [
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
];
/// A plain number above this is a moment (seconds since 1970), below it a span.
const EPOCH_LIKE: f64 = 1e9;

/// The wait that an answer's headers ask for.
///
/// What is meant for waiting comes first; when a limit is reset is looked at only when a limit was hit.
pub(super) fn wait(headers: &HeaderMap, status: u16, now: Timestamp) -> Option<Duration> {
    let asked = text(headers, "retry-after-ms")
        .and_then(number)
        .map(|millis| Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(Duration::MAX))
        .or_else(|| text(headers, RETRY_AFTER.as_str()).and_then(|value| classify::retry_after(value, now)));
    if asked.is_some() || status != 429 {
        return asked;
    }
    let used_up = |remaining: &str| text(headers, remaining).and_then(number) == Some(0.0);
    let resets = |only_used_up: bool| {
        RESETS
            .into_iter()
            .filter(move |(_, remaining)| !only_used_up || used_up(remaining))
            .filter_map(|(reset, _)| span(text(headers, reset)?, now))
            .max()
    };
    resets(true).or_else(|| resets(false))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A number that is not negative.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// Reads `6m0s`, `20ms`, `12` (seconds) or a moment in seconds since 1970.
fn span(value: &str, now: Timestamp) -> Option<Duration> {
    if let Some(seconds) = number(value) {
        let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let since_epoch = || Duration::from_millis(u64::try_from(now.0).unwrap_or(0));
        return Some(if seconds > EPOCH_LIKE { span.saturating_sub(since_epoch()) } else { span });
    }
    let mut total = Duration::ZERO;
    let mut rest = value;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount = number(&rest[..digits])?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let seconds = match &rest[..end] {
            "ms" => amount / 1_000.0,
            "s" => amount,
            "m" => amount * 60.0,
            "h" => amount * 3_600.0,
            "d" => amount * 86_400.0,
            _ => return None,
        };
        total = total.saturating_add(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        rest = &rest[end..];
    }
    (!value.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn asked(status: u16, headers: &[(&'static str, &str)]) -> Option<u128> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        wait(&headers, status, NOW).map(|wait| wait.as_millis())
    }

    #[test]
    fn what_is_meant_for_waiting_comes_first() {
        assert_eq!(asked(503, &[("retry-after", "2")]), Some(2_000));
        assert_eq!(asked(503, &[("retry-after", "2"), ("retry-after-ms", "1500")]), Some(1_500));
        assert_eq!(asked(503, &[("retry-after", "2"), ("retry-after-ms", "-1")]), Some(2_000));
        assert_eq!(asked(429, &[("retry-after", "2"), ("x-ratelimit-reset-tokens", "1h")]), Some(2_000));
    }

    #[test]
    fn resets_count_for_a_hit_limit_only() {
        let resets = [("x-ratelimit-reset-requests", "20ms"), ("x-ratelimit-reset-tokens", "6m0.5s")];
        assert_eq!(asked(503, &resets), None);
        assert_eq!(asked(429, &resets), Some(360_500));
        let used_up = [resets[0], resets[1], ("x-ratelimit-remaining-requests", "0")];
        assert_eq!(asked(429, &used_up), Some(20));
    }

    #[test]
    fn spans_and_moments_are_told_apart() {
        assert_eq!(asked(429, &[("x-ratelimit-reset", "12")]), Some(12_000));
        assert_eq!(asked(429, &[("x-ratelimit-reset", "1800000030")]), Some(30_000));
        assert_eq!(asked(429, &[("x-ratelimit-reset", "1700000000")]), Some(0));
    }

    #[test]
    fn absurd_values_are_no_hint() {
        for value in ["", "-5", "NaN", "inf", "soon", "5x", "ms", "1.2.3s", "5 s", "é"] {
            assert_eq!(
                asked(429, &[("x-ratelimit-reset", value), ("retry-after-ms", value)]),
                None,
                "{value}"
            );
        }
    }
}
