//! What a worker is told at its start.

use thiserror::Error;

use super::pointer::Pointer;

/// How a vector is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VectorFormat {
    /// A string: base64 (with padding) of the numbers as little-endian `f32`. Exact, and half as long as the numbers.
    #[default]
    Base64,
    /// A list of numbers, each written so that it reads back as the same `f32`.
    Numbers,
}

/// What a worker does and where it stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerLimits {
    text: Pointer,
    format: VectorFormat,
    max_request: usize,
    max_text: usize,
}

/// Why limits cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no JSON pointer: it is empty or begins with /")]
pub struct LimitsError(pub(super) String);

impl Default for WorkerLimits {
    /// The text at `/text`, vectors in base64, 64 MiB a request, 8 MiB a text.
    fn default() -> Self {
        Self {
            text: Pointer::field("text"),
            format: VectorFormat::default(),
            max_request: 64 << 20,
            max_text: 8 << 20,
        }
    }
}

impl WorkerLimits {
    /// Takes the text from another place of the payload: a JSON pointer, empty for the payload itself.
    ///
    /// # Errors
    /// When it is no JSON pointer.
    pub fn with_text_at(mut self, pointer: impl Into<String>) -> Result<Self, LimitsError> {
        self.text = Pointer::new(pointer.into())?;
        Ok(self)
    }

    /// Writes vectors in another way.
    #[must_use]
    pub fn with_format(mut self, format: VectorFormat) -> Self {
        self.format = format;
        self
    }

    /// Longest request, in bytes.
    #[must_use]
    pub fn with_max_request(mut self, bytes: usize) -> Self {
        self.max_request = bytes;
        self
    }

    /// Longest text, in bytes; an item with a longer one fails as `oversized`.
    #[must_use]
    pub fn with_max_text(mut self, bytes: usize) -> Self {
        self.max_text = bytes;
        self
    }

    pub(super) fn text(&self) -> &Pointer {
        &self.text
    }

    pub(super) fn format(&self) -> VectorFormat {
        self.format
    }

    pub(super) fn max_request(&self) -> usize {
        self.max_request
    }

    pub(super) fn max_text(&self) -> usize {
        self.max_text
    }
}
