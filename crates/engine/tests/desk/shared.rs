//! What desks share about gates through the store.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::budget::SharedBudget;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::{GateSpec, GateState};
use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Answer, Reply};
use redrive_engine::recipe::Recipe;
use redrive_engine::worker::Desk;
use redrive_store::{Applied, Error, GateRow};

use crate::{NOW, claim, claimed, gated, passes, server_error};

/// The gates as a store would keep them.
#[derive(Default)]
struct Kept(Vec<GateRow>);

impl Kept {
    fn save(&mut self, rows: Vec<GateRow>) -> Vec<Applied> {
        let save = |row: GateRow| {
            let at = self.0.iter().position(|kept| kept.name == row.name);
            if at.map_or(0, |at| self.0[at].rev) != row.rev {
                return Applied::Stale;
            }
            let row = GateRow { rev: row.rev + 1, ..row };
            match at {
                Some(at) => self.0[at] = row,
                None => self.0.push(row),
            }
            Applied::Done
        };
        rows.into_iter().map(save).collect()
    }

    fn state(&self) -> GateState {
        GateState::read(&self.0[0].state).expect("readable")
    }
}

fn worker(name: &str, recipe: &Arc<Recipe>, kept: &Kept, now: Timestamp) -> Desk {
    let live = ["w1".to_owned(), "w2".to_owned()];
    Desk::new(RunId(1), recipe.clone(), SharedBudget::default())
        .with_gates(name, &live, &kept.0, now)
        .expect("readable")
}

fn save(desk: &mut Desk, kept: &mut Kept, now: Timestamp) {
    if desk.gates().is_stale() {
        desk.gates().hear(&kept.0, now).expect("readable");
    }
    let rows = desk.gates().to_save(now);
    let applied = kept.save(rows.clone());
    desk.gates().saved(&rows, Some(&applied), now);
}

/// Has one item called for, with this answer.
fn call(desk: &mut Desk, n: i64, answer: Option<Answer>, now: Timestamp) {
    claim(desk, vec![claimed(n)], now);
    let call = desk.next_calls(now).remove(0);
    let answer = answer.unwrap_or_else(|| passes(&call).into());
    desk.finished(call.id, answer, now);
}

fn asks_for_ten_years() -> Answer {
    let ten_years = Duration::from_secs(315_360_000);
    let failure = Failure::new(Class::RateLimited, Kind::Client, "go away").with_hint(Some(ten_years));
    Reply::Whole(failure).into()
}

#[test]
fn the_size_that_passes_outlives_the_worker_that_found_it() {
    let recipe = Arc::new(gated(8, 1, &[GateSpec::default()]));
    let mut kept = Kept::default();
    let mut desk = worker("w1", &recipe, &kept, NOW);
    claim(&mut desk, (1..=8).map(claimed).collect(), NOW);
    let mut open = desk.next_calls(NOW);
    while let Some(call) = open.pop() {
        let reply = if call.request.items.len() > 2 { server_error() } else { passes(&call) };
        desk.finished(call.id, reply.into(), NOW);
        open.extend(desk.next_calls(NOW));
    }
    save(&mut desk, &mut kept, NOW);
    let mut next = worker("w2", &recipe, &kept, NOW);
    claim(&mut next, (11..=18).map(claimed).collect(), NOW);
    assert_eq!(next.next_calls(NOW)[0].request.items.len(), 2);
}

#[test]
fn a_hint_outlives_the_worker_that_was_told() {
    let cap = Duration::from_secs(30);
    let recipe = Arc::new(gated(1, 1, &[GateSpec { hint_cap: cap, ..GateSpec::default() }]));
    let mut kept = Kept::default();
    let mut desk = worker("w1", &recipe, &kept, NOW);
    call(&mut desk, 1, Some(asks_for_ten_years()), NOW);
    save(&mut desk, &mut kept, NOW);
    let next = worker("w2", &recipe, &kept, NOW);
    assert!(next.wants(Timestamp(29_999)).is_empty());
    assert!(!next.wants(Timestamp(30_000)).is_empty(), "no longer than it may ask for");
}

#[test]
fn a_gate_that_one_worker_tried_out_is_not_parked_again_by_another() {
    let cap = Duration::from_secs(30);
    let recipe = Arc::new(gated(1, 1, &[GateSpec { hint_cap: cap, ..GateSpec::default() }]));
    let mut kept = Kept::default();
    let mut first = worker("w1", &recipe, &kept, NOW);
    call(&mut first, 1, Some(asks_for_ten_years()), NOW);
    save(&mut first, &mut kept, NOW);
    let second = worker("w2", &recipe, &kept, NOW);
    let later = Timestamp(30_000);
    call(&mut first, 2, None, later);
    save(&mut first, &mut kept, later);
    assert_eq!(kept.state().parked, None, "it was tried out");
    second.gates().hear(&kept.0, later).expect("readable");
    assert_eq!(kept.save(second.gates().leave(later)), [Applied::Done]);
    assert_eq!(kept.state().parked, None, "and stays so");
}

#[test]
fn a_call_is_counted_once_when_the_answer_to_a_save_is_lost() {
    let recipe = Arc::new(gated(1, 1, &[GateSpec::default()]));
    let mut kept = Kept::default();
    let mut desk = worker("w1", &recipe, &kept, NOW);
    call(&mut desk, 1, None, NOW);
    let later = Timestamp(2_000);
    let rows = desk.gates().to_save(later);
    assert_eq!(kept.save(rows.clone()), [Applied::Done]);
    desk.gates().saved(&rows, None, later);
    assert!(desk.gates().is_stale());
    call(&mut desk, 2, None, later);
    save(&mut desk, &mut kept, Timestamp(4_000));
    assert_eq!(kept.state().totals.calls, 2);
}

#[test]
fn a_worker_that_has_to_leave_twice_is_counted_once() {
    let recipe = Arc::new(gated(1, 1, &[GateSpec::default(), GateSpec::default()]));
    let mut kept = Kept::default();
    let mut desk = worker("w1", &recipe, &kept, NOW);
    call(&mut desk, 1, None, NOW);
    let other = kept.save(vec![GateRow {
        name: "g1".to_owned(),
        rev: 0,
        state: GateState::default().write(),
        updated_at: NOW,
    }]);
    assert_eq!(other, [Applied::Done]);
    let rows = desk.gates().leave(NOW);
    let applied = kept.save(rows.clone());
    assert_eq!(applied, [Applied::Done, Applied::Stale]);
    desk.gates().saved(&rows, Some(&applied), NOW);
    desk.gates().mark_stale();
    desk.gates().hear(&kept.0, NOW).expect("readable");
    assert_eq!(kept.save(desk.gates().leave(NOW)), [Applied::Done; 2]);
    let state =
        kept.0.iter().find(|row| row.name == "g0").map(|row| GateState::read(&row.state).expect("readable"));
    assert_eq!(state.map(|state| state.totals.calls), Some(1));
}

#[test]
fn a_pause_that_only_a_newer_version_knows_is_not_lifted() {
    let recipe = Arc::new(gated(1, 1, &[GateSpec::default()]));
    let mut kept = Kept::default();
    let desk = worker("w1", &recipe, &kept, NOW);
    let mut state = GateState::default();
    state.stop("looked into".to_owned(), NOW);
    let text = state.write().replace("operator", "budget_of_the_team");
    let row = GateRow { name: "g0".to_owned(), rev: 0, state: text.clone(), updated_at: NOW };
    assert_eq!(kept.save(vec![row]), [Applied::Done]);
    assert!(matches!(desk.gates().hear(&kept.0, NOW), Err(Error::Unreadable { .. })));
    let saved = kept.save(desk.gates().leave(NOW));
    assert!(saved.iter().all(|saved| *saved == Applied::Stale), "nothing is written over it: {saved:?}");
    assert_eq!(kept.0[0].state, text);
    let live = ["w2".to_owned()];
    let late = Desk::new(RunId(1), recipe, SharedBudget::default()).with_gates("w2", &live, &kept.0, NOW);
    assert!(matches!(late.map(drop), Err(Error::Unreadable { .. })));
}
