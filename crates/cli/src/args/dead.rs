//! What can be typed after `dead`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use redrive_core::failure::Class;
use redrive_core::id::{OperationId, RunId};
use redrive_core::item::DeadReason;
use redrive_core::time::millis;
use redrive_engine::admin::Outcome;
use redrive_operate::dead::{DeadOrder, Which};

use super::duration;
use super::redrive::{FreezeArgs, RedriveArgs};

/// Which dead items.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct DeadFilter {
    /// In this run
    #[arg(long)]
    pub run: Option<RunId>,
    /// Of this pipeline
    #[arg(long)]
    pub pipeline: Option<String>,
    /// At this stage
    #[arg(long)]
    pub stage: Option<String>,
    /// Whose last failure has this class: final, retryable, timeout, rate_limited, quota, oversized, crash
    #[arg(long, value_parser = class)]
    pub class: Option<Class>,
    /// Dead for this reason: final, exhausted, expired, quarantined, operator
    #[arg(long, value_parser = reason)]
    pub reason: Option<DeadReason>,
    /// In this group of alike errors (see `dead groups`)
    #[arg(long)]
    pub group: Option<String>,
    /// Whose key or last failure contains this text
    #[arg(long)]
    pub text: Option<String>,
    /// That died within this time, for example 2h
    #[arg(long, value_parser = duration, value_name = "SPAN")]
    pub since: Option<Duration>,
    /// Only this item: its id, the beginning of it, or its key
    #[arg(long)]
    pub item: Option<String>,
}

/// The order of dead items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeadSort {
    /// Those that died last first
    Newest,
    /// Those that died first first
    Oldest,
    /// By key
    Key,
    /// By stage, and those that died last first
    Stage,
}

impl From<DeadSort> for DeadOrder {
    fn from(sort: DeadSort) -> Self {
        match sort {
            DeadSort::Newest => Self::Newest,
            DeadSort::Oldest => Self::Oldest,
            DeadSort::Key => Self::Key,
            DeadSort::Stage => Self::Stage,
        }
    }
}

/// What can be told of a dead item in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum DeadColumn {
    Item,
    Run,
    Key,
    Stage,
    Reason,
    Class,
    Attempts,
    Generation,
    FailedAt,
    Group,
    Message,
    PurgeAt,
}

/// The commands about dead items.
#[derive(Debug, Subcommand)]
pub enum DeadCommand {
    /// List dead items, those that died last first
    List {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// In what order
        #[arg(long, value_enum, default_value_t = DeadSort::Newest)]
        sort: DeadSort,
        /// Only these columns, for example key,stage,message
        #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES")]
        columns: Vec<DeadColumn>,
        /// As comma-separated values, nothing shortened
        #[arg(long, conflicts_with = "json")]
        csv: bool,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 50)]
        limit: usize,
        /// Go on after this cursor, from `next` of the page before; say the same --sort
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Show one dead item with its content and history
    Show {
        /// Its id, the beginning of its id, or its key
        item: String,
        /// Only in this run
        #[arg(long)]
        run: Option<RunId>,
    },
    /// Show dead items grouped by alike errors
    Groups {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// Only those that nobody looks after, or that grew since
        #[arg(long)]
        open: bool,
        /// At most so many groups
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
    /// Write down what is known about a group, and that it is looked after
    Note {
        /// The group (see `dead groups`)
        group: String,
        /// What is known: a ticket, a cause, a name; an empty text takes it back
        words: Vec<String>,
        /// It is known and looked after: `dead groups --open` leaves it out until another item dies of it
        #[arg(long, conflicts_with = "unack")]
        ack: bool,
        /// It is not looked after any more
        #[arg(long)]
        unack: bool,
    },
    /// Write dead items as JSON Lines, with content and history
    Export {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// Where to; default: standard output
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace the file if it is there, with whatever was edited in it
        #[arg(long, requires = "output")]
        overwrite: bool,
    },
    /// Send dead items back with the content in a file that `dead export` wrote and somebody edited
    Import {
        /// The file; - is standard input
        file: String,
    },
    /// Edit one dead item's content in $VISUAL or $EDITOR, and send it back with that
    Edit(EditArgs),
    /// Send dead items back, from the stage that failed them
    Redrive(RedriveArgs),
    /// Freeze the dead items that a redrive would send back, and say what that would cost
    Freeze(FreezeArgs),
    /// Start an operation that was frozen, or carry on one that is under way
    Start {
        /// The operation (see `dead operations`)
        operation: OperationId,
        /// Work on the runs of its items until it has ended
        #[arg(long)]
        work: bool,
    },
    /// List the items of an operation, and what became of each
    Outcomes {
        /// The operation (see `dead operations`)
        operation: OperationId,
        /// Only those that came to this
        #[arg(long, value_enum)]
        outcome: Option<OutcomeName>,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 50)]
        limit: usize,
        /// Go on after this cursor, from `next` of the page before
        #[arg(long, value_name = "CURSOR")]
        after: Option<String>,
    },
    /// Remove dead items and everything that came from them; a tombstone stays
    Purge {
        /// Which
        #[command(flatten)]
        filter: DeadFilter,
        /// All of them
        #[arg(long)]
        all: bool,
        /// Only say how many
        #[arg(long)]
        dry_run: bool,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Remove nothing for this time: until then `dead operations --stop` undoes it
        #[arg(long, value_parser = duration, value_name = "SPAN", conflicts_with = "dry_run")]
        undo_for: Option<Duration>,
    },
    /// List operations on many items: who asked for what, and how far it is
    Operations {
        /// Stop this one after the page it is at: nothing more is done by it
        #[arg(long, value_name = "OPERATION")]
        stop: Option<OperationId>,
        /// At most so many
        #[arg(long, short = 'n', default_value_t = 20)]
        limit: usize,
    },
}

/// What can become of an item of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum OutcomeName {
    Pending,
    LeftAlone,
    Live,
    Passed,
    FailedAgain,
    TakenOut,
    Gone,
}

impl From<OutcomeName> for Outcome {
    fn from(name: OutcomeName) -> Self {
        match name {
            OutcomeName::Pending => Self::Pending,
            OutcomeName::LeftAlone => Self::LeftAlone,
            OutcomeName::Live => Self::Live,
            OutcomeName::Passed => Self::Passed,
            OutcomeName::FailedAgain => Self::FailedAgain,
            OutcomeName::TakenOut => Self::TakenOut,
            OutcomeName::Gone => Self::Gone,
        }
    }
}

/// Options of `dead edit`.
#[derive(Debug, ClapArgs)]
pub struct EditArgs {
    /// Its id, the beginning of its id, or its key
    pub item: String,
    /// Only in this run
    #[arg(long)]
    pub run: Option<RunId>,
    /// Put a value at a JSON pointer, without an editor; can be said several times. What is not JSON is a text
    #[arg(long, value_name = "/POINTER=VALUE", value_parser = setting, conflicts_with = "file")]
    pub set: Vec<(String, String)>,
    /// Take the new content from this file, without an editor
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Work on its run until that ends
    #[arg(long)]
    pub work: bool,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let wrong = "say it as /POINTER=VALUE, for example /text=\"a text\" or /n=3";
    let (pointer, value) = text.split_once('=').ok_or(wrong)?;
    match pointer.starts_with('/') {
        true => Ok((pointer.to_owned(), value.to_owned())),
        false => Err(wrong.to_owned()),
    }
}

impl From<DeadFilter> for Which {
    fn from(filter: DeadFilter) -> Self {
        Self {
            run: filter.run,
            pipeline: filter.pipeline,
            stage: filter.stage,
            class: filter.class,
            reason: filter.reason,
            group: filter.group,
            text: filter.text,
            within_ms: filter.since.map(millis),
            item: filter.item,
        }
    }
}

pub fn class(text: &str) -> Result<Class, String> {
    let names = || Class::ALL.map(Class::name).join(", ");
    Class::from_name(text).ok_or_else(|| format!("classes are {}", names()))
}

fn reason(text: &str) -> Result<DeadReason, String> {
    let names = || DeadReason::ALL.map(DeadReason::name).join(", ");
    DeadReason::from_name(text).ok_or_else(|| format!("reasons are {}", names()))
}
