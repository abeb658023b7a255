//! Pipelines and stages that are paused.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_store::{
    Claim, OperationKind, OperationState, PauseAsk, PauseChange, PipelinePause, Store, WorkFilter, WorkQuery,
};

use crate::world::{SPLIT, World, new_operation};

fn pause(pipeline: &str, stage: Option<&str>, since: Timestamp, why: &str) -> PipelinePause {
    PipelinePause {
        pipeline: pipeline.to_owned(),
        stage: stage.map(str::to_owned),
        since,
        actor: "ann".to_owned(),
        why: why.to_owned(),
    }
}

async fn ask(world: &World, ask: PauseAsk) -> bool {
    let kind = match &ask {
        PauseAsk::Pause(_) => OperationKind::Pause,
        PauseAsk::Resume { .. } => OperationKind::Resume,
    };
    let by = redrive_store::Operation { state: OperationState::Done, ..new_operation(kind) };
    world.store.change_pause(PauseChange { ask, by }).await.expect("a change")
}

fn resume(pipeline: &str, stage: Option<&str>) -> PauseAsk {
    PauseAsk::Resume { pipeline: pipeline.to_owned(), stage: stage.map(str::to_owned) }
}

pub(crate) async fn what_is_paused_is_kept_with_who_said_so_until_it_goes_on(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    assert_eq!(world.store.pauses().await.expect("pauses"), redrive_store::Pauses::default());
    let (whole, stage) = (pause("p", None, world.now, "why"), pause("p", Some("s"), world.now, "a \"b\"\n"));
    let other = pause("o", Some("s"), world.now, "");
    for row in [&stage, &whole, &other] {
        assert!(ask(&world, PauseAsk::Pause(row.clone())).await);
    }
    let kept = world.store.pauses().await.expect("pauses");
    assert_eq!((kept.rev, kept.rows), (3, vec![other.clone(), whole.clone(), stage.clone()]));
    let again = pause("p", Some("s"), Timestamp(world.now.0 + 9), "better words");
    assert!(ask(&world, PauseAsk::Pause(again.clone())).await);
    assert!(!ask(&world, PauseAsk::Pause(again.clone())).await, "said twice it is nothing new");
    let kept = world.store.pauses().await.expect("pauses");
    let expected = PipelinePause { since: world.now, ..again };
    assert_eq!((kept.rev, &kept.rows[2]), (4, &expected), "paused since then, with the words said last");
    assert!(ask(&world, resume("p", None)).await && !ask(&world, resume("p", None)).await);
    assert!(!ask(&world, resume("p", Some("t"))).await && !ask(&world, resume("s", Some("p"))).await);
    let kept = world.store.pauses().await.expect("pauses");
    assert_eq!((kept.rev, kept.rows), (5, vec![other, expected]), "its stage is still paused by itself");
}

pub(crate) async fn every_pause_leaves_a_record_and_what_changes_nothing_leaves_none(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    ask(&world, PauseAsk::Pause(pause("p", None, world.now, "x"))).await;
    ask(&world, PauseAsk::Pause(pause("p", None, world.now, "x"))).await;
    ask(&world, resume("p", None)).await;
    ask(&world, resume("p", None)).await;
    let kept = world.store.operations(None, 9).await.expect("operations");
    let kinds: Vec<_> = kept.iter().map(|operation| (operation.kind, operation.state)).collect();
    assert_eq!(
        kinds,
        [(OperationKind::Resume, OperationState::Done), (OperationKind::Pause, OperationState::Done)]
    );
    assert_eq!(world.store.open_operations(None, 9).await.expect("operations"), []);
}

pub(crate) async fn who_does_not_know_of_a_pause_gets_nothing_and_is_told(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let claim =
        |pauses| Claim { worker: world.worker, slots: vec![world.slot(SPLIT, 1)], pauses, now: world.now };
    ask(&world, PauseAsk::Pause(pause("elsewhere", None, world.now, ""))).await;
    for unaware in [0, 2, -1] {
        let got = world.store.claim(claim(unaware)).await.expect("claim");
        assert!(got.unaware && got.items.is_empty() && got.next_due.is_none(), "{unaware}: {got:?}");
    }
    let got = world.store.claim(claim(1)).await.expect("claim");
    assert!(!got.unaware && got.items.len() == 1, "what is paused is for whoever asks to know: {got:?}");
    ask(&world, resume("elsewhere", None)).await;
    assert!(world.store.claim(claim(1)).await.expect("claim").unaware, "that it goes on is a change, too");
    assert_eq!(world.store.claim(claim(2)).await.expect("claim").items.len(), 1);
}

pub(crate) async fn a_paused_pipeline_can_be_left_out_of_the_list_of_work(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a"]).await;
    let listed = async |but: &[&str]| {
        let but_pipelines = but.iter().map(|name| (*name).to_owned()).collect();
        let filter = WorkFilter { but_pipelines, ..WorkFilter::default() };
        let query = WorkQuery { filter, after: None, limit: 9, looks: 9, later: false, now: world.now };
        world.store.work_list(query).await.expect("a list").runs.len()
    };
    let name = world.store.run(world.run).await.expect("run").expect("there").spec.pipeline;
    assert_eq!((listed(&[]).await, listed(&["another"]).await), (1, 1));
    assert_eq!(listed(&["another", &name]).await, 0);
}
