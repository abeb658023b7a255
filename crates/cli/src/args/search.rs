//! What can be typed after `search`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use redrive_operate::search::Request;

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

impl From<SearchArgs> for Request {
    fn from(args: SearchArgs) -> Self {
        use redrive_index::search::Mode as By;
        Self {
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
        }
    }
}
