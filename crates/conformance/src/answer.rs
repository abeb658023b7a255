//! Items that are handed over, and their answers.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::answer::{AnswerToken, HandOver};
use redrive_core::attempt::Outcome;
use redrive_core::event::{Event, ItemReply};
use redrive_core::fact::FactKind;
use redrive_core::item::{Item, State, StateKind};
use redrive_core::policy::Cause;
use redrive_core::tally::Metric;
use redrive_store::{Applied, Store};

use crate::world::{SPLIT, START, STORE, World};

const WITHIN: Duration = Duration::from_secs(40);
const OUTPUT: &[u8] = b"{\"answered\":true}";

fn over(ask_in: Option<Duration>) -> Event {
    let ticket = ask_in.map(|_| "job \"7\"".into());
    Event::Finished(ItemReply::HandedOver(HandOver { within: WITHIN, ask_in, ticket, route: None }))
}

fn answer() -> Event {
    Event::Answered(ItemReply::Output(Some(OUTPUT.into())))
}

async fn handed(world: &World, ask_in: Option<Duration>) -> Item {
    world.admit(&["a"]).await;
    let held = world.claim_one(SPLIT).await;
    world.happen(&held, over(ask_in)).await
}

async fn awaited(world: &World) -> i64 {
    world.counters().await.get(&(SPLIT, Metric::Awaited)).copied().unwrap_or(0)
}

pub(crate) async fn what_is_handed_over_is_kept_and_counted_apart(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let item = handed(&world, Some(Duration::from_secs(5))).await;
    let kept = world.item(&item).await;
    assert_eq!(kept, item);
    let handed = kept.handed.as_ref().expect("it is handed over");
    assert_eq!((handed.at, handed.until), (START, START.after(WITHIN)));
    assert_eq!(handed.ticket.as_deref(), Some("job \"7\""));
    let due = START.after(Duration::from_secs(5));
    assert_eq!(kept.state, State::Waiting { due, cause: Some(Cause::Answer) });
    assert_eq!(world.store.next_due(world.run).await.expect("due").at, Some(due));
    assert_eq!(world.store.due_by_stage(world.run).await.expect("due")[0].last, due);
    assert_eq!(world.store.history(item.seq).await.expect("history").attempts, [], "its attempt is open");
    assert_eq!(awaited(&world).await, 1);
    let next = world.store.next_due(world.run).await.expect("next due");
    assert_eq!((next.any_fresh, next.retry), (false, None), "what waits for an answer is no retry");
    world.advance(Duration::from_secs(2));
    let answered = world.happen(&kept, answer()).await;
    assert_eq!((answered.stage, &answered.handed, answered.attempt), (STORE, &None, 0));
    assert_eq!(awaited(&world).await, 0);
    let attempts = world.store.history(item.seq).await.expect("history").attempts;
    let [attempt] = attempts.as_slice() else { panic!("one attempt, not {attempts:?}") };
    assert_eq!((attempt.attempt, attempt.outcome), (1, Outcome::Succeeded));
    assert_eq!((attempt.started_at, attempt.ended_at), (START, world.now), "from the claim to the answer");
    world.assert_counters().await;
}

pub(crate) async fn whoever_looks_after_an_answer_begins_no_attempt(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let item = handed(&world, Some(Duration::from_secs(5))).await;
    assert!(world.claim(SPLIT, 9).await.is_empty(), "it is not to be asked for yet");
    world.advance(Duration::from_secs(5));
    let held = world.claim_one(SPLIT).await;
    assert_eq!(held.attempt, item.attempt, "it goes on with the attempt that is open");
    assert_eq!(held.handed, item.handed);
    assert_eq!(world.item(&held).await, held);
    assert_eq!(awaited(&world).await, 1, "it is handed over still");
    let again = world.happen(&held, over(Some(Duration::from_secs(5)))).await;
    let handed = again.handed.as_ref().expect("it is handed over");
    assert_eq!(handed.until, START.after(WITHIN), "it is awaited no longer for being asked for");
    world.advance(WITHIN);
    let held = world.claim_one(SPLIT).await;
    let failed = world.happen(&held, Event::Unanswered).await;
    assert_eq!((failed.state.kind(), failed.failures, failed.attempt), (StateKind::Waiting, 1, 1));
    assert_eq!(failed.handed, None);
    world.assert_counters().await;
}

pub(crate) async fn what_is_due_and_what_is_to_be_looked_after_stand_in_one_line(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.admit(&["a", "b", "c"]).await;
    let held = world.claim(SPLIT, 3).await;
    world.happen(&held[0].item, over(Some(Duration::from_secs(9)))).await;
    world.happen(&held[1].item, over(Some(Duration::from_secs(3)))).await;
    world.happen(&held[2].item, Event::Interrupted).await;
    world.advance(Duration::from_secs(10));
    let first: Vec<_> = world.claim(SPLIT, 2).await.into_iter().map(|claimed| claimed.item.key).collect();
    assert_eq!(first.iter().map(|key| &**key).collect::<Vec<_>>(), ["b", "c"], "those that are due first");
    let claimed = world.claim_slots(vec![world.slot(SPLIT, 5)]).await;
    assert_eq!((claimed.items.len(), claimed.next_due), (1, None));
}

pub(crate) async fn a_second_answer_changes_nothing(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let item = handed(&world, None).await;
    let token = AnswerToken::of(&item);
    assert!(token.is_open(&world.item(&item).await));
    let (first, second) = (world.decide(&item, answer()), world.decide(&item, answer()));
    assert_eq!(world.commit(vec![first]).await, [Applied::Done]);
    assert_eq!(world.commit(vec![second]).await, [Applied::Stale]);
    assert!(!token.is_open(&world.item(&item).await), "the token fits nothing any more");
    world.assert_counters().await;
}

pub(crate) async fn what_waits_for_an_answer_is_never_overdue(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    handed(&world, None).await;
    world.advance(WITHIN + Duration::from_secs(9));
    let query = redrive_store::VitalsQuery { now: world.now, due_before: world.now, since: START, most: 9 };
    let vitals = world.store.vitals(query).await.expect("vitals");
    let [stage] = vitals.stages.as_slice() else { panic!("one stage, not {:?}", vitals.stages) };
    assert_eq!((stage.overdue, stage.backing_off, stage.came_due, stage.next_due), (0, 0, 0, None));
    assert_eq!(stage.unanswered, 1);
}

pub(crate) async fn an_item_that_is_handed_over_by_an_event_is_told_whoever_listens(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["a", "b"]).await;
    let held = world.claim(SPLIT, 2).await;
    let route = Some("chunks.prepared".into());
    let told = HandOver { within: WITHIN, ask_in: None, ticket: None, route };
    let item = world.happen(&held[0].item, Event::Finished(ItemReply::HandedOver(told))).await;
    world.happen(&held[1].item, over(None)).await;
    let facts = world.store.facts(9).await.expect("facts");
    let [kept] = facts.as_slice() else { panic!("nobody asked for others: {facts:?}") };
    assert_eq!((kept.fact.kind, kept.fact.item), (FactKind::HandedOver, Some(item.id)));
    assert_eq!(kept.fact.route.as_deref(), Some("chunks.prepared"));
    assert_eq!(kept.fact.token, Some(AnswerToken::of(&item).to_string()));
    assert!(kept.fact.due.is_some());
}
