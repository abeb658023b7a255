//! How fast facts get from a store to RabbitMQ, beside a bare client that publishes the same bodies and waits for the same confirms.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use futures_util::StreamExt;
use futures_util::future::join_all;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::json;

use super::Scratch;
use crate::clock::Watch;
use crate::engine::runtime;
use crate::material::item;
use crate::report::{Spread, round, save, table};
use crate::{Common, Failure, facts};

/// Messages that are under way at a time, as many as the relay has.
const WINDOW: usize = 1_024;
const QUEUE: &str = "redrive-bench-facts";
const EXCHANGE: &str = "redrive.events";
/// Facts a second that are wanted.
const GOAL: f64 = 5_000.0;

/// Where the broker is.
#[derive(Args, Clone)]
pub struct Options {
    /// A RabbitMQ broker that nobody else uses: amqp://HOST
    #[arg(long, env = "REDRIVE_BUS", hide_env_values = true)]
    bus: String,
}

/// Passes the facts of a run on, then publishes the same bodies without a store, taking turns.
pub fn run(common: &Common, options: &Options) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let items = common.items.unwrap_or(10_000);
    let (mut relay, mut bare, mut shares, mut published) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for turn in 0..common.repeat {
        let folder = scratch.folder().join(format!("relay-{turn}"));
        fs::create_dir_all(&folder)?;
        let (through, without, messages) =
            runtime()?.block_on(turns(&folder, options, items, common.payload))?;
        published = messages;
        relay.push(through);
        bare.push(without);
        shares.push(through / without);
    }
    let (relay, bare, share) = (Spread::of(relay), Spread::of(bare), Spread::of(shares));
    let rows = vec![
        vec!["`redrive relay --once`, from SQLite".to_owned(), relay.text(0)],
        vec!["bare client, same bodies and window".to_owned(), bare.text(0)],
        vec!["share".to_owned(), share.text(2)],
    ];
    table(&["facts a second, confirmed", "median (min–max)"], &rows);
    let result = json!({
        "facts": facts,
        "messages": published,
        "window": WINDOW,
        "relay_per_second": relay.json(),
        "bare_per_second": bare.json(),
        "share": share.json(),
        "goal": round(GOAL),
        "reached": relay.median >= GOAL,
    });
    save(common.json.as_deref(), &result)
}

/// One turn of both: facts a second with the store, without it, and how many there were.
async fn turns(
    folder: &Path,
    options: &Options,
    items: usize,
    payload: usize,
) -> Result<(f64, f64, usize), Failure> {
    let connection = Connection::connect(&options.bus, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
    channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    channel.queue_declare(QUEUE.into(), QueueDeclareOptions::durable(), FieldTable::default()).await?;
    let bind = QueueBindOptions::default();
    channel.queue_bind(QUEUE.into(), EXCHANGE.into(), "#".into(), bind, FieldTable::default()).await?;
    redrive(folder, &["relay", "--once", "--quiet"], &options.bus)?;
    prepare(folder, items, payload)?;
    redrive(folder, &["run", "p.toml", "--quiet"], &options.bus)?;
    let watch = Watch::start();
    redrive(folder, &["relay", "--once", "--quiet"], &options.bus)?;
    let through = watch.seconds();
    let messages = taken(&channel).await?;
    if messages.len() <= items {
        return Err(format!("{} messages for {items} items", messages.len()).into());
    }
    let watch = Watch::start();
    for window in messages.chunks(WINDOW) {
        publish(&channel, window).await?;
    }
    let without = watch.seconds();
    let many = messages.len() as f64;
    channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await?;
    Ok((many / through, many / without, messages.len()))
}

fn prepare(folder: &Path, items: usize, payload: usize) -> Result<(), Failure> {
    let text = "name = \"p\"\n[source]\npath = \"in.jsonl\"\n[[stage]]\nname = \"work\"\nkind = \"pass\"\nbatch = 500\n";
    fs::write(folder.join("p.toml"), text)?;
    let mut lines = Vec::new();
    for n in 0..items {
        lines.extend_from_slice(&item(n, payload).payload);
        lines.push(b'\n');
    }
    fs::write(folder.join("in.jsonl"), lines)?;
    Ok(())
}

/// Runs the binary that was built with this one.
fn redrive(folder: &Path, args: &[&str], bus: &str) -> Result<(), Failure> {
    let beside: PathBuf = std::env::current_exe()?.with_file_name("redrive");
    let ran = Command::new(beside)
        .args(args)
        .current_dir(folder)
        .env("REDRIVE_BUS", bus)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(format!("redrive {}: {}", args[0], String::from_utf8_lossy(&ran.stderr)).into()),
    }
}

/// A message as it is published again.
struct Message {
    routing_key: String,
    id: String,
    body: Vec<u8>,
}

/// Takes out everything that is in the queue.
async fn taken(channel: &Channel) -> Result<Vec<Message>, Failure> {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    let queue = channel.queue_declare(QUEUE.into(), passive, FieldTable::default()).await?;
    let messages = usize::try_from(queue.message_count())?;
    let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
    let consumer = channel.basic_consume(QUEUE.into(), "".into(), options, FieldTable::default()).await?;
    let came: Vec<_> = consumer.take(messages).collect().await;
    let message = |delivery: lapin::Result<lapin::message::Delivery>| {
        let delivery = delivery?;
        let id = delivery.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(Message { routing_key: delivery.routing_key.to_string(), id, body: delivery.data })
    };
    came.into_iter().map(message).collect()
}

async fn publish(channel: &Channel, window: &[Message]) -> Result<(), Failure> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let published = join_all(window.iter().map(|message| {
        let properties =
            BasicProperties::default().with_delivery_mode(2).with_message_id(message.id.as_str().into());
        let key = message.routing_key.as_str().into();
        channel.basic_publish(EXCHANGE.into(), key, options, &message.body, properties)
    }));
    let published: Vec<_> = published.await.into_iter().collect::<lapin::Result<_>>()?;
    for confirm in join_all(published).await {
        let confirm = confirm?;
        if !confirm.is_ack() || confirm.take_message().is_some() {
            return Err("the broker did not take a message".into());
        }
    }
    Ok(())
}
