//! `redrive stats`.

mod trend;

use std::fmt::Display;
use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::{ConfigStats, StageStats};
use redrive_operate::reports::{self, IndexStats, StatsOf};

use super::{Answer, Context};
use crate::output::summary::verdicts;
use crate::output::table::{Side, table};
use crate::output::text::{bytes, count, safe, span, things};
use crate::output::{json, lines, usage};

const BAR: u64 = 40;

/// Shows how reliable the stages of a run are, or how a pipeline did over its runs.
pub async fn stats(context: &Context, request: &StatsOf) -> Answer {
    let stats = reports::stats(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&stats)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(over) = &stats.over_runs {
        context.tell(&trend::words(over, &context.screen()))?;
        context.hint(&format!("`redrive stats {}` tells the newest of them stage by stage", stats.run.run));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("run {} of {}", stats.run.run, stats.run.pipeline);
    if stats.run.verdicts.any() {
        text.push_str(&format!("\nverdicts: {}", verdicts(&stats.run.verdicts, &context.screen())));
    }
    for alert in &stats.run.alerts {
        text.push_str(&format!("\nALERT {alert}"));
    }
    let stages = stats.run.stages.iter().map(|stage| describe(stage, stats.run.run));
    for part in stages.chain(stats.indexes.iter().map(describe_index)) {
        text.push_str("\n\n");
        text.push_str(&part);
    }
    context.tell(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints all metrics, in the text format of Prometheus.
pub async fn metrics(context: &Context) -> Answer {
    let text = redrive_operate::monitor::metrics(&context.floor_to_read()?, &[]).await?;
    lines(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// How much is in an index.
fn describe_index(index: &IndexStats) -> String {
    let size = &index.size;
    let mut text = format!(
        "index of {}: {}, {}, {} of text; model {}",
        safe(&index.root),
        things(size.documents, "file"),
        things(size.chunks, "chunk"),
        bytes(size.text_bytes),
        safe(&index.model)
    );
    text.push_str(&format!("\n  {} kept for texts of this model", things(size.vectors, "vector")));
    if size.refused > 0 {
        text.push_str(&format!("\n  {} that cannot be indexed", things(size.refused, "file")));
    }
    text
}

fn describe(stage: &StageStats, run: RunId) -> String {
    let mut text = format!(
        "{}: {} tried, {} of them passed at the first try\n  {} passed; {} in all, {} of the tries passed\n",
        stage.stage,
        count(stage.tried),
        percent(stage.first_try_rate),
        count(stage.passed),
        things(stage.attempts.total, "attempt"),
        percent(stage.attempt_success_rate),
    );
    text.push_str(&retries(stage, run));
    if stage.filtered > 0 {
        let filtered = things(stage.filtered, "item");
        text.push_str(&format!("  {filtered} filtered out: an attempt each, and no try\n"));
    }
    if stage.uncalled > 0 {
        text.push_str(&format!("  {} passed without a call\n", count(stage.uncalled)));
    }
    if let Some(used) = &stage.usage {
        text.push_str(&format!("  {}\n", usage::line(used)));
    }
    text.push_str(&bars("  passed after retries", stage.passed_after.iter()));
    text.push_str(&bars("  dead after retries", stage.dead_after.iter()));
    text.push_str(&bars("  failed and not through yet, after retries", stage.waiting_after.iter()));
    text.push_str(&bars("  failures", stage.errors.iter()));
    text.push_str(&bars("  HTTP statuses of failures", stage.statuses.iter()));
    let ms = |ms: u64| span(i64::try_from(ms).unwrap_or(i64::MAX));
    if let Some(took) = &stage.time_of_try {
        text.push_str(&format!(
            "  a try took: mean {}, half within about {}, 95 % within about {}\n",
            ms(took.mean_ms),
            ms(took.p50_ms),
            ms(took.p95_ms)
        ));
    }
    if let Some(healing) = &stage.time_to_successful_retry {
        text.push_str(&format!(
            "  from first failure to success: mean {}, half within about {},\n    95 % within about {} ({})\n",
            ms(healing.mean_ms),
            ms(healing.p50_ms),
            ms(healing.p95_ms),
            things(healing.items, "item")
        ));
    }
    if stage.configs.len() > 1 {
        text.push_str("  by configuration\n");
        text.push_str(&configurations(&stage.configs));
    }
    text.trim_end().to_owned()
}

/// How often items had to be tried again, and how often that was in vain.
fn retries(stage: &StageStats, run: RunId) -> String {
    let rates = &stage.rates;
    let mut text = String::new();
    if rates.retried > 0 || rates.retries > 0 {
        text.push_str(&format!(
            "  {} had to be tried again ({}); {} of {} passed\n",
            things(rates.retried, "item"),
            percent(rates.retry_rate),
            percent(rates.retry_success_rate),
            if rates.retries == 1 {
                "1 retry".to_owned()
            } else {
                format!("{} retries", count(rates.retries))
            }
        ));
    }
    if rates.exhausted > 0 {
        let (are, their) = if rates.exhausted == 1 { ("is", "its") } else { ("are", "their") };
        text.push_str(&format!(
            "  {} {are} dead with all {their} attempts spent ({})\n",
            things(rates.exhausted, "item"),
            percent(rates.exhausted_rate)
        ));
    }
    if stage.attempts.throttles > 0 {
        text.push_str(&format!(
            "  {} turned away ({} of the attempts), which spends no try\n",
            things(stage.attempts.throttles, "attempt"),
            percent(rates.throttle_rate)
        ));
    }
    if stage.looks_permanent > 0 {
        text.push_str(&format!(
            "  {} so often that it looks permanent:\n    `redrive failures {run} --permanent`\n",
            if stage.looks_permanent == 1 {
                "1 item failed".to_owned()
            } else {
                format!("{} items failed", count(stage.looks_permanent))
            }
        ));
    }
    text
}

/// Two or more versions of a stage, side by side.
fn configurations(configs: &[ConfigStats]) -> String {
    let headings = [
        ("", Side::Left),
        ("configuration", Side::Whole),
        ("attempts", Side::Right),
        ("passed", Side::Right),
        ("failed", Side::Right),
        ("retries", Side::Right),
        ("first try", Side::Right),
    ];
    let rows = configs.iter().map(|config| {
        [
            if config.present { "(present)".to_owned() } else { String::new() },
            config.config.clone(),
            count(config.attempts.total),
            count(config.passed),
            count(config.failed),
            percent(config.retry_share),
            percent(config.first_try_rate),
        ]
    });
    let text = table(headings, rows);
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// A share, in per cent.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn bars<'a, K: Display + 'a>(title: &str, rows: impl Iterator<Item = (&'a K, &'a u64)> + Clone) -> String {
    let most = rows.clone().map(|(_, n)| *n).max().unwrap_or(0);
    if most == 0 {
        return String::new();
    }
    let mut text = format!("{title}\n");
    for (name, n) in rows {
        let length = usize::try_from((n * BAR).div_ceil(most)).unwrap_or(1);
        text.push_str(&format!("    {name:<24} {:>9} {}\n", count(*n), "▇".repeat(length)));
    }
    text
}
