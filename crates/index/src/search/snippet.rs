//! The lines of a passage that are worth showing.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use super::words::{Terms, parts, stem, tokens};

/// Lines of a snippet.
const LINES: usize = 6;
/// Characters of a line, with the marks of a cut.
const WIDTH: usize = 160;
/// Characters kept before the first match when a line is cut.
const BEFORE: usize = 40;
/// Stands for what was cut.
const CUT: char = '…';
/// Stands for a character that a terminal would act upon.
const UNPRINTABLE: char = '\u{fffd}';

/// A line to show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SnippetLine {
    /// Its number in the file, from 1.
    pub line: u32,
    /// Its text, safe to print; shortened when it is long.
    pub text: String,
    /// Where in `text` the query's words are: bytes, in order, at character boundaries.
    pub marks: Vec<(usize, usize)>,
}

/// A line, and the stems of the query that are in it.
struct Looked {
    text: String,
    marks: Vec<(usize, usize)>,
    stems: BTreeSet<String>,
}

/// Picks at most six lines in a row with as many different words of the query as can be had; without any, the first
/// that are not blank. `first_line` is the number of the text's first line.
#[must_use]
pub fn snippet(text: &str, first_line: u32, terms: &Terms) -> Vec<SnippetLine> {
    let wanted = terms.stems();
    let unspaced: Vec<&str> = terms.unspaced().collect();
    let lines: Vec<Looked> = text.split('\n').map(|line| look(line, &wanted, &unspaced)).collect();
    let chosen: Vec<usize> = match best_window(&lines) {
        Some(window) => window.collect(),
        None => (0..lines.len()).filter(|at| !is_blank(&lines[*at])).take(LINES).collect(),
    };
    let number = |at: usize| first_line.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
    chosen.into_iter().map(|at| shortened(number(at), &lines[at])).collect()
}

/// A text in which nothing is left that a terminal would act upon; a tab becomes spaces.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => printable.push_str("    "),
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {
                printable.push(UNPRINTABLE);
            }
            c if c.is_control() => printable.push(UNPRINTABLE),
            c => printable.push(c),
        }
    }
    printable
}

fn look(line: &str, wanted: &BTreeSet<String>, unspaced: &[&str]) -> Looked {
    let text = printable(line.strip_suffix('\r').unwrap_or(line));
    let mut looked = Looked { text: String::new(), marks: Vec::new(), stems: BTreeSet::new() };
    let mut mark = |range: Range<usize>| {
        let stem = stem(&text[range.clone()]);
        let found = wanted.contains(&stem);
        if found {
            looked.marks.push((range.start, range.end));
            looked.stems.insert(stem);
        }
        found
    };
    for word in tokens(&text).filter(|_| !wanted.is_empty()) {
        if !mark(word.clone()) {
            for part in parts(&text[word.clone()]).filter(|part| part.len() < word.len()) {
                mark(word.start + part.start..word.start + part.end);
            }
        }
    }
    for word in unspaced {
        let found = text.match_indices(word).map(|(at, _)| (at, at + word.len()));
        let fresh: Vec<(usize, usize)> = found
            .filter(|(start, end)| looked.marks.iter().all(|mark| mark.1 <= *start || mark.0 >= *end))
            .collect();
        if !fresh.is_empty() {
            looked.stems.insert((*word).to_owned());
            looked.marks.extend(fresh);
        }
    }
    looked.marks.sort_unstable();
    looked.text = text.trim_end().to_owned();
    looked
}

fn is_blank(line: &Looked) -> bool {
    line.text.trim().is_empty()
}

/// The best window begins with a line that matches, or with the one before that if it is not blank.
fn best_window(lines: &[Looked]) -> Option<Range<usize>> {
    let mut best: Option<((usize, usize), Range<usize>)> = None;
    for at in (0..lines.len()).filter(|at| !lines[*at].marks.is_empty()) {
        let start = if at > 0 && !is_blank(&lines[at - 1]) { at - 1 } else { at };
        let mut end = (start + LINES).min(lines.len());
        let window = &lines[start..end];
        let different = window.iter().flat_map(|line| &line.stems).collect::<BTreeSet<_>>().len();
        let all = window.iter().map(|line| line.marks.len()).sum();
        while end > at + 1 && is_blank(&lines[end - 1]) {
            end -= 1;
        }
        if best.as_ref().is_none_or(|(score, _)| (different, all) > *score) {
            best = Some(((different, all), start..end));
        }
    }
    best.map(|(_, window)| window)
}

/// Cuts a long line around its first match.
fn shortened(line: u32, looked: &Looked) -> SnippetLine {
    let (text, marks) = (&looked.text, &looked.marks);
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let count = starts.len() - 1;
    if count <= WIDTH {
        return SnippetLine { line, text: text.clone(), marks: marks.clone() };
    }
    let first = marks.first().map_or(0, |(start, _)| starts.partition_point(|at| at < start));
    // As much as fits is shown also when the match is at the line's end.
    let from = first.saturating_sub(BEFORE).min(count - (WIDTH - 1));
    let from = if from == 1 { 0 } else { from };
    let room = WIDTH - usize::from(from > 0);
    let to = if count - from <= room { count } else { from + room - 1 };
    let (head, tail) = (starts[from], starts[to]);
    let mut shown = String::new();
    shown.extend((from > 0).then_some(CUT));
    let shift = shown.len();
    shown.push_str(&text[head..tail]);
    shown.extend((to < count).then_some(CUT));
    let inside = marks.iter().filter(|(start, end)| *start >= head && *end <= tail);
    let marks = inside.map(|(start, end)| (start - head + shift, end - head + shift)).collect();
    SnippetLine { line, text: shown, marks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, query: &str) -> Vec<String> {
        let bracketed = |line: SnippetLine| {
            let mut text = line.text.clone();
            for (start, end) in line.marks.iter().rev() {
                text.insert(*end, ']');
                text.insert(*start, '[');
            }
            format!("{} {text}", line.line)
        };
        snippet(text, 10, &Terms::of(query)).into_iter().map(bracketed).collect()
    }

    #[test]
    fn the_lines_with_the_most_words_are_shown() {
        let text = "a lease\n\n\n\n\n\n\n\nbefore\nleases expire\nthen\nthe worker\n\n\n\nend";
        assert_eq!(
            shown(text, "worker lease expired"),
            ["18 before", "19 [leases] [expire]", "20 then", "21 the [worker]"]
        );
    }

    #[test]
    fn without_a_match_the_first_lines_are_shown() {
        assert_eq!(shown("\n\none\n\ntwo\r\n", "other"), ["12 one", "14 two"]);
        assert_eq!(shown("", "x"), Vec::<String>::new());
    }

    #[test]
    fn parts_of_names_are_marked() {
        assert_eq!(shown("struct SearchHit {", "search hits"), ["10 struct [Search][Hit] {"]);
        assert_eq!(shown("struct SearchHit {", "SearchHit"), ["10 struct [SearchHit] {"]);
        assert_eq!(shown("retry_after = 1", "retry_after"), ["10 [retry]_[after] = 1"]);
    }

    #[test]
    fn words_without_spaces_around_them_are_marked() {
        assert_eq!(shown("one\nคือกรุงเทพมหานคร", "กรุงเทพ"), ["10 one", "11 คือ[กรุงเทพ]มหานคร"]);
        assert_eq!(shown("out 🎉 now", "🎉 out"), ["10 [out] [🎉] now"]);
    }

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let text = format!("{}needle{}", "ä ".repeat(200), " ö".repeat(200));
        let line = snippet(&text, 1, &Terms::of("needle")).remove(0);
        assert_eq!(line.text.chars().count(), WIDTH);
        assert!(line.text.starts_with(CUT) && line.text.ends_with(CUT));
        assert_eq!(&line.text[line.marks[0].0..line.marks[0].1], "needle");

        let line = snippet(&format!("{}needle", "x ".repeat(200)), 1, &Terms::of("needle")).remove(0);
        assert!(line.text.ends_with("needle") && line.text.chars().count() == WIDTH);
        let line = snippet(&"x ".repeat(200), 1, &Terms::of("needle")).remove(0);
        assert!(line.text.starts_with('x') && line.text.ends_with(CUT) && line.text.chars().count() == WIDTH);
    }

    #[test]
    fn nothing_drives_the_terminal() {
        let line = snippet("\u{1b}[31mred\u{7}\tx\u{9b}2J\u{202e}", 1, &Terms::of("red")).remove(0);
        assert_eq!(line.text, "\u{fffd}[31mred\u{fffd}    x\u{fffd}2J\u{fffd}");
    }
}
