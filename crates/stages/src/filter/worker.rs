//! The loop of a child process that evaluates for a filter.
//!
//! It speaks the protocol of handlers. An item that passes has the output `true`, because whoever asked has its content.
//! A parent that gets no line (the child ran out of memory, or was killed when its time was up) has learned that the
//! expression cannot be evaluated for these items.

use std::borrow::Cow;
use std::io::{self, BufRead, ErrorKind, Write};

use redrive_core::failure::{Class, MAX_MESSAGE};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::evaluate::{Filter, Judged};

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    items: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

#[derive(Serialize)]
struct Line<'a> {
    results: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct Said<'a> {
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filtered: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Wrong>,
}

#[derive(Serialize)]
struct Wrong {
    class: &'static str,
    message: String,
}

/// Answers requests until the input ends, or nobody reads the answers.
///
/// # Errors
/// When reading or writing fails in another way than by a closed pipe, or a request cannot be read: the two processes do
/// not understand each other then.
pub fn serve(mut input: impl BufRead, mut output: impl Write, filter: &Filter) -> io::Result<()> {
    let mut request = Vec::new();
    loop {
        request.clear();
        if input.read_until(b'\n', &mut request)? == 0 {
            return Ok(());
        }
        let mut line = answer(&request, filter)?;
        line.push(b'\n');
        match output.write_all(&line).and_then(|()| output.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
        // One huge request must not be held against the memory of all later ones.
        request.shrink_to(1 << 20);
    }
}

fn answer(request: &[u8], filter: &Filter) -> io::Result<Vec<u8>> {
    let asked: Asked<'_> = serde_json::from_slice(request)?;
    let said = |item: &'_ Item<'_>| -> Judged { filter.judge(item.payload.get().as_bytes(), &item.key) };
    let results = asked.items.iter().map(|item| told(&item.id, said(item))).collect();
    Ok(serde_json::to_vec(&Line { results })?)
}

fn told(id: &str, judged: Judged) -> Said<'_> {
    let said = Said { id, output: None, filtered: None, error: None };
    match judged {
        Judged::Passed => Said { output: Some(true), ..said },
        Judged::TakenOut(reason) => Said { filtered: Some(reason), ..said },
        Judged::Unusable(why) => {
            let message = short(why);
            Said { error: Some(Wrong { class: Class::Final.name(), message }), ..said }
        }
    }
}

/// As much of a message as is kept of it; a payload that cannot be used may be repeated in it.
fn short(mut message: String) -> String {
    let cut = (0..=MAX_MESSAGE * 2).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    message.truncate(cut);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(expression: &str, requests: &str) -> String {
        let filter = Filter::read(expression).unwrap();
        let mut output = Vec::new();
        serve(requests.as_bytes(), &mut output, &filter).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn items_are_answered_in_turn_and_an_item_that_passes_is_not_sent_back() {
        let requests = "{\"stage\":\"s\",\"items\":[{\"id\":\"1\",\"key\":\"a\",\"payload\":{\"n\":3}},\
             {\"id\":\"2\",\"key\":\"a\",\"payload\":{\"n\":1}}]}\n\
             {\"items\":[{\"id\":\"3\",\"key\":\"\\u0061\",\"payload\":{}}]}\n";
        let expected = "{\"results\":[{\"id\":\"1\",\"output\":true},\
             {\"id\":\"2\",\"filtered\":\"payload.n > 2 is false\"}]}\n\
             {\"results\":[{\"id\":\"3\",\"error\":{\"class\":\"final\",\
             \"message\":\"payload.n > 2: the payload has no \\\"n\\\"; has(…) tells whether it is there\"}}]}\n";
        assert_eq!(answered("payload.n > 2", requests), expected);
    }

    #[test]
    fn a_payload_is_not_repeated_whole_in_a_message() {
        let payload = "ü".repeat(1 << 20);
        let request = format!("{{\"items\":[{{\"id\":\"1\",\"key\":\"a\",\"payload\":\"{payload}\"}}]}}\n");
        let answer = answered("payload + 1 > 2", &request);
        assert!(answer.contains("\"class\":\"final\"") && answer.len() < 4 * MAX_MESSAGE, "{}", answer.len());
    }

    #[test]
    fn a_request_that_cannot_be_read_ends_the_loop() {
        let filter = Filter::read("true").unwrap();
        assert!(serve(&b"nonsense\n"[..], Vec::new(), &filter).is_err());
    }
}
