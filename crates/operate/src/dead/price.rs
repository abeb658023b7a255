//! What items are expected to cost that are sent back: what such work has cost before, in the same run.
//!
//! A stage on this machine costs nothing. Any other costs what its calls have cost so far for each item that passed, retries
//! included; where nothing passed, or nobody said what a token costs, the price is not known, and that is what is said.

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome;
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_core::tally::{Counter, Metric};
use redrive_pipeline::{Definition, StageKind};

use crate::Floor;
use crate::error::Result;
use crate::runs::Runs;

/// Prices of items by run and stage, each run read once.
pub(super) struct Prices<'a> {
    floor: &'a Floor,
    runs: &'a Runs<'a>,
    known: BTreeMap<RunId, BTreeMap<StageNo, Option<u64>>>,
}

impl<'a> Prices<'a> {
    pub(super) fn of(floor: &'a Floor, runs: &'a Runs<'a>) -> Self {
        Self { floor, runs, known: BTreeMap::new() }
    }

    /// What an item is expected to cost from its stage to its end, in billionths of a US dollar; `None` when that is not known.
    pub(super) async fn price(&mut self, item: &Item) -> Result<Option<u64>> {
        if !self.known.contains_key(&item.run) {
            let prices = match self.runs.known(item.run).await? {
                None => BTreeMap::new(),
                Some(known) => {
                    let counters = self.floor.store.counters(item.run).await?;
                    let stages = known.plan.stages();
                    stages
                        .map(|(no, _)| (no, to_the_end(&known.definition, &known.plan, &counters, no)))
                        .collect()
                }
            };
            self.known.insert(item.run, prices);
        }
        let of_run = self.known.get(&item.run);
        Ok(of_run.and_then(|prices| prices.get(&item.stage).copied()).flatten())
    }
}

/// The price of a stage, of all that follow it, and of those that follow its parent's join.
fn to_the_end(definition: &Definition, plan: &Plan, counters: &[Counter], from: StageNo) -> Option<u64> {
    let mut sum: u64 = 0;
    let mut at = Some(from);
    while let Some(no) = at {
        sum = sum.saturating_add(with_children(definition, plan, counters, no)?);
        let stage = plan.stage(no)?;
        // A child that ends lets its parent go on at the stage after the one that made it.
        at = match (stage.next, stage.owner) {
            (Some(next), _) => Some(next),
            (None, Some(owner)) => after(plan, owner),
            (None, None) => None,
        };
    }
    Some(sum)
}

/// The stage that comes after one, in its list or after the lists around it.
fn after(plan: &Plan, stage: StageNo) -> Option<StageNo> {
    let stage = plan.stage(stage)?;
    stage.next.or_else(|| stage.owner.and_then(|owner| after(plan, owner)))
}

/// What an item costs at a stage, with all that its children cost below it.
fn with_children(definition: &Definition, plan: &Plan, counters: &[Counter], no: StageNo) -> Option<u64> {
    let passed = count(counters, no, &[Outcome::Succeeded, Outcome::Expanded, Outcome::Filtered]);
    let mut sum: u64 = 0;
    for (below, stage) in definition.all_stages().enumerate() {
        let below = StageNo(u16::try_from(below).unwrap_or(u16::MAX));
        if below != no && !is_below(plan, below, no) {
            continue;
        }
        if is_free(&stage.kind) {
            continue;
        }
        let total = spent(counters, below)?;
        sum = sum.saturating_add(total.checked_div(passed)?);
    }
    Some(sum)
}

fn is_below(plan: &Plan, stage: StageNo, above: StageNo) -> bool {
    let owner = plan.stage(stage).and_then(|stage| stage.owner);
    owner.is_some_and(|owner| owner == above || is_below(plan, owner, above))
}

/// What a stage has cost so far; `None` when it reported nothing, or something whose price is not known.
fn spent(counters: &[Counter], stage: StageNo) -> Option<u64> {
    let tokens = sum(counters, stage, Metric::TokensIn) + sum(counters, stage, Metric::TokensOut);
    let unpriced = sum(counters, stage, Metric::UnpricedTokens);
    (tokens > 0 && unpriced == 0).then(|| sum(counters, stage, Metric::NanoUsd))
}

fn count(counters: &[Counter], stage: StageNo, outcomes: &[Outcome]) -> u64 {
    outcomes.iter().map(|outcome| sum(counters, stage, Metric::Outcome(*outcome))).sum()
}

fn sum(counters: &[Counter], stage: StageNo, metric: Metric) -> u64 {
    let those = counters.iter().filter(|counter| counter.stage == stage && counter.metric == metric);
    those.map(|counter| u64::try_from(counter.n).unwrap_or(0)).sum()
}

/// Whether a stage calls nothing that could ask for money.
fn is_free(kind: &StageKind) -> bool {
    match kind {
        StageKind::Pass
        | StageKind::Filter { .. }
        | StageKind::EmbedBuiltin { .. }
        | StageKind::Parse { .. }
        | StageKind::Mail { .. }
        | StageKind::Upsert
        | StageKind::Publish => true,
        StageKind::Http { .. }
        | StageKind::Command { .. }
        | StageKind::External { .. }
        | StageKind::Event { .. }
        | StageKind::Embed { .. }
        | StageKind::Chat { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipelines;

    const CHAT: &str = "name = \"p\"\n[source]\npath = \"in.jsonl\"\n\
        [[stage]]\nname = \"first\"\nkind = \"pass\"\n\
        [[stage]]\nname = \"ask\"\nkind = \"http\"\nurl = \"http://localhost/\"\n\
        [[stage]]\nname = \"last\"\nkind = \"pass\"\n";

    fn price(from: u16, counters: &[(Metric, i64)]) -> Option<u64> {
        let definition = pipelines::parse(CHAT, "a test").expect("valid");
        let at = |(metric, n): &(Metric, i64)| Counter { stage: StageNo(1), metric: *metric, n: *n };
        let counters: Vec<Counter> = counters.iter().map(at).collect();
        to_the_end(&definition, &definition.plan(), &counters, StageNo(from))
    }

    #[test]
    fn a_price_is_what_items_that_passed_have_cost() {
        let passed = (Metric::Outcome(Outcome::Succeeded), 4);
        let failed = (Metric::Outcome(Outcome::Failed), 9);
        let used = [passed, failed, (Metric::TokensIn, 100), (Metric::NanoUsd, 4_000)];
        assert_eq!((price(0, &used), price(1, &used)), (Some(1_000), Some(1_000)));
        assert_eq!(price(2, &used), Some(0), "the stage that asks for money is behind it");
    }

    #[test]
    fn a_price_that_nobody_told_is_not_known() {
        let passed = (Metric::Outcome(Outcome::Succeeded), 4);
        assert_eq!(price(1, &[passed]), None, "no usage was reported");
        assert_eq!(price(1, &[(Metric::TokensIn, 9), (Metric::NanoUsd, 9)]), None, "nothing passed");
        let partly = [passed, (Metric::TokensIn, 9), (Metric::NanoUsd, 9), (Metric::UnpricedTokens, 1)];
        assert_eq!(price(1, &partly), None);
    }
}
