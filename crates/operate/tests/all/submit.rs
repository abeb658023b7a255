//! Items handed in through the floor.

use redrive_core::id::RunId;
use redrive_core::status::RunStatus;
use redrive_operate::Kind;
use redrive_operate::pipelines::{Pipeline, parse};
use redrive_operate::runs::{self, Begin};
use redrive_operate::submit::{self, Fate, Given, HandIn, HandedIn, Inbox};
use redrive_operate::work::{Unobserved, work_on};

use super::support::House;

const STAGES: &str = "[[stage]]\nname = \"call\"\nkind = \"filter\"\nkeep = \"true\"\n";

fn pipeline() -> Pipeline {
    let text = format!("name = \"p\"\n[source]\nkind = \"inbox\"\nkey = \"/id\"\n{STAGES}");
    let definition = parse(&text, "p.toml").expect("valid");
    Pipeline { text, definition, folder: std::env::temp_dir(), file: "p.toml".to_owned() }
}

fn given(texts: &[&str]) -> Vec<Given> {
    texts.iter().map(|text| Given { payload: (*text).to_owned(), ..Given::default() }).collect()
}

fn fates(answer: &HandedIn) -> Vec<Fate> {
    answer.items.iter().map(|item| item.outcome).collect()
}

#[tokio::test]
async fn an_inbox_goes_on_with_a_new_run_once_its_run_is_closed_or_cancelled() {
    let House { floor, .. } = House::new(STAGES, "");
    let ready = submit::prepare(&*floor.wiring, pipeline(), HandIn::default()).expect("ready");
    let mut inbox = Inbox::open(&floor, ready);
    let a = given(&["{\"id\":\"a\"}"]);
    let answer = inbox.items(a.clone()).await.expect("taken");
    assert_eq!((fates(&answer), answer.items[0].run), (vec![Fate::Admitted], Some(RunId(1))));
    assert_eq!(runs::show(&floor, Some(RunId(1))).await.expect("shown").status, RunStatus::Open);
    assert_eq!(fates(&inbox.items(a.clone()).await.expect("taken")), [Fate::Known]);
    submit::close(&floor, RunId(1)).await.expect("closed");
    assert_eq!(inbox.items(a.clone()).await.expect("taken").items[0].run, Some(RunId(2)));
    runs::cancel(&floor, RunId(2)).await.expect("cancelled");
    let answer = inbox.items(a).await.expect("taken");
    assert_eq!((fates(&answer), answer.items[0].run), (vec![Fate::Admitted], Some(RunId(3))));
    let worked = work_on(&floor, RunId(3), &Unobserved).await.expect("worked");
    assert_eq!((worked.report.status, worked.interrupted), (RunStatus::Open, false));
    let worked = work_on(&floor, RunId(1), &Unobserved).await.expect("worked");
    assert_eq!(worked.report.status, RunStatus::Completed);
}

#[tokio::test]
async fn each_item_is_answered_in_its_place() {
    let House { floor, .. } = House::new(STAGES, "");
    let ready = submit::prepare(&*floor.wiring, pipeline(), HandIn::default()).expect("ready");
    let mut inbox = Inbox::open(&floor, ready);
    let mut all = given(&["{\"id\":1}", "nope", "{\"id\":1,\"n\":2}", "{\"id\":1,\"n\":2}", "{\"id\":2}"]);
    all[4].category = Some("other".to_owned());
    let answer = inbox.items(all).await.expect("taken");
    let expected = [Fate::Admitted, Fate::Refused, Fate::Changed, Fate::Known, Fate::Admitted];
    assert_eq!(fates(&answer), expected);
    let lines: Vec<u64> = answer.items.iter().map(|item| item.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5]);
    assert_eq!(answer.items[2].id, answer.items[3].id);
    assert_eq!((answer.runs.len(), answer.counts.taken(), answer.counts.refused), (2, 4, 1));
    let written = serde_json::to_value(&answer).expect("JSON");
    assert_eq!(
        (&written["items"][1]["outcome"], &written["items"][1]["id"]),
        (&"refused".into(), &().into())
    );
}

#[tokio::test]
async fn a_run_of_items_says_whether_it_is_new_and_an_inbox_takes_neither_another_nor_a_priority() {
    let House { floor, .. } = House::new(STAGES, "");
    let begin = async |pipeline, request: &Begin| {
        let items = given(&["{\"id\":\"a\"}"]);
        submit::run_of_items(&floor, pipeline, items, request.clone()).await
    };
    let other = Begin { new: true, ..Begin::default() };
    let urgent = Begin { priority: Some(7), ..Begin::default() };
    for request in [&other, &urgent] {
        let refused = begin(pipeline(), request).await.expect_err("refused");
        assert_eq!((refused.kind, refused.hint.is_some()), (Kind::Wrong, true), "{refused}");
    }
    let listed = runs::list(&floor, &runs::List { limit: 9, ..runs::List::default() }).await.expect("listed");
    assert!(listed.runs.is_empty(), "nothing was begun");
    let first = begin(pipeline(), &Begin::default()).await.expect("taken");
    let second = begin(pipeline(), &Begin::default()).await.expect("taken");
    assert_eq!((first.run, first.created), (RunId(1), true));
    assert_eq!((second.run, second.created), (RunId(1), false));
    let text = format!("name = \"q\"\n[source]\npath = \"in.jsonl\"\n{STAGES}");
    let definition = parse(&text, "q.toml").expect("valid");
    let once = Pipeline { text, definition, folder: std::env::temp_dir(), file: "q.toml".to_owned() };
    for (request, run, created) in [(&urgent, 2, true), (&urgent, 2, false), (&other, 3, true)] {
        let begun = begin(once.clone(), request).await.expect("begun");
        assert_eq!((begun.run, begun.created), (RunId(run), created));
    }
}
