//! Claims about the `embed` handler, against a service that misbehaves.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_engine::handler::{Handler, Reply};
use redrive_stages::{EmbedHandler, EmbedSpec, ModelSpec, Price};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::model_server::{
    base, batch, embedded, embedder, nobody, received, refusal, sent, service, texts, unasked,
};
use crate::server::{NOW, listen, ok, receive};
use crate::support::{assert_reply, shown};

/// An answer with these vectors, in this order, by index.
fn vectors(entries: &[(usize, &str)]) -> Vec<u8> {
    let data: Vec<_> = entries
        .iter()
        .map(|(index, vector)| format!(r#"{{"index":{index},"embedding":{vector}}}"#))
        .collect();
    ok(format!(
        r#"{{"object":"list","data":[{}],"model":"m-1","usage":{{"prompt_tokens":9,"total_tokens":9}}}}"#,
        data.join(",")
    ))
}

#[tokio::test]
async fn a_batch_is_one_request_and_each_item_gets_its_vector() {
    let (mut model, server) = service(vectors(&[(1, "[0.25,-1]"), (0, "[1,2.5e-1]")])).await;
    model.api_key = Some("canary-0123\n".into());
    model.headers = vec![("OpenAI-Organization".into(), "org-1".into())];
    let mut spec = EmbedSpec::new(model);
    spec.dimensions = Some(2);
    let answer = embedder(spec).call(texts(&["one", "two"])).await;
    assert_eq!(
        shown(&answer),
        [r#"{"text":"one","embedding":[1.0,0.25]}"#, r#"{"text":"two","embedding":[0.25,-1.0]}"#]
    );
    let request = server.await.unwrap();
    assert!(request.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{request}");
    for header in
        ["authorization: Bearer canary-0123\r\n", "openai-organization: org-1\r\n", "idempotency-key: "]
    {
        assert!(request.contains(header), "{header} is not in {request}");
    }
    let expected =
        json!({"model": "m-1", "input": ["one", "two"], "encoding_format": "float", "dimensions": 2});
    assert_eq!(sent(&request), expected);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.tokens_in, usage.tokens_out, usage.nano_usd), (9, 0, None), "nobody said a price");
}

#[tokio::test]
async fn without_a_key_no_authorization_is_sent() {
    let (model, server) = service(vectors(&[(0, "[1]")])).await;
    embedder(EmbedSpec::new(model)).call(texts(&["x"])).await;
    assert!(!server.await.unwrap().to_ascii_lowercase().contains("authorization"));
}

#[tokio::test]
async fn the_query_of_the_base_address_is_kept() {
    let (mut model, server) = service(vectors(&[(0, "[1]")])).await;
    model.base_url += "/deployments/d/?api-version=2024-06-01";
    embedder(EmbedSpec::new(model)).call(texts(&["x"])).await;
    let request = server.await.unwrap();
    assert!(request.starts_with("POST /v1/deployments/d/embeddings?api-version=2024-06-01 "), "{request}");
}

#[tokio::test]
async fn base64_vectors_are_read() {
    let bytes: Vec<u8> = [0.5_f32, -2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let vector = format!("\"{}\"", STANDARD.encode(bytes));
    let answer = embedded(vectors(&[(0, &vector)]), texts(&["x"])).await;
    assert_eq!(shown(&answer), [r#"{"text":"x","embedding":[0.5,-2.0]}"#]);
}

#[tokio::test]
async fn an_item_without_a_text_fails_alone_and_the_others_go() {
    let (model, server) = service(vectors(&[(0, "[1]"), (1, "[2]")])).await;
    let request = batch(&[
        "{}",
        r#"{"text":"one"}"#,
        r#"{"text":7}"#,
        r#"{"text":null}"#,
        r#"{"text":" \n"}"#,
        r#"{"text":"two"}"#,
        "nonsense",
        "[1]",
    ]);
    let answer = embedder(EmbedSpec::new(model)).call(request).await;
    let expected = [
        "final/input: the payload has nothing at /text",
        r#"{"text":"one","embedding":[1.0]}"#,
        "final/input: /text is not a text",
        "final/input: /text is not a text",
        "final/input: the text at /text is empty",
        r#"{"text":"two","embedding":[2.0]}"#,
        "final/input: the payload is not JSON",
        "final/input: the payload has nothing at /text",
    ];
    assert_reply(&answer, &expected, "");
    assert_eq!(sent(&server.await.unwrap())["input"], json!(["one", "two"]));
}

#[tokio::test]
async fn with_nothing_to_send_no_call_is_made() {
    let (mut model, listener) = nobody().await;
    model.max_item_tokens = Some(3);
    let request = batch(&["{}", r#"{"text":"one two three four five"}"#]);
    let answer = unasked(&embedder(EmbedSpec::new(model)), &listener, request).await;
    let expected = [
        "final/input: the payload has nothing at /text",
        "oversized/input: the text has about 7 tokens, more than max_item_tokens = 3",
    ];
    assert_reply(&answer, &expected, "");
    assert!(answer.usage.is_none());
}

#[tokio::test]
async fn an_output_that_has_no_place_is_the_items_own_fault() {
    let (model, _server) = service(vectors(&[(0, "[1]"), (1, "[2]")])).await;
    let mut spec = EmbedSpec::new(model);
    spec.output = "/v/x".into();
    let answer = embedder(spec).call(batch(&[r#"{"text":"a","v":1}"#, r#"{"text":"b"}"#])).await;
    assert_reply(
        &answer,
        &["final/input: the output cannot be put at /v/x", r#"{"text":"b","v":{"x":[2.0]}}"#],
        "",
    );
}

#[tokio::test]
async fn nothing_of_a_wrong_answer_is_used() {
    let whole = |body: &str| ok(body);
    let table = [
        ("too few", vectors(&[(0, "[1]")]), "the answer has 1 vectors for 2 texts"),
        ("too many", vectors(&[(0, "[1]"), (1, "[1]"), (2, "[1]")]), "the answer has 3 vectors for 2 texts"),
        ("an index twice", vectors(&[(0, "[1]"), (0, "[1]")]), "the answer has two vectors for text 0"),
        ("an index beyond", vectors(&[(0, "[1]"), (2, "[1]")]), "the answer has a vector for text 2"),
        ("two dimensions", vectors(&[(0, "[1]"), (1, "[1,2]")]), "the answer has a vector of dimension 2"),
        ("NaN", vectors(&[(0, "[1]"), (1, "[NaN]")]), "the answer is not JSON"),
        ("Infinity", vectors(&[(0, "[1]"), (1, "[Infinity]")]), "the answer is not JSON"),
        ("null", vectors(&[(0, "[1]"), (1, "[null]")]), "the answer has a vector that is no list of numbers"),
        ("beyond range", vectors(&[(0, "[1]"), (1, "[1e60]")]), "the answer has a vector with a number"),
        ("empty", vectors(&[(0, "[1]"), (1, "[]")]), "the answer has an empty vector"),
        ("zeros", vectors(&[(0, "[0]"), (1, "[1]")]), "the answer has a vector of zeros"),
        ("no data", whole(r#"{"object":"list"}"#), "the answer has no \"data\""),
        ("null data", whole(r#"{"data":null}"#), "the answer has no \"data\""),
        ("no list", whole(r#"{"data":{}}"#), "the answer has \"data\" that is no list"),
        ("HTML", whole("<html>busy</html>"), "the answer is HTML or XML, not JSON: <html>busy"),
        ("empty body", whole(""), "the answer is empty"),
        ("a list", whole("[]"), "the answer is not a JSON object"),
        ("cut JSON", whole(r#"{"data":[{"index":0,"#), "the answer is not JSON"),
        ("an error", whole(r#"{"error":{"message":"model is loading"}}"#), "the answer is an error: model"),
    ];
    for (case, answer, expected) in table {
        let answer = embedded(answer, texts(&["one", "two"])).await;
        assert_reply(&answer, &[&format!("whole retryable/answer: {expected}")], case);
    }
}

#[tokio::test]
async fn what_a_wrong_answer_consumed_is_counted_all_the_same() {
    let answer = embedded(vectors(&[(0, "[0]")]), texts(&["x"])).await;
    assert_reply(&answer, &["whole retryable/answer: the answer has a vector of zeros"], "");
    assert_eq!(answer.usage.unwrap().tokens_in, 9);
    let body = r#"{"error":{"message":"boom"},"usage":{"prompt_tokens":7}}"#;
    assert_eq!(embedded(ok(body), texts(&["x"])).await.usage.map(|usage| usage.tokens_in), Some(7));
}

#[tokio::test]
async fn an_answer_that_is_compressed_is_called_so() {
    let gzip: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0x56, 0x4a, 0x49, 0x2c, 0x49];
    let head = |status: &str, more: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{more}\r\n", gzip.len()).into_bytes()
    };
    for (head, expected) in [
        (head("200 OK", ""), "whole retryable/answer: the answer is compressed (gzip)"),
        (
            head("200 OK", "Content-Encoding: gzip\r\n"),
            "whole retryable/answer: the answer is compressed (gzip)",
        ),
        (head("200 OK", "Content-Encoding: br\r\n"), "whole retryable/answer: the answer is compressed (br)"),
        (head("500 No", ""), "whole retryable/server: HTTP 500: its body is compressed (gzip)"),
        (
            head("400 No", "Content-Encoding: gzip\r\n"),
            "whole final/client: HTTP 400: its body is compressed (gzip)",
        ),
    ] {
        let answer = embedded([&head, gzip].concat(), texts(&["x"])).await;
        assert_reply(&answer, &[expected], expected);
        let text = format!("{answer:?}");
        assert!(text.is_ascii() && !text.contains("VJI"), "{text}");
    }
}

#[tokio::test]
async fn another_dimension_than_asked_for_is_refused() {
    let (model, _server) = service(vectors(&[(0, "[1,2]")])).await;
    let mut spec = EmbedSpec::new(model);
    spec.dimensions = Some(3);
    let answer = embedder(spec).call(texts(&["x"])).await;
    assert_reply(
        &answer,
        &["whole quota/answer: the model answered with vectors of 2 dimensions, and dimensions = 3 was"],
        "",
    );
}

#[tokio::test]
async fn connections_are_used_again_and_the_dimension_stays() {
    let (listener, spec) = listen().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for vector in ["[0]", "[1,2]", "[3]", "[4,5]"] {
            receive(&mut stream).await;
            stream.write_all(&vectors(&[(0, vector)])).await.unwrap();
        }
    });
    let handler = embedder(EmbedSpec::new(ModelSpec::new(base(&spec.url), "m-1")));
    for expected in [
        "whole retryable/answer: the answer has a vector of zeros",
        r#"{"text":"x","embedding":[1.0,2.0]}"#,
        "whole retryable/answer: the answer has vectors of 1 dimensions where 2 were expected",
        r#"{"text":"x","embedding":[4.0,5.0]}"#,
    ] {
        assert_reply(&handler.call(texts(&["x"])).await, &[expected], expected);
    }
    server.await.unwrap();
}

#[tokio::test]
async fn refusals_are_classified_with_hint_and_limits() {
    let table = [
        (
            "429 No\r\nRetry-After: 7",
            r#"{"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}"#,
            "whole rate_limited/client: HTTP 429: Rate limit reached (rate_limit_exceeded)",
            Some(7_000),
        ),
        (
            "429 No\r\nx-ratelimit-reset: 2",
            r#"{"error":{"message":"Rate limit reached"}}"#,
            "whole rate_limited/client: HTTP 429",
            Some(2_000),
        ),
        (
            "429 No",
            r#"{"error":{"message":"slow. Please try again in 480ms."}}"#,
            "whole rate_limited/client: HTTP 429",
            Some(480),
        ),
        (
            "429 No\r\nRetry-After: 7",
            r#"{"error":{"message":"no credit","code":"insufficient_quota"}}"#,
            "whole quota/client: HTTP 429: no credit (insufficient_quota)",
            None,
        ),
        ("503 No\r\nRetry-After: 1", "busy", "whole rate_limited/server: HTTP 503: busy", Some(1_000)),
        ("503 No", "busy", "whole retryable/server: HTTP 503: busy", None),
        (
            "500 No",
            r#"{"error":"the input length exceeds the context length"}"#,
            "whole oversized/server: HTTP 500: the input length",
            None,
        ),
        ("401 No", r#"{"detail":"bad"}"#, "whole quota/client: HTTP 401: the API key was refused: bad", None),
        ("403 No", r#"{"detail":"bad"}"#, "whole quota/access: HTTP 403: the API key was refused: bad", None),
        ("302 No\r\nLocation: http://x.test/", "", "whole final/answer: HTTP 302: redirects are not", None),
    ];
    for (status, body, expected, hint) in table {
        let answer = embedded(refusal(status, body), texts(&["x"])).await;
        assert_reply(&answer, &[expected], status);
        let Reply::Whole(failure) = answer.reply else { panic!("{status}") };
        assert_eq!(failure.hint.map(|hint| hint.as_millis()), hint, "{status} {body}");
        assert_eq!(failure.status.map(|code| code.to_string()).as_deref(), status.get(..3));
    }
}

#[tokio::test]
async fn limits_are_told_with_successes_and_refusals() {
    let limits =
        "x-ratelimit-limit-tokens: 100\r\nx-ratelimit-remaining-tokens: 40\r\nx-ratelimit-reset-tokens: 3s";
    let success = String::from_utf8(vectors(&[(0, "[1]")])).unwrap();
    let success = success.replacen("\r\n", &format!("\r\n{limits}\r\n"), 1);
    for answer in [
        success,
        refusal(&format!("429 No\r\n{limits}"), "slow"),
        refusal(&format!("400 No\r\n{limits}"), ""),
    ] {
        let tokens = embedded(answer, texts(&["x"])).await.limits.tokens.unwrap();
        assert_eq!((tokens.limit, tokens.remaining, tokens.reset.as_secs()), (Some(100.0), 40.0, 3));
    }
}

#[tokio::test]
async fn a_cut_connection_and_an_answer_above_the_limit_are_told_apart() {
    let whole = vectors(&[(0, "[1]")]);
    for (answer, expected) in [
        (Vec::new(), "whole retryable/connection: connection broken to http://127.0.0.1:"),
        (whole[..whole.len() - 9].to_vec(), "whole retryable/connection: answer broken off after"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec(),
            "whole retryable/answer: answer larger",
        ),
    ] {
        assert_reply(&embedded(answer, texts(&["x"])).await, &[expected], expected);
    }
    let (mut model, _server) = service(whole.clone()).await;
    model.max_answer = 10;
    let answer = embedder(EmbedSpec::new(model)).call(texts(&["x"])).await;
    assert_reply(&answer, &["whole retryable/answer: answer larger than 10 bytes"], "");
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let (model, listener) = nobody().await;
    let handler = embedder(EmbedSpec::new(model));
    let mut stream = tokio::select! {
        answer = handler.call(texts(&["x"])) => panic!("{answer:?}"),
        stream = received(&listener) => stream,
    };
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn the_key_is_in_no_message() {
    let echo = r#"{"error":{"message":"you sent key9 and xkey9x","code":"invalid_api_key"}}"#;
    for answer in [
        refusal("401 No", echo).into_bytes(),
        refusal("302 No\r\nLocation: http://x.test/key9", "").into_bytes(),
        ok(echo),
        ok("key9"),
        ok(r#"{"data":["key9"]}"#),
        refusal("401 No", &echo.replace("key9", r"\u006bey9")).into_bytes(),
        ok(echo.replace("key9", r"k\u0065y9")),
        refusal("500 No", r#"{"error":{"code":"key9","type":"%6bey9"}}"#).into_bytes(),
    ] {
        let (mut model, _server) = service(answer.clone()).await;
        model.api_key = Some("key9".into());
        let text = format!("{:?}", embedder(EmbedSpec::new(model)).call(texts(&["x"])).await);
        assert!(!text.contains("key9") && text.contains("[redacted]"), "{text}");
    }
}

#[tokio::test]
async fn usage_has_a_price_when_somebody_said_it() {
    let (mut model, _server) = service(vectors(&[(0, "[1]")])).await;
    model.price = Price::usd_per_million(0.02, None);
    let usage = embedder(EmbedSpec::new(model)).call(texts(&["x"])).await.usage.unwrap();
    assert_eq!((usage.tokens_in, usage.nano_usd), (9, Some(180)));
    let (mut model, _server) = service(vectors(&[(0, "[1]")])).await;
    model.model = "text-embedding-3-small".into();
    let usage = embedder(EmbedSpec::new(model)).call(texts(&["x"])).await.usage.unwrap();
    assert_eq!(usage.nano_usd, None, "the name alone says nothing about another service");
}

#[test]
fn tokens_are_estimated_from_the_text_alone() {
    let handler = embedder(EmbedSpec::new(ModelSpec::new("http://127.0.0.1:1/v1", "m")));
    let tokens = |payload: &str| handler.tokens(&payload.as_bytes().into());
    assert_eq!(tokens(r#"{"text":"one two three","other":"long long long long long"}"#), 4);
    assert_eq!(tokens(r#"{"text":"0123456789012345678901234567890123456789"}"#), 10);
    for payload in ["{}", r#"{"text":""}"#, r#"{"text":3}"#, "nonsense"] {
        assert_eq!(tokens(payload), 0, "{payload}");
    }
}

#[test]
fn a_specification_that_cannot_be_used_is_refused_without_its_key() {
    let refused = |base_url: &str, key: &str| {
        let mut model = ModelSpec::new(base_url, "m");
        model.api_key = Some(key.into());
        EmbedHandler::new(EmbedSpec::new(model), Arc::new(|| NOW)).err().unwrap_or_default()
    };
    assert!(refused("file:///etc", "k").starts_with("base_url: "));
    assert!(refused("nowhere", "k").starts_with("base_url: "));
    let error = refused("http://x.test/v1", "canary\n0123");
    assert!(error.contains("Authorization") && !error.contains("canary"), "{error}");
}
