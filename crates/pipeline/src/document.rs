//! The keys of stages that index documents on this machine: `parse`, and `embed` by the built-in model.

use crate::definition::{MailStep, StageKind};
use crate::model::{self, Ends};
use crate::problem::Report;
use crate::reader::{Table, join};
use crate::suggest;

const CHUNK_TOKENS: u32 = 256;
const CHUNK_TOKENS_MIN: u32 = 16;
const CHUNK_TOKENS_MAX: u32 = 8_192;
const MIN_TOKENS: u32 = 48;
const PAGES: u32 = 2_000;
const PAGES_MAX: u32 = 100_000;
const MEMORY: u64 = 1 << 30;
const MEMORY_MIN: u64 = 64 << 20;
const MEMORY_MAX: u64 = 64 << 30;
const RECYCLE_AFTER: u64 = 100_000;
const RECYCLE_AFTER_MAX: i64 = 1_000_000_000;
/// The one model that is built in.
const BUILTIN: &str = "static256";
/// The keys that say how a service is asked.
const SERVICE_KEYS: [&str; 8] = [
    "base_url",
    "api_key_env",
    "headers",
    "header_env",
    "dimensions",
    "max_item_tokens",
    "max_answer",
    "batch_tokens",
];

/// Reads the keys of `parse`.
pub(crate) fn parse(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    let chunk = table.take("chunk_tokens");
    let read = chunk.as_ref().and_then(|node| {
        let number = node.integer(report, CHUNK_TOKENS_MIN.into(), CHUNK_TOKENS_MAX.into())?;
        u32::try_from(number).ok()
    });
    let max_tokens = read.unwrap_or(CHUNK_TOKENS);
    // Nothing is said about the half of a number that could not be read.
    let whole = if chunk.is_some() { read } else { Some(CHUNK_TOKENS) };
    let min_tokens = part_of_chunk("min_tokens", whole, table, report);
    let overlap = part_of_chunk("overlap", whole, table, report);
    StageKind::Parse {
        max_tokens,
        min_tokens: min_tokens.unwrap_or_else(|| MIN_TOKENS.min(max_tokens / 2)),
        overlap: overlap.unwrap_or(0),
        memory: memory(table, report),
        max_pages: table.take("max_pages").and_then(|node| node.count(report, PAGES_MAX)).unwrap_or(PAGES),
    }
}

/// Reads the keys of `mail`; none where the step is not known.
pub(crate) fn mail(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Option<StageKind> {
    let node = table.require("step", report)?;
    let step = match node.string(report)? {
        "list" => MailStep::List,
        "read" => match parse(table, report) {
            StageKind::Parse { max_tokens, min_tokens, overlap, memory, max_pages } => {
                MailStep::Read { max_tokens, min_tokens, overlap, memory, max_pages }
            }
            _ => return None,
        },
        "unfold" => MailStep::Unfold,
        "keep" => MailStep::Keep,
        "summarise" => MailStep::Summarise,
        "gather" => MailStep::Gather,
        word => {
            let message = format!("unknown step {word:?}; available are {}", MailStep::NAMES.join(", "));
            node.fail_with(report, message, suggest::hint(word, &MailStep::NAMES));
            return None;
        }
    };
    Some(StageKind::Mail { step })
}

/// Reads a number of tokens that is at most half of a chunk's.
fn part_of_chunk(
    key: &'static str,
    whole: Option<u32>,
    table: &mut Table<'_, '_>,
    report: &mut Report<'_>,
) -> Option<u32> {
    let node = table.take(key)?;
    let number = node.integer(report, 0, CHUNK_TOKENS_MAX.into())?;
    let number = u32::try_from(number).ok()?;
    if let Some(whole) = whole
        && number > whole / 2
    {
        let message = format!("{number} is more than half of chunk_tokens, {whole}");
        node.fail_with(report, message, format!("use at most {}", whole / 2));
    }
    Some(number)
}

/// Reports a parse stage without children.
pub(crate) fn childless(table: &Table<'_, '_>, report: &mut Report<'_>) {
    let message = "missing: the chunks of a file need stages to run through";
    let hint =
        "add [[stage.children]] with kind = \"embed\" and index = true, and one with kind = \"upsert\"";
    report.problem(table.at, &join(&table.path, "children"), message, Some(hint.to_owned()));
}

/// Reads the keys of `embed` by the built-in model.
pub(crate) fn builtin(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> StageKind {
    if let Some(node) = table.take("model")
        && let Some(word) = node.string(report)
        && word != BUILTIN
    {
        let message = format!("unknown built-in model {word:?}; available is {BUILTIN}");
        let hint = "leave model out, or use provider = \"openai\" for the model of a service";
        node.fail_with(report, message, hint);
    }
    let hint = "leave it out, or use provider = \"openai\"";
    table.refuse(&SERVICE_KEYS, "has no meaning for the built-in model", hint, report);
    let Ends { input, output, index } = model::ends(table, report);
    let recycle_after = table.take("recycle_after").and_then(|node| {
        let number = node.integer(report, 0, RECYCLE_AFTER_MAX)?;
        u64::try_from(number).ok()
    });
    StageKind::EmbedBuiltin {
        input,
        output,
        index,
        recycle_after: recycle_after.unwrap_or(RECYCLE_AFTER),
        memory: memory(table, report),
    }
}

fn memory(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> u64 {
    table.take("memory").and_then(|node| node.size(report, MEMORY_MIN, MEMORY_MAX)).unwrap_or(MEMORY)
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
