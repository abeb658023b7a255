//! What can be typed about the store itself.

use std::path::PathBuf;

use clap::Args;

/// Options of `backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// Where the copy goes
    pub file: PathBuf,
    /// Replace a copy that is there already
    #[arg(long)]
    pub overwrite: bool,
}
