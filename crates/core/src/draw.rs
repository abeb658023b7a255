//! One random number, handed in by the caller.

/// A uniform draw from `[0, 1)`. Core never makes one: it is a parameter of every decision that needs chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Draw(f64);

impl Draw {
    /// The middle of the range: jitter leaves a delay as it is.
    pub const MIDDLE: Self = Self(0.5);

    /// Takes a number into the range `[0, 1)`; anything outside is clamped, and NaN becomes the middle.
    #[must_use]
    pub fn new(value: f64) -> Self {
        if value.is_nan() { Self::MIDDLE } else { Self(value.clamp(0.0, 1.0 - f64::EPSILON)) }
    }

    /// Maps 64 random bits to a draw.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub fn from_bits(bits: u64) -> Self {
        Self((bits >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// The number itself.
    #[must_use]
    pub fn value(self) -> f64 {
        self.0
    }
}
