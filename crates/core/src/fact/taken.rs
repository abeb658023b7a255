//! Names that mean something on the bus already.

/// Pipelines of Redrive's own, whose stages may hand items over under the names of [`MAIL_EVENTS`].
pub const OWN_PIPELINES: [&str; 2] = ["mail", "mail-threads"];

/// What facts of mail are told as.
pub const MAIL_EVENTS: [&str; 12] = [
    "archive.ingested",
    "archive.complete",
    "parsing.failed",
    "json.parsed",
    "message.complete",
    "chunking.failed",
    "chunks.prepared",
    "embeddings.generated",
    "embedding.generation.failed",
    "summarization.requested",
    "summary.complete",
    "summarization.failed",
];

/// Whether facts are told under this name, or may be by a later version.
#[must_use]
pub fn is_taken(event: &str) -> bool {
    event.starts_with("item.") || event.starts_with("run.") || MAIL_EVENTS.contains(&event)
}

#[cfg(test)]
mod tests {
    use super::super::FactKind;
    use super::*;

    #[test]
    fn the_name_of_every_fact_is_taken() {
        assert!(FactKind::ALL.into_iter().all(|kind| is_taken(kind.name())));
        assert!(!is_taken("text.check") && !is_taken("items.checked"));
    }
}
