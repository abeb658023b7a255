//! `redrive check`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::CheckReport;
use redrive_operate::reports;

use super::{Answer, Context};
use crate::exit;
use crate::output::progress::Unit;
use crate::output::text::{KEY, safe, short, things};
use crate::output::{json, lines};

/// Columns of a terminal that is not wider than usual.
const WIDTH: usize = 80;

/// Proves the laws over everything the store holds, and that all of it is as it was written.
pub async fn check(context: &Context, run: Option<RunId>) -> Answer {
    let mut floor = context.floor_to_read()?;
    let watch = context.watch(&mut floor, "checking", Unit::Items);
    let report = reports::check(&floor, run).await?;
    drop(watch);
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
        let verdict =
            if law.ok { "holds".to_owned() } else { format!("BROKEN {}", things(law.broken, "time")) };
        text.push_str(&line(&law.law.to_string(), law.says, &verdict));
        if let Some(beyond) = law.beyond {
            let beyond = format!("not shown by a store at rest: {beyond}");
            text.push_str(&format!("{}\n", wrapped(&" ".repeat(11), &beyond)));
        }
        for violation in &law.violations {
            let item = violation.item.map(|item| format!("{item}: ")).unwrap_or_default();
            text.push_str(&format!("       {item}{}\n", safe(&violation.what)));
        }
    }
    let verdict = match report.damage.len() {
        0 => "holds".to_owned(),
        n => format!("DAMAGED {}", things(n as u64, "time")),
    };
    text.push_str(&line("file", "everything is as it was written", &verdict));
    for damage in &report.damage {
        let item = match (damage.item, &damage.key) {
            (Some(item), Some(key)) => format!("{item} ({}): ", short(key, KEY)),
            _ => String::new(),
        };
        text.push_str(&format!("       {item}{}\n", safe(&damage.what)));
    }
    text.push_str(&format!(
        "{}, {}, {}",
        things(report.runs, "run"),
        things(report.items, "item"),
        things(report.attempts, "attempt")
    ));
    text
}

/// A law with its verdict first, so that a long one is not torn: the rest of it stands below.
fn line(name: &str, says: &str, verdict: &str) -> String {
    wrapped(&format!("{name:<4} {verdict:<6}"), says) + "\n"
}

/// A text after the beginning of its line, in lines of at most [`WIDTH`] columns; all but the first are set in.
fn wrapped(begin: &str, text: &str) -> String {
    let mut lines = vec![begin.to_owned()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("{:<11} {word}", "")),
        }
    }
    lines.join("\n")
}
