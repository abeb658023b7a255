//! `redrive relay` and `redrive queues`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use redrive_operate::bus::{Held, Relay, Round, Sent, stop_telling};
use redrive_operate::{Error, bus};
use redrive_rabbitmq::{Export, QueueView, Queues, RabbitPost, names};
use redrive_store::OutboxView;
use serde::Serialize;
use tokio::sync::watch;

use super::signals::Signals;
use super::{Answer, Context};
use crate::args::{BusArgs, QueuesCommand, RelayArgs};
use crate::exit;
use crate::output::screen::Screen;
use crate::output::table::{Column, Table};
use crate::output::target::{Existing, Guard, Sink, Target};
use crate::output::text::{safe, things};
use crate::output::{json, lines};

/// What was passed on.
#[derive(Debug, Default, Serialize)]
struct Passed {
    passed: u64,
    dropped: u64,
    waiting: u64,
    unroutable: u64,
    refused: u64,
    /// Whether facts are kept.
    kept: bool,
    /// Of when the oldest is that waits.
    oldest: Option<String>,
}

impl Passed {
    fn with(self, outbox: &OutboxView) -> Self {
        let oldest = outbox.oldest.map(|at| at.to_string());
        Self { waiting: outbox.waiting, kept: outbox.kept, oldest, ..self }
    }
}

/// How queues stand.
#[derive(Serialize)]
struct QueueList {
    items: Vec<QueueView>,
    next: Option<String>,
}

/// What was removed.
#[derive(Serialize)]
struct Purged {
    queue: String,
    purged: u32,
}

/// Passes facts on: once, or until it is told to stop.
pub async fn relay(context: &Context, args: RelayArgs) -> Answer {
    if args.off {
        let left = stop_telling(&context.floor()?).await?;
        return off(context, &Passed::default().with(&left));
    }
    let address = args.bus.needed()?;
    let floor = context.floor_to_make()?;
    if !args.once {
        let mut signals = Signals::listen()?;
        let (told, stop) = watch::channel(false);
        match bus::somebody_relays(&floor).await? {
            false => context.say(&format!("passing facts on to {address} until told to stop")),
            true => context.say(&format!(
                "another process passes facts of this store on; waiting for the turn to pass them on to {address}, until told to stop"
            )),
        }
        let relaying = tokio::spawn(redrive_rabbitmq::relay(floor, (address, args.unrouted.said()), stop));
        signals.next().await;
        told.send_replace(true);
        relaying.await.map_err(|_| Error::internal("the relay broke off"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut post = RabbitPost::to(address, context.env.clone());
    let mut relay = Relay::open(floor.clone(), args.unrouted.said()).await?;
    let sum = once(&mut relay, &mut post).await;
    relay.close().await?;
    passed(context, &sum?.with(&bus::waiting(&*floor.store).await?))
}

/// Says that no more facts are kept.
fn off(context: &Context, left: &Passed) -> Answer {
    if context.global.json {
        json(left)?;
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = match left.waiting {
        0 => "none waits".to_owned(),
        waiting => format!("{waiting} wait until a relay passes them on"),
    };
    context.tell(&format!("no more facts are kept from now on; {waiting}"))?;
    Ok(ExitCode::SUCCESS)
}

async fn once(relay: &mut Relay, post: &mut RabbitPost) -> Result<Passed, Error> {
    let mut sum = Passed::default();
    loop {
        match relay.round(post).await? {
            Round::Elsewhere => {
                return Err(Error::refused("another process passes facts of this store on")
                    .hint("a daemon with --bus does; stop it first, or leave it to that one"));
            }
            Round::Down { why, .. } => {
                return Err(Error::busy(format!("facts wait in the store: {why}"))
                    .hint("`redrive doctor amqp://…` says whether the broker is there"));
            }
            Round::Done { passed, dropped, more, held, .. } => {
                sum.passed += passed;
                sum.dropped += dropped;
                for Held { why, facts, .. } in held {
                    match why {
                        Sent::Unroutable => sum.unroutable += facts,
                        Sent::Refused | Sent::Taken => sum.refused += facts,
                    }
                }
                if !more {
                    return Ok(sum);
                }
            }
        }
    }
}

fn passed(context: &Context, sum: &Passed) -> Answer {
    if context.global.json {
        json(sum)?;
    } else {
        let waiting = match sum.waiting {
            0 => "none waits".to_owned(),
            waiting => format!("{waiting} wait"),
        };
        let dropped = match sum.dropped {
            0 => String::new(),
            dropped => format!("{dropped} that no queue is bound for dropped, "),
        };
        context.tell(&format!("{} passed on, {dropped}{waiting}", things(sum.passed, "fact")))?;
    }
    if sum.unroutable > 0 {
        context.hint(&format!(
            "no queue is bound for {} of those that were tried: bind one to {}, or say --bus-unrouted drop",
            sum.unroutable,
            names::EXCHANGE
        ));
    }
    if sum.refused > 0 {
        context.hint(&format!("the broker refused {} of those that were tried", sum.refused));
    }
    Ok(if sum.unroutable + sum.refused == 0 { ExitCode::SUCCESS } else { exit::partial() })
}

/// Looks after queues of failed messages.
pub async fn queues(context: &Context, command: QueuesCommand) -> Answer {
    match command {
        QueuesCommand::List { queues, bus } => list(context, queues, &bus).await,
        QueuesCommand::Export { queue, output, bus } => {
            export(context, &queue, output.as_deref(), &bus).await
        }
        QueuesCommand::Requeue { queue, to, yes, bus } => {
            let open = open(context, &bus).await?;
            let messages = things(u64::from(open.needed(&queue).await?), "message");
            context.confirm(&format!("Send {messages} of {} back?", safe(&queue)), yes)?;
            let done = open.requeue(&queue, to.as_deref()).await?;
            match context.global.json {
                true => json(&done)?,
                false => context.tell(&format!(
                    "{} sent back to {}",
                    things(done.requeued, "message"),
                    safe(&done.to)
                ))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        QueuesCommand::Purge { queue, yes, bus } => {
            let open = open(context, &bus).await?;
            let messages = things(u64::from(open.needed(&queue).await?), "message");
            context.confirm(&format!("Remove {messages} of {} for good?", safe(&queue)), yes)?;
            let purged = open.purge(&queue).await?;
            match context.global.json {
                true => json(&Purged { queue, purged })?,
                false => context.tell(&format!("{} removed", things(u64::from(purged), "message")))?,
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn open(context: &Context, bus: &BusArgs) -> Result<Queues, Error> {
    Queues::open(bus.needed()?, context.env.clone()).await
}

async fn list(context: &Context, mut queues: Vec<String>, bus: &BusArgs) -> Answer {
    let address = bus.needed()?;
    if queues.is_empty() {
        let floor = context.floor_to_look()?;
        let mut known: BTreeSet<String> = bus::queues_of_runs(&floor).await?;
        known.insert(names::ANSWERS.to_owned());
        queues = known.iter().map(|queue| names::failed_of(queue)).collect();
    }
    let items = Queues::open(address, context.env.clone()).await?.list(&queues).await?;
    match context.global.json {
        true => json(&QueueList { items, next: None })?,
        false if items.is_empty() => context.tell("no queues")?,
        false => lines(&listed(&items, &context.screen()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(items: &[QueueView], screen: &Screen) -> String {
    let mut table =
        Table::new([Column::whole("queue"), Column::whole("messages"), Column::whole("consumers")]);
    for QueueView { queue, there, messages, consumers } in items {
        let of = |count: &u32| if *there { count.to_string() } else { "–".to_owned() };
        table.row([safe(queue), of(messages), of(consumers)]);
    }
    table.on(screen)
}

async fn export(context: &Context, queue: &str, output: Option<&Path>, bus: &BusArgs) -> Answer {
    let guard = Guard::of_store(&context.global.store)?;
    let target = output.map(|path| Target::look("--output", path, Existing::Kept, guard)).transpose()?;
    let open = open(context, bus).await?;
    open.needed(queue).await?;
    let mut sink = match &target {
        Some(target) => target.open().await?,
        None => Sink::standard_output()?,
    };
    let Export { queue, exported } = open
        .export(queue, &mut |message| {
            let mut line = serde_json::to_vec(message).map_err(|error| Error::internal(error.to_string()))?;
            line.push(b'\n');
            sink.put(&line)
        })
        .await?;
    sink.finish()?;
    if target.is_some() && context.global.json {
        json(&Export { queue, exported })?;
    }
    context.say(&format!("{} written; all of them stay in the queue", things(exported, "message")));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::at_widths;

    #[test]
    fn queues_fit_their_screen() {
        let view = |queue: &str, there, messages, consumers| QueueView {
            queue: queue.to_owned(),
            there,
            messages,
            consumers,
        };
        let items = [view("parsing.failed", true, 12, 0), view("orders.failed", false, 0, 0)];
        at_widths("queues", |screen| listed(&items, screen));
    }
}
