//! What workers and processes share about dependencies.

use std::sync::Arc;

use redrive_core::time::Timestamp;
use redrive_store::{Applied, GateRow, Prune, RunChange, Store};

use crate::world::{START, World};

/// Names that a store must neither fold, trim nor order in its own way.
pub(crate) const ODD_NAMES: [&str; 12] = [
    "",
    " ",
    "LLM",
    "llm",
    "llm ",
    "a.b:c/d",
    "it's \"quoted\"; DROP TABLE gate",
    "%_",
    "Stra\u{df}e",
    "e\u{301}",
    "\u{e9}",
    "\u{1f6a6}\u{fe0f}",
];

fn gate(name: &str, rev: i64, state: &str) -> GateRow {
    GateRow { name: name.to_owned(), rev, state: state.to_owned(), updated_at: START }
}

async fn save(store: &dyn Store, gates: &[GateRow]) -> Vec<Applied> {
    store.save_gates(gates.to_vec()).await.expect("save gates")
}

async fn gates(store: &dyn Store) -> Vec<GateRow> {
    store.gates().await.expect("gates")
}

pub(crate) async fn a_new_gate_is_written_once(store: Arc<dyn Store>) {
    assert_eq!(gates(&*store).await, []);
    assert_eq!(save(&*store, &[]).await, []);
    assert_eq!(save(&*store, &[gate("llm", 0, "{}")]).await, [Applied::Done]);
    assert_eq!(gates(&*store).await, [gate("llm", 1, "{}")]);
    assert_eq!(save(&*store, &[gate("llm", 0, "late")]).await, [Applied::Stale]);
    assert_eq!(gates(&*store).await, [gate("llm", 1, "{}")], "nothing of the late one was written");
}

pub(crate) async fn a_gate_changes_under_its_change_number(store: Arc<dyn Store>) {
    for rev in 0..5 {
        let row = GateRow { updated_at: Timestamp(START.0 - rev), ..gate("llm", rev, &rev.to_string()) };
        assert_eq!(save(&*store, std::slice::from_ref(&row)).await, [Applied::Done]);
        assert_eq!(gates(&*store).await, [GateRow { rev: rev + 1, ..row }]);
    }
    let before = gates(&*store).await;
    for rev in [-1, 0, 1, 4, 6, i64::MAX, i64::MIN] {
        assert_eq!(save(&*store, &[gate("llm", rev, "stale")]).await, [Applied::Stale], "{rev}");
    }
    assert_eq!(gates(&*store).await, before);
}

pub(crate) async fn a_gate_that_is_not_there_is_not_changed(store: Arc<dyn Store>) {
    for rev in [1, 7, -1] {
        assert_eq!(save(&*store, &[gate("gone", rev, "{}")]).await, [Applied::Stale], "{rev}");
    }
    assert_eq!(gates(&*store).await, []);
}

pub(crate) async fn gates_are_judged_one_after_the_other(store: Arc<dyn Store>) {
    let both = [gate("a", 0, "first"), gate("a", 0, "second"), gate("a", 1, "third"), gate("a", 1, "fourth")];
    let expected = [Applied::Done, Applied::Stale, Applied::Done, Applied::Stale];
    assert_eq!(save(&*store, &both).await, expected);
    assert_eq!(gates(&*store).await, [gate("a", 2, "third")]);
}

pub(crate) async fn answers_come_in_the_order_given_and_gates_by_name(store: Arc<dyn Store>) {
    assert_eq!(save(&*store, &[gate("m", 0, "")]).await, [Applied::Done]);
    let some =
        [gate("z", 0, "z"), gate("m", 0, "no"), gate("a", 0, "a"), gate("k", 3, "no"), gate("m", 1, "m")];
    let expected = [Applied::Done, Applied::Stale, Applied::Done, Applied::Stale, Applied::Done];
    assert_eq!(save(&*store, &some).await, expected);
    assert_eq!(gates(&*store).await, [gate("a", 1, "a"), gate("m", 2, "m"), gate("z", 1, "z")]);
}

pub(crate) async fn odd_names_are_names_of_their_own(store: Arc<dyn Store>) {
    let new: Vec<GateRow> = ODD_NAMES.iter().map(|name| gate(name, 0, name)).collect();
    assert_eq!(save(&*store, &new).await, [Applied::Done; ODD_NAMES.len()]);
    let mut names = ODD_NAMES;
    names.sort_unstable();
    let kept: Vec<GateRow> = names.iter().map(|name| gate(name, 1, name)).collect();
    assert_eq!(gates(&*store).await, kept, "in the order of their bytes");
    for (n, name) in ODD_NAMES.into_iter().enumerate() {
        assert_eq!(save(&*store, &[gate(name, 1, "changed")]).await, [Applied::Done]);
        let changed = gates(&*store).await.iter().filter(|gate| gate.state == "changed").count();
        assert_eq!(changed, n + 1, "{name:?} and no other");
    }
}

pub(crate) async fn many_gates_and_large_states_come_back(store: Arc<dyn Store>) {
    let large = |n: u8| char::from(b'a' + n % 26).to_string().repeat(100_000);
    let many: Vec<GateRow> = (0..500).map(|n| gate(&format!("gate {n:03}"), 0, &n.to_string())).collect();
    assert_eq!(save(&*store, &many).await, [Applied::Done; 500]);
    let grown: Vec<GateRow> = (0..20).map(|n| gate(&format!("gate {n:03}"), 1, &large(n))).collect();
    assert_eq!(save(&*store, &grown).await, [Applied::Done; 20]);
    let kept = gates(&*store).await;
    assert_eq!(kept.len(), 500);
    for (n, row) in (0_u16..).zip(&kept) {
        let (rev, state) = match u8::try_from(n) {
            Ok(n) if n < 20 => (2, large(n)),
            _ => (1, n.to_string()),
        };
        assert_eq!((row.name.as_str(), row.rev), (format!("gate {n:03}").as_str(), rev));
        assert_eq!(row.state, state);
    }
}

pub(crate) async fn rivals_for_one_gate_have_one_winner(store: Arc<dyn Store>) {
    const RIVALS: usize = 16;
    for rev in 0..10 {
        let running: Vec<_> = (0..RIVALS)
            .map(|rival| {
                let store = store.clone();
                tokio::spawn(async move { save(&*store, &[gate("llm", rev, &rival.to_string())]).await })
            })
            .collect();
        let mut winners = Vec::new();
        for (rival, one) in running.into_iter().enumerate() {
            if one.await.expect("a rival") == [Applied::Done] {
                winners.push(rival.to_string());
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        assert_eq!(gates(&*store).await, [gate("llm", rev + 1, &winners[0])]);
    }
}

pub(crate) async fn gates_outlive_the_runs_that_used_them(store: Arc<dyn Store>) {
    let world = World::new(store.clone()).await;
    world.bury(&["a"], "no").await;
    assert_eq!(save(&*store, &[gate("llm", 0, "{}")]).await, [Applied::Done]);
    let finished = RunChange::finished(START);
    store.change_run(world.run, finished).await.expect("change");
    let pruned = store
        .prune(Prune { finished_before: Timestamp::MAX, with_dead: true, only: None, limit: 99 }, None)
        .await
        .expect("prune");
    assert_eq!(pruned.runs, 1);
    assert_eq!(gates(&*store).await, [gate("llm", 1, "{}")]);
}
