//! Which facts follow from what happens, and how they are told.

use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{ChildTally, Event, Gone, ItemReply, Transition};
use redrive_core::fact::{Fact, FactKind};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ItemId, ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{Entry, Item, NewItem, State};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;

/// split (children: part), which dies of a dead child, then last.
fn plan() -> Plan {
    let stage = |name: &str| StagePlan {
        name: name.to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: Duration::from_secs(60),
        config: 9,
        child_failure: ChildFailure::Dead,
    };
    let split = StagePlan { first_child: Some(StageNo(1)), next: Some(StageNo(2)), ..stage("split") };
    let part = StagePlan { owner: Some(StageNo(0)), ..stage("part") };
    Plan::new(vec![split, part, stage("last")], Some(Duration::from_secs(3_600)))
}

fn item(stage: u16, state: State) -> Item {
    let new = NewItem::new("a", b"x".as_slice(), 0);
    let (run, now) = (RunId(1), Timestamp(0));
    let entry = Entry { run, parent: None, stage: StageNo(stage), reading: 1, deadline: None, now };
    let id = ItemId::derive(run, None, &new.key, new.version());
    let attempt = u32::from(!matches!(state, State::Waiting { .. }));
    Item { state, attempt, ..entry.item(&new, ItemSeq(1), id, new.version()) }
}

fn step(item: &Item, event: Event) -> Transition {
    let at = Moment { now: Timestamp(1_000), draw: Draw::MIDDLE };
    decide(item, event, &plan(), at).expect("it is legal")
}

fn names(item: &Item, event: Event) -> String {
    let names: Vec<_> = step(item, event).facts.kinds().map(FactKind::name).collect();
    names.join(" ")
}

#[test]
fn every_event_says_what_the_world_is_told() {
    let failing = |class| {
        let failure = Failure::new(class, Kind::Server, "no");
        Event::Finished(ItemReply::Failed { failure, shared: false })
    };
    let settled = |done, dead| Event::ChildrenSettled(ChildTally { done, dead, gone: 0, live: 0 });
    let running = |stage| item(stage, State::Running { worker: WorkerId(1), since: Timestamp(0) });
    let waiting = item(0, State::Waiting { due: Timestamp(0), cause: None });
    let dead = step(&running(0), failing(Class::Final)).after;
    let gone = step(&waiting, Event::Superseded(Gone::Newer)).after;
    let crashed = Item { crashes: 9, ..running(0) };
    let turned_away = Event::Finished(ItemReply::TurnedAway {
        failure: Failure::new(Class::Retryable, Kind::Server, "no"),
        wait: Duration::from_secs(1),
    });
    let children = |n: usize| {
        let children = (0..n).map(|n| NewItem::new(n.to_string(), b"c".as_slice(), 0));
        Event::Finished(ItemReply::Children(children.collect()))
    };
    let told = [
        (&waiting, Event::Claimed { worker: WorkerId(1) }, ""),
        (&running(0), Event::Released, ""),
        (&running(0), Event::Interrupted, ""),
        (&running(0), Event::Finished(ItemReply::Output(None)), "item.stage_passed"),
        (&running(2), Event::Finished(ItemReply::Output(None)), "item.stage_passed item.succeeded"),
        (&running(0), Event::Finished(ItemReply::Reused(b"y".as_slice().into(), None)), "item.stage_passed"),
        (&running(0), Event::Finished(ItemReply::Filtered("dull".to_owned())), "item.filtered"),
        (&running(0), children(2), "item.expanded"),
        (&running(0), children(0), "item.stage_passed"),
        (&running(0), failing(Class::Retryable), "item.failed item.retry_scheduled"),
        (&running(0), failing(Class::Final), "item.failed item.dead"),
        (&running(0), failing(Class::RateLimited), "item.throttled"),
        (&running(0), turned_away, "item.throttled"),
        (&running(0), Event::LeaseExpired, "item.failed item.retry_scheduled"),
        (&crashed, Event::LeaseExpired, "item.failed item.dead item.quarantined"),
        (&running(0), Event::DeadlinePassed, "item.dead"),
        (&waiting, Event::DeadlinePassed, "item.dead"),
        (&running(0), Event::ContentDamaged { what: "lost".to_owned() }, "item.failed item.dead"),
        (&item(0, State::Joining), settled(2, 0), "item.joined item.stage_passed"),
        (&item(2, State::Joining), settled(2, 0), "item.joined item.stage_passed item.succeeded"),
        (&item(0, State::Joining), settled(1, 1), "item.joined item.dead"),
        (&dead, Event::ChildReopened { stage: StageNo(0) }, "item.reopened"),
        (&running(0), Event::CancelRequested, "item.cancelled"),
        (&running(0), Event::Superseded(Gone::Newer), "item.superseded"),
        (&waiting, Event::Killed { why: "so".to_owned() }, "item.dead"),
        (&dead, Event::Redriven { due: Timestamp(5), payload: None, policy: None }, "item.redriven"),
        (&dead, Event::Reconfigured, "item.reconfigured"),
        (&running(0), Event::Reconfigured, ""),
        (&dead, Event::Rerun { stage: StageNo(0), payload: (*b"1").into() }, "item.rerun"),
        (&waiting, Event::Rescheduled { due: Timestamp(7_000) }, ""),
        (&gone, Event::Restored { payload: None }, "item.restored"),
    ];
    for (item, event, expected) in told {
        assert_eq!(names(item, event.clone()), expected, "{event:?}");
    }
}

#[test]
fn a_fact_names_the_attempt_that_ended_and_no_text() {
    let running = item(0, State::Running { worker: WorkerId(1), since: Timestamp(0) });
    let failure = Failure::new(Class::Final, Kind::Server, "a secret");
    let next = step(&running, Event::Finished(ItemReply::Failed { failure, shared: false }));
    let facts: Vec<_> = Fact::of_transition(&next).collect();
    let body = serde_json::to_string(&facts[1]).expect("JSON");
    let expected = format!(
        r#"{{"fact":"item.dead","item":"{}","key":"a","run":"r1","stage":0,"generation":0,"attempt":1,"at":"1970-01-01T00:00:01.000Z","class":"final","reason":"final"}}"#,
        running.id
    );
    assert_eq!(body, expected);
    let passed = step(&running, Event::Finished(ItemReply::Output(None)));
    let fact = Fact::of_transition(&passed).next().expect("one");
    assert_eq!((fact.stage, fact.attempt), (Some(StageNo(0)), Some(1)), "not where it is now");
}

#[test]
fn a_run_is_told_of_only_when_it_changes() {
    let kind = |before, after| Fact::of_control(RunId(1), before, after, Timestamp(7)).map(|fact| fact.kind);
    assert_eq!(kind(Control::Go, Control::Go), None);
    assert_eq!(kind(Control::Go, Control::PausedQuota), Some(FactKind::RunPaused));
    assert_eq!(kind(Control::Paused, Control::PausedQuota), Some(FactKind::RunPaused));
    assert_eq!(kind(Control::PausedQuota, Control::Go), Some(FactKind::RunResumed));
    assert_eq!(kind(Control::Paused, Control::Cancelled), Some(FactKind::RunCancelled));
    let finished = |before, after| Fact::of_finish(RunId(1), before, after).map(|fact| (fact.kind, fact.at));
    let (one, two) = (Some(Timestamp(1)), Some(Timestamp(2)));
    assert_eq!(finished(None, one), Some((FactKind::RunFinished, Timestamp(1))));
    assert_eq!((finished(one, two), finished(one, None), finished(None, None)), (None, None, None));
}
