//! What can be said of which programs stages may start.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use redrive_operate::{Error, Result};
use redrive_stages::Folders;

/// Which programs stages may start.
#[derive(Debug, Clone, ClapArgs)]
pub struct CommandsArgs {
    /// Let `command` stages of pipelines that are sent start programs of this folder, and no others
    #[arg(long, value_name = "DIR")]
    pub allow_commands: Vec<PathBuf>,
}

impl CommandsArgs {
    /// The folders that were named.
    ///
    /// # Errors
    /// When one of them is none.
    pub fn folders(&self) -> Result<Folders> {
        Folders::new(&self.allow_commands).map_err(|why| {
            Error::wrong(format!("--allow-commands {why}"))
                .hint("name a folder that is there, with the programs that may be started")
        })
    }
}
