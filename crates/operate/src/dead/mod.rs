//! Dead letters: list them, group them by alike errors, send them back, write them out, read them in edited, remove them.
//!
//! [`Which`] says which ones, as it was asked; a [`Selection`] is the same in a store's terms, and what a preview and the
//! act itself both go by.

mod export;
mod list;
mod purge;
mod redrive;
mod selection;

pub use export::{Export, Exported, Import, Imported};
pub use list::{DeadGroup, DeadGroups, DeadItem, DeadList, List, groups, list};
pub use purge::{Changed, preview_purge, purge};
pub use redrive::{Canary, Redrive, Redriven, preview, redrive};
pub use selection::{Selection, Which};
