//! Policies: what retry policies do, before anything depends on them.
//!
//! A word names a preset or a pipeline file, whose stages have a policy each. Nothing here needs a store.

mod forecast;
mod lint;
mod passage;
mod subject;

use redrive_core::policy::{MAX_ATTEMPTS, Policy, PresetInfo, Step, presets};
use redrive_core::time::millis;
use redrive_pipeline::Definition;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub use forecast::{Cut, Forecast, first_waits, span};
pub use lint::{LintReport, Warning, lint};
pub use passage::{GIVEN, GatePassage, Passages, Through};
pub use subject::{AtGate, Subject};

/// The presets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PresetList {
    /// Each of them.
    pub presets: Vec<Preset>,
}

/// One preset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// How often an item is tried; none is without end.
    pub max_attempts: Option<u32>,
    /// The first waits without jitter; the last one repeats where the policy goes on.
    pub waits_ms: Vec<i64>,
    /// The sum of all waits; none where there is no end.
    pub span_ms: Option<i64>,
    /// The policy.
    pub policy: &'static Policy,
}

/// Lists the presets.
#[must_use]
pub fn list() -> PresetList {
    let listed = |preset: &'static PresetInfo| Preset {
        name: preset.name,
        summary: preset.summary,
        max_attempts: preset.policy.max_attempts().map(std::num::NonZero::get),
        waits_ms: first_waits(&preset.policy).into_iter().map(millis).collect(),
        span_ms: span(&preset.policy).map(millis),
        policy: &preset.policy,
    };
    PresetList { presets: presets().iter().map(listed).collect() }
}

/// Which policies to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Show {
    /// A preset's name or a pipeline file.
    pub policy: String,
    /// Only this stage of the pipeline file.
    pub stage: Option<String>,
    /// Attempts shown.
    pub attempts: usize,
}

/// What to expect of which policies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Simulate {
    /// Which policies.
    pub show: Show,
    /// Share of attempts that fail.
    pub failure_rate: f64,
    /// Number of items.
    pub items: u64,
    /// What calls have to pass.
    pub through: Through,
}

/// Policies with their timelines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shown {
    /// The word that named them.
    pub source: String,
    /// Each policy.
    pub policies: Vec<View>,
    /// What to expect of the gates on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub through_gates: Option<Passages>,
}

/// A policy, the beginning of its timeline and, where asked for, what to expect of it.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The policy and where it stands.
    pub subject: Subject,
    /// The first attempts.
    pub steps: Vec<Step>,
    /// Where a deadline ends it.
    pub cut: Option<Cut>,
    /// What to expect.
    pub outlook: Option<Forecast>,
}

impl View {
    fn new(subject: Subject, attempts: usize) -> Self {
        let cut = forecast::cut(&subject.policy, subject.deadline);
        let steps = forecast::steps(&subject.policy, cut.as_ref(), attempts);
        Self { subject, steps, cut, outlook: None }
    }

    /// Whether the timeline shows the last attempt there is.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let limit = self.subject.policy.max_attempts().map(|max| u64::from(max.get()));
        let end = self.cut.as_ref().map(|cut| cut.attempts).or(limit);
        end.is_some_and(|end| u64::try_from(self.steps.len()).is_ok_and(|shown| shown >= end))
    }
}

/// A view as it is written.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    stage: Option<&'a str>,
    deadline_ms: Option<i64>,
    timeline: &'a [Step],
    timeline_is_whole: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    outlook: Option<&'a Forecast>,
    policy: &'a Policy,
}

impl Serialize for View {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let entry = Entry {
            name: &self.subject.name,
            stage: self.subject.stage.as_deref(),
            deadline_ms: self.subject.deadline.map(millis),
            timeline: &self.steps,
            timeline_is_whole: self.is_whole(),
            outlook: self.outlook.as_ref(),
            policy: &self.subject.policy,
        };
        entry.serialize(serializer)
    }
}

/// Shows policies as timelines.
///
/// # Errors
/// When the word names nothing, the file is wrong, or too many attempts are asked for.
pub fn show(request: &Show) -> Result<Shown> {
    let attempts = request.attempts;
    let most = usize::try_from(MAX_ATTEMPTS).unwrap_or(usize::MAX);
    if !(1..=most).contains(&attempts) {
        return Err(Error::wrong(format!("--attempts {attempts} is not between 1 and {MAX_ATTEMPTS}")));
    }
    let found = subject::find(&request.policy, request.stage.as_deref())?;
    let policies = found.into_iter().map(|subject| View::new(subject, attempts)).collect();
    Ok(Shown { source: request.policy.clone(), policies, through_gates: None })
}

/// Says when each attempt would run, how long until dead, how many calls that takes, and how long gates take for them.
///
/// # Errors
/// As [`show`], and when the failure rate is no share.
pub fn simulate(request: &Simulate) -> Result<Shown> {
    let Simulate { failure_rate, items, through, .. } = request;
    if !(0.0..=1.0).contains(failure_rate) {
        let message = format!("--failure-rate {failure_rate} is not a share between 0 and 1");
        return Err(Error::wrong(message).hint("10 % is written 0.1"));
    }
    let mut shown = show(&request.show)?;
    for view in &mut shown.policies {
        passage::take_over(&mut view.subject, through);
        let subject = &view.subject;
        let outlook = forecast::forecast(&subject.policy, subject.deadline, *failure_rate, *items);
        view.outlook = Some(outlook.under(subject.budget.as_ref()));
    }
    shown.through_gates = Passages::of(&shown.policies, through);
    Ok(shown)
}

/// The pipeline of a file that a word names; `None` when it names a preset or a file that is wrong.
///
/// # Errors
/// When it names nothing.
pub fn file_of(word: &str) -> Result<Option<Definition>> {
    Ok(match subject::named(word)? {
        subject::Named::File(definition, _) => Some(*definition),
        subject::Named::Preset(_) | subject::Named::Wrong(_) => None,
    })
}
