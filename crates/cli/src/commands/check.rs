//! `redrive check`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::check as prove;
use redrive_store::{RunFilter, RunRow};

use super::{Answer, Context, known_run};
use crate::exit::{self, Failure};
use crate::output::text::{count, safe};
use crate::output::{json, lines};
use crate::wiring::{self, Stores};

/// Proves the laws over everything the store holds.
pub async fn check(context: &Context, run: Option<RunId>) -> Answer {
    let Stores { store, index } = wiring::existing_store(&context.global.store)?;
    let rows = match run {
        Some(_) => vec![known_run(&*store, run).await?.row],
        None => all_runs(&*store).await?,
    };
    let by_id: BTreeMap<RunId, &RunRow> = rows.iter().map(|row| (row.id, row)).collect();
    let plan = |run: RunId| by_id.get(&run).and_then(|row| wiring::plan_of(row));
    let report = prove(&*store, Some(&*index), &rows, plan, context.env.clock.now()).await?;
    let code = if report.ok { ExitCode::SUCCESS } else { exit::broken() };
    if context.global.json {
        json(&report)?;
        return Ok(code);
    }
    let mut text = String::new();
    for law in &report.laws {
        let verdict = if law.ok { "holds".to_owned() } else { format!("BROKEN {} times", count(law.broken)) };
        text.push_str(&format!("{:<4} {:<76} {verdict}\n", law.law.to_string(), law.says));
        if let Some(beyond) = law.beyond {
            text.push_str(&format!("       not shown by a store at rest: {beyond}\n"));
        }
        for violation in &law.violations {
            let item = violation.item.map(|item| format!("{item}: ")).unwrap_or_default();
            text.push_str(&format!("       {item}{}\n", safe(&violation.what)));
        }
    }
    text.push_str(&format!(
        "{} runs, {} items, {} attempts",
        rows.len(),
        count(report.items),
        count(report.attempts)
    ));
    lines(&text)?;
    Ok(code)
}

async fn all_runs(store: &dyn redrive_store::Store) -> Result<Vec<RunRow>, Failure> {
    let mut rows: Vec<RunRow> = Vec::new();
    loop {
        let page = store.runs(RunFilter::default(), rows.last().map(|row| row.id), 500).await?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}
