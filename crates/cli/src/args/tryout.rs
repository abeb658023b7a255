//! What can be typed after `redrive try`.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};
use redrive_core::id::RunId;

/// Options of `try`.
#[derive(Debug, ClapArgs)]
#[command(group = ArgGroup::new("with").required(true).args(["payload", "item"]))]
pub struct TryArgs {
    /// The pipeline file
    pub file: PathBuf,
    /// The stage
    pub stage: String,
    /// Call it with this content: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub payload: Option<String>,
    /// The key that goes with it
    #[arg(long, requires = "payload")]
    pub key: Option<String>,
    /// Call it with what this item has now: its id, the beginning of its id, or its key
    #[arg(long)]
    pub item: Option<String>,
    /// Look for the item in this run only
    #[arg(long, requires = "item")]
    pub run: Option<RunId>,
}
