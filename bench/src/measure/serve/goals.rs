//! What is wanted of the daemon, beside what was found.

use serde_json::{Value, json};

use super::super::external;
use super::pages::WANTED_MS;
use crate::report::{round, say, table};

/// A figure that is wanted.
struct Goal {
    what: String,
    found: f64,
    wanted: f64,
    /// Whether more is better.
    least: bool,
}

impl Goal {
    fn met(&self) -> bool {
        if self.least { self.found >= self.wanted } else { self.found <= self.wanted }
    }
}

/// Prints what is wanted and what was found; the same as data.
pub fn compare(results: &Value) -> Value {
    let rows: Vec<_> = goals(results)
        .into_iter()
        .map(|goal| {
            let bound = if goal.least { "at least" } else { "at most" };
            let verdict = if goal.met() { "met" } else { "missed" };
            let cells = vec![
                goal.what.clone(),
                round(goal.found).to_string(),
                format!("{bound} {}", goal.wanted),
                verdict.to_owned(),
            ];
            let data = json!({ "what": goal.what, "found": round(goal.found), "wanted": goal.wanted, "met": goal.met() });
            (cells, data)
        })
        .collect();
    let (cells, data): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    say("");
    table(&["", "found", "wanted", ""], &cells);
    json!(data)
}

fn goals(results: &Value) -> Vec<Goal> {
    let figure = |path: &str| results.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let least = |what: &str, path: &str, wanted| Goal {
        what: what.to_owned(),
        found: figure(path),
        wanted,
        least: true,
    };
    let most = |what: &str, path: &str, wanted| Goal {
        what: what.to_owned(),
        found: figure(path),
        wanted,
        least: false,
    };
    let mut goals: Vec<Goal> = results["pages"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, found)| found.is_object())
        .map(|(name, found)| Goal {
            what: format!("{name}: p99 with one client, ms"),
            found: found["1 clients"]["p99_ms"].as_f64().unwrap_or(f64::NAN),
            wanted: WANTED_MS,
            least: false,
        })
        .collect();
    goals.extend([
        least("redrive, nobody at work, items/s", "/redrive/items_per_s", 50_000.0),
        least("redrive while claims go on, items/s", "/redrive_while_worked_on/items_per_s", 50_000.0),
        least("export, items/s", "/export/items_per_s", 100_000.0),
        least("rate with twenty followers, of that without", "/followers/ratio/median", 0.97),
        most("idle, share of a core", "/idle/core_share", 0.005),
        most("idle, MB resident", "/idle/rss_mb", 40.0),
        least("external workers, of the rate in the process", "/external/share/median", external::WANTED),
    ]);
    goals
}
