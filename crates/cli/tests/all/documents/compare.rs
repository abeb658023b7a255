//! Whether what a page prints is what a command printed.

use regex_lite::Regex;

/// How close a printed output has to be to the real one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// To the letter, but for blanks at the end of a line.
    Exact,
    /// But for moments, spans of time and ids, and how many blanks stand between words.
    Times,
    /// But for all numbers as well.
    Numbers,
}

impl Close {
    fn plain(self, line: &str) -> String {
        if self == Self::Exact {
            return line.trim_end().to_owned();
        }
        let mut plain = line.to_owned();
        for (pattern, word) in [
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d)?", "<time>"),
            (r"\b\d\d:\d\d(:\d\d)?(\.\d+)?\b", "<time>"),
            (r"\b\d+(\.\d+)? ?(ms|s|m|min|h|d)\b( \d+(\.\d+)?(ms|s|m|h)\b)*", "<span>"),
            (r"\bin <span>|<span> ago|\bnow\b", "<time>"),
            (r"\b[0-9a-f]{8,}\b", "<id>"),
        ] {
            plain = Regex::new(pattern).expect("a pattern").replace_all(&plain, word).into_owned();
        }
        if self == Self::Numbers {
            plain = Regex::new(r"\d[\d,.]*\d|\d").expect("a pattern").replace_all(&plain, "<n>").into_owned();
        }
        plain.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Whether a line of a page, in which `…` stands for anything, fits a line that was printed.
    pub fn line_fits(self, shown: &str, printed: &str) -> bool {
        let (shown, printed) = (self.plain(shown), self.plain(printed));
        let mut parts = shown.split('…');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = printed.strip_prefix(first) else { return false };
        let parts: Vec<&str> = parts.collect();
        let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
        for part in between {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }

    /// Whether lines of a page fit what was printed; a line `…` stands for any number of lines.
    pub fn fits(self, shown: &[&str], printed: &[&str]) -> bool {
        match shown.split_first() {
            None => printed.is_empty(),
            Some((&"…", rest)) => (0..=printed.len()).any(|skipped| self.fits(rest, &printed[skipped..])),
            Some((line, rest)) => printed
                .split_first()
                .is_some_and(|(first, others)| self.line_fits(line, first) && self.fits(rest, others)),
        }
    }

    /// The lines that a page should have instead. Lines with `…` in them stay if they fit, and what it leaves out stays
    /// left out where one line `…` says so; with several of them everything stays if it fits.
    pub fn renewed(self, shown: &[&str], printed: &[&str]) -> Vec<String> {
        if shown.iter().filter(|line| **line == "…").count() > 1 && self.fits(shown, printed) {
            return shown.iter().map(|line| (*line).to_owned()).collect();
        }
        let gap = shown.iter().position(|line| *line == "…");
        let (head, tail) = gap.map_or((printed.len(), 0), |at| (at, shown.len() - at - 1));
        let one = |shown: Option<&&str>, printed: &str| match shown {
            Some(shown) if shown.contains('…') && self.line_fits(shown, printed) => (*shown).to_owned(),
            _ => printed.trim_end().to_owned(),
        };
        if head + tail > printed.len() || gap.is_none() {
            return printed.iter().enumerate().map(|(n, line)| one(shown.get(n), line)).collect();
        }
        let mut lines: Vec<String> =
            printed[..head].iter().enumerate().map(|(n, line)| one(shown.get(n), line)).collect();
        lines.push("…".to_owned());
        let end = printed[printed.len() - tail..].iter().enumerate();
        lines.extend(end.map(|(n, line)| one(shown.get(head + 1 + n), line)));
        lines
    }
}

/// The first table that is wider than its cells: somewhere all of its rows have more than two blanks. Where times and numbers
/// need not agree, blanks need not either, so that this is looked for on the page itself.
pub fn too_wide<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let heading = Regex::new(r"^[A-Z][A-Z/ -]*  [A-Z]").expect("a pattern");
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| heading.is_match(line)) {
        let is_row = |row: &&&str| !row.is_empty() && **row != "…" && !row.starts_with("hint: ");
        let rows: Vec<Vec<char>> =
            lines[at..].iter().take_while(is_row).map(|row| row.chars().collect()).collect();
        let is_blank = |column: usize| rows.iter().all(|row| row.get(column).is_none_or(|sign| *sign == ' '));
        let width = line.chars().count();
        if rows.len() > 1 && (0..width.saturating_sub(2)).any(|column| (column..column + 3).all(is_blank)) {
            return Some(line);
        }
    }
    None
}

#[test]
fn a_table_that_is_wider_than_its_cells_is_found() {
    assert_eq!(too_wide(&["$ redrive x", "GATE  STATE", "a     open", "", "more"]), None);
    assert_eq!(too_wide(&["GATE   STATE", "a      open"]), Some("GATE   STATE"));
    assert_eq!(too_wide(&["GATE    AT ONCE", "llm     0 of 9", "longer  1 of 2"]), None);
}

#[test]
fn an_output_fits_only_what_was_printed() {
    let printed = ["run r1 of a over /tmp/x/in.jsonl: completed", "  3 attempts; 1.2s", "end"];
    assert!(
        Close::Times
            .fits(&["run r1 of a over …/in.jsonl: completed", "  3 attempts; 4m 05s", "end"], &printed)
    );
    assert!(Close::Times.fits(&["died now, due in 3 min"], &["died 2 min ago, due 2026-11-16 06:05"]));
    assert!(Close::Exact.fits(&["run …", "…"], &printed));
    assert!(Close::Exact.fits(&["…", "end"], &printed));
    assert!(Close::Numbers.fits(&["…", "  7 attempts; 9ms", "end"], &printed));
    assert!(!Close::Times.fits(&["…", "  7 attempts; 1.2s", "end"], &printed));
    assert!(!Close::Exact.fits(&["…", "  3 attempts; 1.3s", "end"], &printed));
    assert!(!Close::Exact.fits(&["run …"], &printed));
    assert!(!Close::Numbers.fits(&["…", "other"], &printed));
    assert!(!Close::Exact.fits(&["run r1 … failed", "…"], &printed));
}

#[test]
fn what_fits_stays_when_an_output_is_renewed() {
    let printed = ["took 2s of /tmp/x", "new", "end"];
    assert_eq!(
        Close::Times.renewed(&["took 1s of …", "old", "end"], &printed),
        ["took 1s of …", "new", "end"]
    );
    assert_eq!(Close::Exact.renewed(&["…", "old end"], &printed), ["…", "end"]);
}
