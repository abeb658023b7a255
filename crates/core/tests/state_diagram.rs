//! The diagram in `docs/state-machine.md` is drawn by the code it describes.
//!
//! `UPDATE_DOCS=1 cargo test -p redrive-core --test state_diagram` writes it anew.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use redrive_core::answer::HandOver;
use redrive_core::decide::{Moment, decide};
use redrive_core::draw::Draw;
use redrive_core::event::{ChildTally, Event, Gone, ItemReply};
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ContentHash, ItemId, ItemSeq, Rev, RunId, StageNo, WorkerId};
use redrive_core::item::{DeadReason, Item, NewItem, State, StateKind};
use redrive_core::plan::{ChildFailure, Plan, StagePlan};
use redrive_core::policy::preset;
use redrive_core::time::Timestamp;

const NOW: Timestamp = Timestamp(1_000_000);

fn plan() -> Plan {
    let stage = |name: &str| StagePlan {
        name: name.to_owned(),
        next: None,
        first_child: None,
        owner: None,
        policy: preset("sample").expect("it is there").policy.clone(),
        timeout: Duration::from_secs(60),
        config: 0,
        child_failure: ChildFailure::Continue,
    };
    let mut parent = stage("split");
    parent.first_child = Some(StageNo(1));
    parent.next = Some(StageNo(2));
    let mut child = stage("embed");
    child.owner = Some(StageNo(0));
    let mut last = stage("fan_out");
    last.first_child = Some(StageNo(4));
    let mut leaf = stage("leaf");
    leaf.owner = Some(StageNo(3));
    Plan::new(vec![parent, child, stage("publish"), last, leaf], None)
}

fn item(state: State, stage: u16, failures: u32, crashes: u32) -> Item {
    let version = ContentHash::of(&[b"x"]);
    Item {
        seq: ItemSeq(1),
        id: ItemId::derive(RunId(1), None, "a", version),
        run: RunId(1),
        parent: None,
        key: "a".into(),
        version,
        origin: 1,
        reading: 1,
        stage: StageNo(stage),
        state,
        generation: 0,
        rev: Rev(7),
        attempt: failures + crashes + 1,
        failures,
        throttles: 0,
        crashes,
        earlier: 0,
        policy: None,
        handed: None,
        first_failed_at: None,
        failing_since: None,
        last: None,
        verdicts: redrive_core::verdict::Verdicts::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
        deadline: Some(Timestamp(2_000_000)),
    }
}

fn states() -> Vec<Item> {
    let running = State::Running { worker: WorkerId(1), since: Timestamp(0) };
    let mut items = vec![
        item(State::Waiting { due: Timestamp(0), cause: None }, 0, 0, 0),
        Item {
            updated_at: Timestamp(NOW.0 + 1),
            ..item(State::Waiting { due: Timestamp(0), cause: None }, 0, 0, 0)
        },
        item(State::Joining, 0, 0, 0),
        item(State::Joining, 3, 0, 0),
        item(State::Succeeded, 2, 0, 0),
        item(State::Filtered { reason: "r".into() }, 2, 0, 0),
        item(State::Superseded { was: StateKind::Waiting }, 0, 0, 0),
        item(State::Superseded { was: StateKind::Succeeded }, 0, 0, 0),
        item(State::Superseded { was: StateKind::Filtered }, 0, 0, 0),
        item(State::Cancelled, 0, 0, 0),
        item(State::Dead { reason: DeadReason::Final }, 2, 0, 0),
    ];
    for (stage, failures, crashes) in [(0, 0, 0), (2, 0, 0), (2, 2, 0), (2, 0, 4), (3, 0, 0)] {
        items.push(item(running.clone(), stage, failures, crashes));
    }
    items.extend([handed(0), handed(2)]);
    items
}

fn over() -> HandOver {
    HandOver { within: Duration::from_secs(60), ask_in: None, ticket: None, route: None }
}

/// An item of a stage whose answer is awaited.
fn handed(stage: u16) -> Item {
    let running = State::Running { worker: WorkerId(1), since: Timestamp(0) };
    let at = Moment { now: NOW, draw: Draw::MIDDLE };
    let event = Event::Finished(ItemReply::HandedOver(over()));
    decide(&item(running, stage, 0, 0), event, &plan(), at).expect("it can be handed over").after
}

fn events() -> Vec<(&'static str, Event)> {
    let failed = |class| {
        Event::Finished(ItemReply::Failed { failure: Failure::new(class, Kind::Server, "no"), shared: false })
    };
    let turned_away = |wait| {
        let failure = Failure::new(Class::Retryable, Kind::Server, "no");
        Event::Finished(ItemReply::TurnedAway { failure, wait })
    };
    let child = NewItem::new("c", *b"1", 0);
    vec![
        ("claimed", Event::Claimed { worker: WorkerId(2) }),
        ("passed", Event::Finished(ItemReply::Output(None))),
        ("filtered", Event::Finished(ItemReply::Filtered("r".into()))),
        ("expanded", Event::Finished(ItemReply::Children(vec![child]))),
        ("without children", Event::Finished(ItemReply::Children(Vec::new()))),
        ("failed", failed(Class::Retryable)),
        ("final failure", failed(Class::Final)),
        ("throttled", failed(Class::RateLimited)),
        ("crashed", failed(Class::Crash)),
        ("turned away", turned_away(Duration::from_secs(1))),
        ("handed over", Event::Finished(ItemReply::HandedOver(over()))),
        ("answered", Event::Answered(ItemReply::Output(None))),
        ("answer missing", Event::Unanswered),
        ("given back", Event::Released),
        ("interrupted", Event::Interrupted),
        ("lease expired", Event::LeaseExpired),
        ("deadline passed", Event::DeadlinePassed),
        ("content damaged", Event::ContentDamaged { what: "gone".into() }),
        ("clock back", Event::ClockSteppedBack),
        ("children done", Event::ChildrenSettled(ChildTally { done: 1, ..ChildTally::default() })),
        ("children dead", Event::ChildrenSettled(ChildTally { dead: 1, ..ChildTally::default() })),
        ("child reopened", Event::ChildReopened { stage: StageNo(0) }),
        ("run cancelled", Event::CancelRequested),
        ("newer version", Event::Superseded(Gone::Newer)),
        ("left the source", Event::Superseded(Gone::Removed)),
        ("stage reconfigured", Event::Reconfigured),
        ("changed back", Event::Restored { payload: Some((*b"1").into()) }),
        ("rescheduled", Event::Rescheduled { due: NOW.after(Duration::from_secs(7)) }),
        ("rerun", Event::Rerun { stage: StageNo(0), payload: (*b"1").into() }),
        ("redriven", Event::Redriven { due: NOW, payload: None, policy: None }),
        ("killed", Event::Killed { why: "so".into() }),
    ]
}

fn diagram() -> String {
    let plan = plan();
    let mut arrows: BTreeSet<(String, String, &str)> = BTreeSet::new();
    for item in states() {
        for (name, event) in events() {
            let at = Moment { now: NOW, draw: Draw::MIDDLE };
            // A stage that has no children to give cannot expand; that is a failure like any other.
            if name == "expanded" && item.stage == StageNo(2) {
                continue;
            }
            if let Ok(transition) = decide(&item, event, &plan, at) {
                assert_eq!(
                    transition.guard, item.rev,
                    "every transition is guarded by what it was decided for"
                );
                assert_eq!(transition.after.rev, item.rev.next(), "and moves the change number on");
                let (from, to) = (item.state.kind().name(), transition.after.state.kind().name());
                arrows.insert((from.to_owned(), to.to_owned(), name));
            }
        }
    }
    let mut text = String::from(
        "```mermaid\nstateDiagram-v2\n    [*] --> waiting: admitted\n    [*] --> dead: refused\n",
    );
    let mut pairs: Vec<(&str, &str)> = arrows.iter().map(|(from, to, _)| (&**from, &**to)).collect();
    pairs.dedup();
    for (from, to) in pairs {
        let names: Vec<&str> =
            arrows.iter().filter(|(f, t, _)| f == from && t == to).map(|(_, _, name)| *name).collect();
        text.push_str(&format!("    {from} --> {to}: {}\n", names.join(", ")));
    }
    text.push_str("```\n");
    text
}

#[test]
fn the_diagram_in_the_docs_is_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/state-machine.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let start = page.find("```mermaid").expect("it has a diagram");
    let end = start + page[start..].find("\n```\n").expect("that ends") + 5;
    let drawn = diagram();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let page = format!("{}{drawn}{}", &page[..start], &page[end..]);
        std::fs::write(&path, page).expect("it can be written");
        return;
    }
    assert_eq!(&page[start..end], drawn, "run it with UPDATE_DOCS=1 to draw the diagram anew");
}
