//! Claims about the `chat` handler, against a service that misbehaves.

use std::sync::Arc;

use redrive_engine::handler::Handler;
use redrive_stages::{ChatHandler, ChatSpec, ModelSpec, Price};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::model_server::{
    batch, chatted, chatter, nobody, received, refusal, sent, service, texts, unasked,
};
use crate::server::{NOW, ok};
use crate::support::{assert_reply, shown};

/// An answer with one choice of this form.
fn choice(choice: &str) -> Vec<u8> {
    ok(format!(
        r#"{{"choices":[{choice}],"usage":{{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}}}"#
    ))
}

/// An answer with this text.
fn said(text: &str, finish: &str) -> Vec<u8> {
    choice(
        &json!({"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish})
            .to_string(),
    )
}

#[tokio::test]
async fn the_prompt_is_filled_and_the_answer_placed() {
    let (mut model, server) = service(said("Short.", "stop")).await;
    model.api_key = Some("canary-0123".into());
    model.price = Price::usd_per_million(2.0, Some(8.0));
    let mut spec = ChatSpec::new(model, "Summarise: {/text} ({/n})");
    spec.system = Some("You write {{JSON}} in {/lang}.".into());
    spec.temperature = Some(0.5);
    spec.max_tokens = Some(100);
    spec.seed = Some(-7);
    spec.output = "/summary".into();
    let answer = chatter(spec).call(batch(&[r#"{"text":"a \"b\"","n":1.50,"lang":"English"}"#])).await;
    assert_eq!(shown(&answer), [r#"{"text":"a \"b\"","n":1.50,"lang":"English","summary":"Short."}"#]);
    let usage = answer.usage.unwrap();
    assert_eq!((usage.tokens_in, usage.tokens_out, usage.nano_usd), (10, 4, Some(20_000 + 32_000)));
    let request = server.await.unwrap();
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nauthorization: Bearer canary-0123\r\n"), "{request}");
    assert!(request.contains("\r\nidempotency-key: once-a\r\n"), "{request}");
    let expected = json!({
        "model": "m-1", "temperature": 0.5, "max_tokens": 100, "seed": -7,
        "messages": [
            {"role": "system", "content": "You write {JSON} in English."},
            {"role": "user", "content": "Summarise: a \"b\" (1.50)"},
        ],
    });
    assert_eq!(sent(&request), expected);
}

#[tokio::test]
async fn an_answer_in_json_is_read_as_json() {
    for (text, expected) in [
        (r#" {"mood": 1.50} "#, r#"{"text":"x","answer":{"mood": 1.50}}"#),
        ("[1]", r#"{"text":"x","answer":[1]}"#),
        ("Sure! {}", "retryable/answer: the answer is not JSON"),
        (r#"{"a":"#, "retryable/answer: the answer is not JSON"),
        (r#"{"a":1e999}"#, "retryable/answer: the answer has an unusable output"),
    ] {
        let (model, server) = service(said(text, "stop")).await;
        let spec = ChatSpec { json: true, ..ChatSpec::new(model, "{/text}") };
        let answer = chatter(spec).call(texts(&["x"])).await;
        assert_reply(&answer, &[expected], text);
        assert!(answer.usage.is_some(), "it was consumed, readable or not");
        assert_eq!(sent(&server.await.unwrap())["response_format"], json!({"type": "json_object"}));
    }
}

#[tokio::test]
async fn answers_that_are_not_whole_are_failures_of_the_item() {
    let table = [
        (said("half", "length"), "retryable/answer: the answer was cut off"),
        (said("half", "content_filter"), "final/answer: the service filtered the answer"),
        (said("", "stop"), "retryable/answer: the answer has no text"),
        (said(" \n", "stop"), "retryable/answer: the answer has no text"),
        (
            choice(r#"{"message":{"content":null},"finish_reason":"tool_calls"}"#),
            "retryable/answer: the answer ended with \"tool_calls\", which is not known",
        ),
        (said("half a sen", "model_length"), "retryable/answer: the answer was cut off"),
        (said("half a sen", "MAX_TOKENS"), "retryable/answer: the answer was cut off"),
        (said("half a sen", "error"), "retryable/answer: the answer ended with \"error\""),
        (said("half a sen", "abort"), "retryable/answer: the answer ended with \"abort\""),
        (said("half a sen", "SAFETY"), "final/answer: the service filtered the answer (SAFETY)"),
        (
            choice(r#"{"message":{"content":"x"},"finish_reason":7}"#),
            "retryable/answer: the answer has a \"finish_reason\" that is no word (7)",
        ),
        (
            choice(r#"{"message":{"content":7}}"#),
            "retryable/answer: the answer has \"message.content\" that is no text",
        ),
        (choice(r#"{"finish_reason":"stop"}"#), "retryable/answer: the answer has no text"),
        (
            choice(r#"{"message":{"content":null,"refusal":"I will not"},"finish_reason":"stop"}"#),
            "final/answer: the model refused: I will not",
        ),
    ];
    for (answer, expected) in table {
        let answer = chatted(answer).await;
        assert_reply(&answer, &[expected], expected);
        assert_eq!(answer.usage.map(|usage| usage.tokens()), Some(14), "{expected}");
    }
}

#[tokio::test]
async fn answers_that_cannot_be_read_fail_the_call() {
    let table = [
        (r#"{}"#, "the answer has no \"choices\""),
        (r#"{"choices":[]}"#, "the answer has no choice"),
        (r#"{"choices":{}}"#, "the answer has \"choices\" that are no list"),
        ("<html>", "the answer is HTML or XML"),
        ("", "the answer is empty"),
        (r#"{"choices":[{"mess"#, "the answer is not JSON"),
        (r#"{"error":"boom"}"#, "the answer is an error: boom"),
    ];
    for (body, expected) in table {
        let answer = chatted(ok(body)).await;
        assert_reply(&answer, &[&format!("whole retryable/answer: {expected}")], body);
    }
    let throttled = chatted(ok(r#"{"error":{"code":429,"message":"slow"}}"#)).await;
    assert_reply(&throttled, &["whole rate_limited/client: HTTP 429: slow"], "a throttle in disguise");
    let refused = chatted(refusal("400 No", r#"{"error":{"code":"context_length_exceeded"}}"#)).await;
    assert_reply(&refused, &["whole oversized/client: HTTP 400"], "too long");
}

#[tokio::test]
async fn an_answer_in_parts_is_taken() {
    let parts = r#"{"message":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"Short."}]},"finish_reason":"stop"}"#;
    assert_eq!(shown(&chatted(choice(parts)).await), [r#"{"text":"x","answer":"Short."}"#]);
}

#[tokio::test]
async fn what_a_refused_answer_consumed_is_counted_and_priced() {
    let usage = r#""usage":{"prompt_tokens":1000,"completion_tokens":0}"#;
    for body in [
        format!(r#"{{"choices":[],{usage}}}"#),
        format!(r#"{{"choices":{{}},{usage}}}"#),
        format!(r#"{{"choices":[7],{usage}}}"#),
        format!(r#"{{{usage}}}"#),
        format!(r#"{{"error":{{"message":"boom"}},{usage}}}"#),
        format!(r#"{{"choices":[{{"message":{{"content":7}}}}],{usage}}}"#),
    ] {
        let (mut model, _server) = service(ok(&body)).await;
        model.price = Price::usd_per_million(2.0, Some(8.0));
        let answer = chatter(ChatSpec::new(model, "{/text}")).call(texts(&["x"])).await;
        let usage = answer.usage.unwrap_or_else(|| panic!("{body}"));
        assert_eq!((usage.tokens_in, usage.nano_usd), (1_000, Some(2_000_000)), "{body}");
    }
    for status in ["400 No", "422 No", "500 No"] {
        let body = format!(r#"{{"error":{{"message":"content_filter"}},{usage}}}"#);
        let (model, _server) = service(refusal(status, &body)).await;
        let answer = chatter(ChatSpec::new(model, "{/text}")).call(texts(&["x"])).await;
        assert_eq!(answer.usage.map(|usage| usage.tokens_in), Some(1_000), "{status}");
    }
}

#[tokio::test]
async fn a_cut_answer_is_taken_where_that_unasked_for() {
    let (model, _server) = service(said("half", "length")).await;
    let spec = ChatSpec { allow_truncated: true, ..ChatSpec::new(model, "{/text}") };
    assert_eq!(shown(&chatter(spec).call(texts(&["x"])).await), [r#"{"text":"x","answer":"half"}"#]);
}

#[tokio::test]
async fn an_item_that_cannot_be_asked_about_costs_no_call() {
    let (mut model, listener) = nobody().await;
    model.max_item_tokens = Some(5);
    let handler = chatter(ChatSpec::new(model, "{/text}"));
    for (payload, expected) in [
        ("{}", "final/input: the payload has nothing at /text"),
        (r#"{"text":null}"#, "final/input: the payload has nothing at /text"),
        (r#"{"text":" "}"#, "final/input: the prompt is empty for this item"),
        ("nonsense", "final/input: the payload is not JSON"),
        (r#"{"text":"one two three four five"}"#, "oversized/input: the text has about 7 tokens"),
    ] {
        assert_reply(&unasked(&handler, &listener, batch(&[payload])).await, &[expected], payload);
    }
    let two = unasked(&handler, &listener, texts(&["x", "y"])).await;
    assert_reply(&two, &["whole final/input: a chat stage takes one item"], "two");
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let (model, listener) = nobody().await;
    let handler = chatter(ChatSpec::new(model, "{/text}"));
    let mut stream = tokio::select! {
        answer = handler.call(texts(&["x"])) => panic!("{answer:?}"),
        stream = received(&listener) => stream,
    };
    assert_eq!(stream.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn the_key_is_in_no_message_and_no_excerpt() {
    let refused = choice(r#"{"message":{"content":null,"refusal":"key canary-0123"}}"#);
    let listed = choice(r#"{"message":{"content":"","note":"canary-0123"}}"#);
    for answer in [refusal("500 No", "canary-0123").into_bytes(), ok("canary-0123"), refused, listed] {
        let (mut model, _server) = service(answer).await;
        model.api_key = Some("canary-0123".into());
        let text = format!("{:?}", chatter(ChatSpec::new(model, "{/text}")).call(texts(&["x"])).await);
        assert!(!text.contains("canary") && text.contains("[redacted]"), "{text}");
    }
}

#[test]
fn tokens_are_those_of_the_conversation_and_the_most_of_an_answer() {
    let mut spec = ChatSpec::new(ModelSpec::new("http://127.0.0.1:1/v1", "m"), "one {/text}");
    let tokens = |spec: &ChatSpec, payload: &str| chatter(spec.clone()).tokens(&payload.as_bytes().into());
    assert_eq!(tokens(&spec, r#"{"text":"two three"}"#), 4);
    spec.max_tokens = Some(100);
    spec.system = Some("a b c".into());
    assert_eq!(tokens(&spec, r#"{"text":"two three"}"#), 108);
    assert_eq!(tokens(&spec, "{}"), 0, "no call will be made");
}

#[test]
fn a_template_that_makes_no_sense_is_refused() {
    let refused = |prompt: &str, system: Option<&str>| {
        let model = ModelSpec::new("http://127.0.0.1:1/v1", "m");
        let spec = ChatSpec { system: system.map(str::to_owned), ..ChatSpec::new(model, prompt) };
        ChatHandler::new(spec, Arc::new(|| NOW)).err().unwrap_or_default()
    };
    assert!(refused("{text}", None).starts_with("prompt: {text} is no JSON pointer"));
    assert!(refused("{/text}", Some("{")).starts_with("system: "));
    assert_eq!(refused("{/text}", Some("x")), "");
}
