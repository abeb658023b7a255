//! An attempt that is handed over stays open until its answer comes, or is missing for too long.

use std::time::Duration;

use redrive_core::answer::{AnswerToken, HandOver};
use redrive_core::attempt::Outcome;
use redrive_core::decide::{Illegal, Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{ChildTally, Event, Gone, ItemReply, Transition};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ItemId, ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{DeadReason, Entry, Item, Lane, NewItem, State};
use redrive_core::laws::{Case, check_item};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::{Cause, preset};
use redrive_core::time::Timestamp;

const SECOND: Duration = Duration::from_secs(1);

fn plan(deadline: Option<Duration>) -> Plan {
    let only = StagePlan {
        name: "ask".to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: 60 * SECOND,
        config: 0,
        child_failure: ChildFailure::Continue,
    };
    Plan::new(vec![only], deadline)
}

fn admitted(deadline: Option<Timestamp>) -> Item {
    let new = NewItem::new("a", b"x".as_slice(), 0);
    let (run, now) = (RunId(1), Timestamp(0));
    let entry = Entry { run, parent: None, stage: StageNo(0), reading: 1, deadline, now };
    entry.item(&new, ItemSeq(1), ItemId::derive(run, None, &new.key, new.version()), new.version())
}

fn happens(item: &Item, event: Event, seconds: u64) -> Result<Transition, Illegal> {
    let at = Moment { now: Timestamp(0).after(seconds_of(seconds)), draw: Draw::MIDDLE };
    decide(item, event, &plan(None), at)
}

fn seconds_of(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn step(item: &Item, event: Event, seconds: u64) -> Item {
    happens(item, event, seconds).expect("it is legal").after
}

fn claim() -> Event {
    Event::Claimed { worker: WorkerId(3) }
}

fn over(within: u64, ask_in: Option<u64>) -> Event {
    let (within, ask_in) = (seconds_of(within), ask_in.map(seconds_of));
    Event::Finished(ItemReply::HandedOver(HandOver { within, ask_in, ticket: Some("t".into()), route: None }))
}

/// Handed over at second 2, after a claim at second 1, for a minute.
fn handed(ask_in: Option<u64>) -> Item {
    step(&step(&admitted(None), claim(), 1), over(60, ask_in), 2)
}

fn at(seconds: u64) -> Timestamp {
    Timestamp(0).after(seconds_of(seconds))
}

#[test]
fn an_item_that_is_handed_over_holds_nothing_and_its_attempt_stays_open() {
    let item = handed(None);
    assert_eq!(item.state, State::Waiting { due: at(62), cause: Some(Cause::Answer) });
    assert_eq!((item.attempt, item.failures, item.lane()), (1, 0, Lane::Answer));
    let known = item.handed.as_ref().expect("handed over");
    assert_eq!((known.since, known.at, known.until, known.worker), (at(1), at(2), at(62), WorkerId(3)));
    let case = Case {
        item: &item,
        attempts: &[],
        marks: &[],
        plan: Some(&plan(None)),
        children: ChildTally::default(),
        has_successor: false,
    };
    assert_eq!(check_item(&case), [], "no law is broken by it");
    let forgotten = Item { handed: None, ..item.clone() };
    let broken = check_item(&Case { item: &forgotten, ..case });
    assert!(broken.iter().any(|found| found.what.contains("was not handed over")), "{broken:?}");
}

#[test]
fn the_first_answer_ends_the_attempt_with_the_time_it_took() {
    let next = happens(&handed(None), Event::Answered(ItemReply::Output(None)), 30).expect("awaited");
    let record = next.record.expect("it ended");
    assert_eq!((record.attempt, record.outcome), (1, Outcome::Succeeded));
    assert_eq!((record.started_at, record.ended_at, record.worker), (at(1), at(30), WorkerId(3)));
    assert_eq!((next.after.state.clone(), next.after.handed.clone()), (State::Succeeded, None));
    assert!(happens(&next.after, Event::Answered(ItemReply::Output(None)), 31).is_err(), "a second one");
}

#[test]
fn a_failure_that_is_answered_goes_by_the_policy() {
    let said = |class| {
        let failure = Failure::new(class, Kind::Handler, "no");
        Event::Answered(ItemReply::Failed { failure, shared: false })
    };
    let again = step(&handed(None), said(Class::Retryable), 30);
    assert!(matches!(again.state, State::Waiting { cause: Some(Cause::Backoff), .. }));
    assert_eq!((again.failures, again.attempt, again.lane()), (1, 1, Lane::Retry));
    let dead = step(&handed(None), said(Class::Final), 30);
    assert_eq!(dead.state, State::Dead { reason: DeadReason::Final });
}

#[test]
fn an_answer_may_be_faster_than_the_word_that_the_item_was_handed_over() {
    let held = step(&admitted(None), claim(), 1);
    let token = AnswerToken::of(&held);
    assert!(token.is_open(&held));
    let answered = happens(&held, Event::Answered(ItemReply::Output(None)), 2).expect("it runs");
    assert_eq!(answered.record.expect("ended").worker, WorkerId(3));
    // What the worker then says is of a change number that is not the item's any more.
    let late = happens(&held, over(60, None), 3).expect("as it knew it");
    assert_eq!(late.guard, held.rev);
    assert_ne!(answered.after.rev, held.rev);
}

#[test]
fn a_token_fits_its_attempt_and_no_other() {
    let item = handed(None);
    let token = AnswerToken::of(&item);
    let failed = step(&step(&item, claim(), 70), Event::Unanswered, 70);
    assert!(!token.is_open(&failed));
    let again = step(&step(&failed, claim(), 90), over(60, None), 91);
    assert_eq!(again.attempt, 2);
    assert!(!token.is_open(&again) && AnswerToken::of(&again).is_open(&again));
    let elsewhere = Item { stage: StageNo(1), ..item.clone() };
    let sent_back = Item { generation: 1, ..item };
    assert!(!token.is_open(&elsewhere) && !token.is_open(&sent_back));
}

#[test]
fn asking_for_an_answer_costs_nothing_and_prolongs_nothing() {
    let mut item = handed(Some(5));
    for seconds in [7, 12, 17] {
        assert_eq!(item.state, State::Waiting { due: at(seconds), cause: Some(Cause::Answer) });
        let held = step(&item, claim(), seconds);
        assert_eq!(held.attempt, 1, "no attempt is begun by it");
        item = step(&held, over(60, Some(5)), seconds);
    }
    assert_eq!(item.handed.as_ref().expect("handed over").until, at(62));
    let last = step(&step(&item, claim(), 60), over(60, Some(5)), 60);
    assert_eq!(last.state, State::Waiting { due: at(62), cause: Some(Cause::Answer) });
    let broken_off = [Event::Released, Event::Interrupted, Event::LeaseExpired];
    for event in broken_off {
        let back = happens(&step(&item, claim(), 30), event, 31).expect("held");
        assert_eq!(back.record, None);
        assert_eq!((back.after.handed.as_ref(), back.after.attempt), (item.handed.as_ref(), 1));
    }
}

#[test]
fn a_missing_answer_is_a_timeout_under_the_policy_until_attempts_are_spent() {
    let mut item = admitted(None);
    for (n, begins) in [(1, 0), (2, 200), (3, 400)] {
        item = step(&step(&item, claim(), begins), over(60, None), begins + 1);
        let missed = happens(&step(&item, claim(), begins + 61), Event::Unanswered, begins + 61);
        let missed = missed.expect("it was awaited");
        let record = missed.record.as_ref().expect("ended");
        assert_eq!((record.attempt, record.outcome), (n, Outcome::Failed));
        assert_eq!(record.failure.as_ref().expect("failed").class, Class::Timeout);
        item = missed.after;
        assert_eq!((item.failures, item.handed.clone()), (n, None));
    }
    assert_eq!(item.state, State::Dead { reason: DeadReason::Exhausted });
    assert!(happens(&admitted(None), Event::Unanswered, 1).is_err(), "nothing was awaited");
}

#[test]
fn nothing_is_awaited_beyond_the_deadline_and_then_it_is_expired() {
    let plan = plan(Some(30 * SECOND));
    let moment = |seconds| Moment { now: at(seconds), draw: Draw::MIDDLE };
    let held = decide(&admitted(Some(at(30))), claim(), &plan, moment(1)).expect("due").after;
    let item = decide(&held, over(60, None), &plan, moment(2)).expect("held").after;
    assert_eq!(item.state, State::Waiting { due: at(30), cause: Some(Cause::Answer) });
    let held = decide(&item, claim(), &plan, moment(31)).expect("due").after;
    for event in [Event::Unanswered, Event::DeadlinePassed] {
        let next = decide(&held, event, &plan, moment(31)).expect("held");
        assert_eq!(next.after.state, State::Dead { reason: DeadReason::Expired });
        assert_eq!(next.record.expect("ended").outcome, Outcome::Failed);
    }
}

#[test]
fn whoever_takes_the_item_out_ends_its_attempt() {
    for event in [
        Event::CancelRequested,
        Event::Superseded(Gone::Newer),
        Event::Killed { why: "so".to_owned() },
        Event::ChildReopened { stage: StageNo(0) },
    ] {
        let next = happens(&handed(None), event, 9).expect("it waits");
        assert_eq!(next.record.expect("ended").outcome, Outcome::Cancelled);
        assert_eq!(next.after.handed, None);
        assert!(happens(&next.after, Event::Answered(ItemReply::Output(None)), 10).is_err());
    }
}

#[test]
fn an_answer_can_be_asked_for_sooner_and_is_awaited_as_long_as_before() {
    let item = handed(Some(30));
    let sooner = step(&item, Event::Rescheduled { due: at(4) }, 4);
    assert_eq!(sooner.state, State::Waiting { due: at(4), cause: Some(Cause::Answer) });
    assert_eq!(sooner.handed, item.handed);
    assert!(happens(&item, Event::Rescheduled { due: at(63) }, 4).is_err(), "nothing is awaited then");
}

#[test]
fn a_clock_that_is_put_back_awaits_the_answer_for_as_long_as_was_decided() {
    let item = step(&step(&admitted(None), claim(), 100_001), over(60, None), 100_002);
    let mended = happens(&item, Event::ClockSteppedBack, 50).expect("it is ahead").after;
    let known = mended.handed.as_ref().expect("handed over still");
    assert_eq!((known.at, known.until), (at(50), at(110)));
    assert_eq!(mended.state, State::Waiting { due: at(110), cause: Some(Cause::Answer) });
}
