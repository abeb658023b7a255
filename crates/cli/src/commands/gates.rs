//! `redrive gates`.

use std::process::ExitCode;

use redrive_engine::report::{GateReport, PerMinute};
use redrive_operate::gates;

use super::{Answer, Context};
use crate::args::GatesCommand;
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::summary::{counted, why};
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{count, safe, things};

/// Shows the gates, or changes one.
pub async fn gates(context: &Context, command: Option<GatesCommand>) -> Answer {
    let floor = if command.is_none() { context.floor_to_read()? } else { context.floor()? };
    match command {
        None => {}
        Some(GatesCommand::Pause { name, why }) => gates::pause(&floor, &name, &why).await?,
        Some(GatesCommand::Resume { name }) => {
            for run in gates::resume(&floor, name).await?.runs {
                context.say(&format!("run {run} may go on"));
                context.hint(&format!("`redrive resume {run}` works on it"));
            }
        }
        Some(GatesCommand::Reset { name }) => gates::reset(&floor, &name).await?,
    }
    let list = gates::list(&floor).await?;
    if context.global.json {
        json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    if list.gates.is_empty() {
        context.tell("no gates")?;
        context.hint("no stage has passed a gate yet; a stage names one with `gate`, or has one per host");
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&words(&list.gates, &context.screen()))?;
    Ok(ExitCode::SUCCESS)
}

fn words(reports: &[GateReport], screen: &Screen) -> String {
    let mut table = Table::new([
        Column::text("gate").least(24),
        Column::whole("state"),
        Column::number("at once").rank(1),
        Column::number("calls/min").rank(2),
        Column::number("limit/min").rank(4),
        Column::number("token limit/min").rank(7),
        Column::number("latency").rank(6),
        Column::number("calls").rank(3),
        Column::number("passed").rank(5),
        Column::number("turned away").rank(4),
        Column::number("failed").rank(4),
        Column::number("other").rank(5),
    ]);
    for gate in reports {
        table.row([
            gate.name.clone().into(),
            Cell::state(gate.state),
            format!("{} of {}", count(gate.concurrency.now.into()), count(gate.concurrency.limit.into()))
                .into(),
            gate.requests_per_minute.now.map_or_else(|| "-".to_owned(), count).into(),
            limit(&gate.requests_per_minute).into(),
            limit(&gate.tokens_per_minute).into(),
            latency(gate.latency_ms).into(),
            count(gate.totals.calls).into(),
            count(gate.totals.passed).into(),
            counted("throttled", gate.totals.throttled),
            counted("failed", gate.totals.failed),
            count(gate.totals.other).into(),
        ]);
    }
    let mut text = table.on(screen);
    for gate in reports {
        let mut more = Vec::new();
        if !gate.why.is_empty() {
            more.push(why(gate, screen));
        }
        more.extend(gate.batch.iter().map(|(stage, size)| {
            format!("{stage} sends at most {} in one call", things((*size).into(), "item"))
        }));
        let told = [(gate.requests_per_minute.told, "request"), (gate.tokens_per_minute.told, "token")];
        more.extend(told.iter().filter_map(|(limit, what)| {
            limit.map(|limit| format!("its answers name a limit of {}", things(limit, what)))
        }));
        for line in more {
            text.push_str(&format!("\n{}: {}", safe(&gate.name), safe(&line)));
        }
    }
    text
}

/// How long a call takes; unknown before the first one has ended.
fn latency(ms: u64) -> String {
    match ms {
        0 => "-".to_owned(),
        ms => format!("{} ms", count(ms)),
    }
}

/// What holds a rate, the most certain that is known.
fn limit(rate: &PerMinute) -> String {
    let known = [(rate.given, "given"), (rate.learnt, "learnt")].into_iter();
    let mut known = known.filter_map(|(limit, how)| Some(format!("{} {how}", count(limit?))));
    known.next().unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::{self, at_widths};

    #[test]
    fn gates_fit_their_screen() {
        at_widths("gates", |screen| words(&sample::gates(), screen));
    }
}
