//! Vectors in a quarter of the space: a code of one byte for each number, and one scale.

/// Half a step, and what rounding in `f32` adds to it: dividing by the scale and multiplying again are each off by at
/// most 2⁻²⁴ of at most 127 steps.
const HALF_STEP: f32 = 0.500_02;

/// A vector as codes of one byte. A number is its code times the scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantised {
    /// Codes from -127 to 127.
    pub codes: Vec<i8>,
    /// What a step is worth; 0 for a vector of zeros.
    pub scale: f32,
}

impl Quantised {
    /// Rounds each number to the nearest of 255 steps between plus and minus the largest. Numbers that are not finite
    /// have no place in a vector; they become 0.
    #[must_use]
    pub fn new(vector: &[f32]) -> Self {
        let finite = |number: &f32| if number.is_finite() { *number } else { 0.0 };
        let largest = vector.iter().map(finite).fold(0.0, |largest: f32, number| largest.max(number.abs()));
        let scale = largest / 127.0;
        if scale < f32::MIN_POSITIVE {
            return Self { codes: vec![0; vector.len()], scale: 0.0 };
        }
        // A cast from float to integer saturates.
        let code = |number: &f32| ((finite(number) / scale).round() as i8).max(-127);
        Self { codes: vector.iter().map(code).collect(), scale }
    }

    /// The vector that the codes stand for.
    #[must_use]
    pub fn restore(&self) -> Vec<f32> {
        self.codes.iter().map(|code| f32::from(*code) * self.scale).collect()
    }

    /// How far a restored number can be from the one that was stored.
    #[must_use]
    pub fn error_bound(&self) -> f32 {
        self.scale * HALF_STEP
    }
}

/// How far the dot product of a query and a stored vector can be off when the stored one is replaced by its codes:
/// each number is off by at most `error_bound`, times the query's number.
#[must_use]
pub fn dot_error_bound(query: &[f32], stored: &Quantised) -> f32 {
    query.iter().map(|number| number.abs()).sum::<f32>() * stored.error_bound()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::vector::{dot, normalise};

    proptest! {
        #[test]
        fn no_number_is_off_by_more_than_the_bound(vector in prop::collection::vec(-1.0_f32..1.0, 1..300)) {
            let quantised = Quantised::new(&vector);
            for (number, restored) in vector.iter().zip(quantised.restore()) {
                prop_assert!((number - restored).abs() <= quantised.error_bound());
            }
        }

        #[test]
        fn no_dot_product_is_off_by_more_than_the_bound(
            pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 2..300),
        ) {
            let (mut query, mut stored): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            prop_assume!(normalise(&mut query) && normalise(&mut stored));
            let quantised = Quantised::new(&stored);
            let off = (dot(&query, &stored) - dot(&query, &quantised.restore())).abs();
            prop_assert!(off <= dot_error_bound(&query, &quantised) + 1e-6);
        }

        #[test]
        fn the_largest_number_has_the_largest_code(vector in prop::collection::vec(-1e30_f32..1e30, 1..50)) {
            let quantised = Quantised::new(&vector);
            let largest = quantised.codes.iter().map(|code| code.unsigned_abs()).max();
            prop_assert!(largest == Some(127) || quantised.scale == 0.0);
        }
    }

    #[test]
    fn the_bound_is_met_and_not_only_kept() {
        // Half a step between two codes: nothing can be closer than the bound says, up to rounding.
        let quantised = Quantised::new(&[127.0, 0.5]);
        let off = (quantised.restore()[1] - 0.5).abs();
        assert!(off > quantised.error_bound() * 0.999, "{off}");
    }

    #[test]
    fn zeros_and_what_is_not_finite_become_zero() {
        assert_eq!(Quantised::new(&[0.0, -0.0]), Quantised { codes: vec![0, 0], scale: 0.0 });
        let odd = Quantised::new(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.0]);
        assert_eq!(odd.codes, [0, 0, 0, 127]);
    }
}
