//! Law L12, which one item shows: it is broken by hand, and only then complained about.

use std::time::Duration;

use redrive_core::attempt::AttemptRecord;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{ChildTally, Event, ItemReply, Mark};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ItemId, ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{Entry, Item, NewItem, State};
use redrive_core::laws::{Case, Law, check_item};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::time::Timestamp;

fn plan() -> Plan {
    let stage = StagePlan {
        name: "work".to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: Duration::from_secs(60),
        config: 0,
        child_failure: ChildFailure::Continue,
    };
    Plan::new(vec![stage], None)
}

fn fresh() -> Item {
    let new = NewItem::new("a", *b"x", 0);
    let (run, version) = (RunId(1), new.version());
    let now = Timestamp(1_000);
    let entry = Entry { run, parent: None, stage: StageNo(0), reading: 1, deadline: None, now };
    entry.item(&new, ItemSeq(1), ItemId::derive(run, None, "a", version), version)
}

fn at(now: i64) -> Moment {
    Moment { now: Timestamp(now), draw: Draw::MIDDLE }
}

/// An item that failed once and waits, with its attempt.
fn failed() -> (Item, AttemptRecord) {
    let plan = plan();
    let held = decide(&fresh(), Event::Claimed { worker: WorkerId(1) }, &plan, at(2_000)).expect("legal");
    let failure = Failure::new(Class::Retryable, Kind::Server, "no");
    let reply = ItemReply::Failed { failure, shared: false };
    let failed = decide(&held.after, Event::Finished(reply), &plan, at(3_000)).expect("legal");
    (failed.after, failed.record.expect("recorded"))
}

fn broken(item: &Item, attempts: &[AttemptRecord]) -> Vec<Law> {
    broken_with(item, attempts, &[])
}

fn broken_with(item: &Item, attempts: &[AttemptRecord], marks: &[Mark]) -> Vec<Law> {
    let plan = plan();
    let children = ChildTally::default();
    let case = Case { item, attempts, marks, plan: Some(&plan), children, has_successor: false };
    check_item(&case).into_iter().map(|found| found.law).collect()
}

/// The same item, due later by so much.
fn later(item: &Item, by: Duration) -> Item {
    let mut item = item.clone();
    if let State::Waiting { due, .. } = &mut item.state {
        *due = due.after(by);
    }
    item
}

#[test]
fn a_wait_that_is_longer_than_was_decided_breaks_a_law() {
    let (waiting, record) = failed();
    assert!(record.wait.is_some_and(|(wait, _)| !wait.is_zero()), "it waits: {record:?}");
    for (item, attempts) in [(fresh(), vec![]), (waiting, vec![record])] {
        assert_eq!(broken(&item, &attempts), []);
        for by in [Duration::from_secs(1), Duration::from_secs(2 * 86_400)] {
            assert_eq!(broken(&later(&item, by), &attempts), [Law::L12], "{by:?}");
        }
    }
}

#[test]
fn a_wait_that_begins_anew_because_the_clock_was_put_back_is_no_longer_than_decided() {
    let (waiting, record) = failed();
    for now in [-172_800_000, 0, 2_999] {
        let back = decide(&waiting, Event::ClockSteppedBack, &plan(), at(now)).expect("legal").after;
        assert_eq!(broken(&back, std::slice::from_ref(&record)), [], "{now}");
    }
}

#[test]
fn items_that_are_sent_back_may_be_spread_over_time() {
    let mut item = later(&fresh(), Duration::from_secs(3_600));
    item.generation = 1;
    assert_eq!(broken(&item, &[]), []);
}

#[test]
fn a_wait_that_somebody_set_may_have_any_length() {
    let (waiting, record) = failed();
    let told = Event::Rescheduled { due: waiting.updated_at.after(Duration::from_secs(3_600)) };
    let next = decide(&waiting, told, &plan(), at(waiting.updated_at.0)).expect("it waits");
    let marks: Vec<Mark> = next.mark.clone().into_iter().collect();
    assert_eq!(broken_with(&next.after, std::slice::from_ref(&record), &marks), []);
    assert_eq!(broken(&next.after, std::slice::from_ref(&record)), [Law::L12], "nobody said so");
}
