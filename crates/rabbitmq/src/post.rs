//! Carries letters to the exchange of facts.

use std::collections::BTreeSet;

use async_trait::async_trait;
use lapin::{BasicProperties, Channel};
use redrive_engine::env::Env;
use redrive_operate::bus::{Failed, Letter, Post, Sent};

use crate::address::Address;
use crate::link::{Link, Result};
use crate::names;
use crate::publish::{PERSISTENT, Parcel, publish};

/// Publishes facts. It connects when there is something to be said, and anew after whatever went wrong.
pub struct RabbitPost {
    address: Address,
    env: Env,
    link: Option<Link>,
    /// A channel on which nothing is under way.
    channel: Option<Channel>,
    /// Events whose work has a queue, as far as is known of this connection.
    queues: BTreeSet<String>,
}

impl RabbitPost {
    /// One that publishes to this broker. Nothing is opened yet.
    #[must_use]
    pub fn to(address: Address, env: Env) -> Self {
        Self { address, env, link: None, channel: None, queues: BTreeSet::new() }
    }

    /// Sees to it that work leads to its queue before it is told: others who listen would have it forgotten before anybody does it.
    async fn make_queues(&mut self, letters: &[Letter]) -> Result<()> {
        for letter in letters.iter().filter(|letter| letter.is_work) {
            if let Some(link) = self.link.as_ref().filter(|_| !self.queues.contains(&letter.event)) {
                link.need_work_queue(&letter.event).await?;
                self.queues.insert(letter.event.clone());
            }
        }
        Ok(())
    }

    async fn publish(&mut self, letters: &[Letter]) -> Result<Vec<Sent>> {
        let env = self.env.clone();
        let channel = self.ready().await?;
        self.make_queues(letters).await?;
        let Some(link) = &self.link else { return Err("the connection is gone".to_owned()) };
        let parcels = letters.iter().map(parcel).collect();
        let confirmed = publish(link, &channel, parcels, &env).await?;
        let sent = letters.iter().zip(&confirmed.acked).map(|(letter, acked)| match acked {
            _ if confirmed.returned.contains(&letter.id) => Sent::Unroutable,
            true => Sent::Taken,
            false => Sent::Refused,
        });
        let sent: Vec<Sent> = sent.collect();
        if letters.iter().zip(&sent).any(|(letter, sent)| letter.is_work && *sent == Sent::Unroutable) {
            // Somebody has removed its queue.
            self.queues.clear();
        }
        self.channel = Some(channel);
        Ok(sent)
    }

    /// Sees to it that there is a connection; the channel, which is taken out until what is published on it is confirmed.
    async fn ready(&mut self) -> Result<Channel> {
        if self.link.as_ref().is_some_and(|link| !link.is_open()) {
            (self.link, self.channel) = (None, None);
        }
        if self.link.is_none() {
            self.queues.clear();
        }
        let link = match &mut self.link {
            Some(link) => link,
            none => none.insert(Link::open(&self.address, &self.env, "relay").await?),
        };
        if link.is_blocked() {
            // It stays open: only an open one is told when the alarm is over.
            return Err(link.is_short());
        }
        match self.channel.take() {
            Some(channel) if channel.status().connected() => Ok(channel),
            Some(_) | None => {
                let channel = link.confirmed_channel().await?;
                link.declare_exchange(&channel).await?;
                Ok(channel)
            }
        }
    }
}

#[async_trait]
impl Post for RabbitPost {
    async fn send(&mut self, letters: &[Letter]) -> std::result::Result<Vec<Sent>, Failed> {
        let sent = self.publish(letters).await;
        if sent.is_err() {
            self.channel = None;
            if !self.link.as_ref().is_some_and(Link::is_blocked) {
                self.link = None;
            }
        }
        sent.map_err(Failed)
    }
}

fn parcel(letter: &Letter) -> Parcel<'_> {
    let seconds = u64::try_from(letter.at.0 / 1_000).unwrap_or_default();
    let properties = BasicProperties::default()
        .with_content_type("application/json".into())
        .with_delivery_mode(PERSISTENT)
        .with_message_id(letter.id.as_str().into())
        .with_type(letter.event.as_str().into())
        .with_timestamp(seconds)
        .with_app_id(names::CONNECTION.into());
    let properties = match letter.answered {
        true => properties.with_reply_to(names::ANSWERS.into()),
        false => properties,
    };
    Parcel { exchange: names::EXCHANGE, routing_key: &letter.event, body: &letter.body, properties }
}
