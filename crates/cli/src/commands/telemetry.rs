//! What is sent to a collector of OpenTelemetry, where the environment names one.

use redrive_engine::env::Env;
use redrive_operate::Error;
use redrive_operate::telemetry::{Settings, Telemetry};

use crate::args::Command;
use crate::wiring;

/// What of a command is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// Nothing: nothing happens to items by it.
    Nothing,
    /// Spans of what happens to items by it.
    Spans,
    /// These, and metrics: it works on runs.
    Metrics,
}

/// Begins to send what this command has to tell, if the environment asks for it.
///
/// # Errors
/// When a variable cannot be taken.
pub fn begin(command: &Command, env: &mut Env) -> Result<Option<Telemetry>, Error> {
    let told = told(command);
    if told == Told::Nothing {
        return Ok(None);
    }
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        // A name that is no text is none of ours.
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    let Some(settings) = Settings::read(variables)? else { return Ok(None) };
    let collector = wiring::collector(&settings)?;
    let telemetry = Telemetry::begin(settings, collector, env, told == Told::Metrics);
    env.traced = telemetry.traced();
    Ok(Some(telemetry))
}

fn told(command: &Command) -> Told {
    match command {
        Command::Run(_)
        | Command::Resume(_)
        | Command::Work(_)
        | Command::Serve(_)
        | Command::Index(_)
        | Command::Mail(_) => Told::Metrics,
        Command::Dead(_)
        | Command::Retry(_)
        | Command::Rerun(_)
        | Command::RetryJob(_)
        | Command::Cancel { .. }
        | Command::Kill { .. }
        | Command::Mcp(_) => Told::Spans,
        _ => Told::Nothing,
    }
}
