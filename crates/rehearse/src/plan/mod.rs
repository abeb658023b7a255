//! What the provider is to do. A [`Plan`] is only made from text that was checked.

mod builtin;
mod check;
mod describe;
mod fault;
mod file;
mod foresee;
mod problem;
mod span;
mod told;

use std::path::Path;
use std::time::Duration;

pub use builtin::Builtin;
pub(crate) use check::default_code;
pub(crate) use fault::{Fault, FaultKind, How};
pub use problem::{PlanError, Problem};
pub(crate) use told::Told;

use redrive_core::secret::Secret;

use crate::meter::Rate;

/// What the provider is to do, from a TOML file or a built-in name.
///
/// ```
/// use redrive_rehearse::Plan;
///
/// let plan = Plan::parse("[limit]\nrequests_per_second = 50\n", "strict.toml")?;
/// assert_eq!(plan.with_seed(7).seed(), 7);
/// let error = Plan::parse("[limit]\nrequests_per_hour = 50\n", "strict.toml").unwrap_err();
/// assert!(error.to_string().starts_with("strict.toml:2: requests_per_hour: unknown field"));
/// # Ok::<(), redrive_rehearse::PlanError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) seed: u64,
    pub(crate) api_key: Option<Secret>,
    pub(crate) dimensions: usize,
    pub(crate) tokens_per_text: Option<u64>,
    pub(crate) limit: Limit,
    /// The most that a call is late before it arrives.
    pub(crate) jitter: Duration,
    pub(crate) quota: Quota,
    pub(crate) latency: Latency,
    pub(crate) size: Size,
    pub(crate) poison: Vec<Poison>,
    pub(crate) faults: Vec<Fault>,
}

impl Plan {
    /// Reads a plan's text; `file` is named in problems.
    ///
    /// # Errors
    /// When the text is not TOML, has a key that nobody knows, or a value that makes no sense.
    pub fn parse(text: &str, file: &str) -> Result<Self, PlanError> {
        check::check(file::read(text, file)?, file)
    }

    /// A plan that comes with the program.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let builtin = Builtin::ALL.iter().find(|builtin| builtin.name == name)?;
        Self::parse(builtin.text, builtin.name).ok()
    }

    /// A built-in plan of that name, or else a file of that path.
    ///
    /// # Errors
    /// When there is neither, or the file's text is no plan.
    pub fn load(name: &str) -> Result<Self, PlanError> {
        if let Some(plan) = Self::builtin(name) {
            return Ok(plan);
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|error| {
            PlanError::of(name, "", format!("is no built-in plan, and no file that can be read: {error}"))
        })?;
        Self::parse(&text, name)
    }

    /// The same plan with other dice.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Its built-in name or its file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its author says that it does.
    #[must_use]
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// What its dice are made of.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What it will do, one line for each part.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        describe::describe(self)
    }

    /// The tokens of a text under this plan: `tokens_per_text`, or else [`tokens`].
    #[must_use]
    pub fn tokens_of(&self, text: &str) -> u64 {
        self.tokens_per_text.unwrap_or_else(|| tokens(text))
    }
}

/// The tokens of a text: a quarter of its characters, rounded up, at least one.
#[must_use]
pub fn tokens(text: &str) -> u64 {
    (text.chars().count() as u64).div_ceil(4).max(1)
}

/// How much it lets through.
#[derive(Debug, Clone)]
pub(crate) struct Limit {
    /// Of calls.
    pub requests: Option<Rate>,
    /// Of tokens.
    pub tokens: Option<Rate>,
    /// What holds from a later time on, in order.
    pub steps: Vec<Step>,
    /// Whether a rejected call takes one as well.
    pub rejected_calls_consume: bool,
    /// The deepest debt that rejected calls can make, as time.
    pub debt: Duration,
    /// Who else takes from it.
    pub neighbours: Option<Neighbours>,
    /// In whose headers answers tell what is left.
    pub headers: Told,
    /// What a rejection says about when to come back.
    pub hint: Hint,
    /// The status for a call that is larger than the token limit as a whole.
    pub too_large_status: u16,
}

/// Others who take a part of the limit of calls, another one in each period.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighbours {
    /// The largest part.
    pub share: f64,
    /// The length of a period.
    pub every: Duration,
}

/// A change of the limits.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    /// From then on.
    pub after: Duration,
    /// The new limit of calls.
    pub requests: Option<Rate>,
    /// The new limit of tokens.
    pub tokens: Option<Rate>,
}

/// What a rejection says about when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Hint {
    /// Nothing.
    None,
    /// `Retry-After` in whole seconds, rounded up.
    Seconds,
    /// `Retry-After` in seconds with decimals.
    Exact,
    /// `Retry-After-Ms`, exactly.
    Ms,
    /// Both of them.
    Both,
    /// `Retry-After` as a date, rounded up.
    Date,
    /// Only the message says it: "Please try again in 1.2s".
    Text,
    /// A lie: minus five seconds.
    Negative,
    /// A lie: ten years.
    TenYears,
    /// A lie: a date an hour ago.
    Past,
    /// A lie: no number and no date.
    Garbage,
}

/// Where its credit ends.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quota {
    /// After so many good answers.
    pub requests: Option<u64>,
    /// After so many tokens.
    pub tokens: Option<u64>,
}

/// How long an answer takes.
#[derive(Debug, Clone)]
pub(crate) struct Latency {
    /// Every answer.
    pub base: Duration,
    /// For each item or text on top.
    pub per_item: Duration,
    /// How far it strays, as a share on both sides.
    pub jitter: f64,
    /// What one answer in a hundred takes at least; the logarithm strays normally around the base.
    pub p99: Option<Duration>,
    /// Above so many calls at once it grows in proportion.
    pub capacity: Option<u64>,
    /// More calls at once are turned away.
    pub max_concurrency: Option<u64>,
    /// The status for those.
    pub over_status: u16,
    /// The wait that they are told, in whole seconds.
    pub over_retry_after: Option<Duration>,
}

/// How large a call may be.
#[derive(Debug, Clone)]
pub(crate) struct Size {
    /// Items or texts of a call.
    pub max_texts: Option<u64>,
    /// Tokens of a call.
    pub max_tokens_per_request: Option<u64>,
    /// Tokens of an item or text.
    pub max_tokens_per_text: Option<u64>,
    /// The status for larger ones.
    pub status: u16,
    /// The error code for larger ones.
    pub code: String,
}

/// A text that makes a whole call fail.
#[derive(Debug, Clone)]
pub(crate) struct Poison {
    /// What such a text contains.
    pub marker: String,
    /// The status of the answer.
    pub status: u16,
    /// Its error code.
    pub code: String,
}
