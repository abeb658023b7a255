//! Embeddings: unit vectors made of a hash of the text. Equal texts have equal vectors, others point elsewhere.

use super::{order, push};
use crate::call::Call;
use crate::plan::FaultKind;

/// The answer.
pub(super) fn answer(
    call: &Call<'_>,
    model: &str,
    dimensions: usize,
    base64: bool,
    fault: Option<&FaultKind>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + call.units.len() * (48 + dimensions * 13));
    out.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    for (place, index) in order(call.units.len(), fault).into_iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        let head = format!("{comma}{{\"object\":\"embedding\",\"index\":{index},\"embedding\":");
        out.extend_from_slice(head.as_bytes());
        let mut vector = vector(&call.units[index].text, dimensions);
        let spoilt = fault.filter(|_| place == 0);
        match spoilt {
            Some(FaultKind::WrongDimension) => drop(vector.pop()),
            Some(FaultKind::Empty) => vector.clear(),
            Some(FaultKind::Nan | FaultKind::Null) => vector[0] = f32::NAN,
            _ => {}
        }
        match spoilt {
            _ if base64 => push(&mut out, &encoded(&vector)),
            Some(FaultKind::Nan) => {
                // The writer makes null of it, as JSON demands; this one does not care.
                let mut text = Vec::new();
                push(&mut text, &vector);
                out.extend_from_slice(b"[NaN");
                out.extend_from_slice(text.strip_prefix(b"[null").unwrap_or(b"]"));
            }
            _ => push(&mut out, &vector),
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"model\":");
    push(&mut out, model);
    let tokens = call.tokens;
    let usage = format!(",\"usage\":{{\"prompt_tokens\":{tokens},\"total_tokens\":{tokens}}}}}");
    out.extend_from_slice(usage.as_bytes());
    out
}

/// The vector of a text.
fn vector(text: &str, dimensions: usize) -> Vec<f32> {
    let mut bytes = vec![0; dimensions * 2];
    blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut bytes);
    let number = |pair: &[u8]| f64::from(i16::from_le_bytes([pair[0], pair[1]])) + 0.5;
    let raw: Vec<f64> = bytes.chunks_exact(2).map(number).collect();
    let length = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
    #[expect(clippy::cast_possible_truncation, reason = "embeddings are single precision")]
    raw.iter().map(|x| (x / length) as f32).collect()
}

/// The little-endian bytes of a vector in Base64.
fn encoded(vector: &[f32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { letter as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_one_and_hang_on_the_text() {
        for dimensions in [1, 3, 64, 1_536] {
            let one = vector("one", dimensions);
            assert_eq!(one.len(), dimensions);
            let length: f64 = one.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((length - 1.0).abs() < 1e-5, "{length}");
            assert_eq!(one, vector("one", dimensions));
        }
        assert_ne!(vector("one", 64), vector("two", 64));
        assert!(vector("", 64).iter().all(|x| x.is_finite()));
    }

    #[test]
    fn base64_is_base64() {
        assert_eq!(encoded(&[1.0]), "AACAPw==");
        assert_eq!(encoded(&[1.0, -2.5]), "AACAPwAAIMA=");
        assert_eq!(encoded(&[1.0, -2.5, 0.0]), "AACAPwAAIMAAAAAA");
        assert_eq!(encoded(&[]), "");
    }
}
