//! Lengths and dot products.

/// Numbers summed side by side. Floating-point addition is not associative, so the compiler keeps one running sum as it
/// is; several running sums it turns into vector instructions.
const LANES: usize = 16;

/// Codes multiplied in one go.
const CODES: usize = 32;

/// The dot product of two vectors; of unequal lengths, of what they have in common.
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let common = a.len().min(b.len());
    let (a, a_rest) = a[..common].as_chunks::<LANES>();
    let (b, b_rest) = b[..common].as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// A code, as a number or as the byte it is stored in.
pub trait Code: Copy {
    /// The number.
    fn number(self) -> i16;
}

impl Code for i8 {
    fn number(self) -> i16 {
        i16::from(self)
    }
}

impl Code for u8 {
    fn number(self) -> i16 {
        i16::from(self.cast_signed())
    }
}

/// The dot product of two rows of codes, exact up to 130,000 dimensions; of unequal lengths, of what they have in
/// common.
#[must_use]
pub fn dot_codes<A: Code>(a: &[A], b: &[i8]) -> i32 {
    let common = a.len().min(b.len());
    let (a, a_rest) = a[..common].as_chunks::<CODES>();
    let (b, b_rest) = b[..common].as_chunks::<CODES>();
    let chunks: i32 = a.iter().zip(b).map(|(a, b)| sum_of_products(a, b)).sum();
    chunks + sum_of_products(a_rest, b_rest)
}

fn sum_of_products<A: Code>(a: &[A], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| i32::from(a.number() * i16::from(*b))).sum()
}

/// Brings a vector to length 1. Leaves it alone and says `false` when it has no direction: zero, or not finite.
#[must_use]
pub fn normalise(vector: &mut [f32]) -> bool {
    let square: f64 = vector.iter().map(|number| f64::from(*number) * f64::from(*number)).sum();
    let length = square.sqrt();
    if !length.is_finite() || length < f64::from(f32::MIN_POSITIVE) {
        return false;
    }
    for number in vector {
        *number = (f64::from(*number) / length) as f32;
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn codes_multiply_exactly(pairs in prop::collection::vec(any::<(i8, i8)>(), 0..600)) {
            let (a, b): (Vec<i8>, Vec<i8>) = pairs.iter().copied().unzip();
            let expected: i64 = pairs.iter().map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
            prop_assert_eq!(i64::from(dot_codes(&a, &b)), expected);
        }

        #[test]
        fn floats_multiply_as_in_double_precision(
            pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 0..600),
        ) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let expected: f64 = pairs.iter().map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            prop_assert!((f64::from(dot(&a, &b)) - expected).abs() < 1e-4);
        }

        #[test]
        fn a_normalised_vector_has_length_one(mut vector in prop::collection::vec(-1e6_f32..1e6, 1..300)) {
            prop_assume!(vector.iter().any(|number| *number != 0.0));
            prop_assert!(normalise(&mut vector));
            prop_assert!((dot(&vector, &vector) - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn the_largest_codes_do_not_overflow() {
        assert_eq!(dot_codes(&[-128_i8; 4096], &[-128; 4096]), 4096 * 16_384);
    }

    #[test]
    fn what_has_no_direction_is_left_alone() {
        for mut vector in [vec![0.0; 3], vec![f32::NAN, 1.0], vec![f32::INFINITY, 1.0], vec![]] {
            let before = format!("{vector:?}");
            assert!(!normalise(&mut vector));
            assert_eq!(format!("{vector:?}"), before);
        }
    }
}
