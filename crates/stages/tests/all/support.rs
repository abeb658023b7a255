//! What the tests of all handlers share.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::ItemReply;
use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Answer, Input, Reply, Request};

/// An item; its id depends on its key.
pub fn item(key: &str, payload: &str) -> Input {
    let id = ItemId::derive(RunId(1), None, key, ContentHash::of(&[]));
    let work = format!("once-{}", key.replace(|c: char| !c.is_alphanumeric(), "_"));
    Input::new(id, key, payload.as_bytes().into(), work)
}

/// A request with an item for each key.
pub fn request(keys: &[&str]) -> Request {
    let items = keys.iter().map(|key| item(key, r#"{"n":1}"#)).collect();
    Request {
        run: RunId(1),
        rank: Rank::new(0, Timestamp(0), RunId(1)),
        stage: Arc::from("test"),
        items,
        timeout: Duration::from_secs(60),
    }
}

/// Puts the ids of these items into a text, for `@key`.
pub fn fill(text: &str, request: &Request) -> String {
    request
        .items
        .iter()
        .fold(text.to_owned(), |text, item| text.replace(&format!("@{}", item.key), &item.idempotency_key))
}

/// An answer's reply in words, one for each item.
pub fn shown(answer: &Answer) -> Vec<String> {
    match &answer.reply {
        Reply::Whole(failure) => vec![format!("whole {failure}")],
        Reply::Items(replies) => replies.iter().map(reply).collect(),
        Reply::Part { replies, .. } => replies.iter().flatten().map(reply).collect(),
    }
}

fn reply(reply: &ItemReply) -> String {
    match reply {
        ItemReply::Output(Some(payload)) => String::from_utf8_lossy(payload).into_owned(),
        ItemReply::Failed { failure, .. } => failure.to_string(),
        other => format!("{other:?}"),
    }
}

/// Answers that are broken in the same way whatever they come through: for items `a` and `b`, with what is expected
/// of the reply to each.
pub const BROKEN_ANSWERS: [(&[u8], &[&str]); 12] = [
    (b"garbage", &["whole retryable/answer: the answer is not a JSON object: garbage"]),
    (b"<html><body>Bad gateway</body></html>", &["whole retryable/answer: the answer is HTML or XML"]),
    (b" ", &["whole retryable/answer: the answer is empty"]),
    (b"{}", &["whole retryable/answer: the answer has no \"results\""]),
    (b"{\"results\":3}", &["whole retryable/answer: the answer has \"results\" that are no list"]),
    (b"{\"results\":[{", &["whole retryable/answer: the answer is not JSON"]),
    (b"{\"results\":[\"\xff\xfe\"]}", &["whole retryable/answer: the answer is not UTF-8 (byte 13)"]),
    (br#"{"results":[{"id":"@b","output":2}]}"#, &["retryable/answer: left out of the answer", "2"]),
    (br#"{"results":[{"id":"@b","output":2},{"id":"@a","output":1},{"id":"77","output":0}]}"#, &["1", "2"]),
    (
        br#"{"results":[{"id":"@b","output":2},{"id":"77","output":1}]}"#,
        &["retryable/answer: left out of the answer, which has 1 for no item of the request", "2"],
    ),
    (
        br#"{"results":[{"id":"@a","output":1},{"id":"@b","output":2},{"id":"@a","output":1}]}"#,
        &["retryable/answer: the answer has this item twice", "2"],
    ),
    (
        br#"{"results":[{"id":"@a"},{"id":"@b","output":2,"error":{"class":"final"}}]}"#,
        &[
            "retryable/answer: the answer says nothing",
            "retryable/answer: the answer says more than one thing",
        ],
    ),
];

/// The broken answers with the ids filled in.
pub fn broken_answers(request: &Request) -> impl Iterator<Item = (Vec<u8>, &'static [&'static str])> {
    BROKEN_ANSWERS.into_iter().map(|(answer, expected)| {
        let filled = std::str::from_utf8(answer).map(|text| fill(text, request).into_bytes());
        (filled.unwrap_or_else(|_| answer.to_vec()), expected)
    })
}

/// Checks a reply against the beginnings of what it should say.
pub fn assert_reply(answer: &Answer, expected: &[&str], case: &str) {
    let shown = shown(answer);
    let alike = shown.len() == expected.len()
        && shown.iter().zip(expected).all(|(is, should)| is.starts_with(should));
    assert!(alike, "{case}\n  is {shown:?}\n  should be {expected:?}");
}
