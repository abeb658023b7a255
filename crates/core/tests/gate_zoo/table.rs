//! What came out, as a table.

use std::io::Write;

use redrive_core::gate::LimitKind;

use crate::cases::Case;
use crate::play::Played;

/// A case with what came out of it, as the mean over all seeds.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    /// Whether it is long enough for its start not to matter, and one worker's.
    pub steady: bool,
    pub ideal: f64,
    pub took: f64,
    pub looped: f64,
    pub rejected: f64,
    pub unavoidable: f64,
    pub looped_rejected: f64,
    pub early: usize,
    /// What the gate took it for, with each seed.
    pub kinds: Vec<Option<LimitKind>>,
    /// What it is, where that can be told.
    pub kind: Option<LimitKind>,
}

impl Row {
    #[expect(clippy::cast_precision_loss, reason = "a few seeds")]
    pub fn new(case: &Case, jitter: f64, gated: &[Played], looped: &[Played]) -> Self {
        let mean =
            |all: &[Played], of: fn(&Played) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        let rejected = |played: &Played| played.rejected as f64 / played.passed.max(1) as f64;
        Self {
            name: case.name.clone(),
            steady: case.workers == 1 && case.items >= 300,
            ideal: case.ideal(jitter),
            took: mean(gated, |played| played.took),
            looped: mean(looped, |played| played.took),
            rejected: mean(gated, rejected),
            unavoidable: case.unavoidable,
            looped_rejected: mean(looped, rejected),
            early: gated.iter().map(|played| played.early).sum(),
            kind: case.kind(),
            kinds: gated.iter().map(|played| played.kind).collect(),
        }
    }

    /// Calls that were turned away for each that passed, beyond what cannot be helped.
    pub fn needless(&self) -> f64 {
        (self.rejected - self.unavoidable).max(0.0)
    }

    /// What the gate took it for, each once.
    fn kinds_in_words(&self) -> String {
        let mut names: Vec<String> =
            self.kinds.iter().map(|kind| kind.map_or("-".to_owned(), |kind| format!("{kind:?}"))).collect();
        names.dedup();
        names.join(",")
    }

    /// How many times as long as the ideal it took.
    pub fn slower(&self) -> f64 {
        self.took / self.ideal
    }
}

/// The geometric mean of how much longer than the ideal they took.
#[expect(clippy::cast_precision_loss, reason = "dozens")]
pub fn geometric_mean(rows: &[Row]) -> f64 {
    (rows.iter().map(|row| row.slower().ln()).sum::<f64>() / rows.len() as f64).exp()
}

/// The mean of what was turned away for each that passed, beyond what cannot be helped, in steady cases.
#[expect(clippy::cast_precision_loss, reason = "dozens")]
pub fn mean_rejected(rows: &[Row]) -> f64 {
    let steady: Vec<f64> = rows.iter().filter(|row| row.steady).map(Row::needless).collect();
    steady.iter().sum::<f64>() / steady.len().max(1) as f64
}

/// How many rounds were taken for what they are, and how many could have been.
pub fn named(rows: &[Row]) -> (usize, usize) {
    let named = |row: &Row| row.kinds.iter().filter(|kind| **kind == row.kind).count();
    let can_be = || rows.iter().filter(|row| row.kind.is_some());
    (can_be().map(named).sum(), can_be().map(|row| row.kinds.len()).sum())
}

/// Prints all of them.
pub fn show(title: &str, rows: &[Row]) {
    let mut text = format!(
        "{title}\n{:<42}{:>8}{:>8}{:>7}{:>7}{:>8}{:>7} kinds\n",
        "case", "ideal", "took", "x", "rej", "loop", "rej"
    );
    for row in rows {
        text += &format!(
            "{:<42}{:>8.2}{:>8.2}{:>7.2}{:>7.2}{:>8.2}{:>7.2} {}{}{}\n",
            row.name,
            row.ideal,
            row.took,
            row.slower(),
            row.rejected,
            row.looped,
            row.looped_rejected,
            row.kinds_in_words(),
            if row.took > 1.3 * row.looped { " slower" } else { "" },
            if row.early > 0 { " early" } else { "" },
        );
    }
    let (known, all) = named(rows);
    text += &format!(
        "geometric mean {:.3}, rejected {:.3}, {known} of {all} rounds named\n",
        geometric_mean(rows),
        mean_rejected(rows)
    );
    std::io::stdout().write_all(text.as_bytes()).expect("stdout");
}
