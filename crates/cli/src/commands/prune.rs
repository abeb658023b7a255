//! `redrive prune`.

use std::process::ExitCode;
use std::time::Duration;

use redrive_engine::maintain::{self, Prunable};
use redrive_store::{Pruned, Scrub};

use super::{Answer, Context};
use crate::output::text::{bytes, count};
use crate::output::{json, lines};
use crate::wiring::{self, Stores};

/// Vectors, and files that are gone, are forgotten this many at a time.
const PAGE: usize = 5_000;

/// Forgets runs that finished long ago, and vectors that nothing uses.
pub async fn prune(context: &Context, older_than: Duration, with_dead: bool, yes: bool) -> Answer {
    let Stores { store, index } = wiring::existing_store(&context.global.store)?;
    let ahead = maintain::prunable(&*store, older_than, with_dead, &context.env).await?;
    context.confirm(&question(&ahead, older_than), yes)?;
    let pruned = maintain::prune(&*store, older_than, with_dead, &context.env).await?;
    let left = maintain::prunable(&*store, older_than, false, &context.env).await?;
    let (mut vectors, mut files) = (0, 0);
    loop {
        let unused = index.drop_unused_vectors(PAGE).await?;
        let gone = index.drop_gone_docs(PAGE).await?;
        (vectors, files) = (vectors + unused, files + gone);
        if unused + gone == 0 {
            break;
        }
    }
    let scrubbed = store.scrub(Scrub::Room).await?;
    if context.global.json {
        json(&serde_json::json!({
            "runs": pruned.runs, "items": pruned.items, "dead": pruned.dead, "tombstones": pruned.tombstones,
            "contents": pruned.contents + scrubbed.contents, "vectors": vectors, "gone_files": files,
            "given_back": scrubbed.given_back,
            "spared": { "runs": left.spared_runs, "dead": left.spared_dead },
        }))?;
    } else {
        let mut text = told(&pruned, &left, vectors, files);
        if scrubbed.given_back > 0 {
            text.push_str(&format!("\n{} were given back to the disk", bytes(scrubbed.given_back)));
        }
        lines(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is asked before: it names what goes and what stays.
fn question(ahead: &Prunable, older_than: Duration) -> String {
    let Prunable { runs, items, dead, .. } = *ahead;
    let span = humantime::format_duration(older_than);
    let letters = match dead {
        0 => String::new(),
        n => format!(", {} of them dead letters", count(n)),
    };
    let spared = spared(ahead).map(|spared| format!("{spared}. ")).unwrap_or_default();
    format!(
        "{spared}Forget {} runs that finished more than {span} ago, with their {} items{letters}?",
        count(runs),
        count(items)
    )
}

fn told(pruned: &Pruned, left: &Prunable, vectors: u64, files: u64) -> String {
    let mut text = format!("forgot {} runs with {} items", count(pruned.runs), count(pruned.items));
    if pruned.dead > 0 {
        text.push_str(&format!(", {} of them dead letters", count(pruned.dead)));
    }
    for (n, what) in [
        (pruned.tombstones, "tombstones of purged items"),
        (vectors, "vectors that no passage uses"),
        (files, "names of files that are gone from an index"),
    ] {
        if n > 0 {
            text.push_str(&format!(", and {} {what}", count(n)));
        }
    }
    if let Some(spared) = spared(left) {
        text.push('\n');
        text.push_str(&spared);
    }
    text
}

fn spared(of: &Prunable) -> Option<String> {
    (of.spared_runs > 0).then(|| {
        format!(
            "{} runs with {} dead items are spared; --with-dead forgets them too",
            count(of.spared_runs),
            count(of.spared_dead)
        )
    })
}
