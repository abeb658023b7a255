//! Every fault is really produced, and counted.

mod support;

use serde_json::{Value, json};
use support::{Answer, Stage, drain, work};
use tokio::io::AsyncReadExt;

async fn always(kind: &str) -> Stage {
    Stage::play(&format!("[[fault]]\nkind = {kind}")).await
}

async fn embed(kind: &str) -> Answer {
    let stage = always(kind).await;
    let answer = stage.embed(&["one", "two", "three"]).await.expect("an answer");
    let report = stage.running.stop().await;
    assert_eq!((report.faults.values().sum::<u64>(), report.items_served), (1, 0));
    answer
}

fn data(answer: &Answer) -> Vec<Value> {
    answer.json()["data"].as_array().expect("data").clone()
}

fn lengths(answer: &Answer) -> Vec<usize> {
    data(answer).iter().map(|entry| entry["embedding"].as_array().expect("numbers").len()).collect()
}

#[tokio::test]
async fn statuses_come_with_an_error_in_openais_shape() {
    for (status, code, kind) in [
        (500, "server_error", "server_error"),
        (502, "server_error", "server_error"),
        (429, "rate_limit_exceeded", "requests"),
        (401, "invalid_api_key", "invalid_request_error"),
    ] {
        let answer = embed(&format!("\"status\"\nstatus = {status}\nretry_after = \"1500ms\"")).await;
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()));
        assert_eq!(answer.json()["error"]["type"], kind);
        assert_eq!(answer.header("retry-after"), "2");
    }
}

#[tokio::test]
async fn counts_are_wrong() {
    assert_eq!(data(&embed("\"too-few\"").await).len(), 2);
    assert_eq!(data(&embed("\"too-many\"").await).len(), 4);
    for (kind, n) in [("\"too-few\"", 1), ("\"too-many\"", 3)] {
        let stage = always(kind).await;
        let answer = stage.work(&[json!(1), json!(2)]).await.expect("an answer").json();
        assert_eq!(answer["results"].as_array().map(Vec::len), Some(n));
    }
}

#[tokio::test]
async fn vectors_are_wrong() {
    assert_eq!(lengths(&embed("\"wrong-dimension\"").await), [63, 64, 64]);
    assert_eq!(lengths(&embed("\"empty\"").await), [0, 64, 64]);
    assert_eq!(data(&embed("\"null\"").await)[0]["embedding"][0], Value::Null);
    let nan = embed("\"nan\"").await;
    let body = nan.body.as_deref().expect("a whole body");
    assert!(body.contains("\"embedding\":[NaN,"), "{body}");
    assert!(serde_json::from_str::<Value>(body).is_err());
}

#[tokio::test]
async fn results_of_items_are_wrong() {
    for (kind, part) in
        [("\"nan\"", "\"output\":NaN"), ("\"null\"", "\"output\":null"), ("\"empty\"", "{\"id\":\"id0\"}")]
    {
        let stage = always(kind).await;
        let answer = stage.work(&[json!({"a": 1})]).await.expect("an answer");
        assert!(answer.body.as_deref().is_some_and(|body| body.contains(part)), "{kind}: {answer:?}");
        assert_eq!(stage.running.report().spoilt, 1);
    }
}

#[tokio::test]
async fn chat_answers_are_wrong() {
    let ask = json!({"messages": [{"role": "user", "content": "hello"}]});
    for (kind, pointer, expected) in [
        ("\"null\"", "/choices/0/message/content", Some(Value::Null)),
        ("\"empty\"", "/choices/0/message/content", Some(json!(""))),
        ("\"too-few\"", "/choices/0", None),
        ("\"too-many\"", "/choices/1/index", Some(json!(1))),
    ] {
        let stage = always(kind).await;
        let answer = stage.post("/v1/chat/completions", &ask).await.expect("an answer").json();
        assert_eq!(answer.pointer(pointer), expected.as_ref(), "{kind}");
    }
    let stage = always("\"nan\"").await;
    let answer = stage.post("/v1/chat/completions", &ask).await.expect("an answer");
    assert!(answer.body.is_some_and(|body| body.contains("NaN")));
}

#[tokio::test]
async fn another_order_is_a_good_answer() {
    let stage = always("\"shuffled\"").await;
    let answer = stage.embed(&["one", "two"]).await.expect("an answer");
    assert_eq!(
        data(&answer).iter().map(|entry| entry["index"].as_u64()).collect::<Vec<_>>(),
        [Some(1), Some(0)]
    );
    let plain = Stage::play("").await.embed(&["one", "two"]).await.expect("an answer");
    assert_eq!(data(&answer)[0]["embedding"], data(&plain)[1]["embedding"]);
    let report = stage.running.stop().await;
    assert_eq!((report.ok, report.items_served), (1, 2));
}

#[tokio::test]
async fn bodies_are_garbage_or_huge() {
    let answer = embed("\"garbage\"").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, "text/html"));
    assert!(answer.body.is_some_and(|body| body.starts_with("<!DOCTYPE html>")));
    let answer = embed("\"huge\"\nbytes = 3000001").await;
    assert_eq!(answer.body.map(|body| body.len()), Some(3_000_001));
}

#[tokio::test]
async fn connections_are_closed_before_the_answer_and_within_it() {
    let stage = always("\"cut\"").await;
    let mut stream = stage.raw("/work", &work(&[json!(1)])).await;
    assert_eq!(drain(&mut stream).await, "");
    assert!(stage.work(&[json!(1)]).await.is_none());
    assert_eq!(stage.running.report().cut, 2);

    let stage = always("\"cut-inside\"").await;
    let mut stream = stage.raw("/work", &work(&[json!({"text": "x".repeat(500)})])).await;
    let text = drain(&mut stream).await;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let announced: usize = announced.expect("a length").parse().expect("a number");
    assert!(body.starts_with("{\"results\":") && body.len() == announced / 2, "{announced}: {body}");
    let report = stage.running.stop().await;
    assert_eq!((report.cut, report.ok, report.items_served), (1, 0, 0));
}

#[tokio::test]
async fn answers_trickle_a_byte_for_each_pace() {
    let stage = always("\"slowloris\"\npace = \"100ms\"").await;
    let mut stream = stage.raw("/work", &work(&[json!(1)])).await;
    let mut seen = String::new();
    let mut buffer = [0; 4_096];
    // The head comes at once, and nothing after it while time stands still.
    while !seen.contains("\r\n\r\n") {
        let n = stream.read(&mut buffer).await.expect("bytes");
        seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    assert!(seen.ends_with("\r\n\r\n"), "{seen:?}");
    for byte in ["{", "\"", "r"] {
        stage.clock.pass(100);
        let chunk = format!("1\r\n{byte}\r\n");
        let mut bytes = vec![0; chunk.len()];
        stream.read_exact(&mut bytes).await.expect("a byte");
        assert_eq!(String::from_utf8_lossy(&bytes), chunk);
    }
    // Left alone with enough time it ends, and is whole.
    let rest = tokio::spawn(async move {
        let mut rest = String::new();
        while !rest.ends_with("0\r\n\r\n") {
            let n = stream.read(&mut buffer).await.expect("bytes");
            rest.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    });
    while !rest.is_finished() {
        stage.clock.pass(100);
        tokio::task::yield_now().await;
    }
    rest.await.expect("it ends");
}

#[tokio::test]
async fn an_endless_answer_goes_on_and_on() {
    let stage = always("\"endless\"\npace = \"1ms\"").await;
    let mut stream = stage.raw("/work", &work(&[json!(1)])).await;
    let clock = stage.clock.clone();
    let ticking = tokio::spawn(async move {
        loop {
            clock.pass(1);
            tokio::task::yield_now().await;
        }
    });
    let mut bytes = vec![0; 20_000];
    stream.read_exact(&mut bytes).await.expect("more and more");
    ticking.abort();
    assert_eq!(stage.running.report().spoilt, 1);
}

#[tokio::test]
async fn a_hanging_call_is_open_until_the_caller_leaves() {
    let stage = always("\"hang\"").await;
    let stream = stage.raw("/work", &work(&[json!(1)])).await;
    stage.until_open(1).await;
    stage.clock.pass(3_600_000);
    assert_eq!(stage.running.report().abandoned, 0);
    drop(stream);
    stage.until_open(0).await;
    assert_eq!(stage.running.report().abandoned, 1);
}

#[tokio::test]
async fn an_outage_hits_every_call_of_its_time() {
    let stage =
        Stage::play("[[fault]]\nkind = \"outage\"\nfrom = \"1s\"\nuntil = \"3s\"\nretry_after = \"1s\"")
            .await;
    assert_eq!(stage.statuses(2).await, [200, 200]);
    stage.clock.pass(999);
    assert_eq!(stage.statuses(1).await, [200]);
    stage.clock.pass(1);
    assert_eq!(stage.statuses(3).await, [503, 503, 503]);
    stage.clock.pass(2_000);
    assert_eq!(stage.statuses(1).await, [200]);
    let report = stage.running.stop().await;
    assert_eq!((report.failed, report.faults["outage"], report.early_calls), (3, 3, 2));
}

#[tokio::test]
async fn an_outage_can_close_connections() {
    let stage = always("\"outage\"\nhow = \"cut\"").await;
    let mut stream = stage.raw("/work", &work(&[json!(1)])).await;
    assert_eq!(drain(&mut stream).await, "");
    assert_eq!(stage.running.report().cut, 1);
}

#[tokio::test]
async fn an_outage_can_refuse_connections() {
    let stage =
        Stage::play("[[fault]]\nkind = \"outage\"\nhow = \"refuse\"\nfrom = \"1s\"\nuntil = \"3s\"").await;
    assert_eq!(stage.statuses(1).await, [200]);
    let refused = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    let connect = || tokio::net::TcpStream::connect(stage.addr());
    stage.clock.pass(1_000);
    while !connect().await.is_err_and(|error| refused(&error)) {
        tokio::task::yield_now().await;
    }
    stage.clock.pass(2_000);
    while connect().await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.statuses(1).await, [200]);
}

#[tokio::test]
async fn bursts_come_and_go() {
    let stage = Stage::play(
        "[[fault]]\nkind = \"status\"\nstatus = 503\nevery = \"10s\"\nlasts = \"2s\"\nfrom = \"3s\"",
    )
    .await;
    let mut statuses = Vec::new();
    for _ in 0..16 {
        statuses.extend(stage.statuses(1).await);
        stage.clock.pass(1_000);
    }
    let down: Vec<usize> = (0..16).filter(|second| statuses[*second] == 503).collect();
    assert_eq!(down, [3, 4, 13, 14]);
}

#[tokio::test]
async fn a_fault_can_be_of_one_path_only() {
    let stage = always("\"status\"\npath = \"/v1/\"").await;
    assert_eq!(stage.embed(&["one"]).await.map(|answer| answer.status), Some(500));
    assert_eq!(stage.statuses(1).await, [200]);
}

#[tokio::test]
async fn a_fault_of_items_hits_the_same_ones_so_often() {
    let stage = always("\"status\"\nrate = 0.3\nby = \"item\"\ntimes = 2").await;
    let mut failures = vec![0; 40];
    for _ in 0..4 {
        for (n, failed) in failures.iter_mut().enumerate() {
            let call =
                json!({"stage": "s", "items": [{"id": n.to_string(), "key": n.to_string(), "payload": n}]});
            let answer = stage.post("/work", &call).await.expect("an answer");
            *failed += u32::from(answer.status == 500);
        }
    }
    assert!(failures.iter().all(|n| [0, 2].contains(n)), "{failures:?}");
    let hit = failures.iter().filter(|n| **n == 2).count();
    assert!((4..=20).contains(&hit), "{hit} of 40");
}

#[tokio::test]
async fn the_same_seed_meets_the_same_faults() {
    let plan = "[[fault]]\nkind = \"status\"\nrate = 0.3\n[[fault]]\nkind = \"cut\"\nrate = 0.2";
    let parsed = |seed: u64| redrive_rehearse::Plan::parse(plan, "test").expect("a plan").with_seed(seed);
    let play = async |seed: u64| Stage::with(parsed(seed)).await.statuses(60).await;
    let (one, again, other) = (play(7).await, play(7).await, play(8).await);
    assert_eq!(one, again);
    assert_ne!(one, other);
    for status in [0, 200, 500] {
        assert!(one.contains(&status), "{status} in {one:?}");
    }
}
