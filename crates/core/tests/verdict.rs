//! What becomes of verdicts, whatever happens to an item.

use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{ChildTally, Event, Gone, ItemReply, Transition};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, ItemId, ItemSeq, RunId, StageNo, WorkerId};
use redrive_core::item::{Entry, Item, NewItem, Payload, State, StateKind};
use redrive_core::laws::{Case, Census, Law, check_item};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::Policy;
use redrive_core::tally::{Counter, Deltas, Metric};
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict::{self, Failed, NeedsReview, Passed};

/// first → split (children: part) → last
fn plan() -> Plan {
    let stage = |name: &str, next, first_child, owner| StagePlan {
        name: name.to_owned(),
        next,
        first_child,
        owner,
        policy: Policy::default(),
        timeout: Duration::from_secs(60),
        config: 1,
        child_failure: ChildFailure::Continue,
    };
    let stages = vec![
        stage("first", Some(StageNo(1)), None, None),
        stage("split", Some(StageNo(3)), Some(StageNo(2)), None),
        stage("part", None, None, Some(StageNo(1))),
        stage("last", None, None, None),
    ];
    Plan::new(stages, None)
}

/// An item with everything that happened to it, counted as stores count.
struct Life {
    item: Item,
    happened: Vec<Transition>,
    deltas: Deltas,
}

impl Life {
    fn new() -> Self {
        let (run, new) = (RunId(1), NewItem::new("a", payload(), 0));
        let version = ContentHash::of(&[&new.payload]);
        let entry =
            Entry { run, parent: None, stage: StageNo(0), reading: 1, deadline: None, now: Timestamp(0) };
        let item = entry.item(&new, ItemSeq(1), ItemId::derive(run, None, "a", version), version);
        let mut deltas = Deltas::default();
        deltas.admitted(&item);
        Self { item, happened: Vec::new(), deltas }
    }

    fn happens(&mut self, event: Event) -> &mut Self {
        let at = Moment { now: Timestamp(self.item.updated_at.0 + 1), draw: Draw::MIDDLE };
        let next = decide(&self.item, event, &plan(), at).expect("legal");
        match self.item.state.kind() {
            StateKind::Waiting if next.after.state.kind() == StateKind::Running => {
                self.deltas.claimed(self.item.run, self.item.stage, 1);
            }
            _ => self.deltas.transition(&next),
        }
        self.item = next.after.clone();
        self.happened.push(next);
        self
    }

    /// Claims it and has the handler say this.
    fn hears(&mut self, reply: ItemReply) -> &mut Self {
        self.happens(Event::Claimed { worker: WorkerId(1) }).happens(Event::Finished(reply))
    }

    fn passes(&mut self, verdict: Option<Verdict>) -> &mut Self {
        self.hears(match verdict {
            Some(verdict) => ItemReply::Judged(verdict, Some(payload())),
            None => ItemReply::Output(None),
        })
    }

    /// Goes through all stages, which find this.
    fn whole(verdicts: [Option<Verdict>; 3]) -> Self {
        let mut life = Self::new();
        for verdict in verdicts {
            life.passes(verdict);
        }
        assert_eq!(life.item.state, State::Succeeded);
        life
    }

    fn counted(&self) -> Vec<Counter> {
        let all = self.deltas.iter().map(|((_, stage, metric), n)| Counter { stage, metric, n });
        all.collect()
    }

    fn obeys_the_laws(&self) {
        let attempts: Vec<_> = self.happened.iter().filter_map(|next| next.record.clone()).collect();
        let marks: Vec<_> = self.happened.iter().filter_map(|next| next.mark.clone()).collect();
        let plan = plan();
        let children = ChildTally::default();
        let case = Case {
            item: &self.item,
            attempts: &attempts,
            marks: &marks,
            plan: Some(&plan),
            children,
            has_successor: true,
        };
        let of_verdicts = |law: Law| matches!(law, Law::L1 | Law::L2 | Law::L3 | Law::L5);
        let broken: Vec<_> = check_item(&case).into_iter().filter(|found| of_verdicts(found.law)).collect();
        assert_eq!(broken, []);
        let mut census = Census::default();
        census.observe(&self.item, &attempts);
        assert_eq!(census.compare(self.item.run, &self.counted()), []);
    }
}

fn payload() -> Payload {
    Payload::from(&b"{}"[..])
}

fn failure() -> ItemReply {
    ItemReply::Failed { failure: Failure::new(Class::Final, Kind::Handler, "no"), shared: false }
}

#[test]
fn the_last_stage_that_gives_a_verdict_wins() {
    for (said, expected) in [
        ([None, None, None], None),
        ([Some(Failed), None, None], Some(Failed)),
        ([Some(Failed), Some(NeedsReview), None], Some(NeedsReview)),
        ([Some(Failed), None, Some(Passed)], Some(Passed)),
    ] {
        let life = Life::whole(said);
        assert_eq!(life.item.verdict(), expected, "{said:?}");
        life.obeys_the_laws();
        let of_verdicts =
            life.counted().into_iter().filter(|counter| matches!(counter.metric, Metric::Verdict(_)));
        let expected: Vec<_> =
            expected.map(|verdict| (StageNo(3), Metric::Verdict(verdict), 1)).into_iter().collect();
        assert_eq!(
            of_verdicts.map(|counter| (counter.stage, counter.metric, counter.n)).collect::<Vec<_>>(),
            expected
        );
    }
}

#[test]
fn an_item_on_its_way_has_no_verdict_yet() {
    let mut life = Life::new();
    life.passes(Some(Failed));
    assert_eq!((life.item.state.kind(), life.item.verdict()), (StateKind::Waiting, None));
    life.obeys_the_laws();
    life.hears(failure());
    assert_eq!((life.item.state.kind(), life.item.verdict()), (StateKind::Dead, None));
    life.obeys_the_laws();
}

#[test]
fn a_failed_verdict_is_a_success() {
    let life = Life::whole([None, None, Some(Failed)]);
    assert_eq!(life.item.state, State::Succeeded);
    let last = life.happened.last().expect("something happened");
    assert!(last.record.as_ref().is_some_and(|record| record.outcome.is_pass() && record.failure.is_none()));
}

#[test]
fn a_rerun_forgets_what_its_stage_and_later_ones_said_and_the_history_keeps_it() {
    for (stage, left) in [(0, None), (1, Some(NeedsReview)), (3, Some(Failed))] {
        let mut life = Life::whole([Some(NeedsReview), Some(Failed), Some(Passed)]);
        life.happens(Event::Rerun { stage: StageNo(stage), payload: payload() });
        assert_eq!((life.item.verdict(), life.item.verdicts.last()), (None, left), "from stage {stage}");
        life.obeys_the_laws();
        let said = life.happened.iter().filter_map(|next| next.record.as_ref()?.verdict).collect::<Vec<_>>();
        assert_eq!(said, [NeedsReview, Failed, Passed]);
        while life.item.state != State::Succeeded {
            life.passes(None);
        }
        assert_eq!(life.item.verdict(), left, "no stage says another thing this time");
        life.obeys_the_laws();
    }
}

#[test]
fn a_redrive_keeps_what_the_stages_before_said() {
    let mut life = Life::new();
    life.passes(Some(NeedsReview)).hears(failure());
    life.happens(Event::Redriven { due: Timestamp(0), payload: None, policy: None })
        .passes(None)
        .passes(None);
    assert_eq!(life.item.verdict(), Some(NeedsReview));
    life.obeys_the_laws();
}

#[test]
fn a_child_that_lives_again_takes_back_what_was_said_after_the_join() {
    let mut life = Life::new();
    life.passes(Some(NeedsReview)).hears(ItemReply::Children(vec![NewItem::new("c", payload(), 0)]));
    let done = ChildTally { done: 1, ..ChildTally::default() };
    life.happens(Event::ChildrenSettled(done)).passes(Some(Passed));
    assert_eq!(life.item.verdict(), Some(Passed));
    life.happens(Event::ChildReopened { stage: StageNo(1) });
    assert_eq!((life.item.state.clone(), life.item.verdicts.last()), (State::Joining, Some(NeedsReview)));
    life.happens(Event::ChildrenSettled(done)).passes(None);
    assert_eq!(life.item.verdict(), Some(NeedsReview));
    life.obeys_the_laws();
}

#[test]
fn what_had_ended_has_its_verdict_again_when_its_content_is_back() {
    let mut life = Life::whole([None, Some(Failed), None]);
    life.happens(Event::Superseded(Gone::Newer));
    assert_eq!(life.item.verdict(), None, "it is not what the source has");
    life.obeys_the_laws();
    life.happens(Event::Restored { payload: Some(payload()) });
    assert_eq!((life.item.state.clone(), life.item.verdict()), (State::Succeeded, Some(Failed)));
    let mut anew = Life::whole([None, Some(Failed), None]);
    anew.happens(Event::Superseded(Gone::Reconfigured));
    anew.obeys_the_laws();
    anew.happens(Event::Restored { payload: Some(payload()) });
    assert_eq!((anew.item.stage, anew.item.verdicts.last()), (StageNo(0), None), "it is read again");
    anew.obeys_the_laws();
}

#[test]
fn a_reused_output_brings_its_verdict() {
    let mut life = Life::new();
    life.passes(None).passes(None).hears(ItemReply::Reused(payload(), Some(NeedsReview)));
    assert_eq!(life.item.verdict(), Some(NeedsReview));
    life.obeys_the_laws();
}

#[test]
fn a_verdict_that_no_attempt_gave_breaks_a_law() {
    let mut life = Life::whole([None, None, Some(Passed)]);
    life.item.verdicts.found(StageNo(3), Some(Failed));
    let attempts: Vec<_> = life.happened.iter().filter_map(|next| next.record.clone()).collect();
    let plan = plan();
    let case = Case {
        item: &life.item,
        attempts: &attempts,
        marks: &[],
        plan: Some(&plan),
        children: ChildTally::default(),
        has_successor: false,
    };
    let broken = check_item(&case);
    assert!(broken.iter().any(|found| found.law == Law::L3 && found.what.contains("verdict")), "{broken:?}");
    let mut census = Census::default();
    census.observe(&life.item, &attempts);
    let differ = census.compare(life.item.run, &life.counted());
    assert_eq!(differ.len(), 2, "one kept too many, one too few: {differ:?}");
}
