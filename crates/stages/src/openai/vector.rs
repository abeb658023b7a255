//! Whether the vectors of an answer can be used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One entry of an answer's `data`.
#[derive(Deserialize)]
struct Entry<'a> {
    /// Services that leave out zeros leave out the first one's.
    #[serde(default)]
    index: u64,
    #[serde(borrow)]
    embedding: &'a RawValue,
}

/// Reads the vectors of an answer in the order of the texts: one for each, all of one dimension, every number finite,
/// none empty or all zero.
///
/// # Errors
/// Says what the answer has instead.
pub(super) fn read(data: &RawValue, texts: usize) -> Result<Vec<Vec<f32>>, String> {
    let mut dimension = None;
    let entries: Vec<&RawValue> =
        serde_json::from_str(data.get()).map_err(|_| "has \"data\" that is no list".to_owned())?;
    if entries.len() != texts {
        return Err(format!("has {} vectors for {texts} texts", entries.len()));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = entries.iter().map(|_| None).collect();
    for raw in entries {
        let entry: Entry<'_> = serde_json::from_str(raw.get())
            .ok()
            .filter(|_| raw.get().starts_with('{'))
            .ok_or("has an entry without a vector or with an index that is none")?;
        let place = usize::try_from(entry.index)
            .ok()
            .and_then(|index| vectors.get_mut(index))
            .ok_or_else(|| format!("has a vector for text {}, and there are {texts}", entry.index))?;
        if place.is_some() {
            return Err(format!("has two vectors for text {}", entry.index));
        }
        let vector =
            numbers(entry.embedding).map_err(|wrong| format!("has {wrong} for text {}", entry.index))?;
        let expected = *dimension.get_or_insert(vector.len());
        if vector.len() != expected {
            return Err(format!("has a vector of dimension {} where {expected} was expected", vector.len()));
        }
        *place = Some(vector);
    }
    Ok(vectors.into_iter().flatten().collect())
}

fn numbers(raw: &RawValue) -> Result<Vec<f32>, &'static str> {
    let vector: Vec<f32> = if raw.get().starts_with('"') {
        let text: String = serde_json::from_str(raw.get()).map_err(|_| "a vector that cannot be read")?;
        let bytes = STANDARD.decode(text).map_err(|_| "a vector that is not base64")?;
        let (numbers, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err("a vector that is cut off");
        }
        numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    } else {
        serde_json::from_str(raw.get()).map_err(|_| "a vector that is no list of numbers")?
    };
    if vector.is_empty() {
        return Err("an empty vector");
    }
    if vector.iter().any(|number| !number.is_finite()) {
        return Err("a vector with a number that is not finite");
    }
    if vector.iter().all(|number| *number == 0.0) {
        return Err("a vector of zeros");
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(data: &str, texts: usize) -> Result<Vec<Vec<f32>>, String> {
        read(serde_json::from_str(data).unwrap(), texts)
    }

    #[test]
    fn vectors_are_put_in_the_order_of_the_texts() {
        let data =
            r#"[{"index":1,"embedding":[3,4.5]},{"embedding":[1,-2e-3],"index":0,"object":"embedding"}]"#;
        assert_eq!(checked(data, 2), Ok(vec![vec![1.0, -0.002], vec![3.0, 4.5]]));
    }

    #[test]
    fn a_first_index_may_be_left_out() {
        assert!(checked(r#"[{"embedding":[1]}]"#, 1).is_ok());
        assert!(checked(r#"[{"embedding":[1]},{"index":1,"embedding":[2]}]"#, 2).is_ok());
        let twice = checked(r#"[{"embedding":[1]},{"embedding":[2]}]"#, 2);
        assert_eq!(twice, Err("has two vectors for text 0".into()));
    }

    #[test]
    fn base64_is_read_as_little_endian_floats() {
        let bytes: Vec<u8> = [1.5_f32, -0.25].iter().flat_map(|number| number.to_le_bytes()).collect();
        let data = format!(r#"[{{"index":0,"embedding":"{}"}}]"#, STANDARD.encode(&bytes));
        assert_eq!(checked(&data, 1), Ok(vec![vec![1.5, -0.25]]));
        for (bytes, wrong) in [
            (f32::NAN.to_le_bytes().to_vec(), "not finite"),
            (f32::NEG_INFINITY.to_le_bytes().to_vec(), "not finite"),
            (vec![0; 8], "zeros"),
            (vec![0; 7], "cut off"),
            (vec![], "empty vector"),
        ] {
            let data = format!(r#"[{{"index":0,"embedding":"{}"}}]"#, STANDARD.encode(&bytes));
            let told = checked(&data, 1).unwrap_err();
            assert!(told.contains(wrong), "{wrong}: {told}");
        }
        assert!(checked(r#"[{"embedding":"%%%%"}]"#, 1).unwrap_err().contains("not base64"));
    }

    #[test]
    fn whatever_is_not_as_asked_makes_the_answer_unusable() {
        let table = [
            ("{}", 1, "no list"),
            ("[]", 1, "has 0 vectors for 1 texts"),
            (r#"[{"embedding":[1]},{"index":1,"embedding":[1]}]"#, 1, "has 2 vectors for 1 texts"),
            (r#"[{"index":1,"embedding":[1]}]"#, 1, "for text 1, and there are 1"),
            (r#"[{"index":18446744073709551615,"embedding":[1]}]"#, 1, "and there are 1"),
            (r#"[{"index":-1,"embedding":[1]}]"#, 1, "an index that is none"),
            (r#"[{"index":"0","embedding":[1]}]"#, 1, "an index that is none"),
            (r#"[[0,[1]]]"#, 1, "without a vector"),
            (r#"[{"index":0}]"#, 1, "without a vector"),
            (r#"[{"index":0,"embedding":null}]"#, 1, "no list of numbers"),
            (r#"[{"index":0,"embedding":[1,null]}]"#, 1, "no list of numbers"),
            (r#"[{"index":0,"embedding":[[1]]}]"#, 1, "no list of numbers"),
            (r#"[{"index":0,"embedding":["1"]}]"#, 1, "no list of numbers"),
            (r#"[{"index":0,"embedding":[1e39]}]"#, 1, "not finite"),
            (r#"[{"index":0,"embedding":[1e999]}]"#, 1, "no list of numbers"),
            (r#"[{"index":0,"embedding":[]}]"#, 1, "empty vector"),
            (r#"[{"index":0,"embedding":[0,-0.0,1e-60]}]"#, 1, "zeros"),
            (r#"[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]"#, 2, "two vectors for text 0"),
            (r#"[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]"#, 2, "dimension 2 where 1"),
        ];
        for (data, texts, wrong) in table {
            let told = checked(data, texts).unwrap_err();
            assert!(told.contains(wrong), "{data}: {told}");
        }
    }
}
