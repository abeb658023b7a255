//! What is left of the limits, in the headers of those who send them, each as its owner means it.

use redrive_core::time::Timestamp;

use crate::hint::span;
use crate::meter::Meter;
use crate::plan::Told;

/// What is left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left<'a> {
    /// Of calls.
    pub requests: Option<&'a Meter>,
    /// Of tokens.
    pub tokens: Option<&'a Meter>,
    /// Of a day's calls.
    pub day: Option<&'a Meter>,
    /// The tokens of this call.
    pub cost: u64,
}

type Headers = Vec<(&'static str, String)>;

/// The headers that tell it.
pub(crate) fn headers(told: Told, left: &Left<'_>, now: Timestamp) -> Headers {
    match told {
        Told::No => Vec::new(),
        Told::OpenAi => openai(left.requests.map(|meter| (meter, meter.per_minute())), left.tokens),
        Told::Groq => openai(left.day.map(|meter| (meter, meter.limit())), left.tokens),
        Told::Anthropic => anthropic(left, now),
        Told::Azure => azure(left),
        Told::Mistral => mistral(left),
        Told::GitHub => left.requests.map(|meter| github(meter, now)).unwrap_or_default(),
        Told::Ietf => left.requests.map(ietf).unwrap_or_default(),
        Told::IetfOld => left.requests.map(ietf_old).unwrap_or_default(),
    }
}

/// A reset is the time until all of it is there again. Groq's calls are those of a day.
fn openai(requests: Option<(&Meter, u64)>, tokens: Option<&Meter>) -> Headers {
    let mut headers = Vec::with_capacity(6);
    if let Some((meter, limit)) = requests {
        headers.extend([
            ("x-ratelimit-limit-requests", limit.to_string()),
            ("x-ratelimit-remaining-requests", meter.remaining().to_string()),
            ("x-ratelimit-reset-requests", span(meter.reset())),
        ]);
    }
    if let Some(meter) = tokens {
        headers.extend([
            ("x-ratelimit-limit-tokens", meter.per_minute().to_string()),
            ("x-ratelimit-remaining-tokens", meter.remaining().to_string()),
            ("x-ratelimit-reset-tokens", span(meter.reset())),
        ]);
    }
    headers
}

/// A reset is the moment at which all of it is there again. Tokens that are left are rounded to thousands; those that are
/// answered are not limited here.
fn anthropic(left: &Left<'_>, now: Timestamp) -> Headers {
    let mut headers = Vec::with_capacity(12);
    if let Some(meter) = left.requests {
        headers.extend([
            ("anthropic-ratelimit-requests-limit", meter.per_minute().to_string()),
            ("anthropic-ratelimit-requests-remaining", meter.remaining().to_string()),
            ("anthropic-ratelimit-requests-reset", moment(now, meter.reset())),
        ]);
    }
    if let Some(meter) = left.tokens {
        let (limit, reset) = (meter.per_minute().to_string(), moment(now, meter.reset()));
        let rounded = ((meter.remaining() + 500) / 1_000 * 1_000).to_string();
        headers.extend([
            ("anthropic-ratelimit-tokens-limit", limit.clone()),
            ("anthropic-ratelimit-tokens-remaining", rounded.clone()),
            ("anthropic-ratelimit-tokens-reset", reset.clone()),
            ("anthropic-ratelimit-input-tokens-limit", limit.clone()),
            ("anthropic-ratelimit-input-tokens-remaining", rounded),
            ("anthropic-ratelimit-input-tokens-reset", reset),
            ("anthropic-ratelimit-output-tokens-limit", limit.clone()),
            ("anthropic-ratelimit-output-tokens-remaining", limit),
            ("anthropic-ratelimit-output-tokens-reset", moment(now, 0)),
        ]);
    }
    headers
}

/// Neither a limit nor a reset.
fn azure(left: &Left<'_>) -> Headers {
    let names = ["x-ratelimit-remaining-requests", "x-ratelimit-remaining-tokens"];
    let meters = [left.requests, left.tokens];
    let known = names.into_iter().zip(meters).filter_map(|(name, meter)| Some((name, meter?)));
    known.map(|(name, meter)| (name, meter.remaining().to_string())).collect()
}

/// No reset, and what the call cost.
fn mistral(left: &Left<'_>) -> Headers {
    let mut headers = Vec::with_capacity(5);
    if let Some(meter) = left.requests {
        headers.extend([
            ("x-ratelimit-limit-req-minute", meter.per_minute().to_string()),
            ("x-ratelimit-remaining-req-minute", meter.remaining().to_string()),
        ]);
    }
    if let Some(meter) = left.tokens {
        headers.extend([
            ("x-ratelimit-limit-tokens-minute", meter.per_minute().to_string()),
            ("x-ratelimit-remaining-tokens-minute", meter.remaining().to_string()),
            ("x-ratelimit-tokens-query-cost", left.cost.to_string()),
        ]);
    }
    headers
}

/// A reset is in seconds since 1970.
fn github(meter: &Meter, now: Timestamp) -> Headers {
    vec![
        ("x-ratelimit-limit", meter.limit().to_string()),
        ("x-ratelimit-remaining", meter.remaining().to_string()),
        ("x-ratelimit-used", meter.limit().saturating_sub(meter.remaining()).to_string()),
        ("x-ratelimit-reset", whole(now, meter.reset()).to_string()),
        ("x-ratelimit-resource", "core".to_owned()),
    ]
}

/// What is left and for how many seconds that holds; and what there is in how many.
fn ietf(meter: &Meter) -> Headers {
    let (left, reset) = (meter.remaining(), meter.reset().div_ceil(1_000));
    let (limit, seconds) = (meter.limit(), meter.span().div_ceil(1_000));
    vec![
        ("ratelimit", format!("\"default\";r={left};t={reset}")),
        ("ratelimit-policy", format!("\"default\";q={limit};w={seconds}")),
    ]
}

fn ietf_old(meter: &Meter) -> Headers {
    let (limit, seconds) = (meter.limit(), meter.span().div_ceil(1_000));
    vec![
        ("ratelimit-limit", limit.to_string()),
        ("ratelimit-remaining", meter.remaining().to_string()),
        ("ratelimit-reset", meter.reset().div_ceil(1_000).to_string()),
        ("ratelimit-policy", format!("{limit};w={seconds}")),
    ]
}

/// The whole second in which so many milliseconds are over.
fn whole(now: Timestamp, ms: u64) -> i64 {
    let end = now.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX));
    end.saturating_add(999).div_euclid(1_000)
}

/// The same as RFC 3339.
fn moment(now: Timestamp, ms: u64) -> String {
    Timestamp(whole(now, ms).saturating_mul(1_000)).to_string().replace(".000Z", "Z")
}

#[cfg(test)]
#[path = "told_tests.rs"]
mod tests;
