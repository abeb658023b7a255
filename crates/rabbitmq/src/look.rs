//! Whether a broker is as it is needed, and what to tell it.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::uri::AMQPScheme;
use redrive_engine::env::Env;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::address::Address;
use crate::link::{Link, Result, within};
use crate::publish::{Parcel, publish};
use crate::{names, tls};

/// The first bytes of a conversation.
const GREETING: &[u8] = b"AMQP\x00\x00\x09\x01";
/// How long the broker may take to say who it is.
const GREETED_WITHIN: Duration = Duration::from_secs(5);
/// Most bytes of what it says of itself.
const FRAME: usize = 64 << 10;
/// Quorum queues have a limit of deliveries by themselves from this version on.
const LIMITED_SINCE: u32 = 4;
/// Deliveries after which a message that ends whoever takes it goes aside.
const DELIVERIES: u32 = 20;

/// Something that was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What about.
    pub what: &'static str,
    /// Whether it is as it should be.
    pub ok: bool,
    /// In words.
    pub detail: String,
    /// What somebody may want to type.
    pub command: Option<String>,
}

fn good(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding { what, ok: true, detail: detail.into(), command: None }
}

fn bad(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding { ok: false, ..good(what, detail) }
}

/// Looks at a broker: whether it is reached, which version it is, whether it takes messages; and says which policies to set for these
/// queues.
pub async fn look(address: &Address, env: &Env, queues: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let version = match within(env, GREETED_WITHIN, greeted(address)).await.and_then(|said| said) {
        Ok(version) => version,
        Err(why) => return vec![bad("bus", format!("{address}: {why}"))],
    };
    findings.push(good("bus", format!("{address}: RabbitMQ {version}")));
    let link = match Link::open(address, env, "doctor").await {
        Ok(link) => link,
        Err(why) => {
            findings.push(bad("bus login", why));
            return findings;
        }
    };
    findings.push(match takes(&link, env).await {
        Ok(()) => good("bus alarms", "none: a message was taken over and confirmed"),
        Err(why) if link.is_blocked() => {
            bad("bus alarms", format!("one is on, of memory or disk: nothing is taken over ({why}); `rabbitmq-diagnostics alarms` says which"))
        }
        Err(why) => bad("bus alarms", format!("a message was not taken over: {why}")),
    });
    findings.push(match link.has_exchange().await {
        Ok(true) => good("bus exchange", format!("{} is there; what no queue is bound for waits in the store, or is dropped with --bus-unrouted drop", names::EXCHANGE)),
        Ok(false) => good("bus exchange", format!("{}: not there yet, the first fact makes it", names::EXCHANGE)),
        Err(why) => bad("bus exchange", format!("{} is another than a durable topic exchange, and nothing can be told: {why}; delete it, and the next fact makes it as it should be", names::EXCHANGE)),
    });
    for queue in queues {
        findings.push(match link.queue(queue).await {
            Ok(Some(found)) => good(
                "bus queue",
                format!("{queue}: {} messages, {} consumers", found.message_count(), found.consumer_count()),
            ),
            Ok(None) => good("bus queue", format!("{queue}: not there yet")),
            Err(why) => bad("bus queue", format!("{queue}: {why}")),
        });
    }
    let taken: Vec<&str> =
        queues.iter().map(String::as_str).filter(|queue| names::queue_of(queue).is_none()).collect();
    findings.extend(policies(&version, address, &taken));
    findings
}

/// What to tell the broker, once, by somebody who administers it: for each queue that is taken from, if it is a quorum queue.
fn policies(version: &str, address: &Address, queues: &[&str]) -> Vec<Finding> {
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok()).unwrap_or_default();
    let (limit, why) = match major < LIMITED_SINCE {
        true => (
            format!("\"delivery-limit\":{DELIVERIES},"),
            "a message that ends whoever takes it comes again and again",
        ),
        false => (String::new(), "a message is dropped after 20 deliveries"),
    };
    let queues = if queues.is_empty() { &["NAME"] } else { queues };
    let of = |queue: &&str| {
        let failed = names::failed_of(queue);
        let aside = format!("{limit}\"dead-letter-exchange\":\"\",\"dead-letter-routing-key\":\"{failed}\"");
        let (vhost, pattern) = (quoted(address.vhost()), quoted(&format!("^{}$", queue.replace('.', "\\."))));
        let body = quoted(&format!("{{{aside}}}"));
        let command = format!(
            "rabbitmqctl set_policy -p {vhost} {} {pattern} {body} --apply-to queues",
            quoted(&format!("redrive-{queue}"))
        );
        let detail = format!("if {queue} is a quorum queue, {why}; so it goes to {failed}:");
        Finding { command: Some(command), ..good("bus policy", detail) }
    };
    queues.iter().map(of).collect()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Publishes a message to a queue of our own that ends with the connection.
async fn takes(link: &Link, env: &Env) -> Result<()> {
    let channel = link.confirmed_channel().await?;
    let options = QueueDeclareOptions::exclusive();
    let queue = link.ask(channel.queue_declare("".into(), options, FieldTable::default())).await?;
    let name = queue.name().to_string();
    let parcel =
        Parcel { exchange: "", routing_key: &name, body: b"{}", properties: BasicProperties::default() };
    let sent = publish(link, &channel, vec![parcel], env).await?;
    match sent.acked.as_slice() {
        [true] if sent.came_back == 0 => Ok(()),
        _ => Err("the broker refused it".to_owned()),
    }
}

/// Asks the broker who it is, which it says to anybody.
async fn greeted(address: &Address) -> Result<String> {
    let uri = address.with_password();
    match uri.scheme {
        AMQPScheme::AMQP => {
            let stream = TcpStream::connect((address.host(), address.port())).await;
            greet(stream.map_err(|error| error.to_string())?).await
        }
        AMQPScheme::AMQPS => greet(tls::open(&uri, address.authorities()).await?).await,
    }
}

async fn greet(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<String> {
    let greeted = async {
        stream.write_all(GREETING).await?;
        stream.flush().await
    };
    greeted.await.map_err(|error: std::io::Error| error.to_string())?;
    let mut head = [0; 7];
    stream.read_exact(&mut head).await.map_err(|_| foreign())?;
    let [kind, _, _, sizes @ ..] = head;
    let size = usize::try_from(u32::from_be_bytes(sizes)).unwrap_or(usize::MAX);
    if kind != 1 || size > FRAME {
        return Err(foreign());
    }
    let mut frame = vec![0; size];
    stream.read_exact(&mut frame).await.map_err(|_| foreign())?;
    property(&frame, "version").ok_or_else(foreign)
}

fn foreign() -> String {
    format!("what answers there does not speak AMQP 0-9-1, or is not {}'s broker", names::CONNECTION)
}

/// A text of the table of what a broker says of itself: name, type `S`, length, text.
fn property(frame: &[u8], name: &str) -> Option<String> {
    let mut key = vec![u8::try_from(name.len()).ok()?];
    key.extend_from_slice(name.as_bytes());
    key.push(b'S');
    let at = frame.windows(key.len()).position(|part| part == key)? + key.len();
    let length = frame.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes)?;
    let text = frame.get(at + 4..at + 4 + usize::try_from(length).ok()?)?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_says_of_itself_is_read_as_far_as_it_goes() {
        let frame = b"\x07productS\x00\x00\x00\x08RabbitMQ\x07versionS\x00\x00\x00\x063.10.8";
        assert_eq!(property(frame, "version").as_deref(), Some("3.10.8"));
        assert_eq!(property(frame, "cluster"), None);
        assert_eq!(property(b"\x07versionS\x00\x00\x00\x0c3.10.8", "version"), None, "it ends before that");
    }

    #[test]
    fn policies_are_those_of_the_version() {
        let address: Address = "amqp://h".parse().expect("valid");
        let of = |version, queues: &[&str]| {
            let commands = policies(version, &address, queues).into_iter().filter_map(|one| one.command);
            commands.collect::<Vec<_>>().join("\n")
        };
        assert!(of("3.10.8", &[]).contains("\"delivery-limit\":20"));
        assert!(
            !of("4.1.0", &[]).contains("\"delivery-limit\":20") && of("4.1.0", &[]).contains("NAME.failed")
        );
        assert_eq!(
            of("4.1.0", &["a.b"]),
            r#"rabbitmqctl set_policy -p '/' 'redrive-a.b' '^a\.b$' '{"dead-letter-exchange":"","dead-letter-routing-key":"a.b.failed"}' --apply-to queues"#
        );
    }
}
