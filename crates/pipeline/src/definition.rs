//! What a pipeline file says, once it is known to be right.

mod stage;
mod upkeep;

use std::collections::BTreeMap;
use std::time::Duration;

use redrive_core::budget::BudgetSpec;
use redrive_core::gate::GateSpec;
use redrive_core::order::Order;
use redrive_core::schedule::Rule;
use redrive_core::status::Thresholds;

use crate::problem::Problem;

pub use stage::{Body, DeferDef, MailStep, ModelDef, PollDef, PriceDef, StageDef, StageKind};
pub use upkeep::{NotifyDef, NotifyOn, NotifyTarget, RetentionDef, RuleDef, When};

/// A validated pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What workers can be limited to.
    pub category: Option<String>,
    /// Higher goes first; default 0.
    pub priority: i32,
    /// How new items and due retries share a stage; default oldest.
    pub order: Order,
    /// The share reserved for the lane that goes second, 0 to 1; default 0.2.
    pub retry_share: f64,
    /// The greatest age of an item; default 24 h, none is without limit.
    pub deadline: Option<Duration>,
    /// Whom its stages may call; none where the file does not say, which is anybody.
    pub outbound: Option<Outbound>,
    /// Which programs its stages may start; none where the file does not say, which is any.
    pub commands: Option<Commands>,
    /// Where items come from.
    pub source: SourceDef,
    /// From which success rate on a run counts as what.
    pub thresholds: Thresholds,
    /// How much failure stops a run; none is off.
    pub budget: Option<BudgetSpec>,
    /// When a daemon begins a run by itself; none where it does not.
    pub schedule: Option<Rule>,
    /// What a daemon forgets by itself.
    pub retention: RetentionDef,
    /// Who is told when something happens.
    pub notify: Vec<NotifyDef>,
    /// Most dead items of a run before it is paused and takes no more; none is without limit.
    pub max_dead: Option<u64>,
    /// The stages in order, at least one.
    pub stages: Vec<StageDef>,
    /// Gates by name. A stage may name a gate that is not listed: it has the defaults.
    pub gates: BTreeMap<String, GateSpec>,
    /// What models cost, by the model's name. Stages know the price of their own model.
    pub prices: BTreeMap<String, PriceDef>,
    /// Dead items that are sent back without somebody asking.
    pub rules: Vec<RuleDef>,
    /// What is valid and probably not meant.
    pub warnings: Vec<Problem>,
}

impl Definition {
    /// Every stage, nested ones after the stage they belong to.
    pub fn all_stages(&self) -> impl Iterator<Item = &StageDef> {
        let mut stack: Vec<&StageDef> = self.stages.iter().rev().collect();
        std::iter::from_fn(move || {
            let stage = stack.pop()?;
            stack.extend(stage.children.iter().rev());
            Some(stage)
        })
    }
}

/// Whom stages may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outbound {
    /// Anybody.
    #[default]
    Any,
    /// Only addresses that everybody reaches: none of this machine, of its network, or of its cloud.
    Public,
}

impl Outbound {
    /// Both, by the names used in pipeline files.
    pub(crate) const NAMES: [&str; 2] = ["any", "public"];

    /// The one of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "any" => Some(Self::Any),
            "public" => Some(Self::Public),
            _ => None,
        }
    }
}

/// Which programs stages may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commands {
    /// Any.
    #[default]
    Any,
    /// Only those of the folders that the process which works was given.
    Allowed,
}

impl Commands {
    /// Both, by the names used in pipeline files.
    pub(crate) const NAMES: [&str; 2] = ["any", "allowed"];

    /// The one of that name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "any" => Some(Self::Any),
            "allowed" => Some(Self::Allowed),
            _ => None,
        }
    }
}

/// Where items come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SourceDef {
    /// The format.
    pub kind: SourceKind,
    /// The files and patterns, `-` for standard input, or the directory; empty where the command line names it.
    pub paths: Vec<String>,
    /// JSON pointer to the key of an item; none for the hash of the line, and for files, which are their paths.
    pub key: Option<String>,
    /// The queue of the bus that an inbox takes items from.
    pub queue: Option<String>,
}

/// The format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// Lines or records of files, or of standard input.
    Lines(LineFormat),
    /// The files of a directory and of those below it.
    Files(FilesDef),
    /// Mail archives: mbox files, Maildirs, and directories of them.
    Mbox,
    /// The threads of the mail that is in the index.
    Threads,
    /// Nothing is read: items are handed to a run that stays open.
    Inbox,
}

impl Default for SourceKind {
    fn default() -> Self {
        Self::Lines(LineFormat::ByName)
    }
}

/// How the items of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineFormat {
    /// As the file's name says: CSV for `.csv` and `.tsv`, JSON Lines otherwise.
    ByName,
    /// One JSON document a line.
    Jsonl,
    /// Records with a header.
    Csv {
        /// Between two fields; none for what is usual.
        delimiter: Option<u8>,
    },
}

/// Which files of a directory are items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilesDef {
    /// Whether hidden files and directories are looked at; default false.
    pub hidden: bool,
    /// Whether symbolic links are followed; default false.
    pub follow_symlinks: bool,
    /// Whether what `.gitignore`, `.ignore` and `.redriveignore` name is left out; default true.
    pub ignore_rules: bool,
    /// Largest file in bytes; default 8 MiB.
    pub max_bytes: u64,
    /// Largest PDF, mail or mailbox in bytes, which hold more than text; default 64 MiB.
    pub max_container_bytes: u64,
    /// Whether an item has its file's text, for stages other than `parse`; default false.
    pub text: bool,
}

impl Default for FilesDef {
    fn default() -> Self {
        Self {
            hidden: false,
            follow_symlinks: false,
            ignore_rules: true,
            max_bytes: 8 << 20,
            max_container_bytes: 64 << 20,
            text: false,
        }
    }
}
