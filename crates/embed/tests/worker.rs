//! The worker's loop over pipes that are only memory.

use std::io::{self, BufReader, Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use redrive_embed::worker::{Ended, NO_WORDS, VectorFormat, WorkerLimits, serve};
use redrive_embed::{Embedder, builtin};
use serde_json::{Value, json};

fn item(id: &str, payload: &Value) -> Value {
    json!({ "id": id, "key": id, "attempt": 1, "payload": payload })
}

fn request(items: &[Value]) -> String {
    json!({ "stage": "embed", "items": items }).to_string() + "\n"
}

fn answers(input: &str, limits: &WorkerLimits) -> (Ended, Vec<Value>) {
    let mut output = Vec::new();
    let ended = serve(input.as_bytes(), &mut output, builtin(), limits).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    (ended, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn each_item_gets_the_vector_of_its_text_or_an_error_of_its_own() {
    let input = request(&[
        item("a", &json!({ "text": "the queue is full" })),
        item("b", &json!({ "text": "  " })),
        item("c", &json!({ "body": "no text" })),
        item("d", &json!({ "text": 7 })),
        item("e", &json!({ "text": "a lease expired" })),
    ]);
    let (ended, answers) = answers(&input, &WorkerLimits::default());
    assert_eq!(ended, Ended::InputClosed);
    let results = answers[0]["results"].as_array().unwrap();
    let ids: Vec<&str> = results.iter().map(|result| result["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e"]);
    for (at, text) in [(0, "the queue is full"), (4, "a lease expired")] {
        let bytes = STANDARD.decode(results[at]["output"].as_str().unwrap()).unwrap();
        let vector: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|number| f32::from_le_bytes(*number)).collect();
        assert_eq!(vector, builtin().embed(&[text]).unwrap()[0]);
        assert!(results[at].get("error").is_none());
    }
    assert_eq!(results[1], json!({ "id": "b", "filtered": "no words the model knows" }));
    let errors = [(2, "the payload has nothing at /text"), (3, "/text is not a text")];
    for (at, message) in errors {
        assert_eq!(results[at]["error"], json!({ "class": "final", "message": message }));
        assert!(results[at].get("output").is_none());
    }
    assert_eq!(answers[0]["usage"], json!({ "prompt_tokens": 7, "completion_tokens": 0, "usd": 0 }));
}

#[test]
fn numbers_read_back_as_the_same_vector() {
    let limits =
        WorkerLimits::default().with_format(VectorFormat::Numbers).with_text_at("/a/0/b~1c").unwrap();
    let input = request(&[item("a", &json!({ "a": [{ "b/c": "borrow checker" }] }))]);
    let (_, answers) = answers(&input, &limits);
    let vector: Vec<f32> = serde_json::from_value(answers[0]["results"][0]["output"].clone()).unwrap();
    assert_eq!(vector, builtin().embed(&["borrow checker"]).unwrap()[0]);
}

#[test]
fn texts_without_a_word_are_left_out_and_harm_no_other() {
    let texts = ["👩\u{200d}👧 🎉", "\n\t", "", "\u{200b}", "mail", "\u{e000}"];
    let items: Vec<Value> = texts.iter().map(|text| item(text, &json!({ "text": text }))).collect();
    let (_, answers) = answers(&request(&items), &WorkerLimits::default());
    for (text, result) in texts.iter().zip(answers[0]["results"].as_array().unwrap()) {
        assert_eq!(result["id"], *text);
        assert_eq!(result["filtered"] == NO_WORDS, *text != "mail", "{result}");
        assert_eq!(result["output"].is_string(), *text == "mail", "{result}");
    }
}

#[test]
fn the_payload_itself_can_be_the_text() {
    let limits = WorkerLimits::default().with_text_at("").unwrap();
    let (_, answers) = answers(&request(&[item("a", &json!("mail"))]), &limits);
    assert!(answers[0]["results"][0]["output"].is_string());
    assert_eq!(
        WorkerLimits::default().with_text_at("text").unwrap_err().to_string(),
        "\"text\" is no JSON pointer: it is empty or begins with /"
    );
}

#[test]
fn a_request_that_is_none_fails_alone() {
    let good = request(&[item("a", &json!({ "text": "mail" }))]);
    let input = format!("nonsense\n{good}{{\"items\":7}}\n\n{good}");
    let (ended, answers) = answers(&input, &WorkerLimits::default());
    assert_eq!((ended, answers.len()), (Ended::InputClosed, 4));
    for (at, fine) in [(0, false), (1, true), (2, false), (3, true)] {
        assert_eq!(answers[at].get("results").is_some(), fine, "{at}");
        assert_eq!(answers[at].get("error").is_some(), !fine, "{at}");
    }
}

#[test]
fn a_request_or_a_text_that_is_too_long_is_refused_and_the_next_one_is_served() {
    let long = request(&[item("a", &json!({ "text": "mail ".repeat(400) }))]);
    let good = request(&[item("b", &json!({ "text": "mail" }))]);
    let limits = WorkerLimits::default().with_max_request(1_000);
    let (_, refused) = answers(&format!("{long}{good}"), &limits);
    assert_eq!(refused[0], json!({ "error": "the request is longer than 1000 bytes" }));
    assert!(refused[1]["results"][0]["output"].is_string());
    let (_, refused) = answers(&long, &WorkerLimits::default().with_max_text(1_999));
    assert_eq!(refused[0]["results"][0]["error"]["class"], "oversized");
    let (_, fine) =
        answers(&long, &WorkerLimits::default().with_max_text(2_000).with_max_request(long.len() - 1));
    assert!(fine[0]["results"][0]["output"].is_string());
}

#[test]
fn a_request_that_was_cut_off_is_not_answered() {
    let whole = request(&[item("a", &json!({ "text": "mail" }))]);
    for end in 0..whole.len() {
        assert_eq!(answers(&whole[..end], &WorkerLimits::default()), (Ended::InputClosed, Vec::new()));
    }
}

/// A pipe that fails with this kind of error, whichever end it is.
struct Broken(io::ErrorKind);

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(self.0.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(self.0.into())
    }
}

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
}

#[test]
fn a_closed_pipe_is_an_end_and_any_other_failure_an_error() {
    let input = request(&[item("a", &json!({ "text": "mail" }))]);
    let limits = WorkerLimits::default();
    let closed = serve(input.as_bytes(), Broken(io::ErrorKind::BrokenPipe), builtin(), &limits);
    assert_eq!(closed.unwrap(), Ended::OutputClosed);
    let full = serve(input.as_bytes(), Broken(io::ErrorKind::StorageFull), builtin(), &limits);
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    let unreadable = serve(BufReader::new(Broken(io::ErrorKind::Other)), Vec::new(), builtin(), &limits);
    assert_eq!(unreadable.unwrap_err().kind(), io::ErrorKind::Other);
}
