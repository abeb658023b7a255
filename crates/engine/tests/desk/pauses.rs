//! What a desk does when somebody pauses a stage.

use redrive_core::draw::Draw;
use redrive_core::gate::GateSpec;
use redrive_core::id::StageNo;
use redrive_core::item::State;
use redrive_core::time::Timestamp;
use redrive_engine::worker::{NeedsSomebody, PausesHeard};
use redrive_store::{Pauses, PipelinePause};

use crate::{NOW, claimed, desk, gated, passes};

fn paused(rev: i64, stages: &[Option<&str>]) -> Pauses {
    let row = |stage: &Option<&str>| PipelinePause {
        pipeline: "p".to_owned(),
        stage: stage.map(str::to_owned),
        since: Timestamp(1),
        actor: "ann".to_owned(),
        why: "so".to_owned(),
    };
    Pauses { rev, rows: stages.iter().map(row).collect() }
}

fn asked(wants: &[redrive_store::Slot]) -> Vec<u16> {
    wants.iter().map(|slot| slot.stage.0).collect()
}

#[test]
fn a_paused_stage_asks_for_nothing_and_gives_back_what_was_not_begun() {
    let recipe = std::sync::Arc::new(gated(1, 2, &[GateSpec::default(), GateSpec::default()]));
    // Two are called for, two wait for a place.
    let mut desk = desk(&recipe, (1..=4).map(claimed).collect()).of_pipeline("p");
    let calls = desk.next_calls(NOW);
    assert_eq!(calls.len(), 2);
    let heard = desk.hear_pauses(&paused(7, &[Some("s0")]));
    assert_eq!((heard.paused.len(), heard.resumed.len(), desk.pauses_known()), (1, 0, 7));
    assert_eq!(asked(&desk.wants(NOW)), [1], "the other stage goes on");
    assert_eq!(desk.blocked(StageNo(0), NOW).expect("blocked").needs_somebody, Some(NeedsSomebody::Operator));
    assert_eq!(desk.blocked(StageNo(1), NOW), None);
    let released = desk.commit(NOW, || Draw::MIDDLE).expect("two are given back");
    let given_back = |change: &redrive_store::Change| {
        let after = &change.transition.after;
        matches!(after.state, State::Waiting { .. })
            && after.attempt == 0
            && change.transition.record.is_none()
    };
    assert!(released.changes.len() == 2 && released.changes.iter().all(given_back), "{released:?}");
    desk.committed(&[redrive_store::Applied::Done; 2]);
    for call in &calls {
        desk.finished(call.id, passes(call).into(), NOW);
    }
    let ended = desk.commit(NOW, || Draw::MIDDLE).expect("what ran is finished");
    assert!(ended.changes.iter().all(|change| change.transition.after.stage == StageNo(1)), "{ended:?}");
    assert_eq!(desk.places_held(StageNo(0)), 0, "it holds no place");
    let heard = desk.hear_pauses(&paused(8, &[]));
    assert_eq!((heard.paused.len(), heard.resumed.len()), (0, 1));
    assert_eq!(asked(&desk.wants(NOW)), [1, 0]);
}

#[test]
fn a_paused_pipeline_stops_every_stage_and_others_pauses_none() {
    let recipe = std::sync::Arc::new(gated(1, 2, &[GateSpec::default(), GateSpec::default()]));
    let mut desk = desk(&recipe, Vec::new()).of_pipeline("q");
    let heard = desk.hear_pauses(&paused(1, &[None, Some("s0")]));
    assert_eq!((heard, desk.wants(NOW).len(), desk.any_paused()), (PausesHeard::default(), 2, false));
    let mut desk = desk.of_pipeline("p");
    desk.hear_pauses(&paused(1, &[None]));
    assert!(desk.wants(NOW).is_empty() && desk.is_paused(StageNo(0)) && desk.is_paused(StageNo(1)));
}
