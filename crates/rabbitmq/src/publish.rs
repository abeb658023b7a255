//! Messages are published, and the broker says what became of each.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Confirmation};
use redrive_engine::env::Env;

use crate::link::{Link, Result, within};

/// How long the broker may take to confirm what is under way. It is silent as long as an alarm lasts.
const CONFIRM_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether the broker has said that it takes nothing.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A message that outlives a restart of the broker.
pub(crate) const PERSISTENT: u8 = 2;

/// A message to be published.
pub(crate) struct Parcel<'a> {
    pub(crate) exchange: &'a str,
    pub(crate) routing_key: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) properties: BasicProperties,
}

/// What the broker said of messages that were published together.
pub(crate) struct Confirmed {
    /// Whether it has taken each over, in their order. It says so of those, too, that lead to no queue.
    pub(crate) acked: Vec<bool>,
    /// The `message_id` of each that came back because it leads to no queue.
    pub(crate) returned: BTreeSet<String>,
    /// How many came back.
    pub(crate) came_back: usize,
}

/// Publishes messages in their order, and waits until the broker has said of every one what became of it.
///
/// The library hands out what came back with *some* confirm, not with that of the same message, so nothing may be under way on
/// the channel besides, and after an error the channel is not to be used again.
pub(crate) async fn publish(
    link: &Link,
    channel: &Channel,
    parcels: Vec<Parcel<'_>>,
    env: &Env,
) -> Result<Confirmed> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    // Each is put in line when it is first polled, which happens in their order.
    let publishing = join_all(parcels.into_iter().map(|parcel| {
        let Parcel { exchange, routing_key, body, properties } = parcel;
        channel.basic_publish(exchange.into(), routing_key.into(), options, body, properties)
    }));
    let confirming = async {
        let published: lapin::Result<Vec<_>> = publishing.await.into_iter().collect();
        join_all(published?).await.into_iter().collect::<lapin::Result<Vec<Confirmation>>>()
    };
    let confirms = tokio::select! {
        confirms = within(env, CONFIRM_WITHIN, confirming) => confirms?.map_err(|error| link.words(&error))?,
        () = blocked(link, env) => return Err(link.is_short()),
    };
    let mut confirmed =
        Confirmed { acked: Vec::with_capacity(confirms.len()), returned: BTreeSet::new(), came_back: 0 };
    for confirm in confirms {
        confirmed.acked.push(confirm.is_ack());
        if let Some(back) = confirm.take_message() {
            confirmed.came_back += 1;
            confirmed
                .returned
                .extend(back.delivery.properties.message_id().as_ref().map(ToString::to_string));
        }
    }
    Ok(confirmed)
}

/// Waits until the broker says that it takes nothing now.
async fn blocked(link: &Link, env: &Env) {
    while !link.is_blocked() {
        env.clock.sleep(LOOK_EVERY).await;
    }
}
