//! Stages that are told as events: whoever does their work, and whoever has it done.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use redrive_operate::bus::{Relay, Unrouted};
use redrive_operate::{Error, Floor};
use redrive_rabbitmq::Address;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::signals::Signals;
use super::{Answer, Context};
use crate::args::CrewArgs;
use crate::output::note;
use crate::wiring::Handlers;

/// How long the bus may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// `redrive work --event`: does the work of events until it is told to stop.
pub async fn serve_events(context: &Context, args: CrewArgs) -> Answer {
    let address = args.bus.needed()?;
    let floor = context.floor_to_make()?;
    let handlers = Handlers::held_to(args.outbound.settings(), args.commands.folders()?);
    let floor = Floor { wiring: Arc::new(handlers), ..floor };
    let mut signals = Signals::listen()?;
    let (told, stop) = watch::channel(false);
    let events = args.events;
    context.say(&format!("doing the work of {} until told to stop", events.join(", ")));
    let mut working = tokio::spawn(async move {
        redrive_rabbitmq::work(floor, &events, address, stop).await;
    });
    signals.next().await;
    told.send_replace(true);
    note("stopping: what is in hand is finished and recorded; once more breaks it off");
    tokio::select! {
        ended = &mut working => ended.map_err(|_| Error::internal("the work broke off"))?,
        // What was in hand goes back to its queue.
        () = async { signals.next().await; } => working.abort(),
    }
    Ok(ExitCode::SUCCESS)
}

/// Passes facts on and takes answers beside work whose stages are told as events.
pub struct StandingBy {
    told: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl StandingBy {
    /// Begins. What happens from now on is told.
    pub async fn start(
        floor: &Floor,
        pipelines: &'static [&'static str],
        address: Address,
    ) -> Result<Self, Error> {
        Relay::open(floor.clone(), Unrouted::Keep).await?;
        let (told, stop) = watch::channel(false);
        let floor = floor.clone();
        let task = tokio::spawn(async move {
            redrive_rabbitmq::stand_by(floor, pipelines, address, stop).await;
        });
        Ok(Self { told, task })
    }

    /// Has it pass on what there is, and ends it.
    pub async fn end(self, context: &Context) {
        self.told.send_replace(true);
        tokio::select! {
            _ = self.task => {}
            // What it has not told is told by the next.
            () = context.env.clock.sleep(ENDS_WITHIN) => {}
        }
    }
}
