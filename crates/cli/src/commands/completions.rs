//! `redrive completions`.

use std::process::ExitCode;

use clap::CommandFactory;

use super::Answer;
use crate::args::Args;
use crate::output::lines;

/// Prints completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> Answer {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "redrive", &mut script);
    lines(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}
