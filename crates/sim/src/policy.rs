//! Retry policies: the presets, and such as nobody would write.

use std::time::Duration;

use redrive_core::classify::Matcher;
use redrive_core::failure::{Class, Kind};
use redrive_core::policy::{
    Backoff, Jitter, Limit, OverrideSpec, OwnPolicy, Policy, PolicySpec, RetryOn, TierSpec, presets,
};

use crate::rng::Rng;

/// Draws a policy.
///
/// # Panics
/// When it draws one that does not hold together, which is a mistake here.
#[must_use]
pub fn draw(rng: &Rng, slow: bool) -> Policy {
    if slow {
        return rng.pick(presets()).policy.clone();
    }
    if rng.permille(300) {
        let quick: Vec<_> = presets()
            .iter()
            .filter(|preset| ["sample", "llm", "none", "interactive"].contains(&preset.name))
            .collect();
        return rng.pick(&quick).policy.clone();
    }
    let mut spec = PolicySpec {
        max_attempts: Some(limit(rng)),
        jitter: Some(*rng.pick(&[Jitter::None, Jitter::Proportional(0.25), Jitter::Full, Jitter::Equal])),
        crash_limit: Some(small(rng, 5)),
        unknown_limit: rng.permille(300).then(|| limit(rng)),
        hint_cap: rng.permille(300).then(|| Duration::from_secs(rng.range(1, 30))),
        timeout_growth: rng.permille(300).then_some(2.0),
        ..PolicySpec::default()
    };
    if rng.permille(300) {
        let first = TierSpec { attempts: Some(small(rng, 3)), backoff: Backoff::None, jitter: None };
        spec.tiers = Some(vec![first, TierSpec { attempts: None, backoff: backoff(rng), jitter: None }]);
    } else {
        spec.backoff = Some(backoff(rng));
    }
    if rng.permille(200) {
        let matchers =
            [Matcher::Class(Class::Timeout), Matcher::Kind(Kind::Database), Matcher::Class(Class::Crash)];
        spec.overrides = vec![OverrideSpec {
            matcher: rng.pick(&matchers).clone(),
            max_attempts: Some(small(rng, 6)),
            backoff: rng.permille(500).then(|| backoff(rng)),
        }];
    }
    spec.retry_on = rng.permille(60).then(|| rng.pick(&[RetryOn::All, RetryOn::None]).clone());
    spec.build().expect("a policy that holds together")
}

/// Draws a policy that one redrive goes under: it gives up soon, so that what never passes ends whatever its stage's own allows.
///
/// # Panics
/// When it draws one that does not hold together, which is a mistake here.
#[must_use]
pub fn own(rng: &Rng) -> OwnPolicy {
    let most = small(rng, 4);
    let spec = PolicySpec {
        max_attempts: Some(Limit::Attempts(most)),
        backoff: Some(backoff(rng)),
        jitter: Some(*rng.pick(&[Jitter::None, Jitter::Proportional(0.25), Jitter::Full])),
        crash_limit: Some(small(rng, 5)),
        timeout_growth: rng.permille(300).then_some(2.0),
        ..PolicySpec::default()
    };
    OwnPolicy::new(format!("gives up after {most}"), spec.build().expect("a policy that holds together"))
}

fn small(rng: &Rng, most: u64) -> u32 {
    u32::try_from(rng.range(1, most)).unwrap_or(1)
}

fn limit(rng: &Rng) -> Limit {
    if rng.permille(200) { Limit::Endless } else { Limit::Attempts(small(rng, 5)) }
}

fn backoff(rng: &Rng) -> Backoff {
    let base = Duration::from_millis(rng.range(10, 2_000));
    let max = Duration::from_secs(10);
    match rng.below(5) {
        0 => Backoff::None,
        1 => Backoff::Fixed { delay: base },
        2 => Backoff::Linear { base, max },
        3 => Backoff::Schedule { delays: vec![base, base * 2, max] },
        _ => Backoff::Exponential { base, factor: 2.0, max },
    }
}
