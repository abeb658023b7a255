//! What was found of items: kept with the outcome, counted, and looked for.

use std::sync::Arc;

use redrive_core::event::{Event, ItemReply};
use redrive_core::id::StageNo;
use redrive_core::item::{Item, Payload};
use redrive_core::tally::{Counter, Metric};
use redrive_core::verdict::Verdict::{self, Failed, NeedsReview, Passed};
use redrive_store::{Applied, Change, Commit, ItemFilter, ItemQuery, Store};

use crate::world::{SPLIT, World};

/// Has every item pass all stages, the last of which finds this of them.
async fn ended(world: &World, found: &[(&str, Option<Verdict>)]) -> Vec<Item> {
    world.admit(&found.iter().map(|(key, _)| *key).collect::<Vec<_>>()).await;
    let mut items = Vec::new();
    for held in world.claim(SPLIT, found.len()).await {
        let verdict = found.iter().find(|(key, _)| **key == *held.item.key).and_then(|(_, verdict)| *verdict);
        let mut item = world.happen(&held.item, Event::Finished(reply(verdict))).await;
        while !item.state.kind().is_terminal() {
            item = world.claim_one(item.stage).await;
            item = world.happen(&item, Event::Finished(reply(verdict))).await;
        }
        items.push(item);
    }
    items
}

fn reply(verdict: Option<Verdict>) -> ItemReply {
    match verdict {
        Some(verdict) => ItemReply::Judged(verdict, Some(Payload::from(&b"{\"found\":1}"[..]))),
        None => ItemReply::Output(None),
    }
}

async fn counted(world: &World) -> Vec<(Verdict, i64)> {
    let counters = world.store.counters(world.run).await.expect("counters");
    let verdicts = counters.into_iter().filter_map(|Counter { metric, n, .. }| match metric {
        Metric::Verdict(verdict) => Some((verdict, n)),
        _ => None,
    });
    verdicts.collect()
}

pub(crate) async fn a_verdict_comes_back_with_its_item_and_its_attempts(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    for item in ended(&world, &[("a", Some(NeedsReview)), ("b", None)]).await {
        let kept = world.store.item(item.seq).await.expect("read").expect("there");
        assert_eq!(kept, item);
        let expected = (*item.key == *"a").then_some(NeedsReview);
        assert_eq!(kept.verdict(), expected);
        let history = world.store.history(item.seq).await.expect("history");
        assert!(history.attempts.iter().all(|row| row.verdict == expected), "{history:?}");
    }
}

pub(crate) async fn verdicts_are_counted_while_their_items_stand(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let found = [("a", Some(Passed)), ("b", Some(Passed)), ("c", Some(Failed)), ("d", None)];
    let items = ended(&world, &found).await;
    assert_eq!(counted(&world).await, [(Passed, 2), (Failed, 1)]);
    let again = Event::Rerun { stage: StageNo(0), payload: Payload::from(&b"{}"[..]) };
    let item = world.happen(&items[0], again).await;
    assert_eq!((item.verdict(), counted(&world).await), (None, vec![(Passed, 1), (Failed, 1)]));
    let stale =
        world.decide(&items[1], Event::Rerun { stage: StageNo(0), payload: Payload::from(&b"{}"[..]) });
    let mut stale = Change::from(stale);
    stale.transition.guard = redrive_core::id::Rev(0);
    let commit = Commit { changes: vec![stale], now: world.now, ..Commit::default() };
    assert_eq!(world.store.commit(commit).await, Ok(vec![Applied::Stale]));
    assert_eq!(counted(&world).await, [(Passed, 1), (Failed, 1)], "a stale change counts nothing");
}

pub(crate) async fn items_are_found_by_their_verdict(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let found = [
        ("a", Some(Failed)),
        ("b", None),
        ("c", Some(Passed)),
        ("d", Some(Failed)),
        ("e", Some(NeedsReview)),
    ];
    ended(&world, &found).await;
    for (verdict, keys) in [(Passed, vec!["c"]), (NeedsReview, vec!["e"]), (Failed, vec!["a", "d"])] {
        let mut listed = Vec::new();
        let mut after = None;
        loop {
            let filter = ItemFilter { run: Some(world.run), verdict: Some(verdict), ..ItemFilter::default() };
            let page = world.store.items(ItemQuery { filter, after, limit: 1 }).await.expect("items");
            let Some(item) = page.into_iter().next() else { break };
            assert_eq!(item.verdict(), Some(verdict));
            after = Some(item.seq);
            listed.push(item.key.to_string());
        }
        assert_eq!(listed, keys);
        let any_run = ItemFilter { verdict: Some(verdict), top: true, ..ItemFilter::default() };
        let page =
            world.store.items(ItemQuery { filter: any_run, after: None, limit: 9 }).await.expect("items");
        assert_eq!(page.len(), keys.len());
    }
}
