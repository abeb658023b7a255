use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::Limits;
use crate::plan::Plan;

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_400);

/// The headers after one call of 600 tokens, at a limit of 10 calls in 2 seconds and 6,000 tokens a minute.
fn after_one(told: &str, kind: &str) -> BTreeMap<&'static str, String> {
    let text =
        format!("[limit]\nrequests_per_second = 5\ntokens_per_minute = 6000\nheaders = \"{told}\"\n{kind}");
    let plan = Plan::parse(&text, "test").expect("a plan");
    let mut limits = Limits::new(&plan.limit, 1);
    limits.pass(&plan.limit, Duration::ZERO, 600);
    limits.headers(plan.limit.headers, 600, NOW).into_iter().collect()
}

fn bucket(told: &str) -> BTreeMap<&'static str, String> {
    after_one(told, "burst = 10")
}

fn window(told: &str) -> BTreeMap<&'static str, String> {
    after_one(told, "kind = \"window\"\nwindow = \"2s\"")
}

#[track_caller]
fn says(headers: &BTreeMap<&'static str, String>, expected: &[(&str, &str)]) {
    let found: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn openai_says_when_all_of_it_is_there_again() {
    says(
        &bucket("openai"),
        &[
            ("x-ratelimit-limit-requests", "300"),
            ("x-ratelimit-limit-tokens", "6000"),
            ("x-ratelimit-remaining-requests", "9"),
            ("x-ratelimit-remaining-tokens", "5400"),
            ("x-ratelimit-reset-requests", "200ms"),
            ("x-ratelimit-reset-tokens", "6s"),
        ],
    );
}

#[test]
fn groq_counts_the_calls_of_a_day() {
    let headers = bucket("groq");
    assert_eq!(headers["x-ratelimit-limit-requests"], "432000");
    assert_eq!(headers["x-ratelimit-remaining-requests"], "431999");
    assert_eq!(headers["x-ratelimit-reset-requests"], "200ms");
    assert_eq!(headers["x-ratelimit-remaining-tokens"], "5400");
}

#[test]
fn anthropic_names_moments_and_rounds_tokens() {
    let headers = bucket("anthropic");
    assert_eq!(headers["anthropic-ratelimit-requests-limit"], "300");
    assert_eq!(headers["anthropic-ratelimit-requests-remaining"], "9");
    assert_eq!(headers["anthropic-ratelimit-requests-reset"], "2023-11-14T22:13:21Z");
    assert_eq!(headers["anthropic-ratelimit-tokens-remaining"], "5000");
    assert_eq!(headers["anthropic-ratelimit-input-tokens-reset"], "2023-11-14T22:13:27Z");
    assert_eq!(headers["anthropic-ratelimit-output-tokens-remaining"], "6000");
}

#[test]
fn azure_says_only_what_is_left() {
    let expected = [("x-ratelimit-remaining-requests", "9"), ("x-ratelimit-remaining-tokens", "5400")];
    says(&bucket("azure"), &expected);
}

#[test]
fn mistral_says_what_is_left_of_a_minute_and_no_reset() {
    says(
        &bucket("mistral"),
        &[
            ("x-ratelimit-limit-req-minute", "300"),
            ("x-ratelimit-limit-tokens-minute", "6000"),
            ("x-ratelimit-remaining-req-minute", "9"),
            ("x-ratelimit-remaining-tokens-minute", "5400"),
            ("x-ratelimit-tokens-query-cost", "600"),
        ],
    );
}

#[test]
fn github_counts_seconds_since_1970() {
    says(
        &window("github"),
        &[
            ("x-ratelimit-limit", "10"),
            ("x-ratelimit-remaining", "9"),
            ("x-ratelimit-reset", "1700000003"),
            ("x-ratelimit-resource", "core"),
            ("x-ratelimit-used", "1"),
        ],
    );
}

#[test]
fn the_draft_says_it_in_one_header_and_its_older_versions_in_three() {
    let new = [("ratelimit", "\"default\";r=9;t=2"), ("ratelimit-policy", "\"default\";q=10;w=2")];
    says(&window("ietf"), &new);
    says(
        &window("ietf-old"),
        &[
            ("ratelimit-limit", "10"),
            ("ratelimit-policy", "10;w=2"),
            ("ratelimit-remaining", "9"),
            ("ratelimit-reset", "2"),
        ],
    );
}
