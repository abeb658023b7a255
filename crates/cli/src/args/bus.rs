//! What can be said of the bus, and typed after `relay` and `queues`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use redrive_core::secret::Secret;
use redrive_operate::Error;
use redrive_operate::bus::Unrouted;
use redrive_rabbitmq::Address;

/// Where the bus is. It is a text until it is used: what is wrong with it has to be told without repeating it.
#[derive(Debug, Clone, ClapArgs)]
pub struct BusArgs {
    /// A RabbitMQ broker to tell and to hear: amqp://USER:PASSWORD@HOST:5672/VHOST, or amqps://… for TLS
    #[arg(long, env = "REDRIVE_BUS", hide_env_values = true, value_name = "URL", help_heading = "Bus")]
    bus: Option<Secret>,
    /// Whom to trust
    #[command(flatten)]
    ca: BusCaArgs,
}

/// Whom to trust on the bus.
#[derive(Debug, Clone, ClapArgs)]
pub struct BusCaArgs {
    /// Certificates of authorities (PEM) that a broker at amqps:// is believed by, in place of the system's
    #[arg(long, env = "REDRIVE_BUS_CA", value_name = "FILE", help_heading = "Bus")]
    bus_ca: Option<OsString>,
}

impl BusCaArgs {
    /// Reads an address, and whom to trust there.
    ///
    /// # Errors
    /// What is wrong with either.
    pub fn address(&self, text: &str) -> Result<Address, String> {
        let address: Address = text.parse()?;
        match self.bus_ca.as_deref().filter(|file| !file.is_empty()) {
            None => Ok(address),
            Some(file) => address.trusting(Path::new(file)).map_err(|why| format!("--bus-ca: {why}")),
        }
    }
}

impl BusArgs {
    /// The address that was said, if one was.
    ///
    /// # Errors
    /// When it is none.
    pub fn address(&self) -> Result<Option<Address>, Error> {
        let said = self.bus.as_ref().map(Secret::expose).filter(|text| !text.is_empty());
        let read = |text| self.ca.address(text).map_err(|why| Error::wrong(format!("--bus: {why}")));
        said.map(read).transpose()
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

/// What becomes of facts that lead to no queue.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub struct UnroutedArgs {
    /// Facts that no queue is bound for: keep them in the store until one is, or drop them
    #[arg(
        long,
        env = "REDRIVE_BUS_UNROUTED",
        value_name = "WHAT",
        default_value = "keep",
        help_heading = "Bus"
    )]
    bus_unrouted: UnroutedWord,
}

/// The words for it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum UnroutedWord {
    Keep,
    Drop,
}

impl UnroutedArgs {
    /// What was said.
    pub fn said(self) -> Unrouted {
        match self.bus_unrouted {
            UnroutedWord::Keep => Unrouted::Keep,
            UnroutedWord::Drop => Unrouted::Drop,
        }
    }
}

/// Options of `relay`.
#[derive(Debug, ClapArgs)]
pub struct RelayArgs {
    /// Where to
    #[command(flatten)]
    pub bus: BusArgs,
    /// What nobody wants
    #[command(flatten)]
    pub unrouted: UnroutedArgs,
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
