//! `redrive retry-job`.

use std::process::ExitCode;

use redrive_operate::retry_job::{self, Jumps, Settings, Sweep};
use redrive_operate::{Error, Floor, monitor};

use super::signals::Signals;
use super::{Answer, Context};
use crate::args::RetryJobArgs;
use crate::exit;
use crate::output::text::{safe, things};
use crate::output::{json, lines};
use crate::wiring::Pushgateway;

/// The settings that the environment has.
///
/// # Errors
/// With every variable that is not known or cannot be taken.
pub fn settings() -> Result<Settings, Error> {
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        // A name that is no text is none of ours.
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    Settings::read(variables)
}

/// Sweeps once, or again and again until it is told to stop.
pub async fn retry_job(context: &Context, args: &RetryJobArgs) -> Answer {
    let settings = settings()?;
    let push = args.pushgateway.as_deref().filter(|url| !url.is_empty());
    let push = push.map(Pushgateway::at).transpose().map_err(wrong_address)?;
    let floor = context.floor()?;
    let (mut signals, mut jumps) = (Signals::listen()?, Jumps::default());
    loop {
        let swept = retry_job::sweep(&floor, &settings, &mut jumps).await;
        // What went wrong is a part of what is told.
        let pushed = pushed(&floor, push.as_ref()).await;
        let sweep = swept?;
        told(context, &sweep)?;
        if args.once {
            pushed?;
            return Ok(if sweep.errors.is_empty() { ExitCode::SUCCESS } else { exit::broken() });
        }
        if let Err(error) = pushed {
            context.say(&safe(&format!("warning: {error}")));
        }
        tokio::select! {
            () = context.env.clock.sleep(settings.interval) => {}
            () = signals.next() => return Ok(ExitCode::SUCCESS),
        }
    }
}

fn wrong_address(why: String) -> Error {
    Error::wrong(format!("--pushgateway: {why}")).hint("an address like http://127.0.0.1:9091")
}

/// Pushes the metrics of the job, where that was asked for.
async fn pushed(floor: &Floor, push: Option<&Pushgateway>) -> Result<(), Error> {
    let Some(push) = push else { return Ok(()) };
    let text = monitor::metrics_of_the_job(floor).await?;
    push.push("retry-job", text).await.map_err(|why| {
        Error::refused(format!("the metrics could not be pushed: {why}"))
            .hint("the sweep was done; the next push tells of it")
    })
}

fn told(context: &Context, sweep: &Sweep) -> Result<(), Error> {
    if context.global.json {
        return json(sweep);
    }
    let mut text = format!(
        "swept {}: {} taken back, {} out of attempts; {} came due, {} not due yet, {} starved",
        things(sweep.runs, "run"),
        things(sweep.taken_back, "item"),
        sweep.exhausted,
        sweep.came_due,
        sweep.backing_off,
        sweep.starved
    );
    for error in &sweep.errors {
        text.push_str(&format!("\n  {}", safe(error)));
    }
    lines(&text)?;
    if sweep.starved > 0 {
        context.hint("`redrive stuck` says what keeps them");
    }
    Ok(())
}
