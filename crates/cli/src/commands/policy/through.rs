//! How long the items take through the gates of their stages, in words.

use std::time::Duration;

use redrive_core::gate::Unknown;
use redrive_operate::policies::{GIVEN, GatePassage, Passages};

use crate::output::plot::{exact, figure, percent};
use crate::output::screen::Screen;
use crate::output::table::{Column, Table};
use crate::output::text::{count, things};

/// All of it for people.
pub fn words(passages: &Passages, screen: &Screen) -> String {
    Words(passages).words(screen)
}

struct Words<'a>(&'a Passages);

impl Words<'_> {
    fn words(&self, screen: &Screen) -> String {
        let mut table = Table::new([
            Column::text("gate"),
            Column::text("stage"),
            Column::number("items/call").rank(5),
            Column::number("calls"),
            Column::number("retries").rank(3),
            Column::number("tokens").rank(4),
            Column::number("at once").rank(2),
            Column::whole("held by").rank(1),
            Column::whole("time"),
        ]);
        let dash = || "-".to_owned();
        for row in self.0.stages.iter().chain(&self.0.shared) {
            table.row([
                row.gate.clone(),
                row.stages.join(" + "),
                row.items_per_request.map_or_else(dash, count),
                figure(row.requests),
                percent(row.retried),
                row.tokens.map_or_else(dash, figure),
                row.at_once.map_or_else(dash, |n| count(n.into())),
                row.held_by.map_or_else(dash, |hold| hold.name().to_owned()),
                row.time.map_or_else(|| "unknown".to_owned(), |time| about(time, !row.unknown.is_empty())),
            ]);
        }
        let mut lines = vec![format!("through gates:\n{}", table.on(screen))];
        lines.extend(self.in_all());
        lines.extend(self.0.stages.iter().filter_map(|row| self.warning(row)));
        lines.extend(self.unknown());
        lines.join("\n")
    }

    fn in_all(&self) -> Option<String> {
        let (time, slowest) = (self.0.time?, self.0.slowest.as_ref()?);
        let time = about(time, self.0.at_least);
        Some(if self.0.stages.len() > 1 {
            format!("in all {time}: stages overlap, and gate {slowest} takes longest")
        } else {
            format!("in all {time}")
        })
    }

    fn warning(&self, row: &GatePassage) -> Option<String> {
        let stage = row.stages.join(" + ");
        if row.refused {
            let (each, minute) = (self.0.through.tokens_per_item?, row.tokens_per_minute?);
            return Some(format!(
                "{stage}: items of {} tokens are refused as oversized, {} pass in a minute",
                count(each),
                count(minute)
            ));
        }
        let expired = row.expired?;
        Some(format!(
            "{stage}: {} would expire before {}; raise the deadline or the limit, or submit fewer at a time",
            things(expired, "item"),
            if expired == 1 { "it is its turn" } else { "it is their turn" }
        ))
    }

    /// What would have to be said to know more.
    fn unknown(&self) -> Option<String> {
        let gates = |what: Unknown| -> Vec<&str> {
            let mut gates: Vec<&str> = self
                .0
                .stages
                .iter()
                .filter(|row| row.unknown.contains(&what))
                .map(|row| row.gate.as_str())
                .collect();
            gates.dedup();
            gates
        };
        let mut parts = Vec::new();
        match gates(Unknown::Limits)[..] {
            [] => {}
            [GIVEN] => parts.push("limits, which are learnt at run time".to_owned()),
            ref all => parts.push(format!("limits of {}, which are learnt at run time", all.join(", "))),
        }
        for (what, words) in [
            (Unknown::TokensPerItem, "the tokens of an item (--tokens-per-item)"),
            (Unknown::Latency, "how long a call takes (--latency)"),
            (Unknown::Concurrency, "how many calls run at once (--concurrency)"),
        ] {
            if !gates(what).is_empty() {
                parts.push(words.to_owned());
            }
        }
        (!parts.is_empty()).then(|| format!("not known: {}", parts.join("; ")))
    }
}

/// An expectation, as exact as it is.
fn about(time: Duration, at_least: bool) -> String {
    let time = if time.as_secs() >= 10 && time < Duration::MAX {
        Duration::from_secs(time.as_secs() + u64::from(time.subsec_millis() >= 500))
    } else {
        time
    };
    format!("{} {}", if at_least { "at least" } else { "about" }, exact(time))
}
