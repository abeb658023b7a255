//! What the world is told.

use std::sync::Arc;

use redrive_core::event::{Event, Gone, ItemReply};
use redrive_core::failure::Class;
use redrive_core::id::{FactId, RunId, StoreId};
use redrive_core::item::LastFailure;
use redrive_core::status::Control;
use redrive_store::{
    Applied, Change, Commit, Error, ItemRev, KeptFact, OperationKind, OutboxView, RunChange, Store,
};

use crate::world::{LEASE, PART, SPLIT, START, STORE, World, failed, new_operation, passed, split};

const NAME: StoreId = StoreId(7);

/// A world whose facts are kept, and nothing told yet.
async fn telling(store: Arc<dyn Store>) -> World {
    let world = World::new(store).await;
    world.store.keep_facts(NAME).await.expect("kept");
    world
}

async fn facts(world: &World) -> Vec<KeptFact> {
    world.store.facts(999).await.expect("facts")
}

/// What was told since this was last asked, as keys and names.
async fn told(world: &World) -> Vec<String> {
    let facts = facts(world).await;
    world.store.facts_passed_on(facts.iter().map(|kept| kept.id).collect()).await.expect("passed on");
    let words = facts.iter().map(|kept| match &kept.fact.key {
        Some(key) => format!("{key} {}", kept.fact.kind),
        None => kept.fact.kind.to_string(),
    });
    words.collect()
}

async fn commit(world: &World, changes: Vec<Change>) -> Vec<Applied> {
    let commit = Commit { changes, now: world.now, ..Commit::default() };
    world.store.commit(commit).await.expect("commit")
}

pub(crate) async fn nothing_is_kept_unless_facts_are_wanted(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.bury(&["a"], "no").await;
    world.store.change_run(world.run, RunChange::ask(Control::Paused, None, START)).await.expect("change");
    assert_eq!(facts(&world).await, []);
    world.store.keep_facts(NAME).await.expect("kept");
    assert_eq!(facts(&world).await, [], "what was is not told");
    world.admit(&["b"]).await;
    world.store.drop_facts().await.expect("dropped");
    world.admit(&["c"]).await;
    assert_eq!(told(&world).await, ["b item.admitted"], "what is kept stays until it is passed on");
}

pub(crate) async fn what_waits_is_counted_as_far_as_is_asked(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    assert_eq!(world.store.outbox(9).await, Ok(OutboxView::default()));
    world.store.keep_facts(NAME).await.expect("kept");
    let nothing = OutboxView { kept: true, ..OutboxView::default() };
    assert_eq!(world.store.outbox(9).await, Ok(nothing));
    world.admit(&["a"]).await;
    world.advance(LEASE);
    world.admit(&["b", "c"]).await;
    let some = OutboxView { waiting: 3, oldest: Some(START), ..nothing };
    assert_eq!(world.store.outbox(9).await, Ok(some));
    assert_eq!(world.store.outbox(2).await, Ok(OutboxView { waiting: 2, ..some }));
    world.store.facts_passed_on(vec![facts(&world).await[0].id]).await.expect("passed on");
    world.store.drop_facts().await.expect("dropped");
    let left = OutboxView { kept: false, waiting: 2, oldest: Some(world.now) };
    assert_eq!(world.store.outbox(9).await, Ok(left));
}

pub(crate) async fn a_store_keeps_its_first_name(store: Arc<dyn Store>) {
    store.drop_facts().await.expect("there is nothing to be dropped");
    assert_eq!(store.keep_facts(StoreId(u64::MAX)).await, Ok(StoreId(u64::MAX)));
    assert_eq!(store.keep_facts(NAME).await, Ok(StoreId(u64::MAX)));
    store.drop_facts().await.expect("dropped");
    assert_eq!(store.keep_facts(NAME).await, Ok(StoreId(u64::MAX)));
    let world = World::new(store).await;
    let named = facts(&world).await[0].message_id(StoreId(u64::MAX));
    assert_eq!(named, "ffffffffffffffff-1", "the first thing told is that the run was created");
}

pub(crate) async fn a_whole_life_is_told(store: Arc<dyn Store>) {
    let mut world = telling(store).await;
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    let waiting = world.happen(&held, failed(Class::Retryable, "no")).await;
    let scheduled = facts(&world).await.pop().expect("a retry").fact;
    assert_eq!((scheduled.item, scheduled.stage, scheduled.attempt), (Some(held.id), Some(SPLIT), Some(1)));
    assert_eq!((scheduled.run, scheduled.at, scheduled.class), (world.run, START, Some(Class::Retryable)));
    assert!(scheduled.due.is_some_and(|due| due > START) && scheduled.reason.is_none());
    world.now = scheduled.due.expect("due");
    assert_eq!(waiting.generation, 0);
    let held = world.claim_one(SPLIT).await;
    let parent = world.happen(&held, split(&["x", "y"])).await;
    for child in world.claim(PART, 2).await {
        let event = if &*child.item.key == "x" { failed(Class::Final, "bad") } else { passed() };
        world.happen(&child.item, event).await;
    }
    let last = world.claim_one(redrive_core::id::StageNo(2)).await;
    world.happen(&last, passed()).await;
    let tally = world.store.children(parent.seq).await.expect("children");
    world.happen(&parent, Event::ChildrenSettled(tally)).await;
    let held = world.claim_one(STORE).await;
    world.happen(&held, passed()).await;
    let expected = [
        "a item.admitted",
        "a item.failed",
        "a item.retry_scheduled",
        "a item.expanded",
        "x item.admitted",
        "y item.admitted",
        "x item.failed",
        "x item.dead",
        "y item.stage_passed",
        "y item.stage_passed",
        "y item.succeeded",
        "a item.joined",
        "a item.stage_passed",
        "a item.stage_passed",
        "a item.succeeded",
    ];
    assert_eq!(told(&world).await, expected);
}

pub(crate) async fn every_other_end_and_beginning_is_told(store: Arc<dyn Store>) {
    let world = telling(store).await;
    let dead = world.bury(&["a"], "no").await.remove(0);
    let death = facts(&world).await.pop().expect("a death").fact;
    assert_eq!((death.reason.as_deref(), death.class), (Some("final"), Some(Class::Final)));
    let back = world.happen(&dead, Event::Redriven { due: START, payload: None, policy: None }).await;
    let again = facts(&world).await.pop().expect("sent back").fact;
    assert_eq!((again.generation, again.attempt, again.due), (Some(1), Some(0), Some(START)));
    let gone = world.happen(&back, Event::Superseded(Gone::Removed)).await;
    let live = world.happen(&gone, Event::Restored { payload: None }).await;
    let killed = world.happen(&live, Event::Killed { why: "so".to_owned() }).await;
    let anew = world.happen(&killed, Event::Reconfigured).await;
    let ended = world.happen(&anew, Event::CancelRequested).await;
    let wanted = vec![ItemRev::from(&ended)];
    let operation = new_operation(OperationKind::Purge);
    assert_eq!(world.store.purge(wanted, operation, world.now).await, Ok(1));
    world.admit(&["b"]).await;
    let held = world.claim_one(SPLIT).await;
    world.happen(&held, Event::Finished(ItemReply::Filtered("dull".to_owned()))).await;
    let expected = [
        "a item.admitted",
        "a item.failed",
        "a item.dead",
        "a item.redriven",
        "a item.superseded",
        "a item.restored",
        "a item.dead",
        "a item.reconfigured",
        "a item.cancelled",
        "a item.purged",
        "b item.admitted",
        "b item.filtered",
    ];
    assert_eq!(told(&world).await, expected);
}

pub(crate) async fn a_refused_item_is_told_as_admitted_and_dead(store: Arc<dyn Store>) {
    let world = telling(store).await;
    let mut submission = world.submission(&["a"]);
    submission.items[0].refused = Some(LastFailure {
        class: Class::Final,
        kind: redrive_core::failure::Kind::Input,
        message: Arc::from("not an item"),
        group: Arc::from(""),
        shared: false,
    });
    world.store.submit(submission.clone()).await.expect("submit");
    world.store.submit(submission).await.expect("submit");
    assert_eq!(told(&world).await, ["a item.admitted", "a item.dead"], "once, however often it is submitted");
}

pub(crate) async fn a_run_tells_what_becomes_of_it(store: Arc<dyn Store>) {
    store.keep_facts(NAME).await.expect("kept");
    let world = World::new(store).await;
    let change = async |change| world.store.change_run(world.run, change).await.expect("change");
    change(RunChange::ask(Control::PausedBudget, Some("secret".to_owned()), world.now)).await;
    let paused = facts(&world).await.pop().expect("a pause").fact;
    assert_eq!((paused.run, paused.item, paused.stage), (world.run, None, None));
    assert_eq!((paused.at, paused.reason.as_deref()), (START, Some("paused_budget")), "a name and no text");
    change(RunChange::ask(Control::PausedBudget, None, world.now)).await;
    change(RunChange::ask(Control::Paused, None, world.now)).await;
    change(RunChange::ask(Control::Go, None, world.now)).await;
    change(RunChange::finished(START)).await;
    change(RunChange::finished(START)).await;
    change(RunChange::goes_on()).await;
    world.admit(&["a"]).await;
    change(RunChange::finished(START)).await;
    change(RunChange::ask(Control::Cancelled, None, world.now)).await;
    change(RunChange::ask(Control::Go, None, world.now)).await;
    let expected = [
        "run.created",
        "run.paused",
        "run.paused",
        "run.resumed",
        "run.finished",
        "a item.admitted",
        "run.cancelled",
    ];
    assert_eq!(told(&world).await, expected, "nothing of what was asked and did not come to be");
}

pub(crate) async fn facts_come_in_order_until_passed_on(store: Arc<dyn Store>) {
    let world = telling(store).await;
    world.admit(&["a", "b", "c"]).await;
    let facts = facts(&world).await;
    let keys: Vec<_> = facts.iter().map(|kept| kept.fact.key.clone().expect("a key")).collect();
    assert_eq!(keys, ["a", "b", "c"]);
    assert!(facts.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(world.store.facts(2).await.expect("facts"), facts[..2], "the oldest first");
    world.store.facts_passed_on(vec![facts[0].id, facts[1].id]).await.expect("passed on");
    assert_eq!(world.store.facts(9).await.expect("facts"), facts[2..]);
}

/// A fact with a smaller number than one that was passed on may not have been seen yet.
pub(crate) async fn only_listed_facts_are_passed_on(store: Arc<dyn Store>) {
    let world = telling(store).await;
    world.admit(&["a", "b", "c", "d"]).await;
    let facts = facts(&world).await;
    let (second, last) = (facts[1].id, facts[3].id);
    world.store.facts_passed_on(vec![last, second, second, FactId(i64::MAX)]).await.expect("passed on");
    let left = [facts[0].clone(), facts[2].clone()];
    assert_eq!(world.store.facts(9).await.expect("facts"), left);
    world.store.facts_passed_on(vec![second]).await.expect("it is forgotten already");
    world.store.facts_passed_on(Vec::new()).await.expect("none is listed");
    assert_eq!(world.store.facts(9).await.expect("facts"), left);
}

pub(crate) async fn a_stale_change_has_no_fact(store: Arc<dyn Store>) {
    let world = telling(store).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim(SPLIT, 2).await;
    let late = world.decide(&held[0].item, split(&["x"]));
    world.happen(&held[0].item, passed()).await;
    told(&world).await;
    let other = world.decide(&held[1].item, passed());
    let applied = commit(&world, vec![late.into(), other.into()]).await;
    assert_eq!(applied, [Applied::Stale, Applied::Done]);
    assert_eq!(told(&world).await, ["b item.stage_passed"]);
}

pub(crate) async fn a_commit_that_is_not_written_has_no_fact(store: Arc<dyn Store>) {
    let world = telling(store).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim(SPLIT, 2).await;
    let late = world.decide(&held[0].item, passed());
    world.happen(&held[0].item, passed()).await;
    told(&world).await;
    let good: Change = world.decide(&held[1].item, split(&["x"])).into();
    let pause = RunChange::ask(Control::Paused, None, world.now);
    let all = |changes| Commit {
        changes,
        all_or_nothing: true,
        run: Some((world.run, pause.clone())),
        now: world.now,
        ..Commit::default()
    };
    let one_is_stale = all(vec![good.clone(), late.clone().into()]);
    assert_eq!(world.store.commit(one_is_stale).await, Ok(vec![Applied::Stale; 2]));
    let one_is_there_twice = all(vec![good.clone(), good.clone()]);
    assert_eq!(world.store.commit(one_is_there_twice).await, Ok(vec![Applied::Stale; 2]));
    let no_such_run = Commit { run: Some((RunId(4_711), pause.clone())), ..all(vec![good.clone()]) };
    assert!(matches!(world.store.commit(no_such_run).await, Err(Error::NotFound(_))));
    let submission = redrive_store::Submit { changes: vec![late.into()], ..world.submission(&["c"]) };
    assert!(matches!(world.store.submit(submission).await, Err(Error::Busy(_))));
    assert_eq!(told(&world).await, [""; 0]);
    assert_eq!(world.store.commit(all(vec![good])).await, Ok(vec![Applied::Done]));
    assert_eq!(told(&world).await, ["b item.expanded", "x item.admitted", "run.paused"]);
}

pub(crate) async fn numbers_of_facts_are_not_given_again(store: Arc<dyn Store>) {
    let world = telling(store).await;
    let mut last = FactId(0);
    for key in ["a", "b"] {
        world.admit(&[key]).await;
        let facts = facts(&world).await;
        assert!(
            facts.iter().all(|kept| kept.id > last),
            "else the relay would forget what it never passed on"
        );
        last = facts[0].id;
        world.store.facts_passed_on(vec![last]).await.expect("passed on");
    }
}
