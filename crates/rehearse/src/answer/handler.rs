//! Redrive's handler protocol: the output is the payload with a hash of it under `rehearsed`.

use serde_json::Value;

use super::{order, push};
use crate::call::{Call, Unit};
use crate::plan::FaultKind;

/// The field that is added to a payload.
const FIELD: &str = "rehearsed";

/// The answer in the protocol's form.
pub(super) fn answer(call: &Call<'_>, stage: &str, fault: Option<&FaultKind>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + call.units.iter().map(|unit| unit.text.len() + 96).sum::<usize>());
    out.extend_from_slice(b"{\"results\":[");
    for (place, index) in order(call.units.len(), fault).into_iter().enumerate() {
        let unit = &call.units[index];
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"id\":");
        push(&mut out, unit.item.as_ref().map_or("", |(id, _)| id));
        match fault.filter(|_| place == 0) {
            Some(FaultKind::Nan) => out.extend_from_slice(b",\"output\":NaN"),
            Some(FaultKind::Null) => out.extend_from_slice(b",\"output\":null"),
            Some(FaultKind::Empty) => {}
            _ => {
                out.extend_from_slice(b",\"output\":");
                output(&mut out, unit, stage);
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    out
}

/// The answer to a payload without the protocol around it.
pub(super) fn bare(call: &Call<'_>, fault: Option<&FaultKind>) -> Vec<u8> {
    let mut out = Vec::new();
    match fault {
        Some(FaultKind::Nan) => out.extend_from_slice(b"NaN"),
        Some(FaultKind::Null) => out.extend_from_slice(b"null"),
        Some(FaultKind::Empty) => {}
        _ => call.units.iter().for_each(|unit| output(&mut out, unit, "")),
    }
    out
}

fn output(out: &mut Vec<u8>, unit: &Unit<'_>, stage: &str) {
    let payload = unit.text.trim();
    let mut hasher = blake3::Hasher::new();
    hasher.update(stage.as_bytes()).update(&[0]).update(payload.as_bytes());
    let hash = hasher.finalize().to_hex();
    let hash = &hash[..16];
    let object = payload.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    match object {
        // A payload that was here before has the field already.
        Some(_) if payload.contains(FIELD) => {
            let mut value: Value = serde_json::from_str(payload).unwrap_or_default();
            value[FIELD] = hash.into();
            push(out, &value);
        }
        Some(fields) => {
            out.push(b'{');
            out.extend_from_slice(fields.as_bytes());
            let comma = if fields.trim().is_empty() { "" } else { "," };
            out.extend_from_slice(format!("{comma}\"{FIELD}\":\"{hash}\"}}").as_bytes());
        }
        None => out.extend_from_slice(format!("{{\"value\":{payload},\"{FIELD}\":\"{hash}\"}}").as_bytes()),
    }
}
