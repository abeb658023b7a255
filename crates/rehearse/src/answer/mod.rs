//! Good answers, and what a fault makes of them.

mod chat;
mod embedding;
mod error;
mod handler;

use crate::call::{Asked, Call};
use crate::plan::{FaultKind, Plan};

pub(crate) use error::error;

/// The answer to a call as JSON, and its tokens; broken as the fault says.
pub(crate) fn answer(plan: &Plan, call: &Call<'_>, fault: Option<&FaultKind>) -> (Vec<u8>, u64) {
    match &call.asked {
        Asked::Handler { stage } => (handler::answer(call, stage, fault), call.tokens),
        Asked::Bare => (handler::bare(call, fault), call.tokens),
        Asked::Embeddings { model, dimensions, base64 } => {
            let dimensions = dimensions.unwrap_or(plan.dimensions);
            (embedding::answer(call, model, dimensions, *base64, fault), call.tokens)
        }
        Asked::Chat { model, last, most } => chat::answer(plan, call, model, last, *most, fault),
    }
}

/// The list of models.
pub(crate) fn models() -> Vec<u8> {
    let model =
        |id: &str| serde_json::json!({"id": id, "object": "model", "created": 0, "owned_by": "rehearse"});
    let list = [model("rehearse-embedding"), model("rehearse-chat")];
    serde_json::json!({"object": "list", "data": list}).to_string().into_bytes()
}

/// Appends a value as JSON.
fn push(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Writing plain values into memory cannot fail.
    let _ = serde_json::to_writer(out, value);
}

/// The order in which `n` results are given.
fn order(n: usize, fault: Option<&FaultKind>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    match fault {
        Some(FaultKind::TooFew) => drop(order.pop()),
        Some(FaultKind::TooMany) => order.extend(n.checked_sub(1)),
        Some(FaultKind::Shuffled) => order.reverse(),
        _ => {}
    }
    order
}
