//! A connection to the broker, and what is asked over it within a time.

use std::time::Duration;

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPScheme;
use lapin::{Channel, Connection, ConnectionProperties, ErrorKind, ExchangeKind, Queue};
use redrive_engine::env::Env;

use crate::address::Address;
use crate::{names, tls};

/// How long the broker may take to let us in, and for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The number of "there is no such thing" in AMQP.
const NOT_FOUND: u16 = 404;

/// What went wrong, in words without secrets.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// A connection.
pub(crate) struct Link {
    connection: Connection,
    address: Address,
    env: Env,
}

impl Link {
    /// Opens a connection; `part` is what the broker lists it as.
    pub(crate) async fn open(address: &Address, env: &Env, part: &str) -> Result<Self> {
        let name = format!("{}: {part}", names::CONNECTION);
        let properties = ConnectionProperties::default().with_connection_name(name.into());
        let uri = address.with_password();
        let opening = async {
            match uri.scheme {
                AMQPScheme::AMQP => {
                    Connection::connect_uri(uri, properties).await.map_err(|error| error.to_string())
                }
                AMQPScheme::AMQPS => tls::connect(uri, address.authorities(), properties).await,
            }
        };
        let connection = within(env, ANSWER_WITHIN, opening).await.and_then(|opened| opened);
        let connection = connection.map_err(|why| format!("{address}: {}", address.redacted(&why)))?;
        Ok(Self { connection, address: address.clone(), env: env.clone() })
    }

    /// Whether the broker takes nothing now: it is short of memory or of room on its disk.
    pub(crate) fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// That it does, in words.
    pub(crate) fn is_short(&self) -> String {
        format!("{} takes nothing now: it is short of memory or disk", self.address)
    }

    /// Whether it is still there.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.status().connected()
    }

    /// Opens a channel.
    pub(crate) async fn channel(&self) -> Result<Channel> {
        self.ask(self.connection.create_channel()).await
    }

    /// Opens a channel on which the broker says what became of what is published.
    pub(crate) async fn confirmed_channel(&self) -> Result<Channel> {
        let channel = self.channel().await?;
        self.ask(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(channel)
    }

    /// Waits for one answer.
    pub(crate) async fn ask<T>(&self, asked: impl Future<Output = lapin::Result<T>>) -> Result<T> {
        let answer = within(&self.env, ANSWER_WITHIN, asked).await?;
        answer.map_err(|error| self.words(&error))
    }

    /// An error in words.
    pub(crate) fn words(&self, error: &lapin::Error) -> String {
        self.address.redacted(&error.to_string())
    }

    /// Declares the exchange of facts.
    pub(crate) async fn declare_exchange(&self, channel: &Channel) -> Result<()> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let exchange = names::EXCHANGE.into();
        self.ask(channel.exchange_declare(exchange, ExchangeKind::Topic, options, FieldTable::default()))
            .await
    }

    /// Whether there is an exchange of facts.
    ///
    /// # Errors
    /// When it is another than facts are told to, or that cannot be asked.
    pub(crate) async fn has_exchange(&self) -> Result<bool> {
        // Asking for what is not there closes the channel.
        let channel = self.channel().await?;
        let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let asked = channel.exchange_declare(
            names::EXCHANGE.into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        match within(&self.env, ANSWER_WITHIN, asked).await? {
            Ok(()) => {}
            Err(error) if is_missing(&error) => return Ok(false),
            Err(error) => return Err(self.words(&error)),
        }
        // One that is as it should be is left as it is by that.
        self.declare_exchange(&self.channel().await?).await?;
        Ok(true)
    }

    /// A queue as it is; `None`: there is none of this name.
    pub(crate) async fn queue(&self, name: &str) -> Result<Option<Queue>> {
        // Asking for what is not there closes the channel.
        let channel = self.channel().await?;
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let asked = channel.queue_declare(name.into(), options, FieldTable::default());
        let found = match within(&self.env, ANSWER_WITHIN, asked).await? {
            Ok(queue) => Some(queue),
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(self.words(&error)),
        };
        // One that stays open ends with the connection.
        let _ = within(&self.env, ANSWER_WITHIN, channel.close(200, "OK".into())).await;
        Ok(found)
    }

    /// Sees to it that there is a queue of this name; one that is there stays as it is.
    pub(crate) async fn need_queue(&self, name: &str) -> Result<()> {
        if self.queue(name).await?.is_some() {
            return Ok(());
        }
        let channel = self.channel().await?;
        let options = QueueDeclareOptions::durable();
        self.ask(channel.queue_declare(name.into(), options, FieldTable::default())).await?;
        Ok(())
    }
}

impl Link {
    /// Sees to it that there is a queue for the work of an event, and that the event leads to it.
    pub(crate) async fn need_work_queue(&self, event: &str) -> Result<()> {
        let queue = names::work_of(event);
        self.need_queue(&queue).await?;
        let channel = self.channel().await?;
        self.declare_exchange(&channel).await?;
        let (options, table) = (QueueBindOptions::default(), FieldTable::default());
        let exchange = names::EXCHANGE.into();
        self.ask(channel.queue_bind(queue.into(), exchange, event.into(), options, table)).await
    }
}

fn is_missing(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_id() == NOT_FOUND)
}

/// Waits for something, and no longer than this.
pub(crate) async fn within<T>(env: &Env, span: Duration, what: impl Future<Output = T>) -> Result<T> {
    tokio::select! {
        done = what => Ok(done),
        () = env.clock.sleep(span) => Err(format!("no answer within {} s", span.as_secs())),
    }
}
