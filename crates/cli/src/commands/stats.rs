//! `redrive stats`.

use std::fmt::Display;
use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::StageStats;
use redrive_operate::reports::{self, IndexStats};

use super::{Answer, Context};
use crate::output::text::{bytes, count, safe, span, things};
use crate::output::{json, usage};

const BAR: u64 = 40;

/// Shows how reliable the stages of a run are.
pub async fn stats(context: &Context, run: Option<RunId>) -> Answer {
    let stats = reports::stats(&context.floor_to_read()?, run).await?;
    if context.global.json {
        json(&stats)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("run {} of {}", stats.run.run, stats.run.pipeline);
    let stages = stats.run.stages.iter().map(describe);
    for part in stages.chain(stats.indexes.iter().map(describe_index)) {
        text.push_str("\n\n");
        text.push_str(&part);
    }
    context.tell(&text)?;
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

fn describe(stage: &StageStats) -> String {
    let percent =
        |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let mut text = format!(
        "{}: {} tried, {} of them passed at the first try; {} passed; {}, {} of the tries passed ({} throttled, \
         no tries)\n",
        stage.stage,
        count(stage.tried),
        percent(stage.first_try_rate),
        count(stage.passed),
        things(stage.attempts.total, "attempt"),
        percent(stage.attempt_success_rate),
        count(stage.attempts.throttles),
    );
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
    if let Some(healing) = &stage.time_to_successful_retry {
        let ms = |ms: u64| span(i64::try_from(ms).unwrap_or(i64::MAX));
        text.push_str(&format!(
            "  from first failure to success: mean {}, half below {}, 95 % below {} ({})\n",
            ms(healing.mean_ms),
            ms(healing.p50_below_ms),
            ms(healing.p95_below_ms),
            things(healing.items, "item")
        ));
    }
    if stage.configs.len() > 1 {
        text.push_str("  by configuration\n");
        for config in &stage.configs {
            text.push_str(&format!(
                "    {}{} {}, {} of the tries passed; {} tried first, {} passed at that\n",
                config.config,
                if config.present { " (present)" } else { "" },
                things(config.attempts.total, "attempt"),
                percent(config.attempt_success_rate),
                count(config.tried),
                percent(config.first_try_rate),
            ));
        }
    }
    text.trim_end().to_owned()
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
