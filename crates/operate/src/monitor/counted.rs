//! What follows from the kept counters.

use redrive_core::attempt::Outcome;
use redrive_core::failure::{Class, Kind};
use redrive_core::item::{DeadReason, StateKind};
use redrive_core::plan::Plan;
use redrive_core::tally::{Counter, HealSpan, Metric};

use super::families as f;
use super::names::Names;
use super::page::Page;

/// Has every pipeline and stage told with 0: what begins at 5 has not grown by 5, as Prometheus sees it.
pub(super) fn zeros(page: &mut Page, names: &Names) {
    let none = 0.0;
    for (pipeline, stage) in names.all() {
        let here = [pipeline, stage];
        StateKind::ALL.iter().for_each(|kind| page.add(&f::ITEMS, &[pipeline, stage, kind.name()], none));
        Outcome::ALL.iter().for_each(|one| page.add(&f::ATTEMPTS, &[pipeline, stage, one.name()], none));
        Class::ALL.iter().for_each(|class| page.add(&f::FAILURES, &[pipeline, stage, class.name()], none));
        for reason in DeadReason::ALL {
            page.add(&f::DEAD, &[pipeline, stage, reason.name()], none);
            page.add(&f::DIED, &[pipeline, stage, reason.name()], none);
        }
        ["in", "out"].iter().for_each(|way| page.add(&f::TOKENS, &[pipeline, stage, way], none));
        for family in [
            &f::ADMITTED,
            &f::TRIES,
            &f::RETRIES,
            &f::ITEM_RETRIES,
            &f::HEALED,
            &f::TOOK,
            &f::DUE_LAG,
            &f::STUCK,
            &f::AWAITED,
            &f::LEASES_LOST,
            &f::PERMANENT,
            &f::BUDGET,
            &f::COST,
            &f::UNPRICED,
        ] {
            page.add(family, &here, none);
        }
    }
}

/// Adds counters of a pipeline.
pub(super) fn add(page: &mut Page, names: &Names, pipeline: &str, plan: Option<&Plan>, counters: &[Counter]) {
    let label = names.pipeline(pipeline);
    for Counter { stage: no, metric, n } in counters.iter().filter(|counter| counter.n > 0) {
        let stage = names.stage(pipeline, plan, *no);
        let collection = || names.collection(pipeline, plan, *no);
        let here = [label, stage];
        let (amount, count) = (number(*n), n.unsigned_abs());
        match *metric {
            Metric::State(kind) => page.add(&f::ITEMS, &[label, stage, kind.name()], amount),
            Metric::Admitted => page.add(&f::ADMITTED, &here, amount),
            Metric::DeadReason(reason) => {
                page.add(&f::DEAD, &[label, stage, reason.name()], amount);
                if reason == DeadReason::Exhausted {
                    page.add(&f::JOB_FAILED, &[&collection()], amount);
                }
            }
            Metric::Died(reason) => {
                page.add(&f::DIED, &[label, stage, reason.name()], amount);
                if reason == DeadReason::Exhausted {
                    page.add(&f::JOB_EXHAUSTED, &[&collection()], amount);
                }
            }
            Metric::Outcome(outcome) => {
                page.add(&f::ATTEMPTS, &[label, stage, outcome.name()], amount);
                if outcome.is_try() {
                    page.add(&f::TRIES, &here, amount);
                    page.add(&f::RETRIES, &here, amount);
                }
            }
            // What is left of the tries are retries.
            Metric::FirstTry => page.add(&f::RETRIES, &here, -amount),
            Metric::Failure(class, kind) => {
                page.add(&f::FAILURES, &[label, stage, class.name()], amount);
                if class == Class::Crash && kind == Kind::Worker {
                    page.add(&f::LEASES_LOST, &here, amount);
                }
            }
            Metric::PassedAfter(tries) => {
                let retries = f64::from(tries.saturating_sub(1));
                page.observe(&f::ITEM_RETRIES, &here, retries, count);
                page.add(&f::ITEM_RETRIES, &here, retries * amount);
            }
            Metric::HealedIn(span) => page.observe(&f::HEALED, &here, end(HealSpan::of(span)), count),
            Metric::HealedWithin(power) => {
                page.observe(&f::HEALED, &here, end(HealSpan::below_power(power)), count);
            }
            Metric::HealMillis => page.add(&f::HEALED, &here, amount / 1_000.0),
            Metric::TookIn(span) => page.observe(&f::TOOK, &here, end(HealSpan::of(span)), count),
            Metric::TookMillis => page.add(&f::TOOK, &here, amount / 1_000.0),
            Metric::TokensIn => page.add(&f::TOKENS, &[label, stage, "in"], amount),
            Metric::TokensOut => page.add(&f::TOKENS, &[label, stage, "out"], amount),
            Metric::NanoUsd => page.add(&f::COST, &here, amount / 1e9),
            Metric::UnpricedTokens => page.add(&f::UNPRICED, &here, amount),
            Metric::OpenAfter(tries) => {
                let policy = plan.and_then(|plan| plan.stage(*no)).map(|stage| &stage.policy);
                if policy.is_some_and(|policy| policy.looks_permanent(tries.into())) {
                    page.add(&f::PERMANENT, &here, amount);
                }
            }
            Metric::DeadClass(_)
            | Metric::Status(_)
            | Metric::Purged(_)
            | Metric::Forgotten(_)
            | Metric::DeadAfter(_)
            | Metric::FirstPass
            | Metric::TriedAnew
            | Metric::Verdict(_) => {}
            Metric::Awaited => page.add(&f::AWAITED, &here, amount),
        }
    }
}

/// The largest time of a range, in seconds.
#[expect(clippy::cast_precision_loss, reason = "a bound of a histogram")]
fn end(span: HealSpan) -> f64 {
    span.to.saturating_sub(1) as f64 / 1_000.0
}

/// A count as the text format has it.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts far below 2^53; sums of tokens lose their last digits"
)]
pub(super) fn number(n: i64) -> f64 {
    n as f64
}
