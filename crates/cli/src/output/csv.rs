//! Comma-separated values, as RFC 4180 has them, one line for each row.

use super::text::safe;

/// Puts rows under each other. What could drive a terminal is replaced, for they may be looked at there.
pub fn table(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |row: Vec<String>| row.iter().map(|cell| quoted(&safe(cell))).collect::<Vec<_>>().join(",");
    rows.into_iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A cell, in quotes where it would be taken for something else without. What a spreadsheet would take for a formula is
/// text for it then, too.
fn quoted(cell: &str) -> String {
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err();
    let cell = if formula { format!("'{cell}") } else { cell.to_owned() };
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_were_and_are_no_formulas() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let text =
            table([row(&["key", "message"]), row(&["a,b", "say \"no\"\ntwice"]), row(&["=1+1", "-5"])]);
        assert_eq!(
            table([row(&["\u{1b}]0;x\u{7}", "a\u{0}\u{9b}b"])]),
            "\u{fffd}]0;x\u{fffd},a\u{fffd}\u{fffd}b"
        );
        assert_eq!(text, "key,message\n\"a,b\",\"say \"\"no\"\"\ntwice\"\n'=1+1,-5");
    }
}
