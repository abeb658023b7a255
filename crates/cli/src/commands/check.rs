//! `redrive check`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::CheckReport;
use redrive_operate::reports;

use super::{Answer, Context};
use crate::exit;
use crate::output::progress::Unit;
use crate::output::screen::Screen;
use crate::output::text::{KEY, safe, short, things};
use crate::output::tone::Tone;
use crate::output::{json, lines};

/// Where the words of a law begin.
const INDENT: usize = 12;

/// Proves the laws over everything the store holds, and that all of it is as it was written.
pub async fn check(context: &Context, run: Option<RunId>) -> Answer {
    let mut floor = context.floor_to_read()?;
    let watch = context.watch(&mut floor, "checking", Unit::Items);
    let report = reports::check(&floor, run).await?;
    drop(watch);
    if context.global.json {
        json(&report)?;
    } else {
        lines(&words(&report, &context.screen()))?;
    }
    Ok(if report.ok { ExitCode::SUCCESS } else { exit::broken() })
}

fn words(report: &CheckReport, screen: &Screen) -> String {
    let mut text = String::new();
    for law in &report.laws {
        let verdict =
            if law.ok { "holds".to_owned() } else { format!("BROKEN {}", things(law.broken, "time")) };
        text.push_str(&line(screen, &law.law.to_string(), law.says, &verdict));
        if let Some(beyond) = law.beyond {
            let beyond = format!("{:INDENT$}not shown by a store at rest: {beyond}", "");
            text.push_str(&format!("{}\n", screen.hung(&beyond, INDENT)));
        }
        for violation in &law.violations {
            let item = violation.item.map(|item| format!("{item}: ")).unwrap_or_default();
            let what = format!("       {item}{}", safe(&violation.what));
            text.push_str(&format!("{}\n", screen.prose(&what)));
        }
    }
    let verdict = match report.damage.len() {
        0 => "holds".to_owned(),
        n => format!("DAMAGED {}", things(n as u64, "time")),
    };
    text.push_str(&line(screen, "file", "everything is as it was written", &verdict));
    for damage in &report.damage {
        let item = match (damage.item, &damage.key) {
            (Some(item), Some(key)) => format!("{item} ({}): ", short(key, KEY)),
            _ => String::new(),
        };
        let what = format!("       {item}{}", safe(&damage.what));
        text.push_str(&format!("{}\n", screen.prose(&what)));
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
fn line(screen: &Screen, name: &str, says: &str, verdict: &str) -> String {
    let tone = if verdict == "holds" { Tone::Good } else { Tone::Bad };
    let padding = " ".repeat(6_usize.saturating_sub(verdict.len()));
    let verdict =
        if verdict == "holds" { screen.paint(tone, verdict) } else { screen.paint(tone, verdict) + ":" };
    screen.hung(&format!("{name:<4} {verdict}{padding} {says}"), INDENT) + "\n"
}

#[cfg(test)]
mod tests {
    use redrive_core::laws::Law;
    use redrive_engine::report::LawReport;

    use super::*;
    use crate::output::sample::at_widths;

    #[test]
    fn a_check_fits_its_screen() {
        let law = |law: Law, broken: u64| LawReport {
            law,
            says: law.says(),
            ok: broken == 0,
            beyond: law.beyond_a_store_at_rest(),
            broken,
            violations: Vec::new(),
        };
        let report = CheckReport {
            ok: false,
            runs: 1,
            items: 1_261,
            attempts: 48_211,
            laws: Law::ALL.into_iter().map(|each| law(each, u64::from(each == Law::L2) * 1_261)).collect(),
            damage: Vec::new(),
        };
        at_widths("check", |screen| words(&report, screen));
    }
}
