//! `redrive gates`.

use std::process::ExitCode;

use redrive_engine::report::{GateReport, PerMinute};
use redrive_operate::gates;

use super::{Answer, Context};
use crate::args::GatesCommand;
use crate::output::table::{Side, table};
use crate::output::text::count;
use crate::output::{json, lines};

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
        context.hint("no stage has passed a gate yet; a stage names one with `gate`, or has one per host");
    }
    lines(&words(&list.gates))?;
    Ok(ExitCode::SUCCESS)
}

fn words(reports: &[GateReport]) -> String {
    let right = |name| (name, Side::Right);
    let headings = [
        ("gate", Side::Left),
        ("state", Side::Whole),
        right("at once"),
        right("calls/min"),
        right("tokens/min"),
        right("latency"),
        right("calls"),
        right("turned away"),
        right("failed"),
    ];
    let mut text = table(
        headings,
        reports.iter().map(|gate| {
            [
                gate.name.clone(),
                gate.state.to_owned(),
                format!("{} of {}", gate.concurrency.now, gate.concurrency.limit),
                per_minute(&gate.requests_per_minute),
                per_minute(&gate.tokens_per_minute),
                format!("{} ms", count(gate.latency_ms)),
                count(gate.totals.calls),
                count(gate.totals.throttled),
                count(gate.totals.failed),
            ]
        }),
    );
    for gate in reports {
        let mut more = Vec::new();
        if !gate.why.is_empty() {
            let since = gate.since.as_ref().map(|since| format!(", since {since}")).unwrap_or_default();
            let until = gate.until.as_ref().map(|until| format!(", until {until}")).unwrap_or_default();
            more.push(format!("{}{since}{until}", gate.why));
        }
        more.extend(
            gate.batch.iter().map(|(stage, size)| format!("{stage} sends at most {size} items in one call")),
        );
        let told = [(gate.requests_per_minute.told, "requests"), (gate.tokens_per_minute.told, "tokens")];
        more.extend(told.iter().filter_map(|(limit, what)| {
            limit.map(|limit| format!("its answers name a limit of {} {what}", count(limit)))
        }));
        for line in more {
            text.push_str(&format!("\n{}: {}", gate.name, crate::output::text::safe(&line)));
        }
    }
    text
}

/// The rate now, and what holds it, most certain first.
fn per_minute(rate: &PerMinute) -> String {
    let limit = [(rate.given, "given"), (rate.learnt, "learnt")]
        .into_iter()
        .find_map(|(limit, how)| limit.map(|limit| format!("{} {how}", count(limit))));
    match (rate.now, limit) {
        (Some(now), Some(limit)) => format!("{} of {limit}", count(now)),
        (Some(now), None) => count(now),
        (None, Some(limit)) => limit,
        (None, None) => "–".to_owned(),
    }
}
