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
        Err(error) => return unreadable(&error),
    };
    output::screen::begin(&args.global);
    output::log::begin(&args.global);
    let json = args.global.json;
    if let Err(error) = has_descriptors() {
        return failed(&Error::internal(format!("cannot start: {error}")), json);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&Error::internal(format!("cannot start: {error}")), json),
    };
    let code = match runtime.block_on(async {
        bear_size_limits();
        commands::run(args).await
    }) {
        Ok(code) => code,
        Err(error) => failed(&error, json),
    };
    output::repeats::sum_up();
    // What is left lets go of the store, so that its file is closed; a read from a terminal that never returns must not
    // keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    code
}

/// Finds out whether there are as many descriptors as listening for signals takes: who asks for it later breaks without them.
fn has_descriptors() -> std::io::Result<()> {
    let pair = std::os::unix::net::UnixStream::pair;
    let _held = [pair()?, pair()?, pair()?];
    Ok(())
}

/// Tells an error and gives its exit code. Who asked for a document gets one.
fn failed(error: &Error, json: bool) -> ExitCode {
    output::error(error);
    if json {
        output::error_in_place_of_an_answer(error);
    }
    exit::code(error)
}

/// Tells what is wrong with the command line, in the form that it asks for as far as can be seen.
fn unreadable(error: &clap::Error) -> ExitCode {
    let asked = args::Asked::of(std::env::args_os());
    if !error.use_stderr() || (!asked.json && asked.log_format == args::LogFormat::Text) {
        // Help and version are answers, not errors. A closed pipe is nobody's problem.
        let _ = error.print();
        return if error.use_stderr() { exit::usage() } else { ExitCode::SUCCESS };
    }
    output::aside::begin(asked.log_format);
    if asked.log_format == args::LogFormat::Text {
        let _ = error.print();
        output::error_in_place_of_an_answer(&args::usage_error(error));
        return exit::usage();
    }
    failed(&args::usage_error(error), asked.json)
}

/// Has a write beyond a limit on the size of files fail, with words and a hint, instead of ending the process.
fn bear_size_limits() {
    /// The number of SIGXFSZ.
    const SIZE_LIMIT: i32 = 25;
    let kind = tokio::signal::unix::SignalKind::from_raw(SIZE_LIMIT);
    // Whoever cannot listen has the signal end the process, as before. Listening once is listening for good.
    let _ = tokio::signal::unix::signal(kind);
}
