//! How a pipeline did over its runs, in words.

use std::collections::BTreeSet;

use redrive_engine::report::{Figures, StageTrend};
use redrive_operate::reports::{Compared, OverRuns};

use super::percent;
use crate::output::screen::Screen;
use crate::output::table::{Side, table};
use crate::output::text::{count, safe, things};

/// The runs, the days, what changed since the last run, and the stages by configuration.
pub fn words(over: &OverRuns, screen: &Screen) -> String {
    let trend = &over.trend;
    let runs = trend.runs.iter().map(|run| {
        let began = screen.happened(&run.created_at);
        cells(run.run.to_string(), began, &run.figures)
    });
    let mut text = format!("{} of {}\n\n", things(trend.runs.len() as u64, "run"), safe(&trend.pipeline));
    text.push_str(&table(headings("run", "began"), runs));
    if trend.days.len() > 1 {
        let days = trend.days.iter().map(|day| cells(day.day.clone(), count(day.runs), &day.figures));
        text.push_str(&format!("\n\n{}", table(headings("day", "runs"), days)));
    }
    text.push_str(&worst(over));
    if let Some(compared) = &over.compared {
        text.push_str(&format!("\n\n{}", against(compared)));
    }
    for stage in trend.stages.iter().filter(|stage| stage.configs.len() > 1) {
        text.push_str(&format!("\n\n{}", configurations(stage)));
    }
    text
}

/// Whose shares are told.
fn worst(over: &OverRuns) -> String {
    let trend = &over.trend;
    let runs = trend.runs.iter().map(|run| &run.figures);
    let figures = runs.chain(trend.days.iter().map(|day| &day.figures));
    let stages: BTreeSet<&str> = figures.filter_map(|figures| figures.worst_stage.as_deref()).collect();
    let names: Vec<&str> = stages.into_iter().collect();
    match names[..] {
        [] => String::new(),
        _ => format!(
            "\n\nfirst try and retried are those of the worst stage of each: {}",
            safe(&names.join(", "))
        ),
    }
}

fn headings(first: &'static str, second: &'static str) -> [(&'static str, Side); 8] {
    [
        (first, Side::Whole),
        (second, Side::Whole),
        ("items", Side::Right),
        ("dead", Side::Right),
        ("dead %", Side::Right),
        ("first try", Side::Right),
        ("retried", Side::Right),
        ("throttled", Side::Right),
    ]
}

fn cells(first: String, second: String, figures: &Figures) -> [String; 8] {
    [
        first,
        second,
        count(figures.counts.admitted),
        count(figures.counts.dead),
        percent(figures.dead_rate),
        percent(figures.first_try_rate),
        percent(figures.rates.retry_rate),
        percent(figures.rates.throttle_rate),
    ]
}

/// What is other than in the run before.
fn against(compared: &Compared) -> String {
    let points = |what: &str, by: Option<f64>| {
        let by = by? * 100.0;
        Some(format!("{what} {by:+.1} points"))
    };
    let told = [
        points("dead", compared.dead_rate),
        points("retried", compared.retry_rate),
        points("first try", compared.first_try_rate),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    let told = if told.is_empty() { "nothing to compare".to_owned() } else { told.join(", ") };
    format!("{} against {}: {told}", compared.run, compared.with)
}

fn configurations(stage: &StageTrend) -> String {
    let headings = [
        ("configuration", Side::Whole),
        ("runs", Side::Whole),
        ("attempts", Side::Right),
        ("passed", Side::Right),
        ("failed", Side::Right),
        ("retries", Side::Right),
        ("first try", Side::Right),
    ];
    let rows = stage.configs.iter().map(|config| {
        let runs = if config.first_run == config.last_run {
            config.first_run.to_string()
        } else {
            format!("{}–{}", config.first_run, config.last_run)
        };
        [
            format!("{}{}", config.config, if config.present { " (present)" } else { "" }),
            runs,
            count(config.attempts),
            count(config.passed),
            count(config.failed),
            percent(config.retry_share),
            percent(config.first_try_rate),
        ]
    });
    format!("stage {}, as it was configured\n{}", safe(&stage.stage), table(headings, rows))
}
