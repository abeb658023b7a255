//! What networks, neighbours and crowds do, and the ways to be told when to come back, over TCP.

mod support;

use serde_json::json;
use support::{Stage, work};

#[tokio::test]
async fn calls_are_decided_about_when_they_arrive() {
    let stage = Stage::play("[network]\njitter = \"1s\"\n[limit]\nrequests_per_minute = 1\nburst = 2").await;
    let mut clients = Vec::new();
    for n in 0..4 {
        clients.push(stage.raw("/work", &work(&[json!(n)])).await);
    }
    // None of them has come yet, so there is nothing to count.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.running.report().calls, 0);
    for _ in 0..1_000 {
        stage.clock.pass(1);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    let report = stage.running.report();
    assert_eq!((report.calls, report.ok, report.rejected), (4, 2, 2));
    assert!(report.lasted_ms > 50, "they came one after the other: {report:?}");
}

#[tokio::test]
async fn a_wait_is_written_in_every_way() {
    for (hint, name, value) in [
        ("seconds", "retry-after", "2"),
        ("exact", "retry-after", "1.200"),
        ("ms", "retry-after-ms", "1200"),
        ("date", "retry-after", "Tue, 14 Nov 2023 22:13:22 GMT"),
    ] {
        let fault = format!(
            "[[fault]]\nkind = \"status\"\nstatus = 429\nretry_after = \"1200ms\"\nhint = \"{hint}\""
        );
        let answer = Stage::play(&fault).await.work(&[json!(1)]).await.expect("an answer");
        assert_eq!((answer.status, answer.header(name)), (429, value), "{hint}");
        assert!(!answer.body.expect("a body").contains("try again"), "{hint}");
    }
    let stage = Stage::play("[limit]\nrequests_per_minute = 50\nburst = 1\nhint = \"text\"").await;
    stage.statuses(1).await;
    let answer = stage.work(&[json!(1)]).await.expect("an answer");
    assert!(answer.headers.get("retry-after").is_none(), "{:?}", answer.headers);
    assert!(answer.body.expect("a body").contains("Please try again in 1.2s"));
}

#[tokio::test]
async fn nothing_says_when_to_come_back_where_the_plan_says_so() {
    let stage = Stage::play("[limit]\nrequests_per_minute = 1\nburst = 1\nhint = \"none\"").await;
    stage.statuses(1).await;
    let answer = stage.work(&[json!(1)]).await.expect("an answer");
    assert!(answer.headers.get("retry-after").is_none(), "{:?}", answer.headers);
    assert!(!answer.body.expect("a body").contains("gain in"), "not even the message");
}

#[tokio::test]
async fn a_bad_spell_can_say_when_it_ends() {
    let plan = "[latency]\nbase = \"1h\"\n[[fault]]\nkind = \"status\"\nstatus = 503\nquick = true\nretry_after = \"end\"\nhint = \"ms\"\nfrom = \"0s\"\nevery = \"10s\"\nlasts = \"2s\"";
    let stage = Stage::play(plan).await;
    stage.statuses(1).await;
    stage.clock.pass(500);
    let answer = stage.work(&[json!(1)]).await.expect("quick: it does not take the hour");
    assert_eq!((answer.status, answer.header("retry-after-ms")), (503, "1500"));
}

#[tokio::test]
async fn a_crowd_can_be_told_for_how_long_to_stay_away() {
    let plan = "[latency]\nbase = \"1s\"\nmax_concurrency = 1\nover_status = 429\nover_retry_after = \"1s\"";
    let stage = Stage::play(plan).await;
    let client = stage.raw("/work", &work(&[json!(1)])).await;
    stage.until_open(1).await;
    let answer = stage.work(&[json!(2)]).await.expect("an answer");
    assert_eq!((answer.status, answer.header("retry-after")), (429, "1"));
    assert_eq!(answer.code(), "rate_limit_exceeded");
    drop(client);
}

#[tokio::test]
async fn an_item_that_does_not_wait_is_told_from_others() {
    let plan = "[[fault]]\nkind = \"status\"\nstatus = 429\nby = \"item\"\ntimes = 1\nretry_after = \"1s\"";
    let stage = Stage::play(plan).await;
    let ask = async |key: &str| {
        let item = json!({"id": key, "key": key, "attempt": 1, "payload": 1});
        stage.post("/work", &json!({"stage": "s", "items": [item]})).await.expect("an answer").status
    };
    assert_eq!((ask("a").await, ask("b").await), (429, 429));
    stage.clock.pass(999);
    assert_eq!(ask("a").await, 200);
    stage.clock.pass(1);
    assert_eq!(ask("b").await, 200);
    let report = stage.running.stop().await;
    assert_eq!((report.early_calls, report.early_items), (2, 1), "the second was nobody's wait of its own");
    assert_eq!(report.last_ok_ms, 1_000);
}

#[tokio::test]
async fn headers_are_those_of_whoever_the_plan_names() {
    let of = async |whose: &str| {
        let plan = format!("[limit]\nrequests_per_second = 10\nheaders = {whose}");
        let answer = Stage::play(&plan).await.work(&[json!(1)]).await.expect("an answer");
        let told = |name: &str| name.contains("ratelimit");
        answer.headers.keys().filter(|name| told(name.as_str())).count()
    };
    for (whose, count) in [
        ("false", 0),
        ("true", 3),
        ("\"openai\"", 3),
        ("\"anthropic\"", 3),
        ("\"azure\"", 1),
        ("\"mistral\"", 2),
        ("\"groq\"", 3),
        ("\"github\"", 5),
        ("\"ietf\"", 2),
        ("\"ietf-old\"", 4),
    ] {
        assert_eq!(of(whose).await, count, "{whose}");
    }
}
