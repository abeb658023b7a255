//! On which line of a pipeline file a key is written. The file is known to be right; what is not found is not told.

use std::collections::BTreeMap;

/// Where keys are written.
pub(crate) struct Lines {
    /// Keys as dotted paths, stages by their names: `stage.llm_call.retry.hint_cap`.
    lines: BTreeMap<String, usize>,
}

impl Lines {
    /// Looks through the text of a file.
    pub(crate) fn of(text: &str) -> Self {
        let mut scan =
            Scan { text, at: 0, found: Vec::new(), names: BTreeMap::new(), elements: BTreeMap::new() };
        scan.document();
        let Scan { found, names, .. } = scan;
        let lines = found.into_iter().map(|(path, at)| {
            let line = text.get(..at).map_or(0, |before| before.matches('\n').count()) + 1;
            (named(&path, &names), line)
        });
        Self { lines: lines.collect() }
    }

    /// The line of a key, from 1.
    pub(crate) fn line(&self, key: &str) -> Option<usize> {
        self.lines.get(key).copied()
    }

    /// The first line of what is written in a table, or in any of an array of tables.
    pub(crate) fn first(&self, table: &str) -> Option<usize> {
        let inside = |key: &str| key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
        self.lines.iter().filter(|(key, _)| inside(key)).map(|(_, line)| *line).min()
    }
}

/// A path in which elements of arrays, such as `stage#2`, have their names: `stage.llm_call`.
fn named(path: &str, names: &BTreeMap<String, String>) -> String {
    let (mut so_far, mut shown) = (String::new(), Vec::new());
    for part in path.split('.') {
        so_far = join(&so_far, part);
        match part.split_once('#') {
            Some((list, number)) => {
                shown.extend([list, names.get(&so_far).map_or(number, String::as_str)]);
            }
            None => shown.push(part),
        }
    }
    shown.join(".")
}

fn join(path: &str, part: &str) -> String {
    if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    found: Vec<(String, usize)>,
    /// What the elements of arrays of tables are called.
    names: BTreeMap<String, String>,
    /// How many elements such an array has so far.
    elements: BTreeMap<String, usize>,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips as long as a condition holds.
    fn skip(&mut self, holds: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|c| !holds(c)).unwrap_or(rest.len());
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.rest().starts_with(word);
        self.at += if there { word.len() } else { 0 };
        there
    }

    /// Skips space, line ends, comments and what stands between values.
    fn blank(&mut self) {
        loop {
            self.skip(|c| c.is_whitespace() || c == ',');
            if !self.take("#") {
                return;
            }
            self.skip(|c| c != '\n');
        }
    }

    fn document(&mut self) {
        let mut table = String::new();
        loop {
            self.blank();
            let start = self.at;
            if self.take("[[") {
                let list = self.key("");
                let number = self.elements.entry(list.clone()).or_default();
                table = format!("{list}#{number}");
                *number += 1;
                self.skip(|c| c == ']');
            } else if self.take("[") {
                table = self.key("");
                self.found.push((table.clone(), start));
                self.skip(|c| c == ']');
            } else {
                self.entry(&table);
            }
            if self.at <= start {
                return;
            }
        }
    }

    /// A dotted key below a table; below arrays the last element is meant.
    fn key(&mut self, table: &str) -> String {
        let mut path = table.to_owned();
        loop {
            if let Some(elements) = self.elements.get(&path).filter(|_| path != table) {
                path = format!("{path}#{}", elements.saturating_sub(1));
            }
            self.skip(|c| c == ' ' || c == '\t');
            let part = self.string().unwrap_or_else(|| {
                let start = self.at;
                self.skip(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
                self.text.get(start..self.at).unwrap_or_default().to_owned()
            });
            path = join(&path, &part);
            self.skip(|c| c == ' ' || c == '\t');
            if !self.take(".") {
                return path;
            }
        }
    }

    /// `key = value`.
    fn entry(&mut self, table: &str) {
        let start = self.at;
        let key = self.key(table);
        if !self.take("=") {
            return;
        }
        self.found.push((key.clone(), start));
        self.skip(|c| c == ' ' || c == '\t');
        let text = self.value(&key);
        if let (Some(text), true) = (text, key == join(table, "name")) {
            self.names.insert(table.to_owned(), text);
        }
    }

    /// A value; the text of a string.
    fn value(&mut self, key: &str) -> Option<String> {
        if self.take("{") {
            self.until("}", |scan| scan.entry(key));
            return None;
        }
        if self.take("[") {
            self.until("]", |scan| {
                scan.value(&format!("{key}[]"));
            });
            return None;
        }
        let text = self.string();
        if text.is_none() {
            self.skip(|c| !matches!(c, ',' | '\n' | '}' | ']' | '#'));
        }
        text
    }

    fn until(&mut self, end: &str, mut each: impl FnMut(&mut Self)) {
        loop {
            self.blank();
            let start = self.at;
            if self.take(end) {
                return;
            }
            each(self);
            if self.at <= start {
                return;
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| self.take(quote))?;
        let start = self.at;
        loop {
            if self.rest().is_empty() || self.rest().starts_with(quote) {
                let text = self.text.get(start..self.at).unwrap_or_default().to_owned();
                self.take(quote);
                return Some(text);
            }
            let escaped = quote.starts_with('"') && self.take("\\");
            self.at += self.rest().chars().next().map_or(usize::from(!escaped), char::len_utf8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"name = "p"   # gate.llm.hint_cap = 1
[[stage]]
kind = "http"
headers = { A = "x = { y = 1 }", "b c" = '}' }
retry.hint_cap = "2h"
name = "one"
note = """
concurrency = 3
\""" """
concurrency = 4
[[stage.children]]
name = "inner"
[stage.children.retry]
retry_on = [429, "5xx", { text = "]" },
  "timeout"]   # more
hint_cap = "1h"
[[stage]]
name = "two"
retry = { preset = "llm", hint_cap = "3h" }
[gate.llm]
breaker = { min_calls = 5, window = "30s" }
[gate."a.b".breaker]
open_for = "1s""##;

    #[test]
    fn every_key_is_found_on_its_line() {
        let places = Lines::of(TEXT);
        for (key, line) in [
            ("name", Some(1)),
            ("stage.one.retry.hint_cap", Some(5)),
            ("stage.one.concurrency", Some(10)),
            ("stage.one.children.inner.retry.retry_on", Some(14)),
            ("stage.one.children.inner.retry.hint_cap", Some(16)),
            ("stage.two.retry.hint_cap", Some(19)),
            ("stage.two.concurrency", None),
            ("gate.llm", Some(20)),
            ("gate.llm.breaker.window", Some(21)),
            ("gate.llm.hint_cap", None),
        ] {
            assert_eq!(places.line(key), line, "{key}");
        }
    }

    #[test]
    fn any_text_is_survived() {
        for end in 0..TEXT.len() {
            Lines::of(&TEXT[..end]);
            Lines::of(&TEXT[end..]);
        }
        for text in ["[", "[[", "a = {", "a = [", "\"", "= =", "]]]", "ä = ö", "a = \"\\"] {
            Lines::of(text);
        }
    }
}
