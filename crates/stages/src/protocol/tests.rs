use std::sync::Arc;
use std::time::Duration;

use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_core::item::NewItem;
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use serde_json::json;

use super::*;

fn item(key: &str, payload: &str) -> Input {
    let id = ItemId::derive(RunId(1), None, key, ContentHash::of(&[payload.as_bytes()]));
    Input { attempt: 2, ..Input::new(id, key, payload.as_bytes().into(), key) }
}

fn three() -> Vec<Input> {
    ["a", "b", "c"].map(|key| item(key, r#"{"n":1}"#)).to_vec()
}

/// The replies on an answer in which `@a`, `@b` and `@c` stand for the items' ids.
fn replies(answer: &str, items: &[Input]) -> Vec<ItemReply> {
    match decode(fill(answer, items).as_bytes(), items) {
        Reply::Items(replies) => replies,
        Reply::Whole(failure) => panic!("failed as a whole: {failure}"),
        Reply::Part { .. } => panic!("a part"),
    }
}

fn fill(answer: &str, items: &[Input]) -> String {
    items
        .iter()
        .fold(answer.to_owned(), |text, item| text.replace(&format!("@{}", item.key), &item.idempotency_key))
}

fn shown(reply: &ItemReply) -> String {
    match reply {
        ItemReply::Output(Some(payload)) => format!("output {}", String::from_utf8_lossy(payload)),
        ItemReply::Judged(verdict, Some(payload)) => {
            format!("{verdict} {}", String::from_utf8_lossy(payload))
        }
        ItemReply::Filtered(reason) => format!("filtered {reason}"),
        ItemReply::Children(children) => format!("{} children", children.len()),
        ItemReply::Failed { failure, shared: false } => failure.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_request_is_one_line_with_the_payload_as_it_was() {
    let items = vec![item("a\n\"b\"", "{\n  \"long\": 123456789012345678901234567890\r\n}")];
    let request = Request {
        run: RunId(1),
        rank: Rank::new(0, Timestamp(0), RunId(1)),
        stage: Arc::from("s\"1"),
        items,
        timeout: Duration::from_secs(1),
    };
    let line = String::from_utf8(encode(&request)).unwrap();
    assert!(!line.contains(['\n', '\r']), "{line}");
    assert!(line.contains("123456789012345678901234567890"), "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["stage"], "s\"1");
    assert_eq!(value["items"][0]["key"], "a\n\"b\"");
    assert_eq!(value["items"][0]["attempt"], 2);
    assert_eq!(value["items"][0]["id"], json!(request.items[0].idempotency_key));
    assert_eq!(value["items"][0]["item"], json!(request.items[0].id.to_string()));
}

#[test]
fn results_are_matched_by_id_in_any_order() {
    let answer = r#"{"more":1,"results":[{"id":"@c","children":[{"key":"k","payload":null}]},
        {"id":"@a","output":{"x":1.50}},{"id":"@b","filtered":"small","output":null}]}"#;
    let shown: Vec<_> = replies(answer, &three()).iter().map(shown).collect();
    assert_eq!(shown, [r#"output {"x":1.50}"#, "filtered small", "1 children"]);
}

#[test]
fn children_are_numbered_and_keep_their_payload_as_written() {
    let answer =
        r#"{"results":[{"id":"@a","children":[{"key":"x","payload":1.0},{"payload":[ ],"key":""}]}]}"#;
    let one = &three()[..1];
    let expected = vec![NewItem::new("x", *b"1.0", 0), NewItem::new("", *b"[ ]", 1)];
    assert_eq!(replies(answer, one), [ItemReply::Children(expected)]);
}

#[test]
fn broken_results_fail_their_own_item_only() {
    let bad_output = format!(r#"{{"id":"@b","output":{}1{}}}"#, "[".repeat(500), "]".repeat(500));
    let table = [
        ("", "left out of the answer"),
        (r#"{"id":"@b"}"#, "says nothing"),
        (r#"{"id":"@b","error":null}"#, "says nothing"),
        (r#"{"id":"@b","output":1,"filtered":"x"}"#, "more than one thing"),
        (r#"{"id":"@b","output":1},{"id":"@b","output":1}"#, "twice"),
        (r#"{"id":"@b","filtered":true}"#, "without a reason"),
        (r#"{"id":"@b","children":{}}"#, "no list"),
        (r#"{"id":"@b","children":[{"payload":1}]}"#, "child 1 without a key"),
        (r#"{"id":"@b","children":[{"key":"x"}]}"#, "child 1 without a payload"),
        (r#"{"id":"@b","children":[["x",1]]}"#, "child 1 without a key"),
        (r#"{"id":"@b","output":1,"output":2}"#, "left out of the answer, which has 1 for no item"),
        (r#"{"id":"00000000000000000000000000000000","output":1}"#, "left out of the answer, which has 1"),
        (r#"{"id":7,"output":1}"#, "left out of the answer, which has 1"),
        (r#"{"output":1}"#, "left out of the answer, which has 1"),
        (r#"7,null,"@b",["@b",1,2,3,4]"#, "left out of the answer, which has 4"),
        (r#"{"id":"@b","output":"\ud800"}"#, "unusable output"),
        (r#"{"id":"@b","output":1e999}"#, "unusable output"),
        (bad_output.as_str(), "unusable output"),
    ];
    let items = three();
    for (result, message) in table {
        let comma = if result.is_empty() { "" } else { "," };
        let answer =
            format!(r#"{{"results":[{{"id":"@a","output":1}},{result}{comma}{{"id":"@c","output":3}}]}}"#);
        let replies = replies(&answer, &items);
        assert_eq!(
            (shown(&replies[0]), shown(&replies[2])),
            ("output 1".into(), "output 3".into()),
            "{result}"
        );
        let shown = shown(&replies[1]);
        assert!(shown.starts_with("retryable/answer: ") && shown.contains(message), "{result}: {shown}");
    }
}

#[test]
fn an_answer_in_which_nothing_can_be_told_apart_fails_as_a_whole() {
    let table: [(&[u8], &str); 11] = [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"<!doctype html><p>Bad gateway", "is HTML or XML, not JSON: <!doctype html>"),
        (b"loading model ...", "is not a JSON object: loading model"),
        (b"[]", "is not a JSON object"),
        (b"{\"results\":[", "is not JSON"),
        (b"{\"results\":[]} {}", "is not JSON"),
        (b"{\"results\":[],\"results\":[]}", "is not JSON (duplicate field"),
        (b"{\"error\":\"boom\"}", "has no \"results\": {\"error\":\"boom\"}"),
        (b"{\"results\":{}}", "no list"),
        (b"{\"results\":[\"\xff\"]}", "is not UTF-8 (byte 13)"),
    ];
    for (answer, message) in table {
        let Decoded { reply, in_step, .. } = Decoder::default().read(answer, &three());
        let Reply::Whole(failure) = reply else { panic!("{message}") };
        assert_eq!((failure.class, failure.kind, in_step), (Class::Retryable, Kind::Answer, false));
        assert!(failure.message().contains(message), "{failure}");
    }
}

#[test]
fn strays_and_repetitions_show_that_the_partner_is_out_of_step() {
    let items = three();
    let in_step = |answer: &str| Decoder::default().read(fill(answer, &items).as_bytes(), &items).in_step;
    assert!(in_step(r#"{"results":[]}"#));
    assert!(in_step(r#"{"results":[{"id":"@a","output":1}]}"#));
    assert!(!in_step(r#"{"results":[{"id":"@a","output":1},{"id":"x","output":1}]}"#));
    assert!(!in_step(r#"{"results":[{"id":"@a","output":1},{"id":"@a","output":1}]}"#));
}

#[test]
fn what_a_call_consumed_is_read_beside_the_results() {
    let items = &three()[..1];
    let usage = |answer: &str| {
        let decoded = Decoder::default().read(fill(answer, items).as_bytes(), items);
        decoded.usage.map(|usage| (usage.tokens_in, usage.tokens_out, usage.nano_usd))
    };
    let told = r#""usage":{"input_tokens":12,"output_tokens":3}"#;
    assert_eq!(usage(&format!(r#"{{"results":[],{told}}}"#)), Some((12, 3, None)));
    assert_eq!(usage(&format!(r#"{{{told}}}"#)), Some((12, 3, None)), "it was consumed, results or not");
    for wrong in ["null", "7", "\"many\"", "{}", "[1,2]", r#"{"total_tokens":-1}"#] {
        let answer = format!(r#"{{"results":[{{"id":"@a","output":1}}],"usage":{wrong}}}"#);
        assert_eq!(usage(&answer), None, "{wrong}");
        assert_eq!(shown(&replies(&answer, items)[0]), "output 1", "{wrong}");
    }
}

#[test]
fn the_handler_may_name_the_class() {
    let table = [
        (r#"{"class":"final","message":"no"}"#, "final/handler: no", None),
        (
            r#"{"class":"rate_limited","message":"slow","retry_after_ms":1500}"#,
            "rate_limited/handler: slow",
            Some(1_500),
        ),
        (r#"{"class":"quota"}"#, r#"quota/handler: {"class":"quota"}"#, None),
        (r#"{"class":"oversized","message":"","retry_after_ms":-1}"#, "oversized/handler: ", None),
        (
            r#"{"class":"timeout","message":{"a":1},"retry_after_ms":"9"}"#,
            r#"timeout/handler: {"a":1}"#,
            None,
        ),
        (r#"{"class":"retryable","message":"m","retry_after_ms":0.5}"#, "retryable/handler: m", Some(0)),
        (r#"{"class":"crash","message":"m"}"#, r#"retryable/unknown: unknown error class "crash": m"#, None),
        (r#"{"message":"m"}"#, "retryable/unknown: m", None),
        (r#""boom""#, r#"retryable/unknown: "boom""#, None),
        (
            r#"{"class":"final","message":"api_key=hunter2hunter2"}"#,
            "final/handler: api_key=[redacted]",
            None,
        ),
    ];
    let items = &three()[..1];
    for (error, expected, hint) in table {
        let answer = format!(r#"{{"results":[{{"id":"@a","error":{error}}}]}}"#);
        let replies = replies(&answer, items);
        let ItemReply::Failed { failure, shared: false } = &replies[0] else { panic!("{error}") };
        assert_eq!(failure.to_string(), expected);
        assert_eq!(failure.hint.map(|hint| hint.as_millis()), hint, "{error}");
    }
}

#[test]
fn a_huge_wait_is_kept_as_a_huge_wait() {
    let items = &three()[..1];
    let answer = r#"{"results":[{"id":"@a","error":{"class":"final","retry_after_ms":1e300}}]}"#;
    let ItemReply::Failed { failure, .. } = &replies(answer, items)[0] else { panic!() };
    assert_eq!(failure.hint, Some(Duration::MAX));
}

#[test]
fn known_secrets_are_in_no_message() {
    let decoder =
        Decoder { secrets: Secrets::new(["canary-0123"]), verdict: Some("/v".into()), ..Decoder::default() };
    let items = &three()[..1];
    for answer in [
        "canary-0123",
        r#"{"results":[{"id":"@a","error":{"class":"final","message":"canary-0123"}}]}"#,
        r#"{"results":[{"id":"@a","filtered":"canary-0123"}]}"#,
        r#"{"results":[{"id":"canary-0123"}]}"#,
        r#"{"results":[{"id":"@a","output":1,"verdict":"canary-0123"}]}"#,
        r#"{"results":[{"id":"@a","output":{"v":"canary-0123"}}]}"#,
    ] {
        let reply = decoder.read(fill(answer, items).as_bytes(), items).reply;
        assert!(!format!("{reply:?}").contains("canary"), "{reply:?}");
    }
}

#[test]
fn an_output_is_put_where_the_pointer_says() {
    let table = [
        (r#"{"z":1e5,"a":[1,2]}"#, None, "7"),
        (r#"{"z":1e5,"a":[1,2]}"#, Some(""), "7"),
        (r#"{"z":1e5,"a":[1,2]}"#, Some("/b"), r#"{"z":1e5,"a":[1,2],"b":7}"#),
        (r#"{"z":1e5,"a":[1,2]}"#, Some("/z"), r#"{"z":7,"a":[1,2]}"#),
        (r#"{"z":1e5,"a":[1,2]}"#, Some("/a/0"), r#"{"z":1e5,"a":[7,2]}"#),
        (r#"{"z":1e5,"a":[1,2]}"#, Some("/a/-"), r#"{"z":1e5,"a":[1,2,7]}"#),
        (r#"{"z":1e5,"a":[1,2]}"#, Some("/a/2/x"), r#"{"z":1e5,"a":[1,2,{"x":7}]}"#),
        ("{}", Some("/a/b~1c/~0"), r#"{"a":{"b/c":{"~":7}}}"#),
        (r#"{"a":null}"#, Some("/a/b"), r#"{"a":{"b":7}}"#),
        (r#"{"a":1,"a":2,"b":3}"#, Some("/a"), r#"{"a":7,"b":3}"#),
        ("null", Some("/a"), r#"{"a":7}"#),
    ];
    let output: &RawValue = serde_json::from_str("7").unwrap();
    for (payload, pointer, expected) in table {
        let placed = place_output(payload.as_bytes(), pointer, output).unwrap();
        assert_eq!(String::from_utf8_lossy(&placed), expected, "{pointer:?}");
    }
    for (payload, pointer) in
        [("1", "/a"), (r#"{"a":"x"}"#, "/a/b"), ("[]", "/1"), ("[]", "/x"), ("{}", "a"), ("", "/a")]
    {
        let wrong = place_output(payload.as_bytes(), Some(pointer), output).unwrap_err();
        assert!(wrong.contains(pointer) || wrong.contains("not JSON"), "{wrong}");
    }
}

#[test]
fn an_output_that_has_no_place_is_the_inputs_fault() {
    let decoder = Decoder { output: Some("/a".into()), ..Decoder::default() };
    let one = item("a", "[1]");
    let Reply::Items(replies) = decoder.read_bare(b"{}", &one) else { panic!() };
    assert!(shown(&replies[0]).starts_with("final/input: the output cannot be put at /a"), "{replies:?}");
}

#[test]
fn a_verdict_is_said_beside_the_output() {
    let items = &three()[..1];
    for (result, expected) in [
        (r#""output":{"x":1},"verdict":"needs_review""#, r#"needs_review {"x":1}"#),
        (r#""output":null,"verdict":"failed""#, "failed null"),
        (r#""verdict":" passed ","output":1"#, "passed 1"),
        (r#""output":1,"verdict":null"#, "output 1"),
        (r#""filtered":"small","verdict":null"#, "filtered small"),
        (r#""error":{"class":"final","message":"no"},"verdict":"passed""#, "final/handler: no"),
    ] {
        let answer = format!(r#"{{"results":[{{"id":"@a",{result}}}]}}"#);
        assert_eq!(shown(&replies(&answer, items)[0]), expected, "{result}");
    }
}

#[test]
fn a_verdict_of_another_word_or_without_an_output_is_a_broken_answer() {
    let items = &three()[..1];
    for (result, says) in [
        (
            r#""output":1,"verdict":"ok""#,
            r#"has "ok" for a verdict, which is none of passed, needs_review, failed"#,
        ),
        (r#""output":1,"verdict":"""#, r#"has "" for a verdict"#),
        (r#""output":1,"verdict":"Passed""#, r#"has "Passed" for a verdict"#),
        (r#""output":1,"verdict":true"#, "has true for a verdict"),
        (r#""output":1,"verdict":["passed"]"#, r#"has ["passed"] for a verdict"#),
        (r#""filtered":"small","verdict":"failed""#, "gives no output of"),
        (r#""children":[],"verdict":"passed""#, "gives no output of"),
    ] {
        let answer = format!(r#"{{"results":[{{"id":"@a",{result}}}]}}"#);
        let told = shown(&replies(&answer, items)[0]);
        assert!(told.starts_with("retryable/answer: the answer has") && told.contains(says), "{told}");
    }
}

#[test]
fn a_verdict_is_read_where_the_pointer_says() {
    let bare = |pointer: &str, output: Option<&str>, answer: &str| {
        let decoder = Decoder {
            verdict: Some(pointer.to_owned()),
            output: output.map(str::to_owned),
            ..Decoder::default()
        };
        match decoder.read_bare(answer.as_bytes(), &item("a", "{}")) {
            Reply::Items(replies) => shown(&replies[0]),
            Reply::Whole(failure) => failure.to_string(),
            Reply::Part { .. } => panic!("a part"),
        }
    };
    assert_eq!(bare("/status", None, r#"{"status":"failed"}"#), r#"failed {"status":"failed"}"#);
    // The pointer is into what was answered, wherever in the payload that is put.
    assert_eq!(bare("/v", Some("/o"), r#"{"v":"passed"}"#), r#"passed {"o":{"v":"passed"}}"#);
    assert_eq!(bare("", None, r#""needs_review\n""#), r#"needs_review "needs_review\n""#);
    assert_eq!(bare("/v", None, r#"{"v":null}"#), r#"output {"v":null}"#);
    assert_eq!(bare("/v/w", None, r#"{"v":1}"#), r#"output {"v":1}"#);
    let wrong = bare("/v", None, r#"{"v":"maybe"}"#);
    assert!(
        wrong.starts_with(r#"retryable/answer: the answer has "maybe" at "/v" for a verdict"#),
        "{wrong}"
    );
    let both = Decoder { verdict: Some("/v".to_owned()), ..Decoder::default() };
    let answer = r#"{"results":[{"id":"a","output":{"v":"passed"},"verdict":"failed"}]}"#;
    let Reply::Items(replies) = both.read(answer.as_bytes(), &[item("a", "{}")]).reply else { panic!() };
    assert_eq!(shown(&replies[0]), r#"failed {"v":"passed"}"#, "what is said goes before what stands there");
}

#[test]
fn what_passes_as_it_is_has_the_verdict_that_stands_in_it() {
    let decoder = Decoder { verdict: Some("/check".to_owned()), ..Decoder::default() };
    let reply = |payload: &str| decoder.passed_as_it_is(&item("a", payload));
    assert_eq!(
        reply(r#"{"check":"failed"}"#),
        ItemReply::Judged(redrive_core::verdict::Verdict::Failed, None)
    );
    assert_eq!(reply("{}"), ItemReply::Output(None));
    assert!(shown(&reply(r#"{"check":3}"#)).contains("has 3 at"));
}
