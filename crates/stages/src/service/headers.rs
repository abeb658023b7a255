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
/// Anthropic's, with moments as RFC 3339.
const ANTHROPIC_REQUESTS: Family = Family {
    limit: "anthropic-ratelimit-requests-limit",
    remaining: "anthropic-ratelimit-requests-remaining",
    reset: "anthropic-ratelimit-requests-reset",
};
const ANTHROPIC_TOKENS: Family = Family {
    limit: "anthropic-ratelimit-tokens-limit",
    remaining: "anthropic-ratelimit-tokens-remaining",
    reset: "anthropic-ratelimit-tokens-reset",
};
const ANTHROPIC_INPUT: Family = Family {
    limit: "anthropic-ratelimit-input-tokens-limit",
    remaining: "anthropic-ratelimit-input-tokens-remaining",
    reset: "anthropic-ratelimit-input-tokens-reset",
};
/// Mistral's, which do not say when there is more.
const MISTRAL_REQUESTS: Family = Family {
    limit: "x-ratelimit-limit-req-minute",
    remaining: "x-ratelimit-remaining-req-minute",
    reset: "x-ratelimit-reset-req-minute",
};
const MISTRAL_TOKENS: Family = Family {
    limit: "x-ratelimit-limit-tokens-minute",
    remaining: "x-ratelimit-remaining-tokens-minute",
    reset: "x-ratelimit-reset-tokens-minute",
};
/// A plain number above this is a moment (seconds since 1970), below it a span.
const EPOCH_LIKE: f64 = 1e9;
/// A plain number above this is a moment in milliseconds since 1970.
const EPOCH_MILLIS_LIKE: f64 = 1e11;

/// The wait that an answer's headers ask for, in headers that are meant for that.
pub(crate) fn wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    text(headers, "retry-after-ms")
        .and_then(number)
        .map(|millis| Duration::try_from_secs_f64(millis / 1_000.0).unwrap_or(Duration::MAX))
        .or_else(|| text(headers, RETRY_AFTER.as_str()).and_then(|value| classify::retry_after(value, now)))
}

/// When a limit that was hit begins anew, where headers say nothing else. Those of models tell when a bucket is full, which is no
/// wait that anybody asks for: there is something in it long before.
pub(super) fn resets(headers: &HeaderMap, status: u16, now: Timestamp) -> Option<Duration> {
    let told = |family: &Family| span(text(headers, family.reset)?, now);
    [PLAIN, DRAFT].iter().filter_map(told).max().filter(|_| status == 429)
}

/// What an answer's headers say about limits. A limit counts when what is left is told, and when it is whole again or how much
/// there is of it. Headers that do not say what they count, count requests.
pub(super) fn limits(headers: &HeaderMap, now: Timestamp) -> Limits {
    let told = |family: &Family| {
        // The draft may list several windows; the first number is the limit that is nearest.
        let limit = text(headers, family.limit)
            .and_then(|value| count(value.split([',', ';']).next().unwrap_or_default().trim()));
        let reset = match text(headers, family.reset) {
            Some(reset) => rounded(span(reset, now)?),
            // Some do not say when there is more.
            None => limit.map(|_| Duration::ZERO)?,
        };
        Some(Allowance { limit, remaining: text(headers, family.remaining).and_then(count)?, reset })
    };
    let first = |families: &[Family]| families.iter().find_map(told);
    Limits {
        requests: first(&[REQUESTS, ANTHROPIC_REQUESTS, MISTRAL_REQUESTS, PLAIN, DRAFT])
            .or_else(|| combined(headers)),
        tokens: first(&[TOKENS, ANTHROPIC_TOKENS, ANTHROPIC_INPUT, MISTRAL_TOKENS]),
    }
}

/// The one header of later drafts: `limit=100, remaining=50, reset=30` or `"default";r=50;t=30`.
fn combined(headers: &HeaderMap) -> Option<Allowance> {
    let value = text(headers, "ratelimit")?;
    let within = |value: &str, names: [&str; 2]| {
        value.split([',', ';']).find_map(|part| {
            let (name, value) = part.split_once('=')?;
            number(value.trim()).filter(|_| names.contains(&name.trim()))
        })
    };
    let parameter = |names: [&str; 2]| within(value, names);
    // How much there is of it stands in a header of its own.
    let policy = || within(text(headers, "ratelimit-policy")?, ["q", "limit"]);
    Some(Allowance {
        limit: parameter(["limit", "q"]).or_else(policy).map(bounded),
        remaining: bounded(parameter(["remaining", "r"])?),
        reset: rounded(Duration::try_from_secs_f64(parameter(["reset", "t"])?).ok()?),
    })
}

/// Who says that a limit is whole again in no time, or was a moment ago, counts whole seconds, or has another clock.
fn rounded(reset: Duration) -> Duration {
    if reset.is_zero() { Duration::from_secs(1) } else { reset }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// How much there is of something.
fn count(text: &str) -> Option<f64> {
    number(text).map(bounded)
}

/// More than anybody sends is as good as no limit, and is shown as a number that every reader of JSON has.
fn bounded(count: f64) -> f64 {
    count.min(1e12)
}

/// A number that is not negative.
fn number(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

/// Reads `6m0s`, `20ms`, `12` (seconds), or a moment in seconds since 1970 or as RFC 3339.
pub(crate) fn span(value: &str, now: Timestamp) -> Option<Duration> {
    if let Some(at) = moment(value) {
        return Some(at.since(now));
    }
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

/// Reads a moment like `2026-11-16T10:00:00Z` or `2026-11-16T12:00:00.5+02:00`.
fn moment(value: &str) -> Option<Timestamp> {
    let (date, rest) = value.split_once(['T', 't'])?;
    let digits =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<i64>().ok())?;
    let [year, month, day] = parts(date, '-')?.map(digits);
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = rest.split_at(zone);
    let [hour, minute, second] = parts(time, ':')?;
    let seconds = number(second)?;
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let [hours, minutes] = [zone.get(1..3)?, zone.get(4..6)?].map(digits);
            let minutes = hours? * 60 + minutes?;
            if zone.starts_with('-') { -minutes } else { minutes }
        }
    };
    let (year, month, day) = (year?, month?, day?);
    let in_range = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let minutes = digits(hour)? * 60 + digits(minute)? - offset;
    #[expect(clippy::cast_possible_truncation, reason = "below a minute")]
    let ms = (seconds.min(60.0) * 1_000.0) as i64;
    in_range.then(|| Timestamp(days(year, month, day) * 86_400_000 + minutes * 60_000 + ms))
}

fn parts<const N: usize>(text: &str, by: char) -> Option<[&str; N]> {
    text.split(by).collect::<Vec<_>>().try_into().ok()
}

/// Days since 1970 of a date of our calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the day that is sometimes there is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
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
        let headers = map(headers);
        wait(&headers, NOW).or_else(|| resets(&headers, status, NOW)).map(|wait| wait.as_millis())
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
        let policy = [("ratelimit", "\"default\";r=5;t=2"), ("ratelimit-policy", "\"default\";q=100;w=2")];
        assert_eq!(requests(&policy), allowance(Some(100.0), 5.0, 2_000));
        // Rounded down, and of a clock that goes before: it is soon.
        assert_eq!(requests(&[("ratelimit", "\"default\";r=0;t=0")]), allowance(None, 0.0, 1_000));
        let past = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1799999940")];
        assert_eq!(requests(&past), allowance(None, 0.0, 1_000));
    }

    #[test]
    fn moments_of_anthropic_are_read() {
        assert_eq!(moment("2027-01-15T08:00:00Z"), Some(NOW));
        assert_eq!(moment("2027-01-15T10:30:00.250+02:30"), Some(Timestamp(NOW.0 + 250)));
        assert_eq!(moment("2028-02-29T00:00:00Z").map(|at| at.0), Some(1_835_395_200_000));
        for strange in
            ["", "T", "2027-01-15", "2027-13-15T08:00:00Z", "2027-01-15T08:00Z", "2027-01-15T08:00:00"]
        {
            assert_eq!(moment(strange), None, "{strange}");
        }
        let said = [
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2027-01-15T08:00:01Z"),
            ("anthropic-ratelimit-tokens-limit", "40000"),
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2027-01-15T08:00:30Z"),
        ];
        let both = limits(&map(&said), NOW);
        assert_eq!(both.requests, allowance(Some(50.0), 49.0, 1_000));
        assert_eq!(both.tokens, allowance(Some(40_000.0), 0.0, 30_000));
        assert_eq!(asked(429, &said), None, "that is when they are full");
    }

    #[test]
    fn what_mistral_says_is_read() {
        let said = [
            ("x-ratelimit-limit-req-minute", "360"),
            ("x-ratelimit-remaining-req-minute", "17"),
            ("x-ratelimit-limit-tokens-minute", "500000"),
            ("x-ratelimit-remaining-tokens-minute", "12"),
        ];
        let both = limits(&map(&said), NOW);
        assert_eq!(both.requests, allowance(Some(360.0), 17.0, 0));
        assert_eq!(both.tokens, allowance(Some(500_000.0), 12.0, 0));
    }

    #[test]
    fn what_is_left_counts_without_a_reset_where_the_whole_is_told() {
        let said = [("x-ratelimit-limit-requests", "600"), ("x-ratelimit-remaining-requests", "7")];
        assert_eq!(limits(&map(&said), NOW).requests, allowance(Some(600.0), 7.0, 0));
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
    fn the_end_of_a_window_is_a_wait_and_the_time_until_a_bucket_is_full_is_none() {
        let window = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000030")];
        assert_eq!((asked(503, &window), asked(429, &window)), (None, Some(30_000)));
        assert_eq!(asked(429, &[("ratelimit-reset", "7")]), Some(7_000));
        let full = [("x-ratelimit-reset-requests", "20ms"), ("x-ratelimit-reset-tokens", "6m0.5s")];
        assert_eq!(asked(429, &full), None);
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
