//! A table of int8 rows with a scale for each, read in place from a safetensors file.

use std::collections::HashMap;

use serde::Deserialize;

/// What the header of a safetensors file says about one tensor.
#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// The table, borrowed from the bytes of its file.
#[derive(Debug)]
pub(super) struct Table<'a> {
    dimensions: usize,
    codes: &'a [u8],
    scales: &'a [[u8; 4]],
}

impl<'a> Table<'a> {
    /// Reads the header and finds the two tensors.
    pub(super) fn read(file: &'a [u8]) -> Result<Self, String> {
        let (length, rest) = file.split_first_chunk::<8>().ok_or("the table has no header")?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| "the header is too long")?;
        let (header, data) = rest.split_at_checked(length).ok_or("the header is cut off")?;
        let tensors: HashMap<String, Tensor> =
            serde_json::from_slice(header).map_err(|error| format!("the header cannot be read: {error}"))?;
        let (shape, codes) = find(&tensors, data, "embeddings", "I8", 1)?;
        let (scale_shape, scales) = find(&tensors, data, "scale", "F32", 4)?;
        let &[rows, dimensions] = shape else {
            return Err(format!("embeddings has {} dimensions instead of 2", shape.len()));
        };
        if scale_shape != [rows] || dimensions == 0 {
            return Err("embeddings and scale do not fit together".to_owned());
        }
        Ok(Self { dimensions, codes, scales: scales.as_chunks().0 })
    }

    pub(super) fn rows(&self) -> usize {
        self.scales.len()
    }

    pub(super) fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Adds a token's row; a token that has none adds nothing.
    pub(super) fn add_row(&self, token: u32, sum: &mut [f32]) {
        let row = token as usize;
        let Some(scale) = self.scales.get(row) else { return };
        let scale = f32::from_le_bytes(*scale);
        let codes = &self.codes[row * self.dimensions..][..self.dimensions];
        for (sum, code) in sum.iter_mut().zip(codes) {
            *sum += f32::from(code.cast_signed()) * scale;
        }
    }
}

/// The shape and the bytes of a tensor, when they agree.
fn find<'t, 'a>(
    tensors: &'t HashMap<String, Tensor>,
    data: &'a [u8],
    name: &str,
    dtype: &str,
    width: usize,
) -> Result<(&'t [usize], &'a [u8]), String> {
    let tensor = tensors.get(name).ok_or_else(|| format!("there is no {name}"))?;
    if tensor.dtype != dtype {
        return Err(format!("{name} is {} instead of {dtype}", tensor.dtype));
    }
    let [start, end] = tensor.data_offsets;
    let bytes = data.get(start..end).ok_or_else(|| format!("{name} is cut off"))?;
    let expected = tensor.shape.iter().try_fold(width, |size, side| size.checked_mul(*side));
    if expected != Some(bytes.len()) {
        return Err(format!("{name} has {} bytes, which is not its shape", bytes.len()));
    }
    Ok((&tensor.shape, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    const GOOD: &str = r#"{"scale":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
        "embeddings":{"dtype":"I8","shape":[2,2],"data_offsets":[8,12]}}"#;

    fn data() -> Vec<u8> {
        let mut data = [0.5_f32, 2.0].iter().flat_map(|scale| scale.to_le_bytes()).collect::<Vec<_>>();
        data.extend([1, 255, 3, 128]);
        data
    }

    #[test]
    fn a_row_is_its_numbers_times_its_scale() {
        let file = file(GOOD, &data());
        let table = Table::read(&file).unwrap();
        let mut sum = vec![10.0, 10.0];
        table.add_row(0, &mut sum);
        assert_eq!(sum, [10.5, 9.5]);
        table.add_row(1, &mut sum);
        assert_eq!(sum, [16.5, -246.5]);
        table.add_row(2, &mut sum);
        assert_eq!(sum, [16.5, -246.5]);
    }

    #[test]
    fn a_file_that_contradicts_itself_is_refused() {
        let table = [
            (GOOD.replace("I8", "U8"), "embeddings is U8 instead of I8"),
            (GOOD.replace("[8,12]", "[8,13]"), "embeddings is cut off"),
            (GOOD.replace("[2,2]", "[2,3]"), "embeddings has 4 bytes, which is not its shape"),
            (GOOD.replace("[2,2]", "[4]"), "embeddings has 1 dimensions instead of 2"),
            (GOOD.replace("[2,2]", "[1,4]"), "embeddings and scale do not fit together"),
            (GOOD.replace("\"scale\"", "\"other\""), "there is no scale"),
            (GOOD.replace("[0,8]", "[8,0]"), "scale is cut off"),
        ];
        for (header, message) in table {
            assert_eq!(Table::read(&file(&header, &data())).unwrap_err(), message);
        }
        assert_eq!(Table::read(&[1, 2]).unwrap_err(), "the table has no header");
        assert_eq!(Table::read(&[9, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap_err(), "the header is cut off");
    }
}
