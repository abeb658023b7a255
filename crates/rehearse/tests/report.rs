//! The report adds up.

mod support;

use redrive_rehearse::{Builtin, Plan, Report};
use serde_json::json;
use support::Stage;

#[tokio::test]
async fn every_call_is_in_exactly_one_count() {
    let plan = "
        [limit]
        requests_per_second = 1
        burst = 40
        [[fault]]
        kind = \"status\"
        rate = 0.2
        [[fault]]
        kind = \"cut\"
        rate = 0.2
        [[fault]]
        kind = \"garbage\"
        rate = 0.2";
    let stage = Stage::play(plan).await;
    stage.statuses(50).await;
    let report = stage.running.stop().await;
    assert_eq!(report.calls, 50);
    let parts = [report.ok, report.rejected, report.failed, report.cut, report.spoilt];
    assert!(parts.iter().all(|n| *n > 0), "{report:?}");
    assert_eq!(parts.iter().sum::<u64>(), 50);
    assert_eq!((report.abandoned, report.open), (0, 0));
    assert_eq!(report.rejected, 10);
    let answered: u64 = report.statuses.values().sum();
    assert_eq!(answered + report.cut, 50);
    let series: u64 = report.series.iter().map(|s| s.ok + s.rejected + s.failed).sum();
    assert_eq!(series, 50);
}

#[tokio::test]
async fn what_is_served_twice_is_found_and_the_live_report_is_the_same() {
    let stage = Stage::play("").await;
    for texts in [["a", "b"], ["b", "c"]] {
        stage.embed(&texts).await.expect("an answer");
        stage.clock.pass(1_500);
    }
    let live: Report = serde_json::from_value(stage.get("/rehearse/report").await.json()).expect("a report");
    assert_eq!(live, stage.running.report());
    assert_eq!((live.items_served, live.distinct_served, live.served_twice, live.paid_again), (4, 3, 1, 1));
    assert_eq!(live.routes, [("/v1/embeddings".to_owned(), 2)].into());
    assert_eq!(live.series.iter().map(|s| s.second).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(live.first_call.as_deref(), Some("2023-11-14T22:13:20.000Z"));
    assert_eq!((live.last_call.as_deref(), live.lasted_ms), (Some("2023-11-14T22:13:21.500Z"), 1_500));
    let text = live.to_string();
    assert!(text.contains("paid again           1"), "{text}");
}

#[tokio::test]
async fn a_reset_begins_anew_and_so_does_time() {
    let stage = Stage::play("[[fault]]\nkind = \"outage\"\nfrom = \"1s\"").await;
    stage.statuses(1).await;
    stage.clock.pass(5_000);
    assert_eq!(stage.statuses(1).await, [503]);
    stage.post("/rehearse/reset", &json!({})).await.expect("an answer");
    assert_eq!(stage.running.report(), Report { plan: "test.toml".to_owned(), seed: 1, ..Report::default() });
    assert_eq!(stage.statuses(1).await, [200]);
}

#[tokio::test]
async fn every_built_in_plan_answers() {
    for builtin in Builtin::ALL {
        assert!(!builtin.summary().is_empty(), "{}", builtin.name);
        let plan = Plan::parse(builtin.text, builtin.name).unwrap_or_else(|error| panic!("{error}"));
        assert!(!plan.describe().is_empty());
        let stage = Stage::with(plan).await;
        let client = stage.raw("/v1/embeddings", &json!({"input": "a"})).await;
        while stage.running.report().statuses.is_empty() {
            stage.clock.pass(1);
            tokio::task::yield_now().await;
        }
        drop(client);
        let expected = if builtin.name == "locked" { 401 } else { 200 };
        assert_eq!(
            stage.running.report().statuses.keys().collect::<Vec<_>>(),
            [&expected],
            "{}",
            builtin.name
        );
    }
}
