//! Tables for people.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use super::text::safe;

/// Columns of spaces beside what is in a cell.
const PADDING: usize = 2;
/// A longer word may be broken, in any column.
const LONGEST_WORD: usize = 24;

/// Which side a column leans to, and what may be broken in it.
#[derive(Clone, Copy)]
pub enum Side {
    /// Words.
    Left,
    /// Words that are not broken: ids, times, names of states.
    Whole,
    /// Numbers.
    Right,
}

/// Puts rows under headings.
pub fn table<const N: usize>(
    headings: [(&str, Side); N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    columns(&headings, rows.into_iter().map(Vec::from))
}

/// The same, with as many columns as there are headings.
pub fn columns(headings: &[(&str, Side)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    text(&made(headings, rows.into_iter().collect()))
}

fn made(headings: &[(&str, Side)], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    let side = |at: usize| match headings[at].1 {
        Side::Left | Side::Whole => CellAlignment::Left,
        Side::Right => CellAlignment::Right,
    };
    table.set_header(
        headings
            .iter()
            .enumerate()
            .map(|(at, (name, _))| Cell::new(name.to_uppercase()).set_alignment(side(at))),
    );
    // No heading is broken within a word, nor is what has to stay whole.
    let least = |(at, (name, side)): (usize, &(&str, Side))| {
        let cells = rows.iter().filter(|_| matches!(side, Side::Whole)).filter_map(|row| row.get(at));
        let widest = cells.map(|cell| longest_word(cell)).max().unwrap_or(0).min(LONGEST_WORD);
        widest.max(longest_word(name)) + PADDING
    };
    let least: Vec<usize> = headings.iter().enumerate().map(least).collect();
    for row in &rows {
        table.add_row(row.iter().enumerate().map(|(at, text)| Cell::new(safe(text)).set_alignment(side(at))));
    }
    for (column, least) in table.column_iter_mut().zip(least) {
        let least = u16::try_from(least).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
    }
    table
}

fn longest_word(text: &str) -> usize {
    text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0)
}

fn text(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_ids_and_times_are_not_broken_within_eighty_columns() {
        let headings = [
            ("item", Side::Whole),
            ("key", Side::Left),
            ("reason", Side::Left),
            ("attempts", Side::Right),
            ("failed at", Side::Whole),
            ("message", Side::Left),
        ];
        let row = [
            "0123456789ab",
            "a-key-of-some-length",
            "exhausted",
            "5",
            "2026-11-17 01:23:24",
            &"long ".repeat(20),
        ];
        let mut table = made(&headings, vec![row.iter().map(ToString::to_string).collect()]);
        table.set_width(80);
        let text = text(&table);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for word in [
            "ITEM",
            "KEY",
            "REASON",
            "ATTEMPTS",
            "FAILED",
            "MESSAGE",
            "0123456789ab",
            "2026-11-17",
            "01:23:24",
        ] {
            assert!(text.split_whitespace().any(|found| found == word), "{word}: {text}");
        }
    }
}
