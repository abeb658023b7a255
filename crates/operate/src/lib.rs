//! Everything a person or a program can ask of Redrive.

mod error;

pub use error::{Error, Kind, Result};
