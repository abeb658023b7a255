//! What a model is to those who use it.

use std::fmt;

use redrive_core::failure::Class;
use thiserror::Error;

/// Which model made a vector. Vectors of two models cannot be compared, so an index keeps this beside them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelId {
    name: String,
    content: String,
}

impl ModelId {
    /// Names a model and the content it was loaded from.
    #[must_use]
    pub fn new(name: impl Into<String>, content: impl Into<String>) -> Self {
        Self { name: name.into(), content: content.into() }
    }

    /// What people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A hash of everything that decides on its vectors: the table and the vocabulary.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }
}

/// `name@hash`, the hash cut to 16 digits.
impl fmt::Display for ModelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.content.get(..16).unwrap_or(&self.content))
    }
}

/// Why a text has no vector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EmbedError {
    /// The text has no token that the model knows. A vector of zeros would be near to nothing and far from nothing, so
    /// none is given.
    #[error("text {index} has no word that the model knows")]
    Empty {
        /// Which of the texts, from 0.
        index: usize,
    },
    /// The model failed for a reason of its own.
    #[error("{message}")]
    Failed {
        /// Whether another try can help.
        class: Class,
        /// What happened.
        message: String,
    },
}

impl EmbedError {
    /// What the failure means for an item.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Empty { .. } => Class::Final,
            Self::Failed { class, .. } => *class,
        }
    }
}

/// Turns texts into vectors of length 1.
pub trait Embedder: Send + Sync {
    /// Which model it is.
    fn id(&self) -> &ModelId;

    /// How many numbers a vector has.
    fn dimensions(&self) -> usize;

    /// How many tokens the model makes of a text.
    fn count_tokens(&self, text: &str) -> usize;

    /// Embeds texts: as many vectors, in the same order.
    ///
    /// # Errors
    /// The first text that has no vector fails the call.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// Embeds texts, each with an end of its own. An index in an error counts from the start of `texts`.
    fn embed_each(&self, texts: &[&str]) -> Vec<Result<Vec<f32>, EmbedError>> {
        if let Ok(vectors) = self.embed(texts) {
            return vectors.into_iter().map(Ok).collect();
        }
        let alone = |(index, text)| match self.embed(&[text]) {
            Ok(mut vectors) if vectors.len() == 1 => Ok(vectors.remove(0)),
            Ok(vectors) => Err(EmbedError::Failed {
                class: Class::Retryable,
                message: format!("the model gave {} vectors for one text", vectors.len()),
            }),
            Err(EmbedError::Empty { .. }) => Err(EmbedError::Empty { index }),
            Err(error) => Err(error),
        };
        texts.iter().copied().enumerate().map(alone).collect()
    }

    /// Embeds texts, each with an end of its own, and says how many tokens they have together.
    fn embed_counted(&self, texts: &[&str]) -> (Vec<Result<Vec<f32>, EmbedError>>, usize) {
        let tokens = texts.iter().map(|text| self.count_tokens(text)).sum();
        (self.embed_each(texts), tokens)
    }
}
