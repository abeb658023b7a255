//! What an answer's headers say: how long a service asks to be left alone, and what is left of its limits.

use std::time::Duration;

use redrive_core::classify;
use redrive_core::gate::{Allowance, Limits};
use redrive_core::time::Timestamp;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// The headers that tell one limit.
struct Family {
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
}

const REQUESTS: Family = Family {
    limit: "x-ratelimit-limit-requests",
    remaining: "x-ratelimit-remaining-requests",
    reset: "x-ratelimit-reset-requests",
};
const TOKENS: Family = Family {
    limit: "x-ratelimit-limit-tokens",
    remaining: "x-ratelimit-remaining-tokens",
    reset: "x-ratelimit-reset-tokens",
};
const PLAIN: Family =
    Family { limit: "x-ratelimit-limit", remaining: "x-ratelimit-remaining", reset: "x-ratelimit-reset" };
const DRAFT: Family =
    Family { limit: "ratelimit-limit", remaining: "ratelimit-remaining", reset: "ratelimit-reset" };
/// A plain number above this is a moment (seconds since 1970), below it a span.
const EPOCH_LIKE: f64 = 1e9;
/// A plain number above this is a moment in milliseconds since 1970.
const EPOCH_MILLIS_LIKE: f64 = 1e11;

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
    let used_up = |family: &Family| text(headers, family.remaining).and_then(number) == Some(0.0);
    let resets = |only_used_up: bool| {
        [REQUESTS, TOKENS, PLAIN, DRAFT]
            .into_iter()
            .filter(move |family| !only_used_up || used_up(family))
            .filter_map(|family| span(text(headers, family.reset)?, now))
            .max()
    };
    resets(true).or_else(|| resets(false))
}

/// What an answer's headers say about limits. A limit counts when both what is left and when it is whole again are
/// told. Headers that do not say what they count, count requests.
pub(super) fn limits(headers: &HeaderMap, now: Timestamp) -> Limits {
    let told = |family: &Family| {
        Some(Allowance {
            // The draft may list several windows; the first number is the limit that is nearest.
            limit: text(headers, family.limit)
                .and_then(|value| number(value.split([',', ';']).next().unwrap_or_default().trim())),
            remaining: text(headers, family.remaining).and_then(number)?,
            reset: span(text(headers, family.reset)?, now)?,
        })
    };
    let requests = told(&REQUESTS).or_else(|| told(&PLAIN)).or_else(|| told(&DRAFT));
    Limits { requests: requests.or_else(|| combined(headers)), tokens: told(&TOKENS) }
}

/// The one header of later drafts: `limit=100, remaining=50, reset=30` or `"default";r=50;t=30`.
fn combined(headers: &HeaderMap) -> Option<Allowance> {
    let value = text(headers, "ratelimit")?;
    let parameter = |names: [&str; 2]| {
        value.split([',', ';']).find_map(|part| {
            let (name, value) = part.split_once('=')?;
            number(value.trim()).filter(|_| names.contains(&name.trim()))
        })
    };
    Some(Allowance {
        limit: parameter(["limit", "q"]),
        remaining: parameter(["remaining", "r"])?,
        reset: Duration::try_from_secs_f64(parameter(["reset", "t"])?).ok()?,
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A number that is not negative.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// Reads `6m0s`, `20ms`, `12` (seconds) or a moment in seconds since 1970.
pub(crate) fn span(value: &str, now: Timestamp) -> Option<Duration> {
    if let Some(seconds) = number(value) {
        let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let since_epoch = || Duration::from_millis(u64::try_from(now.0).unwrap_or(0));
        return Some(match seconds {
            // Some count moments in milliseconds.
            millis if millis > EPOCH_MILLIS_LIKE => (span / 1_000).saturating_sub(since_epoch()),
            seconds if seconds > EPOCH_LIKE => span.saturating_sub(since_epoch()),
            _ => span,
        });
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

    fn map(headers: &[(&'static str, &str)]) -> HeaderMap {
        headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn asked(status: u16, headers: &[(&'static str, &str)]) -> Option<u128> {
        wait(&map(headers), status, NOW).map(|wait| wait.as_millis())
    }

    fn allowance(limit: Option<f64>, remaining: f64, millis: u64) -> Option<Allowance> {
        Some(Allowance { limit, remaining, reset: Duration::from_millis(millis) })
    }

    #[test]
    fn limits_are_read_in_every_spelling() {
        let named = [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-remaining", "3"),
            ("x-ratelimit-reset", "4"),
        ];
        let both = limits(&map(&named), NOW);
        assert_eq!(both.requests, allowance(Some(60.0), 59.0, 1_000));
        assert_eq!(both.tokens, allowance(Some(150_000.0), 149_984.0, 360_000));
        let requests = |headers: &[(&'static str, &str)]| {
            let limits = limits(&map(headers), NOW);
            assert_eq!(limits.tokens, None);
            limits.requests
        };
        let plain = [("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "1800000030")];
        assert_eq!(requests(&plain), allowance(None, 3.0, 30_000));
        let draft =
            [("ratelimit-limit", "10, 10;w=1"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "7")];
        assert_eq!(requests(&draft), allowance(Some(10.0), 0.0, 7_000));
        let draft = [("ratelimit", "limit=100, remaining=50, reset=5")];
        assert_eq!(requests(&draft), allowance(Some(100.0), 50.0, 5_000));
        assert_eq!(requests(&[("ratelimit", "\"default\";r=50;t=30")]), allowance(None, 50.0, 30_000));
    }

    #[test]
    fn half_a_limit_and_absurd_values_are_none() {
        for headers in [
            &[("x-ratelimit-remaining-requests", "5")][..],
            &[("x-ratelimit-reset-requests", "5s")],
            &[("x-ratelimit-remaining-requests", "-5"), ("x-ratelimit-reset-requests", "5s")],
            &[("x-ratelimit-remaining-requests", "NaN"), ("x-ratelimit-reset-requests", "5s")],
            &[("x-ratelimit-remaining-requests", "5"), ("x-ratelimit-reset-requests", "soon")],
            &[("ratelimit", "r=1;t=-1")],
            &[("ratelimit", "r=1;t=1e300")],
            &[("ratelimit", "=;,=")],
            &[],
        ] {
            assert_eq!(limits(&map(headers), NOW), Limits::default(), "{headers:?}");
        }
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
