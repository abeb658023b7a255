//! Who asks, and what that one may do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Error, Result};

/// What somebody may do. Each may do what those before it may, but for a worker, who may do nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Claims work of external stages and answers for it, and does nothing else.
    Worker,
    /// Looks at everything, and changes nothing.
    Viewer,
    /// Hands work over, and acts on runs, items and gates.
    Operator,
    /// Everything: also what reaches beyond the store.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Worker, Self::Viewer, Self::Operator, Self::Admin];

    /// Whether whoever has it may do what takes this one at least.
    #[must_use]
    pub fn may(self, least: Self) -> bool {
        match (self, least) {
            (Self::Worker, _) => least == Self::Worker,
            // Work is done by whoever may hand it over, not by whoever may only look.
            (_, Self::Worker) => self >= Self::Operator,
            _ => self >= least,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The name, for the record; empty where it is not known.
    pub name: String,
    /// What that one may do.
    pub role: Role,
    /// Whether contents of items are kept from that one.
    pub payloads_hidden: bool,
}

impl Asker {
    /// Whoever has the store's file may do everything with it.
    pub fn admin(name: impl Into<String>) -> Self {
        Self { name: name.into(), role: Role::Admin, payloads_hidden: false }
    }
}

impl Floor {
    /// Refuses whoever has less than this role. Every function that changes something asks it first.
    ///
    /// # Errors
    /// When the role does not suffice.
    pub fn require(&self, least: Role) -> Result<()> {
        let Asker { role, .. } = &self.asker;
        match role.may(least) {
            true => Ok(()),
            false => Err(Error::forbidden(format!("{role} is not enough for that; it takes {least}"))),
        }
    }

    /// Refuses whoever contents are kept from.
    ///
    /// # Errors
    /// When they are.
    pub fn require_payloads(&self) -> Result<()> {
        match self.asker.payloads_hidden {
            false => Ok(()),
            true => Err(Error::forbidden("contents of items are not shown to whoever asks")),
        }
    }
}
