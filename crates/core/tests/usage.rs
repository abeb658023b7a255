//! What attempts consumed is counted, and a recount finds a counter that is off.

use redrive_core::attempt::AttemptRecord;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{Event, ItemReply};
use redrive_core::id::{ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{Entry, Item, NewItem, StateKind};
use redrive_core::laws::{Census, Law};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::tally::{Counter, Deltas, Metric};
use redrive_core::time::Timestamp;
use redrive_core::usage::Usage;

const RUN: RunId = RunId(1);

fn plan() -> Plan {
    let stage = StagePlan {
        name: "embed".to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: std::time::Duration::from_secs(60),
        config: 0,
        child_failure: ChildFailure::Continue,
    };
    Plan::new(vec![stage], None)
}

/// One item that passed after consuming this, with the counters that were kept on the way.
fn life(usage: Option<Usage>) -> (Item, AttemptRecord, Vec<Counter>) {
    let (plan, at) = (plan(), Moment { now: Timestamp(5), draw: Draw::MIDDLE });
    let new = NewItem::new("a", *b"x", 0);
    let entry =
        Entry { run: RUN, parent: None, stage: StageNo(0), reading: 1, deadline: None, now: Timestamp(0) };
    let version = new.version();
    let id = redrive_core::id::ItemId::derive(RUN, None, "a", version);
    let item = entry.item(&new, ItemSeq(1), id, version);
    let mut deltas = Deltas::default();
    deltas.admitted(&item);
    let held = decide(&item, Event::Claimed { worker: WorkerId(1) }, &plan, at).expect("legal").after;
    deltas.claimed(RUN, StageNo(0), 1);
    let mut done = decide(&held, Event::Finished(ItemReply::Output(None)), &plan, at).expect("legal");
    let record = done.record.as_mut().expect("recorded");
    record.usage = usage;
    let record = record.clone();
    deltas.transition(&done);
    let kept = deltas.iter().map(|((_, stage, metric), n)| Counter { stage, metric, n }).collect();
    (done.after, record, kept)
}

#[test]
fn a_recount_agrees_with_the_counters_of_usage() {
    for usage in [
        None,
        Some(Usage::default()),
        Some(Usage { tokens_in: 12, tokens_out: 3, nano_usd: None }),
        Some(Usage { tokens_in: 12, tokens_out: 3, nano_usd: Some(240) }),
        Some(Usage { tokens_in: u64::MAX, tokens_out: u64::MAX, nano_usd: Some(u64::MAX) }),
    ] {
        let (item, record, kept) = life(usage);
        let mut census = Census::default();
        census.observe(&item, &[record]);
        assert_eq!(census.compare(RUN, &kept), [], "{usage:?}");
    }
}

#[test]
fn a_counter_of_usage_that_is_off_breaks_a_law_until_something_was_purged() {
    let priced = Usage { tokens_in: 12, tokens_out: 3, nano_usd: Some(240) };
    let unpriced = Usage { nano_usd: None, ..priced };
    let mut off = 0;
    for usage in [priced, unpriced] {
        let (item, record, kept) = life(Some(usage));
        let mut census = Census::default();
        census.observe(&item, &[record]);
        for at in 0..kept.len() {
            let told = [Metric::TokensIn, Metric::TokensOut, Metric::NanoUsd, Metric::UnpricedTokens];
            if !told.contains(&kept[at].metric) {
                continue;
            }
            let mut wrong = kept.clone();
            wrong[at].n += 1;
            let broken = census.compare(RUN, &wrong);
            assert!(matches!(&broken[..], [one] if one.law == Law::L1), "{broken:?}");
            let mut purged = wrong;
            purged.push(Counter { stage: StageNo(0), metric: Metric::Purged(StateKind::Dead), n: 1 });
            let broken = census.compare(RUN, &purged);
            assert!(broken.iter().all(|one| !one.what.contains("okens")), "{broken:?}");
            off += 1;
        }
    }
    assert_eq!(off, 6, "each counter was tried");
}

#[test]
fn a_purged_item_without_a_tombstone_or_a_tombstone_without_a_purge_breaks_conservation() {
    let (item, record, mut kept) = life(None);
    let mut deltas = Deltas::default();
    deltas.purged(&item);
    let was = redrive_core::tally::place(&item);
    kept.extend(deltas.iter().map(|((_, stage, metric), n)| Counter { stage, metric, n }));
    // What was added and taken away is no counter any more, as in a store.
    let stood = Metric::State(was.kind);
    kept.retain(|counter| counter.metric != stood);
    let compare = |tombstones: &[Option<redrive_core::event::Place>]| {
        let mut census = Census::default();
        tombstones.iter().for_each(|was| census.observe_tombstone(RUN, *was));
        census.compare(RUN, &kept).into_iter().map(|found| found.law).collect::<Vec<_>>()
    };
    assert_eq!(compare(&[Some(was)]), []);
    assert_eq!(compare(&[None]), [], "that of an old store does not tell where its item stood");
    assert!(compare(&[]).contains(&Law::L1));
    assert!(compare(&[Some(was), Some(was)]).contains(&Law::L1));
    let elsewhere = redrive_core::event::Place { stage: StageNo(1), ..was };
    assert!(compare(&[Some(elsewhere)]).contains(&Law::L1));
    let mut both = Census::default();
    both.observe(&item, &[record]);
    both.observe_tombstone(RUN, Some(was));
    assert!(both.compare(RUN, &kept).iter().any(|found| found.law == Law::L1), "it is there and purged");
}
