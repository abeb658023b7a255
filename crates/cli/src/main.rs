//! The command line: parse, run, exit code.

mod args;
mod commands;
mod exit;
mod output;
mod wiring;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are answers, not errors. A closed pipe is nobody's problem.
            let _ = error.print();
            return if error.use_stderr() { exit::usage() } else { ExitCode::SUCCESS };
        }
    };
    output::log::begin(&args.global);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&exit::Failure::internal(format!("cannot start: {error}"))),
    };
    let code = match runtime.block_on(commands::run(args)) {
        Ok(code) => code,
        Err(failure) => exit::report(&failure),
    };
    // What is left lets go of the store, so that its file is closed; a read from a terminal that never returns must not
    // keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    code
}
