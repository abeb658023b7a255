//! Messages that cannot be used are put aside, with the reason.

use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use redrive_core::time::Timestamp;
use redrive_engine::env::Env;

use crate::link::{Link, Result};
use crate::names;
use crate::publish::{PERSISTENT, Parcel, publish};

/// Longest reason that is kept in a header.
const REASON: usize = 1_000;

/// Puts messages of one queue aside.
pub(crate) struct Grave {
    queue: String,
    failed: String,
    /// Opened with the first message, which most queues never have.
    channel: Option<Channel>,
}

impl Grave {
    pub(crate) fn of(queue: &str) -> Self {
        Self { queue: queue.to_owned(), failed: names::failed_of(queue), channel: None }
    }

    /// Puts a message into the queue of failed ones. It is safe there when this answers; its own queue may forget it then.
    pub(crate) async fn bury(
        &mut self,
        link: &Link,
        env: &Env,
        delivery: &Delivery,
        body: &[u8],
        why: &str,
    ) -> Result<()> {
        let channel = match &mut self.channel {
            Some(channel) => channel,
            none => {
                link.need_queue(&self.failed).await?;
                none.insert(link.confirmed_channel().await?)
            }
        };
        let properties = with_reason(&delivery.properties, &self.queue, why, env.clock.now());
        let parcel = Parcel { exchange: "", routing_key: &self.failed, body, properties };
        let confirmed = publish(link, channel, vec![parcel], env).await?;
        match confirmed.acked.as_slice() {
            [true] if confirmed.came_back == 0 => Ok(()),
            _ => Err(format!("queue {} does not take the message", self.failed)),
        }
    }
}

/// What a message says of itself, with why it was put aside.
fn with_reason(properties: &BasicProperties, queue: &str, why: &str, now: Timestamp) -> BasicProperties {
    let mut headers = properties.headers().clone().unwrap_or_default();
    let short: String = why.chars().take(REASON).collect();
    for (name, value) in
        [(names::REASON, short), (names::QUEUE, queue.to_owned()), (names::FAILED_AT, now.to_string())]
    {
        headers.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    // What expires would be gone before anybody looked.
    without_expiration(properties).with_headers(headers).with_delivery_mode(PERSISTENT)
}

/// What a message says of itself when it goes back to where it came from.
pub(crate) fn without_reason(properties: &BasicProperties) -> BasicProperties {
    let ours = [names::REASON, names::QUEUE, names::FAILED_AT];
    let mut headers = FieldTable::default();
    for (name, value) in properties.headers().iter().flat_map(|headers| headers.inner()) {
        if !ours.contains(&name.as_str()) {
            headers.insert(name.clone(), value.clone());
        }
    }
    without_expiration(properties).with_headers(headers).with_delivery_mode(PERSISTENT)
}

fn without_expiration(from: &BasicProperties) -> BasicProperties {
    let mut to = BasicProperties::default();
    if let Some(value) = from.content_type() {
        to = to.with_content_type(value.clone());
    }
    if let Some(value) = from.content_encoding() {
        to = to.with_content_encoding(value.clone());
    }
    if let Some(value) = from.priority() {
        to = to.with_priority(*value);
    }
    if let Some(value) = from.correlation_id() {
        to = to.with_correlation_id(value.clone());
    }
    if let Some(value) = from.reply_to() {
        to = to.with_reply_to(value.clone());
    }
    if let Some(value) = from.message_id() {
        to = to.with_message_id(value.clone());
    }
    if let Some(value) = from.timestamp() {
        to = to.with_timestamp(*value);
    }
    if let Some(value) = from.kind() {
        to = to.with_type(value.clone());
    }
    if let Some(value) = from.app_id() {
        to = to.with_app_id(value.clone());
    }
    // `user_id` has to be that of the connection, and is not ours to say.
    to
}

/// A header as text.
pub(crate) fn header(properties: &BasicProperties, name: &str) -> Option<String> {
    let found = properties.headers().as_ref()?.inner().get(name)?;
    match found {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::ShortShortInt(number) => Some(number.to_string()),
        AMQPValue::ShortShortUInt(number) => Some(number.to_string()),
        AMQPValue::ShortInt(number) => Some(number.to_string()),
        AMQPValue::ShortUInt(number) => Some(number.to_string()),
        AMQPValue::LongInt(number) => Some(number.to_string()),
        AMQPValue::LongUInt(number) => Some(number.to_string()),
        AMQPValue::LongLongInt(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_comes_back_is_as_it_was() {
        let mut headers = FieldTable::default();
        headers.insert(names::KEY.into(), AMQPValue::LongString("k".into()));
        let sent = BasicProperties::default()
            .with_headers(headers)
            .with_message_id("m".into())
            .with_expiration("100".into())
            .with_delivery_mode(PERSISTENT);
        let buried = with_reason(&sent, "q", "is no JSON", Timestamp(0));
        assert_eq!(header(&buried, names::REASON).as_deref(), Some("is no JSON"));
        assert_eq!(header(&buried, names::QUEUE).as_deref(), Some("q"));
        assert_eq!(buried.expiration(), &None, "it would be gone before anybody looked");
        let back = without_reason(&buried);
        assert_eq!(header(&back, names::KEY).as_deref(), Some("k"));
        assert_eq!(header(&back, names::REASON), None);
        assert_eq!(back.message_id(), sent.message_id());
    }
}
