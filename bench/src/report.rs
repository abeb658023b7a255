//! Tables for people, JSON for programs.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::Failure;

/// Median, lowest and highest of some figures.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

impl Spread {
    /// The spread of these.
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let middle = figures.len() / 2;
        let median = match figures.len() {
            0 => 0.0,
            n if n % 2 == 0 => f64::midpoint(figures[middle - 1], figures[middle]),
            _ => figures[middle],
        };
        let end = |figure: Option<&f64>| figure.copied().unwrap_or(0.0);
        Self { median, min: end(figures.first()), max: end(figures.last()) }
    }

    /// As JSON.
    pub fn json(self) -> Value {
        json!({ "median": round(self.median), "min": round(self.min), "max": round(self.max) })
    }

    /// As text, with so many decimals.
    pub fn text(self, decimals: usize) -> String {
        format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", self.median, self.min, self.max)
    }
}

/// The figure at this share of a sorted list.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
    let at = (last as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or(0.0)
}

/// To four decimals, for JSON.
pub fn round(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

/// Prints a line.
pub fn say(line: &str) {
    println!("{line}");
}

/// Prints a table with aligned columns.
pub fn table(head: &[&str], rows: &[Vec<String>]) {
    let cells: Vec<Vec<&str>> = std::iter::once(head.to_vec())
        .chain(rows.iter().map(|row| row.iter().map(String::as_str).collect()))
        .collect();
    let width = |column: usize| {
        cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in &cells {
        let line: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(at, cell)| {
                let pad = " ".repeat(width(at) - cell.chars().count());
                if at == 0 { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
            })
            .collect();
        println!("  {}", line.join("  "));
    }
}

/// Writes the result to a file, if one was asked for.
pub fn save(path: Option<&Path>, result: &Value) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, format!("{}\n", serde_json::to_string_pretty(result)?))?;
    Ok(())
}
