//! Finding and sending back the dead.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::{Event, edited_to};
use redrive_core::failure::Class;
use redrive_core::item::{DeadReason, Item, StateKind};
use redrive_core::policy::{Limit, OwnPolicy, PolicySpec};
use redrive_core::tally::Metric;
use redrive_core::time::Timestamp;
use redrive_store::{ItemFilter, ItemQuery, Store};

use crate::world::{PART, SPLIT, STORE, World, failed, passed, split};

pub(crate) async fn groups_are_counted_largest_first(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    world.bury(&["a"], "disk broken").await;
    world.advance(Duration::from_secs(1));
    let many = world.bury(&["b", "c", "d"], "no such model").await;
    world.advance(Duration::from_secs(1));
    world.bury(&["e"], "disk broken").await;
    let unnamed = world.admit(&["f"]).await.remove(0);
    let late = Timestamp(world.now.0 + 1_000);
    world.now = late;
    world.happen(&unnamed, Event::DeadlinePassed).await;
    let groups = world.store.groups(ItemFilter::default(), 9).await.expect("groups");
    let counts: Vec<_> = groups.iter().map(|group| (group.items, group.message.as_str())).collect();
    assert_eq!(counts, [(3, "no such model"), (2, "disk broken"), (1, "")]);
    assert_eq!((groups[0].example, groups[0].run, groups[0].stage), (many[0].id, world.run, SPLIT));
    assert_eq!((groups[0].class, groups[2].class, groups[2].group.as_str()), (Some(Class::Final), None, ""));
    assert_eq!(groups[1].last_at.since(groups[1].first_at), Duration::from_secs(2));
    assert_eq!(world.store.groups(ItemFilter::default(), 1).await.expect("groups"), groups[..1]);
    let only = ItemFilter { text: Some("model".to_owned()), ..ItemFilter::default() };
    assert_eq!(world.store.groups(only, 9).await.expect("groups"), groups[..1]);
    let of_one = ItemFilter { group: Some(groups[1].group.clone()), ..ItemFilter::default() };
    assert_eq!(world.store.groups(of_one, 9).await.expect("groups"), groups[1..2]);
}

pub(crate) async fn groups_are_those_of_the_items_that_match(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let first = world.bury(&["a", "b", "c"], "disk broken").await;
    world.advance(Duration::from_secs(5));
    world.bury(&["d", "e"], "no such model").await;
    world.admit(&["f"]).await;
    let alive = world.claim_one(SPLIT).await;
    world.happen(&alive, Event::Killed { why: "an operator".to_owned() }).await;
    world.happen(&first[1], Event::Redriven { due: world.now, payload: None, policy: None }).await;
    let other = World::new(world.store.clone()).await;
    other.bury(&["a"], "disk broken").await;
    let none = ItemFilter::default;
    let filters = [
        none(),
        ItemFilter { run: Some(world.run), ..none() },
        ItemFilter { run: Some(other.run), ..none() },
        ItemFilter { stages: vec![SPLIT], ..none() },
        ItemFilter { stages: vec![STORE], ..none() },
        ItemFilter { class: Some(Class::Final), ..none() },
        ItemFilter { reason: Some(DeadReason::Operator), ..none() },
        ItemFilter { since: Some(world.now), ..none() },
        ItemFilter { until: Some(world.now), run: Some(world.run), ..none() },
        ItemFilter { text: Some("broken".to_owned()), ..none() },
        ItemFilter { top: true, ..none() },
        ItemFilter { key: Some("a".to_owned()), ..none() },
    ];
    let all = page(&world, none()).await;
    for filter in filters {
        let dead = |item: &&Item| item.state.kind() == StateKind::Dead && filter.matches(item);
        let mut expected = std::collections::BTreeMap::<String, u64>::new();
        for item in all.iter().filter(dead) {
            let group = item.last.as_ref().map(|last| last.group.to_string()).unwrap_or_default();
            *expected.entry(group).or_default() += 1;
        }
        let groups = world.store.groups(filter.clone(), 9).await.expect("groups");
        let found = groups.iter().map(|group| (group.group.clone(), group.items)).collect();
        assert_eq!(expected, found, "{filter:?}");
        for group in &groups {
            let example = all.iter().find(|item| item.id == group.example).expect("an item");
            assert!(dead(&example), "{filter:?}: {example:?}");
        }
    }
}

pub(crate) async fn filters_mean_what_matches_means(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let dead = world.bury(&["a", "b", "under_score"], "disk 100% broken").await;
    world.advance(Duration::from_secs(5));
    world.happen(&dead[0], Event::Redriven { due: world.now, payload: None, policy: None }).await;
    world.admit(&["c", "d", "e"]).await;
    let held = world.claim(SPLIT, 3).await;
    let parent = world.happen(&held[0].item, split(&["x", "y"])).await;
    world.happen(&held[1].item, failed(Class::Timeout, "slow")).await;
    let part = world.claim_one(PART).await;
    world.happen(&part, Event::Killed { why: "an operator".to_owned() }).await;
    let other = World::new(world.store.clone()).await;
    other.bury(&["a"], "disk 100% broken").await;
    let group = dead[0].last.as_ref().expect("failed").group.to_string();
    let none = ItemFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let filters = [
        none(),
        ItemFilter { run: Some(world.run), ..none() },
        ItemFilter { state: Some(StateKind::Dead), ..none() },
        ItemFilter { state: Some(StateKind::Dead), run: Some(other.run), ..none() },
        ItemFilter { state: Some(StateKind::Waiting), ..none() },
        ItemFilter { state: Some(StateKind::Running), run: Some(world.run), ..none() },
        ItemFilter { state: Some(StateKind::Joining), ..none() },
        ItemFilter { stages: vec![SPLIT, STORE], ..none() },
        ItemFilter { stages: vec![PART], state: Some(StateKind::Waiting), ..none() },
        ItemFilter { parent: Some(parent.seq), ..none() },
        ItemFilter { parent: Some(parent.seq), state: Some(StateKind::Waiting), ..none() },
        ItemFilter { top: true, ..none() },
        ItemFilter { class: Some(Class::Timeout), ..none() },
        ItemFilter { reason: Some(DeadReason::Operator), ..none() },
        ItemFilter { reason: Some(DeadReason::Final), state: Some(StateKind::Waiting), ..none() },
        ItemFilter { group: Some(group), ..none() },
        ItemFilter { text: text("broken"), ..none() },
        ItemFilter { text: text("un"), run: Some(world.run), ..none() },
        ItemFilter { text: text(""), ..none() },
        ItemFilter { since: Some(world.now), ..none() },
        ItemFilter { until: Some(world.now), ..none() },
        ItemFilter { ids: Some(parent.id.versions()), ..none() },
        ItemFilter { key: text("a"), ..none() },
        ItemFilter { failed: true, ..none() },
    ];
    let all = page(&world, none()).await;
    assert_eq!(all.len(), 9);
    for filter in filters {
        let expected: Vec<_> = all.iter().filter(|item| filter.matches(item)).cloned().collect();
        assert_eq!(page(&world, filter.clone()).await, expected, "{filter:?}");
    }
}

pub(crate) async fn redriven_items_keep_their_history(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    let dead = world.bury(&["a"], "no").await.remove(0);
    let edited: Arc<[u8]> = Arc::from(&b"edited"[..]);
    let back = world
        .happen(&dead, Event::Redriven { due: world.now, payload: Some(edited.clone()), policy: None })
        .await;
    assert_eq!((back.generation, back.attempt, back.last.clone()), (1, 0, None));
    let held = world.claim(SPLIT, 1).await.remove(0);
    assert_eq!(held.payload, edited);
    world.happen(&held.item, passed()).await;
    let history = world.store.history(dead.seq).await.expect("history");
    let attempts: Vec<_> =
        history.attempts.iter().map(|record| (record.generation, record.attempt)).collect();
    assert_eq!(attempts, [(0, 1), (1, 1)]);
    let marks: Vec<_> = history.marks.iter().map(|mark| (mark.what, &*mark.detail)).collect();
    assert_eq!(marks, [("edited", &*edited_to(&edited))]);
    world.assert_counters().await;
}

pub(crate) async fn a_policy_of_its_own_is_kept_until_the_stage_is_passed(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let dead = world.bury(&["a", "b"], "no").await;
    let spec = PolicySpec { max_attempts: Some(Limit::Attempts(2)), ..PolicySpec::default() };
    let own = OwnPolicy::new("two", spec.build().expect("a policy"));
    for item in &dead {
        let event = Event::Redriven { due: world.now, payload: None, policy: Some(own.clone()) };
        let back = world.happen(item, event).await;
        assert_eq!(back.policy.as_ref(), Some(&own));
    }
    for (tries, expected) in [(1, StateKind::Waiting), (2, StateKind::Dead)] {
        let held = world.claim(SPLIT, 2).await;
        assert!(held.iter().all(|held| held.item.policy.as_ref() == Some(&own)), "a claim tells it");
        if tries == 1 {
            let on = world.happen(&held[1].item, passed()).await;
            assert_eq!(on.policy, None, "the next stage has a policy of its own");
        }
        let failed = world.happen(&held[0].item, failed(Class::Retryable, "no")).await;
        assert_eq!((failed.failures, failed.state.kind()), (tries, expected));
        let kept = world.store.item(failed.seq).await.expect("read").expect("there");
        assert_eq!((kept.policy.as_ref(), &kept), (Some(&own), &failed));
        world.advance(Duration::from_secs(3_600));
        world.renew().await;
    }
    let again = page(&world, ItemFilter { state: Some(StateKind::Dead), ..ItemFilter::default() }).await;
    let back = Event::Redriven { due: world.now, payload: None, policy: None };
    assert_eq!(world.happen(&again[0], back).await.policy, None, "sent back once more it goes as ever");
    let marks = world.store.history(again[0].seq).await.expect("history").marks;
    let told: Vec<_> = marks.iter().map(|mark| &*mark.detail).collect();
    assert_eq!(told, ["under a policy of its own: two", ""]);
    world.assert_counters().await;
}

pub(crate) async fn tries_are_counted_over_all_generations(store: Arc<dyn Store>) {
    let mut world = World::new(store).await;
    let dead = world.bury(&["a", "b", "c"], "no").await;
    let kept =
        |counters: &std::collections::BTreeMap<_, i64>, metric| counters.get(&(SPLIT, metric)).copied();
    let counters = world.counters().await;
    assert_eq!((kept(&counters, Metric::FirstTry), kept(&counters, Metric::FirstPass)), (Some(3), None));
    assert_eq!(kept(&counters, Metric::DeadAfter(1)), Some(3));
    // One comes back and passes at once; one is turned away first; one dies again.
    for item in &dead {
        let back = world.happen(item, Event::Redriven { due: world.now, payload: None, policy: None }).await;
        assert_eq!((back.earlier, back.failures, back.tries()), (1, 0, 1));
    }
    assert_eq!(kept(&world.counters().await, Metric::OpenAfter(1)), Some(3));
    let held = world.claim(SPLIT, 3).await;
    let on = world.happen(&held[0].item, passed()).await;
    assert_eq!(on.tries(), 0, "a new stage begins anew");
    let waits = world.happen(&held[1].item, failed(Class::RateLimited, "slow down")).await;
    world.happen(&held[2].item, failed(Class::Final, "still no")).await;
    world.advance(Duration::from_secs(3_600));
    world.renew().await;
    let held = world.claim_one(SPLIT).await;
    assert_eq!(held.seq, waits.seq);
    world.happen(&held, passed()).await;
    let counters = world.counters().await;
    assert_eq!(
        kept(&counters, Metric::PassedAfter(2)),
        Some(2),
        "neither is a first try, and a throttle is no try"
    );
    assert_eq!((kept(&counters, Metric::FirstTry), kept(&counters, Metric::FirstPass)), (Some(3), None));
    assert_eq!(
        (kept(&counters, Metric::DeadAfter(2)), kept(&counters, Metric::DeadAfter(1))),
        (Some(1), None)
    );
    world.assert_counters().await;
}

pub(crate) async fn text_is_searched_literally(store: Arc<dyn Store>) {
    let world = World::new(store).await;
    world.admit(&["50%", "50x", "a_b", "aXb", "O'Brien", "Groß"]).await;
    let cases = [("50%", 1), ("a_b", 1), ("%", 1), ("_", 1), ("'", 1), ("o'b", 0), ("ß", 1), ("50", 2)];
    for (text, expected) in cases {
        let filter = ItemFilter { text: Some(text.to_owned()), ..ItemFilter::default() };
        assert_eq!(page(&world, filter).await.len(), expected, "{text}");
    }
}

async fn page(world: &World, filter: ItemFilter) -> Vec<Item> {
    world.store.items(ItemQuery { filter, after: None, limit: 99 }).await.expect("items")
}
