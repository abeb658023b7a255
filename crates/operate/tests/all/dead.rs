//! Dead letters: what a preview names is what is done.

use redrive_core::id::ItemId;
use redrive_core::status::RunStatus;
use redrive_operate::Kind;
use redrive_operate::dead::{self, Export, Import, Imported, List, Redrive, Selection, Which};
use redrive_operate::work::Unobserved;

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
    let planned = dead::preview(&house.floor, &selection, Redrive::default()).await.expect("planned");
    let ids = planned.ids.expect("ids");
    assert_eq!((ids.len(), planned.skipped), (4, 0));
    assert_eq!(dead_ids(&house).await, before, "a preview changes nothing");
    let done = dead::redrive(&house.floor, &selection, Redrive::default(), &Unobserved).await.expect("done");
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
        let planned = dead::preview(&house.floor, &selection, request).await.expect("planned");
        let done = dead::redrive(&house.floor, &selection, request, &Unobserved).await.expect("done");
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
    let done = dead::redrive(&house.floor, &selection, request, &Unobserved).await.expect("done");
    let canary = done.canary.expect("a canary");
    assert_eq!((canary.sent, canary.passed, canary.went_on), (1, 0, false));
    assert_eq!(dead_ids(&house).await.len(), 2);
    house.mend();
    let done = dead::redrive(&house.floor, &selection, request, &Unobserved).await.expect("done");
    assert!(done.canary.is_some_and(|canary| canary.went_on));
    assert_eq!((done.items, done.runs[0].status), (2, RunStatus::Completed));
}

#[tokio::test]
async fn what_was_exported_and_edited_comes_back() {
    let house = House::new(FLAT, LINES);
    house.run().await;
    let mut export = Export::of(&house.floor, selection(&house).await);
    let mut import = Import::of(&house.floor, "a test");
    let mut lines = 0;
    while let Some(exported) = export.next().await.expect("exported") {
        let line = serde_json::to_string(&exported).expect("JSON").replace("ill", "well");
        assert_eq!(import.line(&line).await.expect("imported"), Imported::SentBack);
        lines += 1;
    }
    assert_eq!(lines, 2);
    let left = import.line("no export").await.expect("looked at");
    assert!(matches!(left, Imported::LeftAlone { .. }), "{left:?}");
    assert_eq!(house.run().await.status, RunStatus::Completed);
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
