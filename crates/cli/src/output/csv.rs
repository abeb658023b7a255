//! Rows for spreadsheets.

/// One row as RFC 4180 has it. A cell that a spreadsheet would take for a formula is told to be text.
pub fn row(cells: &[String]) -> String {
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",")
}

fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@']);
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    if cell.contains([',', '"', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_have_to_be() {
        let cells = ["a", "b,c", "say \"no\"", "two\nlines", "=1+1"].map(str::to_owned);
        assert_eq!(row(&cells), "a,\"b,c\",\"say \"\"no\"\"\",\"two\nlines\",'=1+1");
    }
}
