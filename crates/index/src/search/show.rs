//! Hits for a terminal.

use super::snippet::{SnippetLine, printable};
use super::{SearchHit, SearchReport};

const PLACE: &str = "\u{1b}[1;36m";
const DIM: &str = "\u{1b}[2m";
const MATCH: &str = "\u{1b}[1;33m";
const RESET: &str = "\u{1b}[0m";

/// Writes the hits, a blank line between two; with `colour`, with the escape sequences of a terminal, and never with any
/// that came out of a file. A path is below its root, or whole when hits are of several roots. No hits, no lines.
#[must_use]
pub fn lines(report: &SearchReport, colour: bool) -> Vec<String> {
    let one_root = report.hits.windows(2).all(|pair| pair[0].root == pair[1].root);
    let mut lines = Vec::new();
    for hit in &report.hits {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(head(hit, one_root, colour));
        if !hit.context.is_empty() {
            let context = printable(&hit.context.replace('\n', " "));
            lines.push(format!("  {}", painted(&context, DIM, colour)));
        }
        let width = hit.snippet.last().map_or(0, |line| line.line.to_string().len());
        lines.extend(hit.snippet.iter().map(|line| body(line, width, colour)));
    }
    lines
}

fn head(hit: &SearchHit, one_root: bool, colour: bool) -> String {
    let path =
        if one_root { hit.path.clone() } else { format!("{}/{}", hit.root.trim_end_matches('/'), hit.path) };
    let place = format!("{}:{}-{}", printable(&path), hit.start, hit.end);
    let page = hit.page.map(|page| format!(" (page {page})")).unwrap_or_default();
    let score = format!("{:.3}", hit.score);
    format!("{}{page}  {}", painted(&place, PLACE, colour), painted(&score, DIM, colour))
}

fn body(line: &SnippetLine, width: usize, colour: bool) -> String {
    let number = format!("{:>width$}", line.line);
    let mut text = String::new();
    let mut done = 0;
    for (start, end) in &line.marks {
        text.push_str(line.text.get(done..*start).unwrap_or_default());
        text.push_str(&painted(line.text.get(*start..*end).unwrap_or_default(), MATCH, colour));
        done = *end;
    }
    text.push_str(line.text.get(done..).unwrap_or_default());
    format!("  {}  {text}", painted(&number, DIM, colour)).trim_end().to_owned()
}

fn painted(text: &str, paint: &str, colour: bool) -> String {
    if colour { format!("{paint}{text}{RESET}") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{By, Candidates, Mode};

    fn hit(root: &str, page: Option<u32>, context: &str) -> SearchHit {
        let line = |line, text: &str, marks| SnippetLine { line, text: text.to_owned(), marks };
        SearchHit {
            path: "docs/a\u{1b}.md".to_owned(),
            page,
            start: 9,
            end: 12,
            score: 0.123_456,
            by: By::default(),
            root: root.to_owned(),
            kind: "markdown".to_owned(),
            context: context.to_owned(),
            snippet: vec![line(9, "the lease", vec![(4, 9)]), line(10, "", vec![])],
            text: String::new(),
        }
    }

    fn report(hits: Vec<SearchHit>) -> SearchReport {
        SearchReport {
            query: "lease".to_owned(),
            mode: Mode::Hybrid,
            candidates: Candidates::default(),
            hits,
        }
    }

    #[test]
    fn hits_are_plain_without_colour() {
        let report = report(vec![hit("/a", None, "Leases > Loss"), hit("/a", Some(3), "")]);
        assert_eq!(
            lines(&report, false),
            [
                "docs/a\u{fffd}.md:9-12  0.123",
                "  Leases > Loss",
                "   9  the lease",
                "  10",
                "",
                "docs/a\u{fffd}.md:9-12 (page 3)  0.123",
                "   9  the lease",
                "  10",
            ]
        );
    }

    #[test]
    fn matches_are_painted() {
        let report = report(vec![hit("/a", None, "")]);
        let lines = lines(&report, true);
        assert_eq!(lines[0], "\u{1b}[1;36mdocs/a\u{fffd}.md:9-12\u{1b}[0m  \u{1b}[2m0.123\u{1b}[0m");
        assert_eq!(lines[1], "  \u{1b}[2m 9\u{1b}[0m  the \u{1b}[1;33mlease\u{1b}[0m");
    }

    #[test]
    fn the_root_is_shown_when_there_are_several() {
        let report = report(vec![hit("/a", None, ""), hit("/b/", None, "")]);
        let lines = lines(&report, false);
        assert!(lines[0].starts_with("/a/docs/") && lines[4].starts_with("/b/docs/"), "{lines:?}");
    }
}
