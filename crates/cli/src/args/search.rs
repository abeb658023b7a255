//! What can be typed after `search`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use redrive_core::time::Timestamp;
use redrive_index::search::MailFilter;
use redrive_operate::search::Request;

use super::mail::{When, when};

/// Options of `search`.
#[derive(Debug, ClapArgs)]
pub struct SearchArgs {
    /// What to look for
    #[arg(required = true, num_args = 1..)]
    pub query: Vec<String>,
    /// At most so many passages
    #[arg(short = 'k', default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// By meaning and words, by meaning, or by words
    #[arg(long, value_enum, default_value_t = Mode::Hybrid, value_name = "HOW")]
    pub mode: Mode,
    /// Only in files that match this glob, for example 'guide/**/*.md', from the indexed directory on; may be given
    /// more than once
    #[arg(long, value_name = "GLOB")]
    pub path: Vec<String>,
    /// Only in files of this language or kind, for example rust, markdown, pdf
    #[arg(long, alias = "kind", value_name = "NAME")]
    pub lang: Option<String>,
    /// Only on this page
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub page: Option<u32>,
    /// Only in messages from somebody whose name or address has this in it
    #[arg(long, value_name = "WHO")]
    pub from: Option<String>,
    /// Only in messages of mailing lists whose name has this in it
    #[arg(long, value_name = "NAME")]
    pub list: Option<String>,
    /// Only in messages sent since: a date such as 2026-01-31, or how long ago, such as 7d
    #[arg(long, value_parser = when, value_name = "WHEN")]
    pub since: Option<When>,
    /// Only in messages sent before that
    #[arg(long, value_parser = when, value_name = "WHEN")]
    pub until: Option<When>,
    /// Only in the index of this directory
    #[arg(long = "in", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The model that the index is expected to be made with
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// How to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// By meaning and by words.
    Hybrid,
    /// By meaning.
    Meaning,
    /// By words.
    Words,
}

impl SearchArgs {
    /// What is asked for.
    pub fn request(self, now: Timestamp) -> Request {
        use redrive_index::search::Mode as By;
        let args = self;
        Request {
            query: args.query.join(" "),
            count: args.count as usize,
            mode: match args.mode {
                Mode::Hybrid => By::Hybrid,
                Mode::Meaning => By::Meaning,
                Mode::Words => By::Words,
            },
            paths: args.path,
            kind: args.lang,
            page: args.page,
            dir: args.dir,
            model: args.model,
            mail: MailFilter {
                from: args.from,
                list: args.list,
                since: args.since.map(|when| when.at(now)),
                until: args.until.map(|when| when.at(now)),
            },
        }
    }
}
