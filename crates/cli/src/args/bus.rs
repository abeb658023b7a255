//! What can be said of the bus, and typed after `relay` and `queues`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use redrive_operate::Error;
use redrive_rabbitmq::Address;

/// Where the bus is. It is a text until it is used: what is wrong with it has to be told without repeating it.
#[derive(Clone, ClapArgs)]
pub struct BusArgs {
    /// A RabbitMQ broker to tell and to hear: amqp://USER:PASSWORD@HOST:5672/VHOST
    #[arg(long, env = "REDRIVE_BUS", hide_env_values = true, value_name = "URL", help_heading = "Bus")]
    bus: Option<String>,
}

impl std::fmt::Debug for BusArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BusArgs").field("bus", &self.bus.as_ref().map(|_| "…")).finish()
    }
}

impl BusArgs {
    /// The address that was said, if one was.
    ///
    /// # Errors
    /// When it is none.
    pub fn address(&self) -> Result<Option<Address>, Error> {
        let said = self.bus.as_deref().filter(|text| !text.is_empty());
        said.map(|text| text.parse().map_err(|why| Error::wrong(format!("--bus: {why}")))).transpose()
    }

    /// The address that was said.
    ///
    /// # Errors
    /// When none was, or it is none.
    pub fn needed(&self) -> Result<Address, Error> {
        self.address()?.ok_or_else(|| {
            Error::wrong("no bus is named")
                .hint("say --bus amqp://HOST, or set REDRIVE_BUS, which keeps its password out of lists of processes")
        })
    }
}

/// Options of `relay`.
#[derive(Debug, ClapArgs)]
pub struct RelayArgs {
    /// Where to
    #[command(flatten)]
    pub bus: BusArgs,
    /// Pass on what there is and end
    #[arg(long)]
    pub once: bool,
    /// Have no more facts kept: nobody is to be told any more. Those that wait stay until they are passed on
    #[arg(long, conflicts_with = "once")]
    pub off: bool,
}

/// What is done about queues of failed messages.
#[derive(Debug, Subcommand)]
pub enum QueuesCommand {
    /// Show how many messages queues have; default: those of failed messages of the pipelines in the store
    List {
        /// The queues
        queues: Vec<String>,
        /// Where
        #[command(flatten)]
        bus: BusArgs,
    },
    /// Write the messages of a queue as JSON Lines; all of them stay
    Export {
        /// The queue, for example parsing.failed
        queue: String,
        /// Where to; default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Where
        #[command(flatten)]
        bus: BusArgs,
    },
    /// Send the messages of a queue back to where they were taken from
    Requeue {
        /// The queue, for example parsing.failed
        queue: String,
        /// To this queue instead
        #[arg(long, value_name = "QUEUE")]
        to: Option<String>,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Where
        #[command(flatten)]
        bus: BusArgs,
    },
    /// Remove the messages of a queue for good
    Purge {
        /// The queue, for example parsing.failed
        queue: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Where
        #[command(flatten)]
        bus: BusArgs,
    },
}
