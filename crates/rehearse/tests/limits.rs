//! Limits, credit, sizes, poison, keys and latency, over TCP.

mod support;

use serde_json::json;
use support::{Stage, work};

#[tokio::test]
async fn a_limit_lets_exactly_its_rate_through() {
    let stage =
        Stage::play("[limit]\nrequests_per_second = 10\nburst = 3\nheaders = true\nhint = \"both\"").await;
    assert_eq!(stage.statuses(5).await, [200, 200, 200, 429, 429]);
    let answer = stage.work(&[json!(1)]).await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (429, "rate_limit_exceeded".to_owned()));
    assert_eq!((answer.header("retry-after"), answer.header("retry-after-ms")), ("1", "100"));
    assert_eq!(answer.header("x-ratelimit-limit-requests"), "600");
    assert_eq!(answer.header("x-ratelimit-remaining-requests"), "0");
    assert_eq!(answer.header("x-ratelimit-reset-requests"), "300ms");
    stage.clock.pass(100);
    assert_eq!(stage.statuses(2).await, [200, 429]);
    stage.clock.pass(99);
    assert_eq!(stage.statuses(1).await, [429]);
    stage.clock.pass(1);
    assert_eq!(stage.statuses(1).await, [200]);
    let report = stage.running.stop().await;
    assert_eq!((report.calls, report.ok, report.rejected), (10, 5, 5));
    // The two right after the first rejection, and the one a millisecond before the time.
    assert_eq!(report.early_calls, 3);
}

#[tokio::test]
async fn headers_and_hints_can_be_left_out() {
    let stage = Stage::play("[limit]\nrequests_per_minute = 1\nhint = \"none\"").await;
    stage.statuses(1).await;
    let answer = stage.work(&[json!(1)]).await.expect("an answer");
    assert_eq!(answer.status, 429);
    let told = |name: &str| name.starts_with("x-ratelimit") || name.starts_with("retry-after");
    assert!(!answer.headers.keys().any(|name| told(name.as_str())), "{:?}", answer.headers);
    stage.statuses(1).await;
    assert_eq!(stage.running.report().early_calls, 0);
}

#[tokio::test]
async fn lies_reach_the_caller() {
    for (hint, value) in [
        ("negative", "-5"),
        ("ten-years", "315360000"),
        ("garbage", "soon, maybe"),
        ("past", "Tue, 14 Nov 2023 21:13:20 GMT"),
    ] {
        let stage = Stage::play(&format!("[limit]\nrequests_per_minute = 1\nhint = \"{hint}\"")).await;
        stage.statuses(1).await;
        assert_eq!(stage.work(&[json!(1)]).await.expect("an answer").header("retry-after"), value);
    }
}

#[tokio::test]
async fn a_call_above_the_token_limit_is_told_so() {
    for (more, status, code) in
        [("", 429, "rate_limit_exceeded"), ("\ntoo_large_status = 400", 400, "context_length_exceeded")]
    {
        let plan = format!("tokens_per_text = 10\n[limit]\ntokens_per_minute = 60\ntoken_burst = 25{more}");
        let stage = Stage::play(&plan).await;
        let answer = stage.embed(&["a", "b", "c"]).await.expect("an answer");
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()));
        assert!(answer.json()["error"]["message"].as_str().is_some_and(|text| text.contains("too large")));
        assert_eq!(stage.embed(&["a", "b"]).await.map(|answer| answer.status), Some(200));
        assert_eq!(stage.embed(&["a"]).await.map(|answer| answer.status), Some(429), "5 are left");
        stage.clock.pass(5_000);
        assert_eq!(stage.embed(&["a"]).await.map(|answer| answer.status), Some(200));
    }
}

#[tokio::test]
async fn credit_ends_for_good_until_it_is_topped_up() {
    let stage = Stage::play("[quota]\nrequests = 2").await;
    assert_eq!(stage.statuses(4).await, [200, 200, 429, 429]);
    stage.clock.pass(3_600_000);
    let answer = stage.work(&[json!(1)]).await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (429, "insufficient_quota".to_owned()));
    assert_eq!(answer.json()["error"]["type"], "insufficient_quota");
    assert_eq!(stage.post("/rehearse/top-up", &json!({})).await.map(|answer| answer.status), Some(200));
    assert_eq!(stage.statuses(3).await, [200, 200, 429]);

    let stage = Stage::play("tokens_per_text = 10\n[quota]\ntokens = 25").await;
    assert_eq!(stage.embed(&["a", "b"]).await.map(|answer| answer.status), Some(200));
    assert_eq!(stage.embed(&["c"]).await.map(|answer| answer.code()), Some("insufficient_quota".to_owned()));
}

#[tokio::test]
async fn failed_calls_cost_no_credit() {
    let stage = Stage::play("[quota]\nrequests = 1\n[[fault]]\nkind = \"status\"\nuntil = \"1s\"").await;
    assert_eq!(stage.statuses(3).await, [500, 500, 500]);
    stage.clock.pass(1_000);
    assert_eq!(stage.statuses(2).await, [200, 429]);
}

#[tokio::test]
async fn sizes_are_limited() {
    let plan = "tokens_per_text = 10\n[size]\nmax_texts = 2\nstatus = 413";
    let stage = Stage::play(plan).await;
    assert_eq!(stage.embed(&["a", "b"]).await.map(|answer| answer.status), Some(200));
    let answer = stage.embed(&["a", "b", "c"]).await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (413, "context_length_exceeded".to_owned()));
    let stage = Stage::play("[size]\nmax_tokens_per_text = 2").await;
    assert_eq!(stage.embed(&["12345678", "1"]).await.map(|answer| answer.status), Some(200));
    assert_eq!(stage.embed(&["123456789"]).await.map(|answer| answer.status), Some(400));
    let stage = Stage::play("[size]\nmax_tokens_per_request = 2\nstatus = 500").await;
    assert_eq!(stage.embed(&["1", "2"]).await.map(|answer| answer.status), Some(200));
    let answer = stage.embed(&["1", "2", "3"]).await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (500, "server_error".to_owned()));
}

#[tokio::test]
async fn poison_fails_the_whole_call_and_is_listed() {
    let stage = Stage::play("[[poison]]\nmarker = \"POISON\"\nstatus = 413\ncode = \"bad\"").await;
    let answer = stage.work(&[json!({"t": "ok"}), json!({"t": "a POISON b"})]).await.expect("an answer");
    assert_eq!((answer.status, answer.code()), (413, "bad".to_owned()));
    assert_eq!(stage.embed(&["ok", "POISON"]).await.map(|answer| answer.status), Some(413));
    assert_eq!(stage.embed(&["ok"]).await.map(|answer| answer.status), Some(200));
    let poison = stage.running.report().poison;
    assert_eq!(poison.len(), 2);
    assert!(poison.iter().any(|hit| hit.item == "k1" && hit.calls == 1), "{poison:?}");
}

#[tokio::test]
async fn keys_are_asked_for_and_never_shown() {
    let stage = Stage::play("api_key = \"sesame-4711\"").await;
    let body = work(&[json!(1)]);
    for (key, status) in [(None, 401), (Some("wrong"), 401), (Some("sesame-4711"), 200)] {
        let answer = stage.post_as("/work", &body, key).await.expect("an answer");
        assert_eq!(answer.status, status, "{key:?}");
        if status == 401 {
            assert_eq!(answer.code(), "invalid_api_key");
        }
    }
    let shown = stage.get("/rehearse/report").await.body.expect("a report");
    let plan = redrive_rehearse::Plan::parse("api_key = \"sesame-4711\"", "test").expect("a plan");
    let text = format!("{shown}{}{plan:?}{:?}", stage.running.report(), plan.describe());
    assert!(!text.contains("4711"), "{text}");
}

#[tokio::test]
async fn an_answer_takes_its_time() {
    let stage = Stage::play("[latency]\nbase = \"100ms\"\nper_item = \"10ms\"").await;
    let client = stage.raw("/work", &work(&[json!(1), json!(2)])).await;
    stage.until_open(1).await;
    stage.clock.pass(119);
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.running.report().open, 1);
    stage.clock.pass(1);
    stage.until_open(0).await;
    assert_eq!(stage.running.report().ok, 1);
    drop(client);
}

#[tokio::test]
async fn a_crowd_makes_it_slower_and_then_turns_away() {
    let stage = Stage::play("[latency]\nbase = \"100ms\"\ncapacity = 2\nmax_concurrency = 4").await;
    let mut clients = Vec::new();
    for n in 1..=4 {
        clients.push(stage.raw("/work", &work(&[json!(n)])).await);
        stage.until_open(n).await;
    }
    assert_eq!(stage.statuses(1).await, [503], "the fifth at once");
    // Two within the capacity take 100 ms, the third half as much again, the fourth twice as much.
    for (ms, open) in [(99, 4), (1, 2), (49, 2), (1, 1), (49, 1), (1, 0)] {
        stage.clock.pass(ms);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stage.running.report().open, open, "after {ms} more");
    }
    let report = stage.running.stop().await;
    assert_eq!((report.ok, report.failed, report.highest_concurrency), (4, 1, 5));
}

#[tokio::test]
async fn what_comes_first_decides() {
    let plan = "
        api_key = \"k\"
        [limit]
        requests_per_second = 1
        burst = 2
        [size]
        max_texts = 1
        status = 413
        [[poison]]
        marker = \"POISON\"
        [[fault]]
        kind = \"status\"
        status = 502
        until = \"2s\"
        [[fault]]
        kind = \"outage\"
        from = \"2s\"
        until = \"3s\"";
    let stage = Stage::play(plan).await;
    let poison = json!({"t": "POISON"});
    let ask = async |items: &[serde_json::Value], key| {
        stage.post_as("/work", &work(items), key).await.expect("an answer").status
    };
    assert_eq!(ask(&[poison.clone(), json!(1)], None).await, 401);
    assert_eq!(ask(&[poison.clone(), json!(1)], Some("k")).await, 413, "size before poison");
    assert_eq!(ask(std::slice::from_ref(&poison), Some("k")).await, 400, "poison before faults");
    assert_eq!(ask(std::slice::from_ref(&poison), Some("k")).await, 429, "limits before poison");
    stage.clock.pass(1_000);
    assert_eq!(ask(&[json!(1)], Some("k")).await, 502);
    stage.clock.pass(1_000);
    assert_eq!(ask(&[poison], None).await, 503, "an outage before everything");
    stage.clock.pass(1_000);
    assert_eq!(ask(&[json!(1)], Some("k")).await, 200);
}
