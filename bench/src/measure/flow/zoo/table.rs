//! What came out, as a table, and beside what was asked for.

use serde_json::{Value, json};

use super::case::Case;
use super::play::Played;
use crate::measure::verdict::{Found, Goal};
use crate::report::{round, say, table};

/// A case with what came of it over all seeds.
#[derive(Debug, Clone)]
pub struct Row {
    /// The case.
    pub name: String,
    steady: bool,
    unavoidable: f64,
    bad: u64,
    gated: Vec<Played>,
    looped: Vec<Played>,
}

fn mean(all: &[Played], of: impl Fn(&Played) -> f64) -> f64 {
    all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
}

impl Row {
    /// Of a case that was played.
    pub fn new(case: &Case, gated: Vec<Played>, looped: Vec<Played>) -> Self {
        Self {
            name: case.name.trim().to_owned(),
            steady: case.steady(),
            unavoidable: case.unavoidable(),
            bad: case.bad as u64,
            gated,
            looped,
        }
    }

    /// Of something that is no case of the zoo.
    pub fn plain(name: &str, gated: Vec<Played>, looped: Vec<Played>) -> Self {
        Self { name: name.to_owned(), steady: true, unavoidable: 0.0, bad: 0, gated, looped }
    }

    fn took(&self) -> f64 {
        mean(&self.gated, |played| played.took)
    }

    /// How many times as long as possible it took.
    fn slower(&self) -> f64 {
        mean(&self.gated, |played| played.took / played.ideal)
    }

    /// How many times as long as the loop it took.
    pub fn beside_loop(&self) -> f64 {
        self.took() / mean(&self.looped, |played| played.took)
    }

    fn rejected(&self) -> f64 {
        mean(&self.gated, |played| played.rejected)
    }

    /// The same beyond what cannot be helped.
    fn needless(&self) -> f64 {
        (self.rejected() - self.unavoidable).max(0.0)
    }

    /// Items given up that could have had a good answer.
    pub fn dead(&self) -> u64 {
        self.gated.iter().map(|played| played.dead.unwrap_or(0).saturating_sub(self.bad)).sum()
    }

    fn early(&self) -> u64 {
        self.gated.iter().map(|played| played.early).sum()
    }

    fn unfinished(&self) -> usize {
        self.gated.iter().filter(|played| !played.whole).count()
    }

    fn cells(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unfinished() > 0 {
            notes.push(format!("{} of {} not whole", self.unfinished(), self.gated.len()));
        }
        if self.looped.iter().any(|played| !played.whole) {
            notes.push("loop not whole".to_owned());
        }
        if self.beside_loop() > 1.3 {
            notes.push(format!("{:.2} of the loop", self.beside_loop()));
        }
        vec![
            self.name.clone(),
            format!("{:.2}", mean(&self.gated, |played| played.ideal)),
            format!("{:.2}", self.took()),
            format!("{:.2}", self.slower()),
            format!("{:.2}", self.rejected()),
            self.dead().to_string(),
            self.early().to_string(),
            format!("{:.2}", mean(&self.looped, |played| played.took)),
            format!("{:.2}", mean(&self.looped, |played| played.rejected)),
            self.looped.iter().map(|played| played.early).sum::<u64>().to_string(),
            notes.join(", "),
        ]
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let one = |played: &Played| {
            json!({
                "ideal": round(played.ideal), "took": round(played.took), "whole": played.whole,
                "rejected_per_success": round(played.rejected), "dead": played.dead,
                "early_items": played.early, "cpu_seconds": round(played.cpu),
            })
        };
        let all = |all: &[Played]| all.iter().map(one).collect::<Vec<_>>();
        json!({ "redrive": all(&self.gated), "loop": all(&self.looped) })
    }
}

/// Prints all of them.
pub fn show(rows: &[Row]) {
    say("seconds; × is took over ideal; rej is calls turned away for each good answer");
    table(
        &["case", "ideal", "took", "×", "rej", "dead", "early", "loop", "rej", "early", ""],
        &rows.iter().map(Row::cells).collect::<Vec<_>>(),
    );
    let mut worst: Vec<&Row> = rows.iter().collect();
    worst.sort_by(|one, other| other.slower().total_cmp(&one.slower()));
    let worst = worst.iter().take(5).map(|row| format!("{} {:.2}", row.name, row.slower()));
    say(&format!("furthest from the ideal: {}", worst.collect::<Vec<_>>().join(", ")));
}

fn geometric_mean(figures: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = figures.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

fn worst(rows: &[Row], of: impl Fn(&Row) -> f64) -> (String, f64) {
    let worst = rows.iter().max_by(|one, other| of(one).total_cmp(&of(other)));
    worst.map_or((String::new(), 0.0), |row| (row.name.clone(), of(row)))
}

/// The figures that the issue asks for.
pub fn goals(rows: &[Row], found: &mut Found) {
    found.add(
        "all",
        "took / ideal, geometric mean",
        geometric_mean(rows.iter().map(Row::slower)),
        Goal::AtMost(1.25),
    );
    let looped = rows.iter().map(|row| mean(&row.looped, |played| played.took / played.ideal));
    found.add("the loop", "took / ideal, geometric mean", geometric_mean(looped), Goal::None);
    let (name, figure) = worst(rows, Row::slower);
    found.add(&name, "took / ideal, worst", figure, Goal::AtMost(2.5));
    let (name, figure) = worst(rows, Row::beside_loop);
    found.add(&name, "took / the loop's, worst", figure, Goal::AtMost(1.3));
    let steady: Vec<Row> = rows.iter().filter(|row| row.steady).cloned().collect();
    let rejected = steady.iter().map(Row::needless).sum::<f64>() / steady.len().max(1) as f64;
    found.add("steady cases", "needlessly rejected per success, mean", rejected, Goal::AtMost(0.10));
    let (name, figure) = worst(&steady, Row::needless);
    found.add(&name, "needlessly rejected per success, worst steady", figure, Goal::AtMost(0.25));
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>() as f64;
    found.add("all", "dead items that could have passed", sum(Row::dead), Goal::AtMost(0.0));
    found.add("all", "calls before the end of the item's own hint", sum(Row::early), Goal::AtMost(0.0));
    found.add("all", "rounds that did not end whole", sum(|row| row.unfinished() as u64), Goal::AtMost(0.0));
    of_cases(rows, found);
}

/// Goals of single cases: what the name begins with, whether it is seconds or a share of the ideal, and the most.
const OF_CASES: [(&str, bool, f64); 18] = [
    ("random 1 % 1 s", true, 3.0),
    ("random 3 % 1 s", true, 4.0),
    ("random 10 % 1 s", true, 6.0),
    ("random 30 % 1 s", true, 15.0),
    ("2 at once 429 none", false, 1.6),
    ("2 at once 503 none", false, 1.6),
    ("bad 2 of 10 s 503 none", false, 1.7),
    ("bad 2 of 10 s 529 none", false, 1.7),
    ("bucket 50/s burst 5 secs", false, 1.25),
    ("bucket 50/s burst 50 none", false, 1.0 / 0.95),
    ("bucket 50/s burst 50 exact", false, 1.0 / 0.95),
    ("bucket 50/s burst 50 secs", false, 1.0 / 0.95),
    ("bucket 50/s burst 50 text", false, 1.0 / 0.95),
    ("bucket 50/s burst 50 exact openai", false, 1.0 / 0.95),
    ("window 600 in 60 s secs github 300 items", true, 1.0),
    ("dropped 1 %", false, 1.1),
    ("dropped 3 %", false, 1.2),
    ("bucket 50/s burst 50 secs fleet", false, 1.0 / 0.95),
];

#[cfg(test)]
pub fn named_in_goals() -> impl Iterator<Item = &'static str> {
    OF_CASES.into_iter().map(|(name, ..)| name)
}

fn of_cases(rows: &[Row], found: &mut Found) {
    for (name, seconds, most) in OF_CASES {
        let Some(row) = rows.iter().find(|row| row.name == name) else { continue };
        let (what, figure) = if seconds { ("seconds", row.took()) } else { ("took / ideal", row.slower()) };
        found.add(name, what, figure, Goal::AtMost(round(most)));
    }
    if let Some(row) = rows.iter().find(|row| row.bad > 0) {
        let ended = row.gated.iter().all(|played| played.whole && played.dead == Some(row.bad));
        found.add(
            &row.name,
            "ends, with all of those dead (1: yes)",
            f64::from(u8::from(ended)),
            Goal::AtLeast(1.0),
        );
    }
}
