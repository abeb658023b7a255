//! What a scenario found, beside what was asked for.

use serde_json::{Value, json};

use crate::report::{round, table};
use crate::svg::Line;

/// A goal for one figure.
#[derive(Debug, Clone, Copy)]
pub enum Goal {
    /// It is only told.
    None,
    /// At least.
    AtLeast(f64),
    /// At most.
    AtMost(f64),
}

impl Goal {
    fn met(self, figure: Option<f64>) -> Option<bool> {
        match self {
            Self::None => None,
            Self::AtLeast(least) => Some(figure.is_some_and(|figure| figure >= least)),
            Self::AtMost(most) => Some(figure.is_some_and(|figure| figure <= most)),
        }
    }

    fn text(self) -> String {
        match self {
            Self::None => String::new(),
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
        }
    }
}

/// One figure.
#[derive(Debug, Clone)]
pub struct Figure {
    who: String,
    what: &'static str,
    figure: Option<f64>,
    goal: Goal,
}

/// A picture of it.
pub struct Picture {
    /// Its file's name.
    pub name: &'static str,
    /// What is written above.
    pub title: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// What a scenario found.
#[derive(Default)]
pub struct Found {
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Everything else, by contestant.
    pub raw: serde_json::Map<String, Value>,
    /// Pictures.
    pub pictures: Vec<Picture>,
    /// Goodput of contestants in the two scenarios that others take part in.
    pub shares: Vec<(String, f64)>,
}

impl Found {
    /// Adds a figure. One that could not be taken misses its goal.
    pub fn add(&mut self, who: &str, what: &'static str, figure: impl Into<Option<f64>>, goal: Goal) {
        self.figures.push(Figure { who: who.to_owned(), what, figure: figure.into(), goal });
    }

    /// Prints the figures.
    pub fn show(&self) {
        let row = |figure: &Figure| {
            let met = figure.goal.met(figure.figure);
            let told = figure.figure.map_or("?".to_owned(), |found| format!("{found:.3}"));
            let verdict = met.map_or("", |met| if met { "met" } else { "MISSED" });
            vec![figure.who.clone(), figure.what.to_owned(), told, figure.goal.text(), verdict.to_owned()]
        };
        table(
            &["contestant", "figure", "found", "goal", ""],
            &self.figures.iter().map(row).collect::<Vec<_>>(),
        );
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let figure = |figure: &Figure| {
            json!({
                "who": figure.who, "what": figure.what, "found": figure.figure.map(round),
                "goal": figure.goal.text(), "met": figure.goal.met(figure.figure),
            })
        };
        json!({ "figures": self.figures.iter().map(figure).collect::<Vec<_>>(), "raw": self.raw })
    }

    /// Whether a goal was missed.
    pub fn missed(&self) -> usize {
        self.figures.iter().filter(|figure| figure.goal.met(figure.figure) == Some(false)).count()
    }
}
