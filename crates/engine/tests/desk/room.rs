//! Stages whose handler has room for what somebody asks for, and no more.

use std::sync::Mutex;

use redrive_engine::handler::Room;
use redrive_engine::receipt::{Kept, Receipt};
use redrive_store::Applied;

use super::*;

/// Has room for what it is told.
struct Asked(Mutex<Room>);

impl Asked {
    fn says(&self, calls: usize, items: usize) {
        *self.0.lock().expect("fine") = Room { calls, items: Some(items), never: false };
    }
}

#[async_trait]
impl Handler for Asked {
    async fn call(&self, _: Request) -> Answer {
        unreachable!("the test answers")
    }

    fn room(&self) -> Option<Room> {
        Some(*self.0.lock().expect("fine"))
    }
}

fn asked() -> (Arc<Asked>, Desk) {
    let handler = Arc::new(Asked(Mutex::new(Room { calls: 0, items: Some(1), never: false })));
    let stages = vec![StageWork { handler: handler.clone(), ..work(100, 16, None) }];
    let recipe = Recipe {
        plan: Plan::new(vec![stage_plan("work", "sample")], None),
        stages,
        gates: Vec::new(),
        order: Order::Oldest,
        share: 0.0,
        max_dead: None,
        budget: None,
        thresholds: Thresholds::default(),
    };
    (handler, Desk::new(RunId(1), Arc::new(recipe), SharedBudget::default()))
}

fn wanted(desk: &Desk) -> usize {
    desk.wants(NOW).iter().map(|slot| slot.limit).sum()
}

#[test]
fn nothing_is_wanted_while_nobody_asks_and_then_as_much_as_is_asked_for() {
    let (handler, mut desk) = asked();
    assert_eq!(wanted(&desk), 0);
    handler.says(2, 10);
    assert_eq!(wanted(&desk), 20);
    claim(&mut desk, (0..20).map(claimed).collect(), NOW);
    let sizes: Vec<usize> = desk.next_calls(NOW).iter().map(|call| call.request.items.len()).collect();
    assert_eq!(sizes, [10, 10]);
    assert_eq!(wanted(&desk), 0, "both are under way");
    // A third asks for less: what is in the others' hands is no reason to give it nothing.
    handler.says(3, 4);
    assert_eq!((wanted(&desk), desk.places_held(StageNo(0))), (4, 2));
    claim(&mut desk, (20..24).map(claimed).collect(), NOW);
    // It is gone before it could be called for.
    handler.says(0, 1);
    assert!(desk.next_calls(NOW).is_empty());
    let given_back: Vec<u32> =
        commit(&mut desk).changes.iter().map(|change| change.transition.after.attempt).collect();
    assert_eq!(given_back, [0; 4], "with the number of the attempt");
}

#[test]
fn what_is_given_back_costs_nothing_and_what_was_said_before_is_kept() {
    for begun in [false, true] {
        let (handler, mut desk) = asked();
        handler.says(1, 3);
        claim(&mut desk, (0..3).map(claimed).collect(), NOW);
        let call = desk.next_calls(NOW).pop().expect("a call");
        let replies = vec![None, Some(ItemReply::Output(None)), None];
        desk.finished(call.id, Reply::Part { replies, begun }.into(), NOW);
        let items: Vec<Item> =
            commit(&mut desk).changes.into_iter().map(|change| change.transition.after).collect();
        let passed = |item: &&Item| item.state == State::Succeeded;
        assert_eq!(items.iter().filter(passed).count(), 1, "{items:?}");
        for item in items.iter().filter(|item| !passed(item)) {
            assert!(matches!(item.state, State::Waiting { due, .. } if due <= Timestamp(5)), "{item:?}");
            assert_eq!((item.attempt, item.failures, item.crashes), (u32::from(begun), 0, 0), "{item:?}");
        }
        assert!(wanted(&desk) > 0, "its place is free");
    }
}

#[test]
fn whoever_answered_is_told_when_it_is_kept() {
    let (handler, mut desk) = asked();
    handler.says(1, 3);
    claim(&mut desk, (0..3).map(claimed).collect(), NOW);
    let call = desk.next_calls(NOW).pop().expect("a call");
    let (receipt, mut told) = Receipt::new();
    let answer = Answer { receipt: Some(receipt), ..passes(&call).into() };
    desk.finished(call.id, answer, NOW);
    assert_eq!(commit(&mut desk).changes.len(), 3);
    assert!(told.try_recv().is_err(), "its fate is not known");
    desk.committed(&[Applied::Done, Applied::Stale, Applied::Done]);
    assert_eq!(told.try_recv(), Ok(Kept { recorded: 2, stale: 1 }));
}
