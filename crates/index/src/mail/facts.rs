//! What is known of messages and threads beside their chunks.

use redrive_mail::body::Attachment;
use redrive_mail::head::Head;
use redrive_mail::summary::Sentence;
use serde::{Deserialize, Serialize};

/// What is known of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageFacts {
    /// Its head.
    #[serde(flatten)]
    pub head: Head,
    /// What is attached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// An archive that it is in.
    pub archive: String,
}

/// What is known of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// The subject of its first message.
    pub subject: String,
    /// The list of its first message that came through one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// The date of its first message, in UTC milliseconds.
    pub first_ms: Option<i64>,
    /// The date of its last message.
    pub last_ms: Option<i64>,
    /// Who wrote, each once, in order.
    pub people: Vec<String>,
    /// Its messages, in the order in which they are read.
    pub messages: Vec<Place>,
    /// What it is about.
    pub summary: Summary,
}

/// A message's place in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name.
    pub key: String,
    /// How many messages are above it.
    pub depth: u32,
}

/// A summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Who made it: `extractive`, or the name of a model.
    pub by: String,
    /// What it says. A number in brackets names the message, from 1, that says so.
    pub text: String,
    /// The numbers of the messages that it cites, from 1.
    pub cites: Vec<usize>,
}

impl Summary {
    /// Sentences of the messages themselves.
    #[must_use]
    pub fn extractive(sentences: &[Sentence]) -> Self {
        let text: Vec<String> =
            sentences.iter().map(|one| format!("{} [{}]", one.text, one.number)).collect();
        let text = text.join(" ");
        Self { by: "extractive".to_owned(), cites: cited(&text, usize::MAX), text }
    }

    /// What a model said of a thread of so many messages.
    #[must_use]
    pub fn by_model(model: &str, answer: &str, messages: usize) -> Self {
        let text = answer.trim().to_owned();
        Self { by: model.to_owned(), cites: cited(&text, messages), text }
    }
}

/// The numbers that a text has in brackets, each once, in order.
fn cited(text: &str, most: usize) -> Vec<usize> {
    let mut numbers: Vec<usize> = text
        .split('[')
        .skip(1)
        .filter_map(|rest| rest.split_once(']'))
        .flat_map(|(inner, _)| {
            inner.split(',').filter_map(|word| word.trim().parse().ok()).collect::<Vec<usize>>()
        })
        .filter(|number| (1..=most).contains(number))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn citations_are_the_numbers_in_brackets_that_are_messages() {
        let summary = Summary::by_model("m", " It broke [2], was found [1, 3] and [99] or [x]. ", 3);
        assert_eq!(
            (summary.cites, summary.text.as_str()),
            (vec![1, 2, 3], "It broke [2], was found [1, 3] and [99] or [x].")
        );
    }
}
