//! Secrets of the environment.

use redrive_core::secret::Secret;

/// What a variable holds, from here on as something that is not shown; `None` where it is not set or no text.
pub fn secret(variable: &str) -> Option<Secret> {
    std::env::var(variable).ok().map(Secret::from)
}
