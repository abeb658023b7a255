//! `[run]`: when a run counts as what, and how much failure stops it.

use redrive_core::budget::BudgetSpec;
use redrive_core::status::Thresholds;

use crate::problem::Report;
use crate::reader::{Node, join};

/// Most finished items that a budget looks back on.
const WINDOW_MAX: u32 = 1_000_000;

/// What the table says.
pub(crate) struct RunDef {
    pub(crate) thresholds: Thresholds,
    pub(crate) budget: Option<BudgetSpec>,
    pub(crate) max_dead: Option<u64>,
}

/// Reads the table; everything in it has a default.
pub(crate) fn read(node: Option<&Node<'_, '_>>, report: &mut Report<'_>) -> RunDef {
    let defaults = (Thresholds::default(), Some(BudgetSpec::default()));
    let usual = RunDef { thresholds: defaults.0, budget: defaults.1.clone(), max_dead: None };
    let Some(node) = node else { return usual };
    let Some(mut table) = node.table(report) else { return usual };
    let completed = table.take("completed_at");
    let partial = table.take("partial_at");
    let thresholds = Thresholds {
        completed_at: completed.as_ref().and_then(|n| n.share(report)).unwrap_or(defaults.0.completed_at),
        partial_at: partial.as_ref().and_then(|n| n.share(report)).unwrap_or(defaults.0.partial_at),
        whole: defaults.0.whole,
    };
    if thresholds.partial_at > thresholds.completed_at {
        let message = format!("{} is above completed_at, {}", thresholds.partial_at, thresholds.completed_at);
        partial.as_ref().or(completed.as_ref()).unwrap_or(node).fail(report, message);
    }
    let budget = match table.take("failure_budget") {
        None => {
            contradictions(
                node,
                &join(&node.path, "completed_at"),
                &BudgetSpec::default(),
                thresholds,
                report,
            );
            defaults.1
        }
        Some(node) if node.as_bool() == Some(false) => None,
        Some(node) if node.is_table() => Some(budget(&node, thresholds, report)),
        Some(node) => {
            node.mistyped(report, "a table or false");
            None
        }
    };
    let max_dead = table.take("max_dead").and_then(|node| node.count(report, u32::MAX)).map(u64::from);
    table.finish(report);
    RunDef { thresholds, budget, max_dead }
}

fn budget(node: &Node<'_, '_>, thresholds: Thresholds, report: &mut Report<'_>) -> BudgetSpec {
    let defaults = BudgetSpec::default();
    let Some(mut table) = node.table(report) else { return defaults };
    let count = |node: Option<&Node<'_, '_>>, report: &mut Report<'_>| {
        node.and_then(|node| node.count(report, WINDOW_MAX)).and_then(|count| usize::try_from(count).ok())
    };
    let rate = table.take("rate").and_then(|node| node.share(report)).unwrap_or(defaults.rate);
    let window = count(table.take("window").as_ref(), report).unwrap_or(defaults.window);
    let samples = table.take("min_samples");
    let min_samples = count(samples.as_ref(), report).unwrap_or(defaults.min_samples.min(window));
    if window < min_samples {
        let message =
            format!("{min_samples} is more than the window, {window}: the rate would never be looked at");
        samples.as_ref().unwrap_or(node).fail(report, message);
    }
    let consecutive = match table.take("consecutive") {
        None => defaults.consecutive,
        Some(node) if node.as_bool() == Some(false) => None,
        Some(node) if node.as_integer().is_some() => node.count(report, WINDOW_MAX),
        Some(node) => {
            node.mistyped(report, "an integer or false");
            None
        }
    };
    let cumulative = table.take("cumulative").and_then(|node| node.share(report));
    table.finish(report);
    let budget = BudgetSpec { rate, window, min_samples, consecutive, cumulative };
    contradictions(node, &node.path, &budget, thresholds, report);
    budget
}

/// Warns of limits that can never be reached because another one comes first.
fn contradictions(
    node: &Node<'_, '_>,
    key: &str,
    budget: &BudgetSpec,
    thresholds: Thresholds,
    report: &mut Report<'_>,
) {
    let allowed = 1.0 - thresholds.completed_at;
    // A hair of tolerance: 1 − 0.9 is a little less than 0.1.
    let stops_first = |rate: f64| rate + 1e-9 < allowed;
    for (name, rate) in [("rate", Some(budget.rate)), ("cumulative", budget.cumulative)] {
        let Some(rate) = rate.filter(|rate| stops_first(*rate)) else { continue };
        let message = format!(
            "{name} = {rate} stops runs that completed_at = {} would call completed",
            thresholds.completed_at
        );
        report.warn(node.at, key, message);
    }
    if budget.rate >= 1.0 && budget.consecutive.is_none() && budget.cumulative.is_none() {
        report.warn(node.at, key, "never stops a run; use failure_budget = false");
    }
    if budget.consecutive == Some(1) {
        report.warn(node.at, key, "consecutive = 1 stops the run at the first dead item");
    }
}
