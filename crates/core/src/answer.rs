//! Answers that come later: an attempt that is handed over, and the name by which its answer finds it.
//!
//! An attempt that is handed over stays open: it has its number, no row, and no place. Whoever answers names it by its token; the
//! first answer, or the end of the wait for one, closes it, and the token fits nothing any more.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::attempt::AttemptRecord;
use crate::id::{ItemId, StageNo, WorkerId};
use crate::item::{Item, State};
use crate::time::Timestamp;

/// Longest ticket that is kept of a service.
pub const MAX_TICKET: usize = 2_000;

/// What a stage says of an item that somebody else has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandOver {
    /// How long the answer is awaited, from the moment at which it is handed over first.
    pub within: Duration,
    /// After how long the answer is asked for; `None` when it comes by itself.
    pub ask_in: Option<Duration>,
    /// What the answer is asked for by.
    pub ticket: Option<Arc<str>>,
    /// The name under which the world is told of it.
    pub route: Option<Arc<str>>,
}

/// What is known of an attempt that is handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handed {
    /// Who handed it over.
    pub worker: WorkerId,
    /// When the attempt began.
    pub since: Timestamp,
    /// When it was handed over.
    pub at: Timestamp,
    /// The answer is awaited until then.
    pub until: Timestamp,
    /// What the answer is asked for by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Arc<str>>,
    /// The name under which the world was told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Arc<str>>,
}

impl Handed {
    /// As stores keep it.
    #[must_use]
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a store kept; `None` when it is nothing of the kind.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Names one attempt of one item, so that its answer finds it. It is a name and no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerToken {
    /// The item.
    pub item: ItemId,
    /// The stage that handed it over.
    pub stage: StageNo,
    /// Its generation then.
    pub generation: u32,
    /// The attempt.
    pub attempt: u32,
}

impl AnswerToken {
    /// The token of the attempt that an item is in.
    #[must_use]
    pub fn of(item: &Item) -> Self {
        Self { item: item.id, stage: item.stage, generation: item.generation, attempt: item.attempt }
    }

    /// Whether the attempt that it names is still open. One that runs is, too: an answer may be faster than the word that the
    /// item was handed over.
    #[must_use]
    pub fn is_open(&self, item: &Item) -> bool {
        let open = match item.state {
            State::Waiting { .. } => item.handed.is_some(),
            State::Running { .. } => true,
            State::Joining
            | State::Succeeded
            | State::Filtered { .. }
            | State::Superseded { .. }
            | State::Cancelled
            | State::Dead { .. } => false,
        };
        open && *self == Self::of(item)
    }
}

impl AnswerToken {
    /// Whether the attempt that it names was ever begun, as far as that shows on the item and on the attempts of it that ended.
    #[must_use]
    pub fn was_given(&self, item: &Item, ended: &[AttemptRecord]) -> bool {
        let now = Self::of(item);
        let is_of_this_stay = (self.stage, self.generation) == (now.stage, now.generation);
        (is_of_this_stay && (1..=now.attempt).contains(&self.attempt))
            || ended.iter().any(|one| {
                (one.stage, one.generation, one.attempt) == (self.stage, self.generation, self.attempt)
            })
    }
}

impl fmt::Display for AnswerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { item, stage, generation, attempt } = self;
        write!(f, "{item}.{}.{generation}.{attempt}", stage.0)
    }
}

/// A text that is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no token of an answer")]
pub struct NoToken;

impl FromStr for AnswerToken {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let mut parts = text.split('.');
        let mut next = || parts.next().ok_or(NoToken);
        let (item, stage, generation, attempt) = (next()?, next()?, next()?, next()?);
        let token = Self {
            item: item.parse().map_err(|_| NoToken)?,
            stage: StageNo(stage.parse().map_err(|_| NoToken)?),
            generation: generation.parse().map_err(|_| NoToken)?,
            attempt: attempt.parse().map_err(|_| NoToken)?,
        };
        // One attempt has one name: `01` is none.
        if token.to_string() == text { Ok(token) } else { Err(NoToken) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ContentHash, RunId};

    #[test]
    fn a_token_is_read_as_it_is_written_and_in_no_other_way() {
        let item = ItemId::derive(RunId(1), None, "a", ContentHash::of(&[b"x"]));
        let token = AnswerToken { item, stage: StageNo(2), generation: 1, attempt: 30 };
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'), "it needs no escaping: {text}");
        for wrong in
            ["", "x", &text[1..], &format!("{text}.1"), &text.replace(".30", ".030"), &format!(" {text}")]
        {
            assert_eq!(wrong.parse::<AnswerToken>(), Err(NoToken), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_kept_of_a_hand_over_is_read_back() {
        let bare = Handed {
            worker: WorkerId(7),
            since: Timestamp(1),
            at: Timestamp(2),
            until: Timestamp(3),
            ticket: None,
            route: None,
        };
        let full = Handed { ticket: Some("t \"1\"".into()), route: Some("a.b".into()), ..bare.clone() };
        for handed in [bare, full] {
            assert_eq!(Handed::from_text(&handed.to_text()), Some(handed));
        }
        assert_eq!(Handed::from_text("{}"), None);
    }
}
