//! `redrive check`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::CheckReport;
use redrive_operate::reports;

use super::{Answer, Context};
use crate::exit;
use crate::output::text::{count, safe};
use crate::output::{json, lines};

/// Proves the laws over everything the store holds, and that all of it is as it was written.
pub async fn check(context: &Context, run: Option<RunId>) -> Answer {
    let report = reports::check(&context.floor_to_read()?, run).await?;
    if context.global.json {
        json(&report)?;
    } else {
        lines(&words(&report))?;
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { exit::broken() })
}

fn words(report: &CheckReport) -> String {
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
    let verdict = match report.damage.len() {
        0 => "holds".to_owned(),
        n => format!("DAMAGED {n} times"),
    };
    text.push_str(&format!("{:<4} {:<76} {verdict}\n", "file", "everything is as it was written"));
    for damage in &report.damage {
        let item = match (damage.item, &damage.key) {
            (Some(item), Some(key)) => format!("{item} ({}): ", safe(key)),
            _ => String::new(),
        };
        text.push_str(&format!("       {item}{}\n", safe(&damage.what)));
    }
    text.push_str(&format!(
        "{} runs, {} items, {} attempts",
        count(report.runs),
        count(report.items),
        count(report.attempts)
    ));
    text
}
