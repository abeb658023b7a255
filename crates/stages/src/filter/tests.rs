use std::sync::Mutex;
use std::time::Duration;

use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_core::pool::Rank;
use redrive_core::time::Timestamp;

use super::*;

/// A child that answers through the loop of the real one, and counts what it is asked.
#[derive(Default)]
struct Child {
    expression: String,
    asked: Mutex<usize>,
}

#[async_trait]
impl Handler for Child {
    async fn call(&self, request: Request) -> Answer {
        *self.asked.lock().unwrap() += request.items.len();
        let mut line = crate::protocol::encode(&request);
        line.push(b'\n');
        let mut answer = Vec::new();
        worker::serve(&line[..], &mut answer, &Filter::read(&self.expression).unwrap()).unwrap();
        Decoder::default().read(&answer, &request.items).reply.into()
    }
}

fn input(key: &str, payload: &str) -> Input {
    let id = ItemId::derive(RunId(1), None, key, ContentHash::of(&[]));
    Input::new(id, key, payload.as_bytes().into(), key)
}

fn request(items: Vec<Input>) -> Request {
    Request {
        run: RunId(1),
        rank: Rank::new(0, Timestamp(0), RunId(1)),
        stage: "s".into(),
        items,
        timeout: Duration::from_secs(60),
    }
}

fn shown(reply: &ItemReply) -> String {
    match reply {
        ItemReply::Output(None) => "passed".to_owned(),
        ItemReply::Filtered(reason) => format!("filtered: {reason}"),
        ItemReply::Failed { failure, shared: false } => failure.to_string(),
        other => format!("{other:?}"),
    }
}

/// What becomes of items, and how many of them a child was asked about.
async fn called(expression: &str, payloads: &[&str]) -> (Vec<String>, usize) {
    let child = Arc::new(Child { expression: expression.to_owned(), ..Child::default() });
    let handler = FilterHandler::new(Filter::read(expression).unwrap(), child.clone());
    let items = payloads.iter().zip(1..).map(|(payload, n)| input(&format!("k{n}"), payload)).collect();
    let request = request(items);
    let Reply::Items(replies) = handler.call(request).await.reply else { return (Vec::new(), 0) };
    let asked = *child.asked.lock().unwrap();
    (replies.iter().map(shown).collect(), asked)
}

fn judged(expression: &str, payload: &str) -> String {
    let filter = Filter::read(expression).unwrap();
    match filter.judge(payload.as_bytes(), "k1") {
        Judged::Passed => "passed".to_owned(),
        Judged::TakenOut(reason) => format!("filtered: {reason}"),
        Judged::Unusable(why) => format!("final/input: {why}"),
    }
}

#[test]
fn true_passes_and_false_takes_out() {
    let payload =
        r#"{"n": 3, "f": 2.5, "big": 18446744073709551615, "tags": ["x"], "text": "été", "none": null}"#;
    for expression in [
        "payload.n > 2",
        "payload.n + 1 == 4",
        "payload.f < 3.0",
        "payload.big > 5u",
        "'x' in payload.tags",
        "payload.tags.exists(tag, tag == 'x')",
        "size(payload.text) == 3",
        "payload.none == null",
        "has(payload.n) && !has(payload.missing)",
        "key == 'k1'",
        "key.startsWith('k')",
        "true",
    ] {
        assert_eq!(judged(expression, payload), "passed", "{expression}");
    }
    assert_eq!(judged(" payload.n > 3", payload), "filtered: payload.n > 3 is false");
}

#[test]
fn whatever_is_neither_is_the_items_fault() {
    let table = [
        ("payload.n", "{\"n\":3}", "final/input: payload.n is int, not true or false"),
        ("payload.n > 2", "{}", "final/input: payload.n > 2: the payload has no \"n\""),
        ("payload.n > 2", "{\"n\":\"3\"}", "final/input: payload.n > 2: "),
        ("payload.n / 0 > 2", "{\"n\":3}", "final/input: payload.n / 0 > 2: Division by zero"),
        ("payload.n * 2 > 2", "{\"n\":9223372036854775807}", "final/input: payload.n * 2 > 2: Overflow"),
        ("payload[5] == 1", "[1]", "final/input: "),
        ("payload.n > 2", "nonsense", "final/input: the payload is not JSON"),
    ];
    for (expression, payload, expected) in table {
        let judged = judged(expression, payload);
        assert!(judged.starts_with(expected), "{expression}: {judged}");
    }
}

#[test]
fn the_deepest_expression_fits_on_a_small_stack() {
    for (begin, part, end) in [("payload", "['a']", " == 1"), ("1", "+1", " > 1"), ("payload", ".a", " == 1")]
    {
        let expression = format!("{begin}{}{end}", part.repeat(62));
        let payload = format!("{}1{}", "{\"a\":".repeat(62), "}".repeat(62));
        let small = std::thread::Builder::new().stack_size(1 << 20);
        let passed = small.spawn(move || judged(&expression, &payload)).unwrap();
        assert_eq!(passed.join().unwrap(), "passed", "{part}");
    }
}
#[tokio::test]
async fn what_is_little_work_costs_no_child() {
    let plain = "payload.n > 2 && payload.text.startsWith('x') || has(payload.more)";
    let (replies, asked) = called(plain, &["{\"n\":3,\"text\":\"xy\"}", "{\"n\":1,\"text\":\"\"}"]).await;
    assert_eq!((&replies[..], asked), (&["passed".to_owned(), format!("filtered: {plain} is false")][..], 0));
    let medium = format!("{{\"n\":3,\"text\":\"x{}\"}}", "y".repeat(60 << 10));
    assert_eq!(called("payload.n > 2", &[medium.as_str(); 8]).await, (vec!["passed".to_owned(); 8], 0));
}

#[tokio::test]
async fn loops_and_large_payloads_are_for_a_child_which_says_the_same() {
    let loops = "payload.xs.exists(x, x == 2)";
    let (replies, asked) = called(loops, &["{\"xs\":[1,2]}", "{\"xs\":[]}", "{}"]).await;
    assert_eq!(replies[..2], ["passed".to_owned(), format!("filtered: {loops} is false")]);
    assert!(replies[2].starts_with(&format!("final/input: {loops}: the payload has no")), "{replies:?}");
    assert_eq!(asked, 3);
    let large = format!("{{\"n\":3,\"text\":\"{}\"}}", "y".repeat(1 << 20));
    assert_eq!(called("payload.n > 2", &["{\"n\":3}", &large]).await, (vec!["passed".to_owned(); 2], 2));
    let again = format!("size({}) > 0", vec!["payload.text"; 60].join("+"));
    let medium = format!("{{\"text\":\"{}\"}}", "y".repeat(1 << 10));
    assert_eq!(called(&again, &[&medium]).await, (vec!["passed".to_owned()], 1));
}

#[tokio::test]
async fn more_than_a_child_takes_is_oversized() {
    let large = format!("\"{}\"", "y".repeat(LARGEST));
    let handler = FilterHandler::new(Filter::read("payload == ''").unwrap(), Arc::new(Child::default()));
    let request = request(vec![input("k1", &large)]);
    let Reply::Whole(failure) = handler.call(request).await.reply else { panic!("it was asked") };
    assert_eq!(failure.class, Class::Oversized);
}
