//! What the last failures of items said. A dead item has it at hand; of one that goes on it is in the row of its attempt alone.

use std::sync::Arc;

use redrive_core::fingerprint::fingerprint;
use redrive_core::item::Item;
use redrive_store::{ItemFilter, Result, Store};

/// What the last failure of an item said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// The message.
    pub message: Arc<str>,
    /// The group of alike errors that it is in, or would be in if it died of it.
    pub group: Arc<str>,
}

/// Reads those of these items whose last failure is in a group, and whose key or last failure contains a text, each with what
/// its last failure said.
///
/// # Errors
/// When the store fails.
pub async fn with_words(
    store: &dyn Store,
    items: Vec<Item>,
    stage: impl Fn(&Item) -> String,
    filter: &ItemFilter,
) -> Result<Vec<(Item, Option<LastWords>)>> {
    let ItemFilter { group, text, .. } = filter;
    let words = last_words(store, &items, stage).await?;
    let meant = |(item, words): &(Item, Option<LastWords>)| {
        group.as_ref().is_none_or(|group| words.as_ref().is_some_and(|words| *words.group == **group))
            && text.as_ref().is_none_or(|text| {
                let said = words.as_ref().is_some_and(|words| words.message.contains(&**text));
                said || item.key.contains(&**text)
            })
    };
    Ok(items.into_iter().zip(words).filter(meant).collect())
}

/// Reads what the last failure of each item at its present stage said; `None` where there was none. `stage` names an item's
/// stage.
async fn last_words(
    store: &dyn Store,
    items: &[Item],
    stage: impl Fn(&Item) -> String,
) -> Result<Vec<Option<LastWords>>> {
    let unsaid = |item: &&Item| item.last.as_ref().is_some_and(|last| last.message.is_empty());
    let seqs: Vec<_> = items.iter().filter(unsaid).map(|item| item.seq).collect();
    let mut histories =
        if seqs.is_empty() { Vec::new() } else { store.histories(seqs, usize::MAX).await? }.into_iter();
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        let Some(last) = &item.last else {
            all.push(None);
            continue;
        };
        if !last.message.is_empty() {
            all.push(Some(LastWords { message: last.message.clone(), group: last.group.clone() }));
            continue;
        }
        let history = histories.next().unwrap_or_default();
        let failed = history.attempts.iter().rev().find_map(|attempt| attempt.failure.clone());
        all.push(failed.map(|failure| LastWords {
            group: fingerprint(last.class, &stage(item), &failure.message).into(),
            message: failure.message,
        }));
    }
    Ok(all)
}
