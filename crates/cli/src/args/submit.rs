//! What can be typed after `redrive submit`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use redrive_operate::runs::Begin;
use redrive_operate::submit::HandIn;

use super::name;

/// Options of `submit`.
#[derive(Debug, ClapArgs)]
pub struct SubmitArgs {
    /// The pipeline file
    pub file: PathBuf,
    /// Read items from here instead of what the file's source names: files, patterns, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub input: Vec<String>,
    /// The category of a new run, and of items that name none, in place of the file's
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub category: Option<String>,
    /// The priority of a new run, in place of the file's; higher goes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,
    /// Start a new run that does everything, whatever was done before
    #[arg(long)]
    pub new: bool,
    /// Leave items alone that have passed a stage which is configured otherwise now
    #[arg(long)]
    pub keep_passed: bool,
    /// Hand this item to a pipeline with an inbox, as JSON; may be given several times
    #[arg(long, value_name = "JSON", conflicts_with_all = ["input", "new"])]
    pub item: Vec<String>,
    /// The key of the one --item, in place of what the file's source says
    #[arg(long, value_name = "KEY", requires = "item")]
    pub key: Option<String>,
    /// Hand the items of this JSON Lines file to a pipeline with an inbox; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["item", "input", "new"])]
    pub items: Option<String>,
    /// Each line of --items is {"key", "payload", "category"}; only the payload has to be there
    #[arg(long, requires = "items", conflicts_with = "item")]
    pub envelope: bool,
}

impl SubmitArgs {
    /// How a run begins.
    pub fn begin(&self) -> Begin {
        Begin {
            new: self.new,
            keep_passed: self.keep_passed,
            category: self.category.clone(),
            priority: self.priority,
        }
    }

    /// How items are handed in.
    pub fn hand_in(&self) -> HandIn {
        HandIn { category: self.category.clone(), priority: self.priority, keep_passed: self.keep_passed }
    }
}
