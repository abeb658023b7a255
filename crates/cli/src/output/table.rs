//! Tables for people.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

use super::text::safe;

/// Which side a column leans to.
#[derive(Clone, Copy)]
pub enum Side {
    /// Words.
    Left,
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
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    let side = |at: usize| match headings[at].1 {
        Side::Left => CellAlignment::Left,
        Side::Right => CellAlignment::Right,
    };
    table.set_header(
        headings
            .iter()
            .enumerate()
            .map(|(at, (name, _))| Cell::new(name.to_uppercase()).set_alignment(side(at))),
    );
    for row in rows {
        table.add_row(row.iter().enumerate().map(|(at, text)| Cell::new(safe(text)).set_alignment(side(at))));
    }
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
