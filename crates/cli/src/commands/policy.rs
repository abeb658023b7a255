//! `redrive policy`: what retry policies do, before anything depends on them.

mod picture;
mod through;
mod words;

use std::path::Path;
use std::process::ExitCode;

use redrive_core::policy::{PresetInfo, presets};
use redrive_operate::Error;
use redrive_operate::policies::{self, LintReport, Show, Shown, Simulate, Warning};

use crate::args::{Global, PolicyCommand};
use crate::output;
use crate::output::plot::exact;
use crate::output::table::{Side, table};
use crate::output::target::{Existing, Guard, Target};
use crate::wiring::Handlers;

/// Runs one of the commands. None of them opens the store.
pub async fn run(global: &Global, command: PolicyCommand) -> Result<ExitCode, Error> {
    match command {
        PolicyCommand::List => list(global),
        PolicyCommand::Show { policy, stage, attempts } => {
            print(global, &policies::show(&Show { policy, stage, attempts })?)
        }
        PolicyCommand::Simulate { policy, stage, failure_rate, items, attempts, plot, through } => {
            let show = Show { policy, stage, attempts };
            let shown = policies::simulate(&Simulate { show, failure_rate, items, through: through.into() })?;
            if let Some(path) = &plot {
                let guard = spared(global, &shown.source)?;
                let target = Target::look("--plot", path, Existing::ReplacedIfSvg, guard)?;
                picture::draw(&shown.policies, &target).await?;
                if !global.quiet {
                    output::note(&format!("wrote {}", path.display()));
                }
            }
            print(global, &shown)
        }
        PolicyCommand::Lint { policies } => lint(global, &policies::lint(&Handlers::new(), &policies)?),
    }
}

/// What a picture must not be written over.
fn spared(global: &Global, word: &str) -> Result<Guard, Error> {
    // A store that could not be opened needs no sparing here, where none is opened.
    let mut guard = Guard::of_store(&global.store).unwrap_or_default();
    if let Some(definition) = policies::file_of(word)? {
        let file = Path::new(word);
        guard.pipeline(file, &definition, file.parent().unwrap_or(Path::new("")));
    }
    Ok(guard)
}

fn print(global: &Global, shown: &Shown) -> Result<ExitCode, Error> {
    if global.json {
        output::json(shown)?;
    } else {
        let mut texts: Vec<String> = shown.policies.iter().map(words::view).collect();
        texts.extend(shown.through_gates.as_ref().map(through::words));
        output::lines(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Warnings are data, on standard output.
fn lint(global: &Global, report: &LintReport) -> Result<ExitCode, Error> {
    if global.json {
        output::json(report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let marked = report.warnings.iter().map(|found| ("", found));
    for (mark, found) in marked.chain(report.notes.iter().map(|found| ("note: ", found))) {
        let Warning { source, line, key, message } = found;
        let place = line.map_or_else(|| source.clone(), |line| format!("{source}:{line}"));
        output::lines(&output::text::safe(&format!("{place}: {mark}{key}: {message}")))?;
    }
    if !global.quiet {
        let counted = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (checked, warnings) = (report.checked.len(), report.warnings.len());
        output::note(&format!("checked {}, {}", counted(checked, "source"), counted(warnings, "warning")));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(global: &Global) -> Result<ExitCode, Error> {
    if global.json {
        output::json(&policies::list())?;
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
            policies::span(&preset.policy).map_or_else(|| "never".to_owned(), exact),
            preset.summary.to_owned(),
        ]
    };
    output::lines(&table(headings, presets().iter().map(row)))?;
    Ok(ExitCode::SUCCESS)
}
