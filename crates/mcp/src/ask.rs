//! What can be asked of the tools. Names that nobody knows are refused.

use redrive_core::failure::Class;
use redrive_core::id::RunId;
use redrive_index::search::Mode;
use redrive_operate::dead::Which;
use redrive_operate::{Code, Error, Result};
use rmcp::schemars;
use schemars::JsonSchema;
use serde::Deserialize;

/// A search.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// What to look for, in plain words or as it is written
    pub(crate) query: String,
    /// At most so many passages, 1 to 20; default 6
    pub(crate) k: Option<usize>,
    /// By meaning and words, by meaning, or by words; default hybrid
    pub(crate) mode: Option<By>,
    /// Only in files that match this glob, from the indexed directory on, such as docs/**/*.md
    pub(crate) path: Option<String>,
}

/// What a passage is found by.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum By {
    Hybrid,
    Meaning,
    Words,
}

impl From<By> for Mode {
    fn from(by: By) -> Self {
        match by {
            By::Hybrid => Self::Hybrid,
            By::Meaning => Self::Meaning,
            By::Words => Self::Words,
        }
    }
}

/// A part of an indexed file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadPassage {
    /// The file, exactly as `search` names it
    pub(crate) path: String,
    /// The indexed directory, where several have such a file
    pub(crate) root: Option<String>,
    /// From this line on, counted from 1
    pub(crate) first_line: Option<u32>,
    /// Up to this line
    pub(crate) last_line: Option<u32>,
    /// Only this page, counted from 1
    pub(crate) page: Option<u32>,
    /// `next` of the answer before, to go on
    pub(crate) cursor: Option<u32>,
}

/// Which runs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    /// Only runs of this pipeline
    pub(crate) pipeline: Option<String>,
    /// Only runs that are not finished
    #[serde(default)]
    pub(crate) unfinished: bool,
    /// At most so many, 1 to 50; default 10
    pub(crate) limit: Option<usize>,
    /// `next` of the answer before, to go on
    pub(crate) cursor: Option<String>,
}

/// One item.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Explain {
    /// Its id, the beginning of its id, or its whole key
    pub(crate) item: String,
    /// Only in this run, such as r12
    pub(crate) run: Option<String>,
}

/// Which gates.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gates {
    /// `next` of the answer before, to go on
    pub(crate) cursor: Option<String>,
}

/// Which groups of dead items.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Groups {
    /// Only in this run, such as r12
    pub(crate) run: Option<String>,
    /// Only of this pipeline
    pub(crate) pipeline: Option<String>,
    /// Only at this stage
    pub(crate) stage: Option<String>,
    /// `next` of the answer before, to go on
    pub(crate) cursor: Option<usize>,
}

/// Which dead items; everything that is given must hold.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preview {
    /// Only in this run, such as r12
    pub(crate) run: Option<String>,
    /// Only of this pipeline
    pub(crate) pipeline: Option<String>,
    /// Only those that died at this stage
    pub(crate) stage: Option<String>,
    /// Only those whose last failure has this class: final, retryable, timeout, rate_limited, quota, oversized, crash
    pub(crate) class: Option<String>,
    /// Only this group, from `dead_groups`
    pub(crate) group: Option<String>,
    /// Only those whose key or last failure contains this text
    pub(crate) text: Option<String>,
    /// Only those that died within so many minutes
    pub(crate) within_minutes: Option<u32>,
    /// Only this item: its id, the beginning of its id, or its whole key
    pub(crate) item: Option<String>,
    /// At most so many; default: as many as may be sent back at once
    pub(crate) limit: Option<u64>,
}

impl Preview {
    pub(crate) fn which(&self) -> Result<Which> {
        Ok(Which {
            run: run(self.run.as_deref())?,
            pipeline: self.pipeline.clone(),
            stage: self.stage.clone(),
            class: self.class.as_deref().map(class).transpose()?,
            reason: None,
            group: self.group.clone(),
            text: self.text.clone(),
            within_ms: self.within_minutes.map(|minutes| i64::from(minutes) * 60_000),
            item: self.item.clone(),
        })
    }
}

/// A set that was previewed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Start {
    /// `set` of a preview of this session
    pub(crate) set: String,
}

/// Reads the number of a run.
pub(crate) fn run(given: Option<&str>) -> Result<Option<RunId>> {
    let read = |text: &str| {
        text.parse::<RunId>().map_err(|_| {
            Error::wrong(format!("{text:?} is no run; they look like r12")).code(Code::InvalidRequest)
        })
    };
    given.map(read).transpose()
}

fn class(given: &str) -> Result<Class> {
    Class::ALL.into_iter().find(|class| class.name() == given).ok_or_else(|| {
        let names: Vec<&str> = Class::ALL.iter().map(|class| class.name()).collect();
        Error::wrong(format!("{given:?} is no class")).hint(format!("there are {}", names.join(", ")))
    })
}
