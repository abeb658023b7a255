//! Operations on many items, and changes to runs.

use std::sync::Arc;

use redrive_core::id::{ItemSeq, OperationId, RunId};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Error, Operation, OperationKind, OperationState, RunChange, Store};

use crate::world::{START, World, new_operation};

pub(crate) async fn a_saved_operation_gets_a_number(store: Arc<dyn Store>) {
    assert_eq!(store.operations(9).await, Ok(Vec::new()));
    let mut ids = Vec::new();
    for kind in [OperationKind::Redrive, OperationKind::Purge, OperationKind::Cancel] {
        ids.push(store.save_operation(new_operation(kind)).await.expect("saved"));
    }
    assert!(ids[0].0 > 0 && ids[0] < ids[1] && ids[1] < ids[2]);
    let newest = store.operations(2).await.expect("operations");
    assert_eq!(newest.iter().map(|operation| operation.id).collect::<Vec<_>>(), [ids[2], ids[1]]);
    assert_eq!(newest[0], Operation { id: ids[2], ..new_operation(OperationKind::Cancel) });
}

pub(crate) async fn progress_replaces_the_operation(store: Arc<dyn Store>) {
    let id = store.save_operation(new_operation(OperationKind::Redrive)).await.expect("saved");
    let progress = Operation {
        id,
        state: OperationState::Cancelled,
        after: Some(ItemSeq(17)),
        changed: 15,
        skipped: 2,
        request: "{\"a\":1}".to_owned(),
        updated_at: Timestamp(START.0 + 5),
        ..new_operation(OperationKind::Redrive)
    };
    assert_eq!(store.save_operation(progress.clone()).await, Ok(id));
    assert_eq!(store.operations(9).await, Ok(vec![progress]));
    let next = store.save_operation(new_operation(OperationKind::Purge)).await.expect("saved");
    assert_ne!(next, OperationId(0));
    assert_ne!(next, id);
}

pub(crate) async fn runs_change_as_told(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let change = |change| world.store.change_run(world.run, change);
    let text = |text: &str| Some(text.to_owned());
    let control = Some((Control::PausedBudget, text("too many")));
    let row =
        change(RunChange { control, budget: text("{}"), ..RunChange::default() }).await.expect("change");
    assert_eq!(
        (row.control, row.reason.clone(), row.budget.clone()),
        (Control::PausedBudget, text("too many"), text("{}"))
    );
    let row = change(RunChange { definition: text("new"), ..RunChange::default() }).await.expect("change");
    assert_eq!(
        (row.control, row.reason.clone(), row.budget.clone()),
        (Control::PausedBudget, text("too many"), text("{}"))
    );
    assert_eq!(row.spec.definition, "new");
    let control = Some((Control::Go, None));
    let row = change(RunChange { control, ..RunChange::default() }).await.expect("change");
    assert_eq!((row.control, row.reason), (Control::Go, None));
    let finished_at = Some(Some(START));
    let row = change(RunChange { finished_at, ..RunChange::default() }).await.expect("change");
    assert_eq!(row.finished_at, Some(START));
    let row = change(RunChange::default()).await.expect("change");
    assert_eq!(row.finished_at, Some(START));
    let row = change(RunChange { finished_at: Some(None), ..RunChange::default() }).await.expect("change");
    assert_eq!(row.finished_at, None);
    assert_eq!(world.store.run(world.run).await, Ok(Some(row)));
}

pub(crate) async fn unknown_runs_do_not_change(store: Arc<dyn Store>) {
    let changed = store.change_run(RunId(4_711), RunChange::default()).await;
    assert!(matches!(changed, Err(Error::NotFound(_))));
    assert_eq!(store.run(RunId(4_711)).await, Ok(None));
}
