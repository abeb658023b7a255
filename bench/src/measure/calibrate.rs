//! The facts alone.

use super::Scratch;
use crate::report::save;
use crate::{Common, Failure, facts};

/// Prints and saves them.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    save(common.json.as_deref(), &facts)
}
