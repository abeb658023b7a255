//! Queues of failed messages: looked at, written out, sent back, emptied.

use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions, QueuePurgeOptions};
use lapin::{BasicProperties, Channel};
use redrive_engine::crash;
use redrive_engine::env::Env;
use redrive_operate::{Error, Result};
use serde::Serialize;

use crate::address::Address;
use crate::bury::{header, without_reason};
use crate::link::Link;
use crate::names;
use crate::publish::{Parcel, publish};

/// Most messages that are under way at a time.
const WAVE: usize = 256;
/// Longest name of a queue in AMQP.
const NAME: usize = 255;

/// How a queue stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// Its name.
    pub queue: String,
    /// Whether there is one of this name.
    pub there: bool,
    /// Messages that nobody has in hand.
    pub messages: u32,
    /// Who takes from it.
    pub consumers: u32,
}

/// A message as it is written out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Its own name, where it has one.
    pub message_id: Option<String>,
    /// The queue it was taken from.
    pub queue: Option<String>,
    /// Why it was put aside.
    pub reason: Option<String>,
    /// When.
    pub failed_at: Option<String>,
    /// The key of its item, where a header says it.
    pub key: Option<String>,
    /// The category of its item, where a header says it.
    pub category: Option<String>,
    /// Its body, as text; what is no text is replaced.
    pub body: String,
}

/// What was written out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Export {
    /// The queue.
    pub queue: String,
    /// How many messages were read; all of them stay.
    pub exported: u64,
}

/// What was sent back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Requeued {
    /// The queue that the messages were in.
    pub queue: String,
    /// The queue that they went to.
    pub to: String,
    /// How many.
    pub requeued: u64,
}

/// A connection for looking after queues.
pub struct Queues {
    link: Link,
    address: Address,
    env: Env,
}

impl Queues {
    /// Connects.
    ///
    /// # Errors
    /// When the broker cannot be reached or lets nobody in.
    pub async fn open(address: Address, env: Env) -> Result<Self> {
        let link = Link::open(&address, &env, "queues").await.map_err(unreachable)?;
        Ok(Self { link, address, env })
    }

    /// How these queues stand.
    ///
    /// # Errors
    /// When a name is none, or the broker fails.
    pub async fn list(&self, names: &[String]) -> Result<Vec<QueueView>> {
        let mut all = Vec::new();
        for name in names {
            let found = self.find(name).await?;
            all.push(QueueView {
                queue: name.clone(),
                there: found.is_some(),
                messages: found.as_ref().map_or(0, lapin::Queue::message_count),
                consumers: found.as_ref().map_or(0, lapin::Queue::consumer_count),
            });
        }
        Ok(all)
    }

    /// Writes out every message that is in a queue now; all of them stay in it.
    ///
    /// # Errors
    /// When there is no such queue, the broker fails, or the message cannot be written.
    pub async fn export(
        &self,
        queue: &str,
        write: &mut (dyn FnMut(&Exported) -> Result<()> + Send),
    ) -> Result<Export> {
        let messages = self.needed(queue).await?;
        let channel = self.link.channel().await.map_err(broke)?;
        let mut exported = 0;
        while exported < u64::from(messages) {
            let Some(delivery) = self.get(&channel, queue).await? else { break };
            write(&written_out(&delivery))?;
            exported += 1;
        }
        // What was read and not acknowledged goes back to its place with the channel.
        self.link.ask(channel.close(200, "OK".into())).await.map_err(broke)?;
        Ok(Export { queue: queue.to_owned(), exported })
    }

    /// Sends the messages that are in a queue now to the queue that they were taken from, or to another. Each is safe there before
    /// its queue forgets it; one that is put aside again meanwhile is not sent twice.
    ///
    /// # Errors
    /// When there is no such queue, it is not known where to, or the broker fails. What was not sent stays where it is.
    pub async fn requeue(&self, queue: &str, to: Option<&str>) -> Result<Requeued> {
        let messages = self.needed(queue).await?;
        let to = to.or_else(|| names::queue_of(queue)).ok_or_else(|| {
            Error::wrong(format!("it is not known where messages of {queue} belong")).hint(format!(
                "name the queue: --to QUEUE; of one that ends with {} it is known",
                names::FAILED
            ))
        })?;
        if self.find(to).await?.is_none() {
            return Err(Error::not_found(format!("there is no queue {to}")).hint("--to QUEUE names another"));
        }
        let taking = self.link.channel().await.map_err(broke)?;
        let giving = self.link.confirmed_channel().await.map_err(broke)?;
        let mut requeued = 0;
        while requeued < u64::from(messages) {
            let left = usize::try_from(u64::from(messages) - requeued).unwrap_or(WAVE);
            let mut wave: Vec<Delivery> = Vec::new();
            while wave.len() < left.min(WAVE) {
                let Some(delivery) = self.get(&taking, queue).await? else { break };
                wave.push(delivery);
            }
            let Some(last) = wave.last() else { break };
            let parcels = wave.iter().map(|delivery| Parcel {
                exchange: "",
                routing_key: to,
                body: &delivery.data,
                properties: without_reason(&delivery.properties),
            });
            let sent = publish(&self.link, &giving, parcels.collect(), &self.env).await.map_err(broke)?;
            if sent.came_back > 0 || sent.acked.contains(&false) {
                return Err(Error::refused(format!("queue {to} does not take the messages"))
                    .hint(format!("those that were not sent back before are still in {queue}")));
            }
            crash::point("requeue.before_ack");
            let all = BasicAckOptions { multiple: true };
            self.link.ask(last.ack(all)).await.map_err(broke)?;
            requeued += wave.len() as u64;
        }
        Ok(Requeued { queue: queue.to_owned(), to: to.to_owned(), requeued })
    }

    /// Removes every message that nobody has in hand from a queue. How many went.
    ///
    /// # Errors
    /// When there is no such queue, or the broker fails.
    pub async fn purge(&self, queue: &str) -> Result<u32> {
        self.needed(queue).await?;
        let channel = self.link.channel().await.map_err(broke)?;
        let purged = channel.queue_purge(queue.into(), QueuePurgeOptions::default());
        self.link.ask(purged).await.map_err(broke)
    }

    /// How many messages are in a queue, which has to be there.
    ///
    /// # Errors
    /// When there is no such queue, or the broker fails.
    pub async fn needed(&self, queue: &str) -> Result<u32> {
        match self.find(queue).await? {
            Some(found) => Ok(found.message_count()),
            None => Err(Error::not_found(format!("there is no queue {queue} at {}", self.address))
                .hint("queues of failed messages are made with the first message that is put aside")),
        }
    }

    async fn find(&self, name: &str) -> Result<Option<lapin::Queue>> {
        if name.is_empty() || name.len() > NAME {
            return Err(Error::wrong(format!("the name of a queue has 1 to {NAME} bytes")));
        }
        self.link.queue(name).await.map_err(broke)
    }

    async fn get(&self, channel: &Channel, queue: &str) -> Result<Option<Delivery>> {
        let got = self.link.ask(channel.basic_get(queue.into(), BasicGetOptions::default())).await;
        Ok(got.map_err(broke)?.map(|message| message.delivery))
    }
}

fn written_out(delivery: &Delivery) -> Exported {
    let properties: &BasicProperties = &delivery.properties;
    Exported {
        message_id: properties.message_id().as_ref().map(ToString::to_string),
        queue: header(properties, names::QUEUE),
        reason: header(properties, names::REASON),
        failed_at: header(properties, names::FAILED_AT),
        key: header(properties, names::KEY),
        category: header(properties, names::CATEGORY),
        body: String::from_utf8_lossy(&delivery.data).into_owned(),
    }
}

fn unreachable(why: String) -> Error {
    Error::busy(format!("the broker cannot be reached: {why}")).hint("`redrive doctor amqp://…` says more")
}

fn broke(why: String) -> Error {
    Error::busy(format!("the broker failed: {why}"))
}
