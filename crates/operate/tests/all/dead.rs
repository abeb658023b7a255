//! Dead letters: what a preview names is what is done.

use std::sync::{Arc, Mutex};

use redrive_core::id::{ItemId, RunId};
use redrive_core::status::RunStatus;
use redrive_engine::progress::Progress;
use redrive_operate::dead::{self, Export, Exported, Import, Imported, List, Redrive, Selection, Which};
use redrive_operate::work::Unobserved;
use redrive_operate::{Kind, reports, runs};

use super::support::House;

/// Parents that are dead when their children are.
const FAMILY: &str = "[[stage]]\nname = \"split\"\nkind = \"pass\"\non_child_failure = \"dead\"\n\
    [[stage.children]]\nname = \"part\"\nkind = \"pass\"\n";
const FLAT: &str = "[[stage]]\nname = \"call\"\nkind = \"pass\"\n";
const LINES: &str = "{\"n\":1,\"is\":\"ill\"}\n{\"n\":2,\"is\":\"well\"}\n{\"n\":3,\"is\":\"ill\"}\n";

async fn selection(house: &House) -> Selection {
    Selection::of(&house.floor, &Which::default()).await.expect("selected")
}

async fn dead_ids(house: &House) -> Vec<ItemId> {
    let request = List { limit: 100, ..List::default() };
    let found = dead::list(&house.floor, &request).await.expect("listed");
    found.items.into_iter().map(|item| item.id).collect()
}

#[tokio::test]
async fn a_preview_names_what_is_sent_back_and_not_the_parents_that_wait_for_it() {
    let house = House::new(FAMILY, LINES);
    assert_eq!(house.run().await.status, RunStatus::Failed);
    let before = dead_ids(&house).await;
    assert_eq!(before.len(), 6, "two parents with two children each");
    let selection = selection(&house).await;
    let planned = dead::preview(&house.floor, &selection, &Redrive::default()).await.expect("planned");
    let ids = planned.ids.expect("ids");
    assert_eq!((ids.len(), planned.skipped), (4, 0));
    assert_eq!(dead_ids(&house).await, before, "a preview changes nothing");
    let done = dead::redrive(&house.floor, &selection, &Redrive::default(), &Unobserved).await.expect("done");
    assert_eq!((done.items, done.skipped), (4, 0));
    assert_eq!(dead_ids(&house).await, [], "the parents wait for their children");
    house.mend();
    assert_eq!(house.run().await.status, RunStatus::Completed);
}

#[tokio::test]
async fn a_limit_counts_what_is_sent_back() {
    let house = House::new(FAMILY, LINES);
    house.run().await;
    let selection = selection(&house).await;
    for limit in [1, 2] {
        let request = Redrive { limit: Some(limit), ..Redrive::default() };
        let planned = dead::preview(&house.floor, &selection, &request).await.expect("planned");
        let done = dead::redrive(&house.floor, &selection, &request, &Unobserved).await.expect("done");
        assert_eq!((planned.items, done.items), (limit, limit));
        let waiting = planned.ids.expect("ids");
        let dead = dead_ids(&house).await;
        assert!(waiting.iter().all(|id| !dead.contains(id)), "those that were named are not dead any more");
    }
}

#[tokio::test]
async fn a_canary_goes_on_only_when_it_passes() {
    let house = House::new(FLAT, LINES);
    house.run().await;
    let selection = selection(&house).await;
    let request = Redrive { canary: Some(1), work: true, ..Redrive::default() };
    let done = dead::redrive(&house.floor, &selection, &request, &Unobserved).await.expect("done");
    let canary = done.canary.expect("a canary");
    assert_eq!((canary.sent, canary.passed, canary.went_on), (1, 0, false));
    assert_eq!(dead_ids(&house).await.len(), 2);
    house.mend();
    let done = dead::redrive(&house.floor, &selection, &request, &Unobserved).await.expect("done");
    assert!(done.canary.is_some_and(|canary| canary.went_on));
    assert_eq!((done.items, done.runs[0].status), (2, RunStatus::Completed));
}

#[tokio::test]
async fn what_was_exported_and_edited_comes_back() {
    let house = House::new(FLAT, LINES);
    house.run().await;
    let mut export = Export::of(&house.floor, selection(&house).await).await.expect("counted");
    let mut import = Import::of(&house.floor, "a test");
    let mut lines = Vec::new();
    while let Some(exported) = export.next().await.expect("exported") {
        lines.push(serde_json::to_string(&exported).expect("JSON").replace("ill", "well"));
    }
    assert_eq!(lines.len(), 2);
    // What goes together is told of as if it had come one by one, in that order.
    let asked = [&lines[0], &lines[1], "no export", &lines[0]].map(str::to_owned);
    let became = import.lines(&asked).await.expect("imported");
    assert_eq!(became[..2], [Imported::SentBack, Imported::SentBack]);
    assert!(matches!(became[2], Imported::LeftAlone { .. }), "{became:?}");
    assert_eq!(became[3..], [Imported::SentBackBefore]);
    let twice = import.lines(&lines).await.expect("imported");
    assert_eq!(twice, [Imported::SentBackBefore, Imported::SentBackBefore]);
    let operation = import.finish().await.expect("finished").expect("there was something to do");
    let row = house.floor.store.operation(operation).await.expect("read").expect("there");
    assert_eq!((row.changed, row.skipped), (2, 1));
    assert_eq!(house.run().await.status, RunStatus::Completed);
}

#[derive(Default)]
struct Heard(Mutex<Vec<(u64, Option<u64>)>>);

impl Progress for Heard {
    fn reached(&self, done: u64, all: Option<u64>) {
        self.0.lock().expect("not poisoned").push((done, all));
    }
}

impl Heard {
    /// Fails unless it has heard of ever more, up to all of so many; forgets it then.
    fn of_all(&self, what: &str, items: u64) {
        let heard = std::mem::take(&mut *self.0.lock().expect("not poisoned"));
        assert!(heard.iter().map(|(done, _)| done).is_sorted(), "{what}: {heard:?}");
        assert_eq!(heard.last(), Some(&(items, Some(items))), "{what}");
    }
}

#[tokio::test]
async fn what_takes_long_tells_how_far_it_is() {
    let mut house = House::new(FLAT, LINES);
    house.run().await;
    let heard = Arc::new(Heard::default());
    house.floor.env.progress = heard.clone();
    let (floor, selection) = (&house.floor, selection(&house).await);
    let mut export = Export::of(floor, selection.clone()).await.expect("counted");
    while export.next().await.expect("exported").is_some() {}
    heard.of_all("export", 2);
    reports::check(floor, None).await.expect("checked");
    heard.of_all("check", 3);
    let one = Redrive { limit: Some(1), ..Redrive::default() };
    dead::redrive(floor, &selection, &one, &Unobserved).await.expect("sent back");
    heard.of_all("redrive", 1);
    dead::purge(floor, &selection).await.expect("purged");
    heard.of_all("purge", 1);
    runs::cancel(floor, RunId(1)).await.expect("cancelled");
    heard.of_all("cancel", 1);
    let request = reports::Forget { older_than_ms: 0, with_dead: true };
    // It ended a millisecond ago at the earliest.
    while reports::prunable(floor, request).await.expect("looked").runs == 0 {}
    reports::prune(floor, request).await.expect("pruned");
    heard.of_all("prune", 2);
}

#[tokio::test]
async fn an_export_tells_what_each_item_came_from_and_skips_what_is_not_dead_any_more() {
    let house = House::new(FAMILY, LINES);
    house.run().await;
    let selection = selection(&house).await;
    let mut export = Export::of(&house.floor, selection.clone()).await.expect("counted");
    let mut told = Vec::new();
    while let Some(Exported(life)) = export.next().await.expect("exported") {
        assert!(life.item.payload.is_some(), "{life:?}");
        assert!(!life.attempts.is_empty() && life.now.contains("dead"), "{life:?}");
        told.push((life.item.id, life.item.parent));
    }
    let parents: Vec<_> = told.iter().filter(|(_, parent)| parent.is_none()).map(|(id, _)| *id).collect();
    let children = told.iter().filter_map(|(_, parent)| *parent);
    assert_eq!(parents.len(), 2);
    assert_eq!(children.filter(|parent| parents.contains(parent)).count(), 4);
    let mut late = Export::of(&house.floor, selection.clone()).await.expect("counted");
    dead::redrive(&house.floor, &selection, &Redrive::default(), &Unobserved).await.expect("sent back");
    assert!(late.next().await.expect("looked").is_none(), "nothing is dead any more");
}

#[tokio::test]
async fn nothing_is_not_taken_for_everything() {
    let refused = Selection::said_which(&Which::default(), false, "removed").expect_err("nothing says which");
    assert_eq!(refused.kind, Kind::Wrong);
    let house = House::new(FLAT, LINES);
    let which = Which { stage: Some("nowhere".to_owned()), ..Which::default() };
    let unknown = Selection::of(&house.floor, &which).await.expect_err("there is no such stage");
    assert_eq!(unknown.kind, Kind::NotFound);
}

#[test]
fn requests_can_be_read_back() {
    let which: Which =
        serde_json::from_str(r#"{"run":"r3","class":"final","within_ms":1000}"#).expect("read");
    assert_eq!(which.run.map(|run| run.0), Some(3));
    assert!(serde_json::from_str::<Which>(r#"{"runs":"r3"}"#).is_err(), "a key that nobody reads is refused");
    let redrive: Redrive = serde_json::from_str(r#"{"limit":5}"#).expect("read");
    assert_eq!(redrive, Redrive { limit: Some(5), ..Redrive::default() });
}
