//! The floor itself refuses whoever may not do something, whatever door they came by.

use redrive_core::id::{OperationId, RunId};
use redrive_operate::again::{Rerun, Retry, rerun, retry};
use redrive_operate::dead::{self, Allowance, Freeze, Note, Redrive, Selection, Which};
use redrive_operate::items::{self, ItemName};
use redrive_operate::operations::{self, Start, StartKind};
use redrive_operate::reports::{self, Forget};
use redrive_operate::results::{Asked, Results};
use redrive_operate::runs::{self, Begin, Resume};
use redrive_operate::submit;
use redrive_operate::work::{Serve, Unobserved, serve};
use redrive_operate::{Asker, Code, Error, Floor, Kind, Result, Role, care, gates};

use crate::support::House;

const STAGES: &str =
    "[run]\nfailure_budget = false\n[[stage]]\nname = \"work\"\nkind = \"pass\"\nretry.max_attempts = 1\n";

fn as_a(house: &House, role: Role, payloads_hidden: bool) -> Floor {
    Floor { asker: Asker { name: "v".to_owned(), role, payloads_hidden }, ..house.floor.clone() }
}

fn is_forbidden<T>(what: &str, answer: Result<T>) {
    let told = answer.err().map(|Error { kind, code, .. }| (kind, code));
    assert_eq!(told, Some((Kind::Forbidden, Code::Forbidden)), "{what}");
}

#[tokio::test]
async fn a_viewer_changes_nothing() {
    let house = House::new(STAGES, "{\"id\":1}\n");
    house.run().await;
    let floor = as_a(&house, Role::Viewer, false);
    let (run, item) = (RunId(1), ItemName { item: "x".to_owned(), run: None });
    let mut house = house;
    house.floor = floor.clone();
    is_forbidden("begin", house.begin(Begin::default()).await);
    let resume = Resume { run, pipeline: None, keep_passed: false };
    is_forbidden("resume", runs::resume(&floor, resume).await);
    is_forbidden("pause", runs::pause(&floor, run, "").await);
    is_forbidden("let go on", runs::let_go_on(&floor, run).await);
    is_forbidden("cancel", runs::cancel(&floor, run).await);
    is_forbidden("close", submit::close(&floor, run).await);
    is_forbidden("kill", items::kill(&floor, &item, "why").await);
    is_forbidden("retry", retry(&floor, &Retry::default(), &Unobserved).await);
    is_forbidden("rerun", rerun(&floor, &Rerun::default(), &Unobserved).await);
    let selection = Selection::of(&floor, &Which::default()).await.expect("looked");
    is_forbidden("redrive", dead::redrive(&floor, &selection, &Redrive::default(), &Unobserved).await);
    let frozen = dead::freeze(&floor, &Freeze { which: Which::default(), limit: 1 }).await.expect("looked");
    let allowed = Allowance { max_items: 1, max_usd: None };
    is_forbidden("send frozen", dead::send_frozen(&floor, &frozen, allowed).await);
    is_forbidden("purge", dead::purge(&floor, &selection).await);
    is_forbidden("note", dead::note(&floor, "g", Note::default()).await);
    is_forbidden("stop", operations::stop(&floor, OperationId(1)).await);
    is_forbidden("carry on", operations::carry_on(&floor, OperationId(1)).await);
    let start = Start { all: true, dry_run: true, ..Start::of(StartKind::Purge, Which::default()) };
    is_forbidden("start", operations::start(&floor, &start).await);
    is_forbidden("start frozen", operations::start_frozen(&floor, OperationId(1)).await);
    is_forbidden("work through", operations::work_through(&floor, OperationId(1), &Unobserved).await);
    is_forbidden("rules", operations::apply_rules(&floor, &operations::Carrier::default()).await);
    is_forbidden("gate pause", gates::pause(&floor, "g", "why").await);
    is_forbidden("gate resume", gates::resume(&floor, None).await);
    is_forbidden("gate reset", gates::reset(&floor, "g").await);
    is_forbidden("serve", serve(&floor, Serve::default(), std::sync::Arc::new(Unobserved)).await);
    runs::show(&floor, Some(run)).await.expect("it may look");
}

#[tokio::test]
async fn care_of_the_store_takes_an_administrator_and_contents_are_kept_from_some() {
    let house = House::new(STAGES, "{\"id\":1}\n");
    house.run().await;
    let floor = as_a(&house, Role::Operator, true);
    is_forbidden("compact", care::compact(&floor).await);
    is_forbidden("backup", care::backup(&floor, "x".into()).await);
    let prune = Forget { older_than_ms: 0, with_dead: true };
    is_forbidden("prune", reports::prune(&floor, prune).await);
    is_forbidden("results", Results::find(&floor, &Asked::default()).await);
}
