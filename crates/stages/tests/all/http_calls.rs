//! Claims about what the `http` handler sends, keeps and hides.

use std::sync::Arc;

use redrive_engine::handler::Handler;
use redrive_stages::{BodyForm, HttpHandler, HttpSpec};
use tokio::io::AsyncWriteExt;

use crate::server::{NOW, handler, listen, ok, once, receive};
use crate::support::{assert_reply, fill, request, shown};

#[tokio::test]
async fn the_request_carries_protocol_headers_and_keys() {
    let batch = request(&["a"]);
    let (mut spec, server) = once(ok(fill(r#"{"results":[{"id":"@a","output":{"x":1}}]}"#, &batch))).await;
    spec.headers = vec![("X-Team".into(), "blue".into())];
    spec.secret_headers = vec![("Authorization".into(), "Bearer canary-0123".into())];
    spec.output = Some("/out".into());
    let reply = handler(spec).call(batch).await;
    assert_eq!(shown(&reply), [r#"{"n":1,"out":{"x":1}}"#]);
    let sent = server.await.unwrap();
    for part in [
        "POST /work?api_key=hunter2hunter2 HTTP/1.1\r\n",
        "\r\nidempotency-key: once-a\r\n",
        "\r\ncontent-type: application/json\r\n",
        "\r\nx-team: blue\r\n",
        "\r\nauthorization: Bearer canary-0123\r\n",
        "{\"stage\":\"test\",\"items\":[{\"id\":\"",
    ] {
        assert!(sent.contains(part), "{part} is not in {sent}");
    }
}

#[tokio::test]
async fn the_key_of_a_batch_does_not_depend_on_its_order() {
    let mut keys = Vec::new();
    for order in [["a", "b"], ["b", "a"], ["a", "c"]] {
        let (spec, server) = once(ok(r#"{"results":[]}"#)).await;
        handler(spec).call(request(&order)).await;
        let sent = server.await.unwrap();
        keys.push(sent.lines().find(|line| line.starts_with("idempotency-key")).unwrap().to_owned());
    }
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
}

#[tokio::test]
async fn the_bare_form_sends_the_payload_and_takes_the_body() {
    for (body, expected) in [
        ("[1, 2.50]", "[1, 2.50]"),
        ("plain text", "whole retryable/answer: the answer is not JSON"),
        ("<p>", "whole retryable/answer: the answer is HTML"),
        ("", "whole retryable/answer: the answer is empty"),
    ] {
        let (mut spec, server) = once(ok(body)).await;
        spec.body = BodyForm::Payload;
        assert_reply(&handler(spec).call(request(&["a"])).await, &[expected], body);
        assert!(server.await.unwrap().ends_with("\r\n\r\n{\"n\":1}"));
    }
    let (_listener, mut spec) = listen().await;
    spec.body = BodyForm::Payload;
    assert_reply(&handler(spec).call(request(&["a", "b"])).await, &["whole final/input"], "two items");
}

#[tokio::test]
async fn secrets_that_a_server_repeats_are_in_no_message() {
    let echo = "you sent canary-0123 and xcanary-0123x";
    let result = fill(
        r#"{"results":[{"id":"@a","error":{"class":"final","message":"canary-0123"}}]}"#,
        &request(&["a"]),
    );
    for answer in [
        format!("HTTP/1.1 500 No\r\nContent-Length: {}\r\n\r\n{echo}", echo.len()).into_bytes(),
        format!("HTTP/1.1 500 No\r\nContent-Length: 999999\r\n\r\n{echo}").into_bytes(),
        b"HTTP/1.1 302 Found\r\nLocation: http://x.test/canary-0123\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ok(echo),
        ok(result),
    ] {
        let (mut spec, _server) = once(answer.clone()).await;
        spec.secret_headers = vec![("Authorization".into(), "Bearer canary-0123".into())];
        let reply = handler(spec).call(request(&["a"])).await;
        let text = format!("{reply:?}");
        assert!(!text.contains("canary") && text.contains("[redacted]"), "{text}");
    }
}

#[tokio::test]
async fn connections_are_used_again() {
    let (listener, spec) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..3 {
            receive(&mut stream).await;
            stream.write_all(&ok(r#"{"results":[]}"#)).await.unwrap();
        }
    });
    let handler = handler(spec);
    for _ in 0..3 {
        assert_reply(&handler.call(request(&["a"])).await, &["retryable/answer: left out"], "");
    }
    server.await.unwrap();
}

#[tokio::test]
async fn usage_and_limits_are_read_from_the_answer() {
    let batch = request(&["a"]);
    let results = r#""results":[{"id":"@a","output":1}]"#;
    let limits = "RateLimit-Limit: 10\r\nRateLimit-Remaining: 4\r\nRateLimit-Reset: 3";
    let body = fill(&format!(r#"{{{results},"usage":{{"tokens_in":12,"tokens_out":3}}}}"#), &batch);
    let length = body.len();
    for (status, whole) in [("200 OK", false), ("429 No", true), ("500 No", true)] {
        let head = format!("HTTP/1.1 {status}\r\n{limits}\r\nContent-Length: {length}\r\n\r\n");
        let (spec, _server) = once(head + &body).await;
        let answer = handler(spec).call(batch.clone()).await;
        let requests = answer.limits.requests.unwrap();
        assert_eq!((requests.limit, requests.remaining, requests.reset.as_secs()), (Some(10.0), 4.0, 3));
        let usage = answer.usage.map(|usage| (usage.tokens_in, usage.tokens_out));
        assert_eq!(usage, if whole { None } else { Some((12, 3)) }, "{status}");
    }
    let (spec, _server) = once(ok(&body)).await;
    let spec = HttpSpec { body: BodyForm::Payload, ..spec };
    let bare = handler(spec).call(batch).await;
    assert_eq!(
        (bare.usage, bare.limits.requests),
        (None, None),
        "the body is the output, and nobody told a limit"
    );
}

#[test]
fn tokens_are_estimated_from_the_size() {
    let handler = handler(HttpSpec::new("http://127.0.0.1:1/"));
    let tokens = |payload: &[u8]| handler.tokens(&payload.into());
    assert_eq!((tokens(b""), tokens(b"12345"), tokens(&[b' '; 400])), (1, 2, 100));
}

#[test]
fn a_specification_that_cannot_be_used_is_refused_without_its_secrets() {
    let new = |url: &str, header: (&str, &str)| {
        let mut spec = HttpSpec::new(url);
        spec.secret_headers = vec![(header.0.into(), header.1.into())];
        HttpHandler::new(spec, Arc::new(|| NOW)).err().unwrap_or_default()
    };
    assert!(new("file:///etc/passwd", ("a", "b")).contains("http and https"));
    assert!(new("nowhere", ("a", "b")).starts_with("url: "));
    assert!(new("http://x.test", ("bad name", "b")).contains("no header name"));
    let error = new("http://x.test", ("Authorization", "canary\n"));
    assert!(error.contains("Authorization") && !error.contains("canary"), "{error}");
}
