//! `redrive policy`: what retry policies do, before anything depends on them.

mod forecast;
mod lint;
mod passage;
mod picture;
mod place;
mod subject;
mod words;

use std::path::Path;
use std::process::ExitCode;

use redrive_core::policy::{MAX_ATTEMPTS, Policy, PresetInfo, Step, presets};
use redrive_core::time::millis;
use redrive_operate::Error;
use serde::Serialize;

use crate::args::{Global, PolicyCommand};
use crate::output;
use crate::output::plot::exact;
use crate::output::table::{Side, table};
use crate::output::target::{Existing, Guard, Target};
use forecast::{Cut, Forecast};
use passage::Passages;
use subject::{Named, Subject};

/// Runs one of the commands. None of them opens the store.
pub async fn run(global: &Global, command: &PolicyCommand) -> Result<ExitCode, Error> {
    match command {
        PolicyCommand::List => list(global),
        PolicyCommand::Show { policy, stage, attempts } => {
            let views = views(policy, stage.as_deref(), *attempts)?;
            print(global, policy, &views, None)
        }
        PolicyCommand::Simulate { policy, stage, failure_rate, items, attempts, plot, through } => {
            if !(0.0..=1.0).contains(failure_rate) {
                let message = format!("--failure-rate {failure_rate} is not a share between 0 and 1");
                return Err(Error::wrong(message).hint("10 % is written 0.1"));
            }
            let mut views = views(policy, stage.as_deref(), *attempts)?;
            for view in &mut views {
                passage::take_over(&mut view.subject, through);
                let subject = &view.subject;
                let outlook = forecast::forecast(&subject.policy, subject.deadline, *failure_rate, *items);
                view.outlook = Some(outlook.under(subject.budget.as_ref()));
            }
            if let Some(path) = plot {
                let target = Target::look("--plot", path, Existing::ReplacedIfSvg, spared(global, policy)?)?;
                picture::draw(&views, &target).await?;
                if !global.quiet {
                    output::note(&format!("wrote {}", path.display()));
                }
            }
            let passages = Passages::of(&views, through);
            print(global, policy, &views, passages.as_ref())
        }
        PolicyCommand::Lint { policies } => lint::run(global, policies),
    }
}

/// What a picture must not be written over.
fn spared(global: &Global, word: &str) -> Result<Guard, Error> {
    // A store that could not be opened needs no sparing here, where none is opened.
    let mut guard = Guard::of_store(&global.store).unwrap_or_default();
    if let Named::File(definition, _) = subject::named(word)? {
        let file = Path::new(word);
        guard.pipeline(file, &definition, file.parent().unwrap_or(Path::new("")));
    }
    Ok(guard)
}

/// A policy, the beginning of its timeline and, where asked for, what to expect of it.
struct View {
    subject: Subject,
    steps: Vec<Step>,
    cut: Option<Cut>,
    outlook: Option<Forecast>,
}

impl View {
    /// Whether the timeline shows the last attempt there is.
    fn is_whole(&self) -> bool {
        let limit = self.subject.policy.max_attempts().map(|max| u64::from(max.get()));
        let end = self.cut.as_ref().map(|cut| cut.attempts).or(limit);
        end.is_some_and(|end| u64::try_from(self.steps.len()).is_ok_and(|shown| shown >= end))
    }
}

fn views(word: &str, stage: Option<&str>, attempts: usize) -> Result<Vec<View>, Error> {
    let most = usize::try_from(MAX_ATTEMPTS).unwrap_or(usize::MAX);
    if !(1..=most).contains(&attempts) {
        return Err(Error::wrong(format!("--attempts {attempts} is not between 1 and {MAX_ATTEMPTS}")));
    }
    let view = |subject: Subject| {
        let cut = forecast::cut(&subject.policy, subject.deadline);
        let steps = forecast::steps(&subject.policy, cut.as_ref(), attempts);
        View { subject, steps, cut, outlook: None }
    };
    Ok(subject::find(word, stage)?.into_iter().map(view).collect())
}

fn print(
    global: &Global,
    source: &str,
    views: &[View],
    passages: Option<&Passages>,
) -> Result<ExitCode, Error> {
    if global.json {
        let policies = views.iter().map(Entry::of).collect();
        output::json(&Document { source, policies, through_gates: passages })?;
    } else {
        let mut texts: Vec<String> = views.iter().map(words::view).collect();
        texts.extend(passages.map(Passages::words));
        output::lines(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The JSON of `show` and `simulate`.
#[derive(Serialize)]
struct Document<'a> {
    source: &'a str,
    policies: Vec<Entry<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    through_gates: Option<&'a Passages>,
}

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

impl<'a> Entry<'a> {
    fn of(view: &'a View) -> Self {
        Self {
            name: &view.subject.name,
            stage: view.subject.stage.as_deref(),
            deadline_ms: view.subject.deadline.map(millis),
            timeline: &view.steps,
            timeline_is_whole: view.is_whole(),
            outlook: view.outlook.as_ref(),
            policy: &view.subject.policy,
        }
    }
}

/// The JSON of one preset in `list`.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    summary: &'a str,
    max_attempts: Option<u32>,
    /// The first waits without jitter; the last one repeats where the policy goes on.
    waits_ms: Vec<i64>,
    /// The sum of all waits; none where there is no end.
    span_ms: Option<i64>,
    policy: &'a Policy,
}

fn list(global: &Global) -> Result<ExitCode, Error> {
    if global.json {
        let listed = |preset: &'static PresetInfo| Listed {
            name: preset.name,
            summary: preset.summary,
            max_attempts: preset.policy.max_attempts().map(std::num::NonZero::get),
            waits_ms: forecast::first_waits(&preset.policy).into_iter().map(millis).collect(),
            span_ms: forecast::span(&preset.policy).map(millis),
            policy: &preset.policy,
        };
        output::json(&serde_json::json!({ "presets": presets().iter().map(listed).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = [
        ("preset", Side::Left),
        ("attempts", Side::Right),
        ("waits", Side::Left),
        ("until dead", Side::Right),
        ("summary", Side::Left),
    ];
    let row = |preset: &PresetInfo| {
        [
            preset.name.to_owned(),
            words::attempts(&preset.policy),
            words::waits(&preset.policy),
            forecast::span(&preset.policy).map_or_else(|| "never".to_owned(), exact),
            preset.summary.to_owned(),
        ]
    };
    output::lines(&table(headings, presets().iter().map(row)))?;
    Ok(ExitCode::SUCCESS)
}
