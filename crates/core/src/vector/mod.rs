//! The arithmetic of stored vectors: all of it safe code that the compiler vectorises.

mod dot;
mod nearest;
mod quantise;

pub use dot::{Code, dot, dot_codes, normalise};
pub use nearest::{Hit, Nearest};
pub use quantise::{Quantised, dot_error_bound};
