//! What daemons remember is kept in the store as JSON.

use redrive_store::{Error as StoreError, Memo};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;

/// Reads what a memo keeps.
///
/// # Errors
/// When a newer version wrote it.
pub(crate) fn read<T: DeserializeOwned>(memo: &Memo) -> Result<T> {
    let unreadable = |error: serde_json::Error| StoreError::Unreadable {
        what: format!("what is kept of {}", memo.name),
        why: error.to_string(),
    };
    Ok(serde_json::from_str(&memo.state).map_err(unreadable)?)
}

/// The text that a memo keeps.
///
/// # Errors
/// Never but for a mistake in the program.
pub(crate) fn written(state: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(state).map_err(|error| StoreError::Internal(format!("a memo: {error}")))?)
}
