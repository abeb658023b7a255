//! When a failed item runs again, and when it is given up.
//!
//! A [`Policy`] is a value: a function of counters, a failure and a [`Draw`](crate::draw::Draw), without memory.
//! It is made from a [`PolicySpec`], which reports everything that is wrong with it at once. Attempts count from
//! the first try; the wait after the n-th failure is a closed form in n; the cap is applied last; every number
//! saturates.

mod backoff;
mod jitter;
mod lint;
mod own;
mod preset;
mod rules;
mod simulate;
mod spec;
mod wait;

pub use backoff::Backoff;
pub use jitter::Jitter;
pub use lint::{LintContext, Warning, lint};
pub use own::OwnPolicy;
pub use preset::{PresetInfo, preset, presets};
pub use rules::{Override, Policy, RetryOn, Tier};
pub use simulate::{Outlook, Step, outlook, timeline};
pub use spec::{Limit, MAX_ATTEMPTS, OverrideSpec, PolicySpec, Problem, TierSpec};
pub use wait::{Cause, Next, Wait};
