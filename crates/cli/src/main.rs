//! The command line: parse, run, exit code.

mod args;
mod commands;
mod exit;
mod help;
mod output;
mod wiring;

use std::process::ExitCode;

use clap::FromArgMatches;
use redrive_operate::Error;

fn main() -> ExitCode {
    let typed = help::command().try_get_matches();
    let args = match typed.and_then(|typed| args::Args::from_arg_matches(&typed)) {
        Ok(args) => args,
        Err(error) => {
            // Help and version are answers, not errors. A closed pipe is nobody's problem.
            let _ = error.print();
            return if error.use_stderr() { exit::usage() } else { ExitCode::SUCCESS };
        }
    };
    output::screen::begin(&args.global);
    output::log::begin(&args.global);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&Error::internal(format!("cannot start: {error}"))),
    };
    let code = match runtime.block_on(async {
        bear_size_limits();
        commands::run(args).await
    }) {
        Ok(code) => code,
        Err(error) => failed(&error),
    };
    output::repeats::sum_up();
    // What is left lets go of the store, so that its file is closed; a read from a terminal that never returns must not
    // keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    code
}

/// Tells an error and gives its exit code.
fn failed(error: &Error) -> ExitCode {
    output::error(error);
    exit::code(error)
}

/// Has a write beyond a limit on the size of files fail, with words and a hint, instead of ending the process.
fn bear_size_limits() {
    /// The number of SIGXFSZ.
    const SIZE_LIMIT: i32 = 25;
    let kind = tokio::signal::unix::SignalKind::from_raw(SIZE_LIMIT);
    // Whoever cannot listen has the signal end the process, as before. Listening once is listening for good.
    let _ = tokio::signal::unix::signal(kind);
}
