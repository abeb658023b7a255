//! What can be typed after `redrive schema`.

use clap::Args as ClapArgs;

/// Options of `schema`.
#[derive(Debug, ClapArgs)]
pub struct SchemaArgs {
    /// The command, for example `run` or `dead list`; default: the names of all
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}
