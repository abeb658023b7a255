//! `redrive gates`.

use std::process::ExitCode;

use redrive_core::gate::GateState;
use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_engine::report::{GateReport, PerMinute, gate_reports};
use redrive_operate::Error;
use redrive_store::{RunFilter, Store};

use super::{Answer, Context, actor};
use crate::args::GatesCommand;
use crate::output::table::{Side, table};
use crate::output::text::count;
use crate::output::{json, lines, note};
use crate::wiring;

/// Runs looked at for having been paused because of a gate.
const RUNS: usize = 1_000;

/// Shows the gates, or changes one.
pub async fn gates(context: &Context, command: Option<GatesCommand>) -> Answer {
    let store = if command.is_none() { context.store_to_read()? } else { context.store()? };
    match command {
        None => {}
        Some(GatesCommand::Pause { name, why }) => pause(context, &*store, &name, &why).await?,
        Some(GatesCommand::Resume { name }) => resume(context, &*store, name).await?,
        Some(GatesCommand::Reset { name }) => {
            change(context, &*store, &name, |state, _| state.reset()).await?;
        }
    }
    show(context, &*store).await
}

async fn show(context: &Context, store: &dyn Store) -> Answer {
    let reports = gate_reports(store, context.env.clock.now()).await?;
    if context.global.json {
        json(&serde_json::json!({ "gates": reports }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if reports.is_empty() {
        context.hint("no stage has passed a gate yet; a stage names one with `gate`, or has one per host");
    }
    lines(&words(&reports))?;
    Ok(ExitCode::SUCCESS)
}

/// Pauses a gate. It may be one that no stage has passed yet, as long as a pipeline names it.
async fn pause(context: &Context, store: &dyn Store, name: &str, why: &str) -> Result<(), Error> {
    let known = store.gates().await?.iter().any(|row| row.name == name);
    if !known && !named_by_a_run(store, name).await? {
        return Err(unknown(store, name).await?);
    }
    let why = format!("{why} ({})", actor());
    let now = context.env.clock.now();
    admin::change_gate(store, name, true, now, |state| state.stop(why.clone(), now)).await?;
    Ok(())
}

async fn resume(context: &Context, store: &dyn Store, name: Option<String>) -> Result<(), Error> {
    let name = match name {
        Some(name) => name,
        None => the_one_not_open(context, store).await?,
    };
    let now = context.env.clock.now();
    change(context, store, &name, |state, now| state.resume(now)).await?;
    for row in store.runs(RunFilter { unfinished: true, ..RunFilter::default() }, None, RUNS).await? {
        let for_a_gate = matches!(row.control, Control::PausedQuota | Control::PausedOutage);
        let uses = wiring::definition_of(&row).is_some_and(|definition| {
            wiring::gate_names(&definition).iter().flatten().any(|gate| *gate == name)
        });
        if for_a_gate && uses {
            admin::resume(store, row.id, now).await?;
            if !context.global.quiet {
                note(&format!("run {} may go on", row.id));
            }
            context.hint(&format!("`redrive resume {}` works on it", row.id));
        }
    }
    Ok(())
}

async fn change(
    context: &Context,
    store: &dyn Store,
    name: &str,
    change: fn(&mut GateState, redrive_core::time::Timestamp),
) -> Result<(), Error> {
    let now = context.env.clock.now();
    match admin::change_gate(store, name, false, now, |state| change(state, now)).await? {
        Some(_) => Ok(()),
        None => Err(unknown(store, name).await?),
    }
}

async fn unknown(store: &dyn Store, name: &str) -> Result<Error, Error> {
    let names: Vec<String> = store.gates().await?.into_iter().map(|row| row.name).collect();
    let known = if names.is_empty() { "there are none yet".to_owned() } else { names.join(", ") };
    Ok(Error::wrong(format!("there is no gate {name:?}")).hint(format!("known gates: {known}")))
}

async fn named_by_a_run(store: &dyn Store, name: &str) -> Result<bool, Error> {
    let runs = store.runs(RunFilter::default(), None, RUNS).await?;
    let names = |definition| wiring::gate_names(&definition).into_iter().flatten().any(|gate| gate == name);
    Ok(runs.iter().filter_map(wiring::definition_of).any(names))
}

async fn the_one_not_open(context: &Context, store: &dyn Store) -> Result<String, Error> {
    let reports = gate_reports(store, context.env.clock.now()).await?;
    let mut shut = reports.into_iter().filter(|gate| gate.state != "open").map(|gate| gate.name);
    match (shut.next(), shut.next()) {
        (Some(name), None) => Ok(name),
        (None, _) => Err(Error::wrong("every gate is open").hint("`redrive gates` shows them")),
        (Some(first), Some(second)) => {
            let all: Vec<String> = [first, second].into_iter().chain(shut).collect();
            Err(Error::wrong("several gates are not open").hint(format!("say which: {}", all.join(", "))))
        }
    }
}

fn words(reports: &[GateReport]) -> String {
    let right = |name| (name, Side::Right);
    let headings = [
        ("gate", Side::Left),
        ("state", Side::Left),
        right("at once"),
        right("requests/min"),
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
