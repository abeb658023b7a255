//! Runs: begun, gone on with, paused, cancelled.

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_operate::Kind;
use redrive_operate::items::{self, ItemName};
use redrive_operate::pauses;
use redrive_operate::runs::{self, Begin, Edit, List, Next, Resume};
use redrive_operate::work::{Unobserved, WorkSettings, work};

use super::support::House;

const STAGES: &str = "[[stage]]\nname = \"call\"\nkind = \"filter\"\nkeep = \"true\"\n";
const LINES: &str = "{\"n\":1}\n{\"n\":2}\n";

#[tokio::test]
async fn the_same_pipeline_and_source_are_gone_on_with() {
    let house = House::new(STAGES, LINES);
    let first = house.run().await;
    assert_eq!((first.status, first.counts.succeeded), (RunStatus::Completed, 2));
    house.write(STAGES, &format!("{LINES}{{\"n\":3}}\n"));
    let second = house.run().await;
    assert_eq!((second.run, second.counts.succeeded), (first.run, 3));
    let begun = house.begin(Begin { new: true, ..Begin::default() }).await.expect("begun");
    assert!(begun.created && begun.run != first.run);
    let list = runs::list(&house.floor, &List { limit: 10, ..List::default() }).await.expect("listed");
    assert_eq!(list.runs.len(), 2);
}

#[tokio::test]
async fn a_paused_run_is_not_worked_on_until_it_is_resumed() {
    let house = House::new(STAGES, LINES);
    let run = house.begin(Begin::default()).await.expect("begun").run;
    assert_eq!(runs::pause(&house.floor, run, "").await.expect("paused").status, RunStatus::Paused);
    let begun = house.begin(Begin::default()).await.expect("begun");
    assert!(matches!(begun.next, Next::Paused(report) if report.status == RunStatus::Paused));
    let request = Resume { run, pipeline: None, keep_passed: false };
    let resumed = runs::resume(&house.floor, request).await.expect("resumed");
    let worked = work(&house.floor, *resumed.work, WorkSettings::default(), &Unobserved).await;
    assert_eq!(worked.expect("worked").report.status, RunStatus::Completed);
    let refused = runs::cancel(&house.floor, run).await.expect_err("it is finished");
    assert_eq!(refused.kind, Kind::Refused);
}

#[tokio::test]
async fn a_pause_that_is_said_again_without_words_keeps_those_it_has() {
    let house = House::new(STAGES, LINES);
    house.begin(Begin::default()).await.expect("begun");
    let which = pauses::Which { pipeline: "p".to_owned(), stage: None };
    for (said, stands) in [("", ""), ("one", "one"), ("", "one"), ("two", "two")] {
        let paused = pauses::pause(&house.floor, &which, said, None).await.expect("paused");
        assert_eq!(paused.iter().map(|pause| pause.why.as_str()).collect::<Vec<_>>(), [stands], "{said:?}");
    }
}

#[tokio::test]
async fn a_stage_that_does_something_else_has_its_items_go_again() {
    let house = House::new(STAGES, LINES);
    house.run().await;
    house.write(&STAGES.replace("true", "1 == 1"), LINES);
    let begun = house.begin(Begin::default()).await.expect("begun");
    let edit = begun.edit.expect("an edit");
    assert!(matches!(edit, Edit::Again { first: true, from_start: 2, .. }), "{edit:?}");
    house.write(&STAGES.replace("call", "other"), LINES);
    let refused = house.begin(Begin::default()).await.err().expect("other stages, while it is under way");
    assert_eq!(refused.kind, Kind::Refused);
}

#[tokio::test]
async fn an_error_says_what_kind_it_is() {
    let house = House::new(STAGES, LINES);
    assert_eq!(runs::show(&house.floor, None).await.expect_err("no runs").kind, Kind::NotFound);
    let unknown = runs::show(&house.floor, Some(RunId(7))).await.expect_err("no such run");
    assert_eq!((unknown.kind, unknown.message.as_str()), (Kind::NotFound, "run r7 does not exist"));
    let name = ItemName { item: "nobody".to_owned(), run: None };
    assert_eq!(items::explain(&house.floor, &name).await.expect_err("no item").kind, Kind::NotFound);
    house.write("[[stage]]\nname = \"call\"\nkind = \"pas\"\n", LINES);
    let wrong = house.begin(Begin::default()).await.err().expect("a wrong pipeline");
    assert_eq!((wrong.kind, wrong.problems.len()), (Kind::Wrong, 1));
    let written = serde_json::to_value(&wrong).expect("JSON");
    assert_eq!(written["kind"], "wrong");
}
