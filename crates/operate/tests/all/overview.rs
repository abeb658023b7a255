//! The overview: one look at everything.

use redrive_core::status::RunStatus;
use redrive_operate::Kind;
use redrive_operate::overview::{Look, Trend, overview};
use redrive_operate::runs::{self, Begin, List, Next};

use super::support::House;

const TWO: &str =
    "[[stage]]\nname = \"first\"\nkind = \"pass\"\n[[stage]]\nname = \"second\"\nkind = \"pass\"\n";
const LINES: &str = "{\"n\":1,\"is\":\"ill\"}\n{\"n\":2,\"is\":\"well\"}\n{\"n\":3,\"is\":\"ill\"}\n";

#[tokio::test]
async fn one_look_tells_runs_stages_and_dead_groups_and_it_adds_up() {
    let house = House::new(TWO, LINES);
    let nothing = overview(&house.floor, &Look::default()).await.expect("seen");
    assert_eq!((nothing.runs.len(), nothing.totals.counts.admitted), (0, 0));
    house.run().await;
    let seen = overview(&house.floor, &Look::default()).await.expect("seen");
    let [run] = &seen.runs[..] else { panic!("one run: {seen:?}") };
    assert_eq!((run.status, run.ended, run.reading), (RunStatus::Failed, true, false));
    assert_eq!((run.counts.succeeded, run.counts.dead), (1, 2));
    let flow: Vec<_> =
        run.stages.iter().map(|stage| (&*stage.name, stage.came, stage.passed, stage.dead)).collect();
    assert_eq!(flow, [("first", 3, 1, 2), ("second", 1, 1, 0)]);
    assert_eq!((seen.totals.ended, seen.totals.going_on, seen.totals.counts), (1, 0, run.counts));
    let groups: Vec<_> = seen.dead.iter().map(|group| (group.items, &*group.stage)).collect();
    assert_eq!(groups, [(2, "first")]);
    let mut trend = Trend::default();
    trend.look(&seen);
    assert_eq!(trend.growth(&seen.dead[0].group), None, "one look tells no growth");
}

#[tokio::test]
async fn a_run_is_looked_at_alone_and_one_that_is_not_there_is_refused() {
    let house = House::new(TWO, LINES);
    let first = house.run().await.run;
    let again = Begin { new: true, ..Begin::default() };
    let second = house.begin(again).await.expect("begun").run;
    let all = overview(&house.floor, &Look::default()).await.expect("seen");
    let ids: Vec<_> = all.runs.iter().map(|run| (run.run, run.ended)).collect();
    assert_eq!(ids, [(second, false), (first, true)], "those that go on come first");
    let none_ended = Look { ended: 0, groups: 0, ..Look::default() };
    let few = overview(&house.floor, &none_ended).await.expect("seen");
    assert_eq!((few.runs.len(), few.dead.len()), (1, 0));
    let alone = Look { run: Some(second), ..Look::default() };
    let one = overview(&house.floor, &alone).await.expect("seen");
    assert_eq!((one.runs.len(), one.dead.len()), (1, 0), "the dead items are the other's");
    let missing = Look { run: Some(redrive_core::id::RunId(99)), ..Look::default() };
    assert_eq!(overview(&house.floor, &missing).await.expect_err("not there").kind, Kind::NotFound);
}

#[tokio::test]
async fn a_paused_run_is_let_go_on_without_being_worked_on() {
    let house = House::new(TWO, LINES);
    let begun = house.begin(Begin::default()).await.expect("begun");
    assert!(matches!(begun.next, Next::Work(_)));
    runs::pause(&house.floor, begun.run, "").await.expect("paused");
    let go_on = runs::let_go_on(&house.floor, begun.run).await.expect("it goes on");
    assert_eq!((go_on.status, go_on.counts.succeeded), (RunStatus::Interrupted, 0));
    runs::cancel(&house.floor, begun.run).await.expect("cancelled");
    assert_eq!(runs::let_go_on(&house.floor, begun.run).await.expect_err("refused").kind, Kind::Refused);
}

#[tokio::test]
async fn runs_are_listed_by_how_they_stand_and_when_they_ended() {
    let house = House::new(TWO, LINES);
    let first = house.run().await.run;
    let second = house.begin(Begin { new: true, ..Begin::default() }).await.expect("begun").run;
    let list = |status: &[RunStatus], within_ms, limit| {
        let request = List { pipeline: None, status: status.to_vec(), within_ms, before: None, limit };
        let floor = &house.floor;
        async move { runs::list(floor, &request).await.expect("listed") }
    };
    let ids = |list: &runs::RunList| list.runs.iter().map(|run| run.run).collect::<Vec<_>>();
    let all = list(&[], None, 20).await;
    assert_eq!((ids(&all), all.total.admitted), (vec![second, first], 3));
    assert_eq!(ids(&list(&[], None, 1).await), [second]);
    assert_eq!(
        ids(&list(&[RunStatus::Failed], None, 1).await),
        [first],
        "the limit counts those that are meant"
    );
    assert_eq!(ids(&list(&[RunStatus::Completed], None, 20).await), []);
    assert_eq!(ids(&list(&[], Some(3_600_000), 20).await), [second, first]);
    assert_eq!(ids(&list(&[], Some(-1_000), 20).await), [second], "what is not finished goes on now");
}
