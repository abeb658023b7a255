//! The shapes of all documents that are answered with, as JSON Schema (draft 2020-12), written down once for every door.

use serde_json::Value;

use crate::error::{Error, Result};

/// Every shape, and which command prints which.
const SCHEMAS: &str = include_str!("../schemas.json");

/// The shapes by name below `$defs`, and below `commands` which command prints which.
///
/// # Errors
/// Never but for a mistake in the program.
pub fn all() -> Result<Value> {
    serde_json::from_str(SCHEMAS).map_err(|error| Error::internal(format!("the schemas: {error}")))
}
