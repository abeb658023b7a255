//! `redrive serve`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redrive_engine::worker::Stop;
use redrive_operate::Floor;
use redrive_server::{Daemon, Made, Shared, Tokens};
use serde::Serialize;
use tokio::sync::watch;

use super::on_end::OnEnd;
use super::signals::Signals;
use super::work::Watching;
use super::{Answer, Context, crew};
use crate::args::ServeArgs;
use crate::output::text::safe;
use crate::output::{compact, lines, note};
use crate::wiring::{self, Handlers};

/// The variable with the token of an administrator.
const TOKEN: &str = "REDRIVE_TOKEN";
/// A token that is shorter can be guessed.
const SHORT: usize = 16;

/// How long the bus may take to end.
const BUS_ENDS_WITHIN: Duration = Duration::from_secs(5);

/// The first line, so that a script can wait for it.
#[derive(Serialize)]
struct Listening {
    listening: String,
}

/// Works on runs and answers requests until it is told to stop.
pub async fn serve(context: &Context, args: ServeArgs) -> Answer {
    let (bus, unrouted) = (args.bus.address()?, args.unrouted.said());
    let floor = context.floor_to_make()?;
    let handlers = Handlers::held_to(args.outbound.settings(), args.commands.folders()?);
    let floor = Floor { wiring: Arc::new(handlers), ..floor };
    let given = wiring::secret(TOKEN).filter(|token| !token.expose().is_empty());
    if given.as_ref().is_some_and(|token| token.expose().len() < SHORT) {
        note(&format!(
            "warning: {TOKEN} has fewer than {SHORT} characters; a token that short can be guessed"
        ));
    }
    let tokens = Tokens::beside(&wiring::store_path(&context.global.store)?, given.as_ref())?;
    let settings = args.settings(super::retry_job::settings()?);
    // Whoever waits for the first line may say to stop right after it.
    let signals = Signals::listen()?;
    let daemon = Daemon::open(floor, tokens, settings).await?;
    // Not before it is known that it starts: what is shown once has to be shown.
    if let Some(made) = daemon.first_token()? {
        shown_once(&made);
    }
    // The name of a file may have line breaks.
    let line = |text: String| note(&safe(&text.replace('\n', "\\n")));
    for (file, problem) in daemon.broken() {
        line(format!("warning: {file} is left out: {problem}"));
        problem.problems.iter().for_each(|one| line(format!("  {one}")));
    }
    match context.global.json {
        true => lines(&compact(&Listening { listening: daemon.url() })?)?,
        false => lines(&format!("listening at {}", daemon.url()))?,
    }
    let listening = tokio::spawn(listen(signals, daemon.stop()));
    let bus = bus.map(|address| {
        let Shared { floor, catalog, draining } = daemon.shared();
        tokio::spawn(redrive_rabbitmq::serve(floor, catalog, (address, unrouted), draining))
    });
    let on_end = OnEnd::of(context, args.end.on_end.as_deref());
    let watching = Arc::new(Watching::of(context).with_end(on_end));
    let served = daemon.serve(watching.clone()).await;
    listening.abort();
    if let Some(bus) = bus {
        tokio::select! {
            _ = bus => {}
            // What it has in hand is told again by the next, and goes back to its queue.
            () = context.env.clock.sleep(BUS_ENDS_WITHIN) => {}
        }
    }
    watching.finish().await;
    let served = served?;
    match context.global.json {
        true => lines(&compact(&served)?)?,
        false => context.tell(&crew::words(&served))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a token where people look, and data does not go.
fn shown_once(made: &Made) {
    note(&format!("the token of {}, shown this once: {}", made.name, made.token.expose()));
    note(&format!(
        "hint: send it as `Authorization: Bearer TOKEN`; `redrive token rotate {}` makes another",
        made.name
    ));
}

/// The first signal drains, the second breaks off.
async fn listen(mut signals: Signals, stop: watch::Sender<Stop>) {
    for told in [Stop::Drain, Stop::Now] {
        signals.next().await;
        stop.send_replace(told);
        if told == Stop::Drain {
            note("stopping: what runs is finished and recorded; once more breaks it off");
        }
    }
}
