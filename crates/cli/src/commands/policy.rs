//! `redrive policy`: what retry policies do, before anything depends on them.

mod picture;
mod through;
mod words;

use std::path::Path;
use std::process::ExitCode;

use redrive_core::policy::presets;
use redrive_operate::Error;
use redrive_operate::policies::{self, LintReport, Show, Shown, Simulate, Warning};

use super::Context;
use crate::args::{Global, PolicyCommand};
use crate::output;
use crate::output::plot::exact;
use crate::output::screen::Screen;
use crate::output::table::{Column, Table};
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::things;
use crate::wiring::Handlers;

/// Runs one of the commands. None of them opens the store.
pub async fn run(context: &Context, command: PolicyCommand) -> Result<ExitCode, Error> {
    let global = &context.global;
    match command {
        PolicyCommand::List => list(context),
        PolicyCommand::Show { policy, stage, attempts } => {
            print(context, &policies::show(&Show { policy, stage, attempts })?)
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
            print(context, &shown)
        }
        PolicyCommand::Lint { policies } => lint(context, &policies::lint(&Handlers::new(), &policies)?),
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

fn print(context: &Context, shown: &Shown) -> Result<ExitCode, Error> {
    if context.global.json {
        output::json(shown)?;
    } else {
        let screen = context.screen();
        let mut texts: Vec<String> = shown.policies.iter().map(|view| words::view(view, &screen)).collect();
        texts.extend(shown.through_gates.as_ref().map(|passages| through::words(passages, &screen)));
        context.tell(&texts.join("\n\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Warnings are data, on standard output.
fn lint(context: &Context, report: &LintReport) -> Result<ExitCode, Error> {
    if context.global.json {
        output::json(report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let marked = report.warnings.iter().map(|found| ("", found));
    for (mark, found) in marked.chain(report.notes.iter().map(|found| ("note: ", found))) {
        let Warning { source, line, key, message } = found;
        let place = line.map_or_else(|| source.clone(), |line| format!("{source}:{line}"));
        context.tell(&output::text::safe(&format!("{place}: {mark}{key}: {message}")))?;
    }
    let (checked, warnings) = (report.checked.len() as u64, report.warnings.len() as u64);
    context.say(&format!("checked {}, {}", things(checked, "source"), things(warnings, "warning")));
    Ok(ExitCode::SUCCESS)
}

fn list(context: &Context) -> Result<ExitCode, Error> {
    if context.global.json {
        output::json(&policies::list())?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&listing(&context.screen()))?;
    Ok(ExitCode::SUCCESS)
}

fn listing(screen: &Screen) -> String {
    let mut table = Table::new([
        Column::whole("preset"),
        Column::number("attempts"),
        Column::text("waits").least(14),
        Column::number("until dead").rank(1),
        Column::text("summary").least(40).rank(2),
    ]);
    for preset in presets() {
        table.row([
            preset.name.to_owned(),
            words::attempts(&preset.policy),
            words::waits(&preset.policy),
            policies::span(&preset.policy).map_or_else(|| "never".to_owned(), exact),
            preset.summary.to_owned(),
        ]);
    }
    table.on(screen)
}

#[cfg(test)]
mod tests {
    use redrive_operate::policies::Through;

    use super::*;
    use crate::output::sample::at_widths;

    #[test]
    fn policies_fit_their_screen() {
        at_widths("policy-list", listing);
        for (name, attempts) in [("sample", 10), ("index", 7)] {
            let asked = Show { policy: name.to_owned(), stage: None, attempts };
            let shown = policies::show(&asked).expect("a preset");
            at_widths(&format!("policy-show-{name}"), |screen| words::view(&shown.policies[0], screen));
        }
        let show = Show { policy: "sample".to_owned(), stage: None, attempts: 3 };
        let through = Through {
            requests_per_minute: Some(3_000),
            tokens_per_minute: Some(90_000),
            tokens_per_item: Some(1_261),
            ..Through::default()
        };
        let asked = Simulate { show, failure_rate: 0.1, items: 100_000, through };
        let shown = policies::simulate(&asked).expect("a preset");
        let passages = shown.through_gates.as_ref().expect("a gate");
        at_widths("policy-simulate", |screen| {
            words::view(&shown.policies[0], screen) + "\n\n" + &through::words(passages, screen)
        });
    }
}
