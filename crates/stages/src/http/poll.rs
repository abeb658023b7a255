//! Asking for an answer that was not there yet.

use redrive_core::answer::Handed;
use redrive_core::classify;
use redrive_core::event::ItemReply;
use redrive_core::failure::MAX_MESSAGE;
use redrive_engine::handler::{Answer, Input, Reply};
use reqwest::Url;
use serde_json::value::RawValue;

use super::ACCEPTED;
use crate::service::{self, Fault, Service};

/// The status of an answer that says nothing.
const NO_CONTENT: u16 = 204;

/// Asks for answers.
pub(super) struct Poll {
    /// Where, with `{id}` and `{ticket}` in it.
    pub(super) template: String,
    /// Whether the body is the output, and nothing else.
    pub(super) bare: bool,
    /// The host that is asked.
    pub(super) service: Service,
}

impl Poll {
    /// Asks once. What is not ready is awaited on; what cannot be asked for is for the engine to judge.
    pub(super) async fn ask(&self, item: &Input, handed: &Handed) -> Answer {
        let decoder = &self.service.decoder;
        let ticket = handed.ticket.as_deref().unwrap_or(&item.idempotency_key);
        let url = match address(&self.template, &item.idempotency_key, ticket) {
            Ok(url) => url,
            Err(wrong) => return Reply::Whole(decoder.broken(&wrong, &[])).into(),
        };
        let exchange = self.service.get(url, item).await;
        let reply = match exchange.result {
            Ok(bytes) if matches!(exchange.status, Some(ACCEPTED | NO_CONTENT)) && !names_results(&bytes) => {
                Reply::Items(decoder.defer.iter().map(|defer| defer.hand_over(None, None)).collect())
            }
            Ok(bytes) if self.bare => decoder.read_bare(&bytes, item),
            Ok(bytes) if names_results(&bytes) => decoder.read(&bytes, std::slice::from_ref(item)).reply,
            Ok(bytes) => match serde_json::from_slice::<&RawValue>(&bytes) {
                Ok(result) => match decoder.read_result(result, item) {
                    Ok(reply) => Reply::Items(vec![reply]),
                    Err(wrong) => {
                        let failure = decoder.broken(&format!("is no result ({wrong})"), &[]);
                        Reply::Items(vec![ItemReply::Failed { failure, shared: false }])
                    }
                },
                Err(_) => {
                    let failure = decoder.broken("is not JSON", &bytes);
                    Reply::Items(vec![ItemReply::Failed { failure, shared: false }])
                }
            },
            Err(Fault::Failed(failure)) => Reply::Whole(failure),
            Err(Fault::Refused { status, body, hint, resets }) => {
                let text = decoder.secrets.clean(&body, body.len().max(MAX_MESSAGE));
                Reply::Whole(classify::from_status(status, text.as_bytes(), hint.or(resets)))
            }
        };
        Answer { reply, usage: None, limits: exchange.limits, receipt: None }
    }
}

/// Whether an answer is one of the handler protocol: results of items, by their names.
pub(super) fn names_results(bytes: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        #[expect(dead_code, reason = "that it is there is all that is asked")]
        results: &'a RawValue,
    }
    serde_json::from_slice::<Envelope<'_>>(bytes).is_ok()
}

/// The address of one piece of work.
pub(super) fn address(template: &str, id: &str, ticket: &str) -> Result<Url, String> {
    service::address("poll", &template.replace("{id}", &escaped(id)).replace("{ticket}", &escaped(ticket)))
}

/// A text as a part of a path or query: whatever could mean anything there is escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'~' => escaped.push(char::from(byte)),
            // A dot is escaped as well: `..` would leave the folder.
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_gave_stays_in_its_place_of_the_address() {
        let at = |ticket| {
            address("https://jobs.example/v1/jobs/{ticket}?of={id}", "w1", ticket).expect("one").to_string()
        };
        assert_eq!(at("j-7"), "https://jobs.example/v1/jobs/j-7?of=w1");
        assert_eq!(at("a/b?c#d"), "https://jobs.example/v1/jobs/a%2Fb%3Fc%23d?of=w1");
        assert!(at("@evil.example").starts_with("https://jobs.example/v1/jobs/%40evil"));
        assert!(!at("../../admin").contains("/admin"));
    }

    #[test]
    fn only_an_object_with_results_is_an_answer_of_the_protocol() {
        assert!(names_results(br#"{"results": []}"#));
        for other in [&b""[..], b"{}", br#"{"output": 1}"#, b"[]", b"accepted"] {
            assert!(!names_results(other));
        }
    }
}
