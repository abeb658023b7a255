//! A walk over the spanned TOML tree: every value knows its key and its line, every key that nobody asked for is
//! reported.

use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::Report;
use crate::scalar;
use crate::suggest;

/// A table that is being read.
pub(crate) struct Table<'a, 'i> {
    pub(crate) path: String,
    pub(crate) at: usize,
    entries: &'a DeTable<'i>,
    asked: Vec<&'static str>,
    refused: Vec<&'static str>,
}

/// A value with its key.
pub(crate) struct Node<'a, 'i> {
    pub(crate) path: String,
    pub(crate) at: usize,
    value: &'a DeValue<'i>,
}

impl<'a, 'i> Table<'a, 'i> {
    pub(crate) fn new(path: String, at: usize, entries: &'a DeTable<'i>) -> Self {
        Self { path, at, entries, asked: Vec::new(), refused: Vec::new() }
    }

    /// The value under a key; the key counts as known from now on.
    pub(crate) fn take(&mut self, key: &'static str) -> Option<Node<'a, 'i>> {
        self.asked.push(key);
        let (name, value) = self.entries.iter().find(|(name, _)| name.get_ref() == key)?;
        Some(self.node(name, value))
    }

    /// Like [`Table::take`]; reports a missing key.
    pub(crate) fn require(&mut self, key: &'static str, report: &mut Report<'_>) -> Option<Node<'a, 'i>> {
        let node = self.take(key);
        if node.is_none() {
            report.problem(self.at, &join(&self.path, key), "missing", None);
        }
        node
    }

    /// Reports those of some keys that are there: they are known, but not of use here.
    pub(crate) fn refuse(
        &mut self,
        keys: &[&'static str],
        message: &str,
        hint: &str,
        report: &mut Report<'_>,
    ) {
        for (name, value) in self.entries {
            if keys.contains(&&**name.get_ref()) {
                self.node(name, value).fail_with(report, message, hint);
            }
        }
        self.refused.extend(keys);
    }

    /// Every entry, where keys are free to choose.
    pub(crate) fn all(&self) -> Vec<(&'a str, Node<'a, 'i>)> {
        self.entries.iter().map(|(name, value)| (&**name.get_ref(), self.node(name, value))).collect()
    }

    /// Reports keys that are slips of these, where it is not known which others there may be.
    pub(crate) fn slips(self, of: &[&'static str], report: &mut Report<'_>) {
        for (name, _) in self.entries {
            let key: &str = name.get_ref();
            if !self.asked.contains(&key) && suggest::nearest(key, of.iter().copied()).is_some() {
                let hint = suggest::hint(key, of);
                report.problem(name.span().start, &join(&self.path, key), "unknown key", Some(hint));
            }
        }
    }

    /// Reports every key that was neither asked for nor refused.
    pub(crate) fn finish(self, report: &mut Report<'_>) {
        for (name, _) in self.entries {
            let key: &str = name.get_ref();
            if !self.asked.contains(&key) && !self.refused.contains(&key) {
                let hint = suggest::hint(key, &self.asked);
                report.problem(name.span().start, &join(&self.path, key), "unknown key", Some(hint));
            }
        }
    }

    /// Where a dotted path below this table is written; the nearest table above it that is.
    pub(crate) fn locate(&self, path: &str) -> Option<usize> {
        let mut found = None;
        let mut entries = Some(self.entries);
        for segment in path.split('.') {
            let (key, index) = segment.split_once('[').map_or((segment, None), |(key, index)| {
                (key, index.trim_end_matches(']').parse::<usize>().ok())
            });
            let Some((name, value)) = entries.and_then(|e| e.iter().find(|(name, _)| name.get_ref() == key))
            else {
                break;
            };
            found = Some(name.span().start);
            let mut value = value;
            if let (Some(index), DeValue::Array(items)) = (index, value.get_ref())
                && let Some(item) = items.get(index)
            {
                found = Some(item.span().start);
                value = item;
            }
            entries = match value.get_ref() {
                DeValue::Table(table) => Some(table),
                _ => None,
            };
        }
        found
    }

    /// Tells whether a key is there.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.keys().any(|name| name.get_ref() == key)
    }

    fn node(&self, name: &Spanned<toml::de::DeString<'i>>, value: &'a Spanned<DeValue<'i>>) -> Node<'a, 'i> {
        Node { path: join(&self.path, name.get_ref()), at: name.span().start, value: value.get_ref() }
    }
}

impl<'a, 'i> Node<'a, 'i> {
    /// Reports that this value is wrong.
    pub(crate) fn fail(&self, report: &mut Report<'_>, message: impl Into<String>) {
        report.problem(self.at, &self.path, message, None);
    }

    /// Reports that this value is wrong, and what to do.
    pub(crate) fn fail_with(
        &self,
        report: &mut Report<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        report.problem(self.at, &self.path, message, Some(hint.into()));
    }

    /// Reports a value of the wrong type.
    pub(crate) fn mistyped(&self, report: &mut Report<'_>, expected: &str) {
        self.fail(report, format!("expected {expected}, found {}", self.found()));
    }

    pub(crate) fn as_str(&self) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            _ => None,
        }
    }

    /// An integer, where it is one; saturates.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        let DeValue::Integer(number) = self.value else { return None };
        let saturated = if number.as_str().starts_with('-') { i64::MIN } else { i64::MAX };
        Some(i64::from_str_radix(number.as_str(), number.radix()).unwrap_or(saturated))
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self.value, DeValue::Integer(_) | DeValue::Float(_))
    }

    /// Whether it is a table with this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        matches!(self.value, DeValue::Table(entries) if entries.keys().any(|name| name.get_ref() == key))
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub(crate) fn string(&self, report: &mut Report<'_>) -> Option<&'a str> {
        let text = self.as_str();
        if text.is_none() {
            self.mistyped(report, "a string");
        }
        text
    }

    pub(crate) fn boolean(&self, report: &mut Report<'_>) -> Option<bool> {
        let value = self.as_bool();
        if value.is_none() {
            self.mistyped(report, "true or false");
        }
        value
    }

    /// An integer between two bounds.
    pub(crate) fn integer(&self, report: &mut Report<'_>, low: i64, high: i64) -> Option<i64> {
        let Some(number) = self.as_integer() else {
            self.mistyped(report, "an integer");
            return None;
        };
        if !(low..=high).contains(&number) {
            self.fail(report, format!("{number} is not between {low} and {high}"));
            return None;
        }
        Some(number)
    }

    /// An integer from 1 to a bound.
    pub(crate) fn count(&self, report: &mut Report<'_>, high: u32) -> Option<u32> {
        self.integer(report, 1, i64::from(high)).and_then(|number| u32::try_from(number).ok())
    }

    /// A number of bytes between two bounds: an integer, or a string with a unit.
    pub(crate) fn size(&self, report: &mut Report<'_>, low: u64, high: u64) -> Option<u64> {
        let bytes = match self.as_integer() {
            Some(bytes) => u64::try_from(bytes).unwrap_or(0),
            None if self.as_str().is_some() => self.parsed(report, scalar::size)?,
            None => {
                self.mistyped(report, "a size: bytes, or a string such as \"16MB\"");
                return None;
            }
        };
        if !(low..=high).contains(&bytes) {
            let message = format!("not between {} and {}", scalar::bytes(low), scalar::bytes(high));
            self.fail(report, message);
            return None;
        }
        Some(bytes)
    }

    pub(crate) fn float(&self, report: &mut Report<'_>) -> Option<f64> {
        let number = match self.value {
            DeValue::Float(number) => number.as_str().parse().ok(),
            #[expect(
                clippy::cast_precision_loss,
                reason = "an integer where a number was meant is a small one"
            )]
            DeValue::Integer(_) => self.as_integer().map(|number| number as f64),
            _ => None,
        };
        if number.is_none() {
            self.mistyped(report, "a number");
        }
        number
    }

    /// A number from 0 to 1.
    pub(crate) fn share(&self, report: &mut Report<'_>) -> Option<f64> {
        let number = self.float(report)?;
        if !(0.0..=1.0).contains(&number) {
            self.fail(report, format!("{number} is not between 0 and 1"));
            return None;
        }
        Some(number)
    }

    /// A duration above zero.
    pub(crate) fn duration(&self, report: &mut Report<'_>) -> Option<Duration> {
        if self.is_number() {
            let message = format!("expected a duration, found {}", self.found());
            self.fail_with(report, message, "write a string with a unit, such as \"30s\" or \"500ms\"");
            return None;
        }
        match scalar::duration(self.string(report)?) {
            Ok(span) => Some(span),
            Err(message) => {
                self.fail_with(
                    report,
                    message,
                    "write a number with a unit, such as \"500ms\", \"30s\", \"5m\", \"24h\"",
                );
                None
            }
        }
    }

    /// Reads a string by a rule of its own.
    pub(crate) fn parsed<T>(
        &self,
        report: &mut Report<'_>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match read(self.string(report)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.fail(report, message);
                None
            }
        }
    }

    pub(crate) fn table(&self, report: &mut Report<'_>) -> Option<Table<'a, 'i>> {
        let DeValue::Table(entries) = self.value else {
            self.mistyped(report, "a table");
            return None;
        };
        Some(Table::new(self.path.clone(), self.at, entries))
    }

    /// The elements of an array, with their own lines.
    pub(crate) fn array(&self, report: &mut Report<'_>) -> Option<Vec<Node<'a, 'i>>> {
        let DeValue::Array(items) = self.value else {
            self.mistyped(report, "an array");
            return None;
        };
        let node = |(index, item): (usize, &'a Spanned<DeValue<'i>>)| Node {
            path: format!("{}[{index}]", self.path),
            at: item.span().start,
            value: item.get_ref(),
        };
        Some(items.iter().enumerate().map(node).collect())
    }

    /// An array of strings; reports each element that is none.
    pub(crate) fn strings(&self, report: &mut Report<'_>) -> Option<Vec<(Node<'a, 'i>, &'a str)>> {
        let nodes = self.array(report)?;
        let mut all = Some(Vec::new());
        for node in nodes {
            match (node.string(report), &mut all) {
                (Some(text), Some(texts)) => texts.push((node, text)),
                _ => all = None,
            }
        }
        all
    }

    fn found(&self) -> &'static str {
        match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "an array",
            DeValue::Table(_) => "a table",
        }
    }
}

/// A key below a path.
pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
