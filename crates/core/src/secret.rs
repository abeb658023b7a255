//! A text that must not be seen.

use std::fmt;

/// What stands in the place of a secret where its owner is shown for debugging.
const HIDDEN: &str = "Secret(…)";

/// A secret: a key, a password, a token. It goes from where it is read to where it is sent without being shown on the way,
/// because it can be neither formatted nor serialised; [`expose`](Self::expose) is the one way to its text.
///
/// ```
/// use redrive_core::secret::Secret;
///
/// let key = Secret::from("sk-canary");
/// assert_eq!(format!("{key:?}"), "Secret(…)");
/// assert_eq!(key.expose(), "sk-canary");
/// ```
///
/// It has no words for people:
///
/// ```compile_fail,E0277
/// let key = redrive_core::secret::Secret::from("sk-canary");
/// println!("{key}");
/// ```
///
/// and none for programs:
///
/// ```compile_fail,E0277
/// let key = redrive_core::secret::Secret::from("sk-canary");
/// let _ = serde_json::to_string(&key);
/// ```
///
/// nor does it pass for a text where one is wanted:
///
/// ```compile_fail,E0308
/// fn told(_: &str) {}
/// told(&redrive_core::secret::Secret::from("sk-canary"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for whoever sends it or keeps it out of messages.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_within_others() {
        let held = vec![("authorization", Some(Secret::from("canary-0123")))];
        let shown = format!("{held:?} {held:#?}");
        assert!(shown.contains(HIDDEN) && !shown.contains("canary"), "{shown}");
    }

    #[test]
    fn a_secret_of_blanks_is_none() {
        assert!(Secret::from(" \n").is_blank() && !Secret::from(" a ").is_blank());
    }
}
