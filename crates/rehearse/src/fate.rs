//! What can become of a call, and what only hangs on the call itself.

use std::time::Duration;

use crate::call::{Asked, Call};
use crate::plan::{FaultKind, Plan};

/// A call that could not be read: the status and what is wrong.
pub(crate) type Malformed = (u16, String);

/// What becomes of a call.
#[derive(Debug)]
pub(crate) struct Decision {
    /// The answer.
    pub fate: Fate,
    /// How long it takes.
    pub delay: Duration,
    /// Headers of the answer.
    pub headers: Vec<(&'static str, String)>,
}

/// The answer to a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A good one.
    Pass,
    /// An error.
    Refuse(Refusal),
    /// The connection is closed.
    Cut,
    /// What this fault makes of it.
    Fault(FaultKind),
}

/// An error in OpenAI's shape.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The status.
    pub status: u16,
    /// The error's code.
    pub code: String,
    /// What it says.
    pub text: String,
}

/// Whether this kind of fault can show in an answer to such a call.
pub(crate) fn fits(kind: &FaultKind, call: &Call<'_>) -> bool {
    match kind {
        FaultKind::WrongDimension => matches!(call.asked, Asked::Embeddings { .. }),
        FaultKind::TooFew | FaultKind::TooMany => !matches!(call.asked, Asked::Bare),
        FaultKind::Shuffled => call.units.len() > 1,
        _ => true,
    }
}

/// The error for a call that is too large.
pub(crate) fn oversized(plan: &Plan, call: &Call<'_>) -> Option<Fate> {
    let size = &plan.size;
    let longest = call.units.iter().map(|unit| unit.tokens).max().unwrap_or(0);
    let found = [
        (size.max_texts, call.units.len() as u64, "texts in a request"),
        (size.max_tokens_per_request, call.tokens, "tokens in a request"),
        (size.max_tokens_per_text, longest, "tokens in a text"),
    ];
    let (most, is, what) = found
        .into_iter()
        .find_map(|(most, is, what)| most.filter(|most| is > *most).map(|most| (most, is, what)))?;
    // A server that breaks over it does not know why.
    let text = if size.status >= 500 {
        "The server had an error while processing your request".to_owned()
    } else {
        format!("This model's maximum context length is exceeded: {is} {what}, at most {most}")
    };
    let code = if size.status >= 500 { "server_error" } else { &size.code };
    Some(refuse(size.status, code, text))
}

/// An error.
pub(crate) fn refuse(status: u16, code: &str, text: impl Into<String>) -> Fate {
    Fate::Refuse(Refusal { status, code: code.to_owned(), text: text.into() })
}
