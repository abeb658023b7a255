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
    /// Whether what is handed over gets a queue where it leads to none.
    makes_queues: bool,
}

impl RabbitPost {
    /// One that publishes to this broker. Nothing is opened yet.
    #[must_use]
    pub fn to(address: Address, env: Env) -> Self {
        Self { address, env, link: None, channel: None, makes_queues: false }
    }

    /// Has a queue made for the work of an event that leads to none, so that whoever comes later finds it.
    #[must_use]
    pub fn making_queues(self) -> Self {
        Self { makes_queues: true, ..self }
    }

    /// Sees to it that what is handed over and led to no queue leads to one when it is tried again.
    async fn make_queues(&self, letters: &[Letter], sent: &[Sent]) -> Result<BTreeSet<String>> {
        let mut made = BTreeSet::new();
        let Some(link) = self.link.as_ref().filter(|_| self.makes_queues) else { return Ok(made) };
        for (letter, sent) in letters.iter().zip(sent) {
            let is_lost = letter.answered && *sent == Sent::Unroutable;
            if is_lost && !made.contains(&letter.event) {
                link.need_work_queue(&letter.event).await?;
                made.insert(letter.event.clone());
            }
        }
        Ok(made)
    }

    /// Publishes letters, and once more those for which a queue had to be made.
    async fn publish(&mut self, letters: &[Letter]) -> Result<Vec<Sent>> {
        let mut sent = self.publish_once(letters).await?;
        let made = self.make_queues(letters, &sent).await?;
        if made.is_empty() {
            return Ok(sent);
        }
        let is_again = |at: &usize| letters[*at].answered && made.contains(&letters[*at].event);
        let again: Vec<usize> = (0..letters.len()).filter(|at| sent[*at] == Sent::Unroutable).filter(is_again).collect();
        let anew: Vec<Letter> = again.iter().map(|at| letters[*at].clone()).collect();
        for (at, anew) in again.into_iter().zip(self.publish_once(&anew).await?) {
            sent[at] = anew;
        }
        Ok(sent)
    }

    async fn publish_once(&mut self, letters: &[Letter]) -> Result<Vec<Sent>> {
        let env = self.env.clone();
        let (link, channel) = self.ready().await?;
        let parcels = letters.iter().map(parcel).collect();
        let confirmed = publish(link, &channel, parcels, &env).await?;
        let sent = letters.iter().zip(&confirmed.acked).map(|(letter, acked)| match acked {
            _ if confirmed.returned.contains(&letter.id) => Sent::Unroutable,
            true => Sent::Taken,
            false => Sent::Refused,
        });
        let sent = sent.collect();
        self.channel = Some(channel);
        Ok(sent)
    }

    /// The connection, and the channel, which is taken out until what is published on it is confirmed.
    async fn ready(&mut self) -> Result<(&Link, Channel)> {
        if self.link.as_ref().is_some_and(|link| !link.is_open()) {
            (self.link, self.channel) = (None, None);
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
            Some(channel) if channel.status().connected() => Ok((link, channel)),
            Some(_) | None => {
                let channel = link.confirmed_channel().await?;
                link.declare_exchange(&channel).await?;
                Ok((link, channel))
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
