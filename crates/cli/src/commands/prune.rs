//! `redrive prune`.

use std::process::ExitCode;
use std::time::Duration;

use redrive_engine::maintain::Prunable;
use redrive_operate::reports::{self, Forget, Pruned, Spared};

use super::{Answer, Context, care};
use crate::output::json;
use crate::output::progress::Unit;
use crate::output::text::{bytes, count, things};

/// Forgets runs that finished long ago, and vectors that nothing uses.
pub async fn prune(context: &Context, older_than: Duration, with_dead: bool, yes: bool) -> Answer {
    let mut floor = context.floor()?;
    let older_than_ms = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
    let request = Forget { older_than_ms, with_dead };
    let ahead = reports::prunable(&floor, request).await?;
    // Where no run goes, there is nothing that could be regretted.
    if ahead.runs > 0 {
        context.confirm(&question(&ahead, older_than), yes)?;
    }
    let watch = context.watch(&mut floor, "forgetting", Unit::Items);
    let pruned = reports::prune(&floor, request).await?;
    drop(watch);
    if context.global.json {
        json(&pruned)?;
    } else {
        context.tell(&told(&pruned))?;
    }
    care::hint_at(context, pruned.room);
    Ok(ExitCode::SUCCESS)
}

/// What is asked before: it names what goes and what stays.
fn question(ahead: &Prunable, older_than: Duration) -> String {
    let Prunable { runs, items, dead, .. } = *ahead;
    let span = spaced(&humantime::format_duration(older_than).to_string());
    let letters = match dead {
        0 => String::new(),
        n => format!(", {} of them dead letters", count(n)),
    };
    let left = Spared { runs: ahead.spared_runs, dead: ahead.spared_dead };
    let spared = spared(left).map(|spared| format!("{spared}. ")).unwrap_or_default();
    format!(
        "{spared}Forget {} that finished more than {span} ago, with {}{letters}?",
        things(runs, "run"),
        things(items, "item")
    )
}

/// A span as people write it: "30 days".
fn spaced(span: &str) -> String {
    let mut text = String::new();
    for letter in span.chars() {
        if letter.is_alphabetic() && text.ends_with(|before: char| before.is_ascii_digit()) {
            text.push(' ');
        }
        text.push(letter);
    }
    text
}

fn told(pruned: &Pruned) -> String {
    let mut text = format!("forgot {} with {}", things(pruned.runs, "run"), things(pruned.items, "item"));
    if pruned.dead > 0 {
        text.push_str(&format!(", {} of them dead letters", count(pruned.dead)));
    }
    for (n, what) in [
        (pruned.tombstones, ["tombstone of a purged item", "tombstones of purged items"]),
        (pruned.vectors, ["vector that no passage uses", "vectors that no passage uses"]),
        (
            pruned.gone_files,
            ["name of a file that is gone from an index", "names of files that are gone from an index"],
        ),
    ] {
        if n > 0 {
            let [one, many] = what;
            text.push_str(&format!(", and {} {}", count(n), if n == 1 { one } else { many }));
        }
    }
    if let Some(spared) = spared(pruned.spared) {
        text.push('\n');
        text.push_str(&spared);
    }
    if pruned.given_back > 0 {
        text.push_str(&format!("\n{} were given back to the disk", bytes(pruned.given_back)));
    }
    text
}

fn spared(of: Spared) -> Option<String> {
    (of.runs > 0).then(|| {
        format!(
            "{} with {} {} spared; --with-dead forgets {} too",
            things(of.runs, "run"),
            things(of.dead, "dead item"),
            if of.runs == 1 { "is" } else { "are" },
            if of.runs == 1 { "it" } else { "them" }
        )
    })
}
