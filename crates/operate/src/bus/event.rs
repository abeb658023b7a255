//! The name that a fact has on the bus.
//!
//! What begins work on a document of mail has a name that services wait for. Where a stage is told as an event of that very name, the event is the announcement: it has the
//! token of the answer, and nothing else is told under its name.

use redrive_core::fact::FactKind;

use crate::mail::{PIPELINE, THREADS_PIPELINE};

/// An archive is there to be taken apart.
pub(crate) const ARCHIVE_INGESTED: &str = "archive.ingested";
/// A message of an archive is there to be read.
pub(crate) const JSON_PARSED: &str = "json.parsed";
/// A chunk is there to be embedded.
pub(crate) const CHUNKS_PREPARED: &str = "chunks.prepared";
/// A thread is there to be summarised.
pub(crate) const SUMMARIZATION_REQUESTED: &str = "summarization.requested";

/// What goes through the pipelines of mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Document {
    Archive,
    Message,
    Chunk,
    Thread,
}

/// The name of what happened to an item of this pipeline at this stage. It is the fact's own name, but for what services
/// that work on mail wait for. `told` are the events that stages of its run are told as.
pub(super) fn event(
    pipeline: Option<&str>,
    stage: Option<&str>,
    kind: FactKind,
    told: &[String],
) -> &'static str {
    let document = pipeline.zip(stage).and_then(|(pipeline, stage)| document(pipeline, stage));
    let named = document.and_then(|document| of_mail(document, kind));
    named.filter(|name| !told.iter().any(|told| told == name)).unwrap_or(kind.name())
}

fn document(pipeline: &str, stage: &str) -> Option<Document> {
    match (pipeline, stage) {
        (PIPELINE, "archive" | "done") => Some(Document::Archive),
        (PIPELINE, "message" | "chunks" | "keep") => Some(Document::Message),
        (PIPELINE, "embed" | "upsert") => Some(Document::Chunk),
        (THREADS_PIPELINE, _) => Some(Document::Thread),
        _ => None,
    }
}

/// What begins work on a document is told anew when it is to be done again; what ends it, once.
fn of_mail(document: Document, kind: FactKind) -> Option<&'static str> {
    match kind {
        FactKind::Admitted | FactKind::RetryScheduled | FactKind::Redriven | FactKind::Rerun => {
            Some(match document {
                Document::Archive => ARCHIVE_INGESTED,
                Document::Message => JSON_PARSED,
                Document::Chunk => CHUNKS_PREPARED,
                Document::Thread => SUMMARIZATION_REQUESTED,
            })
        }
        FactKind::Dead | FactKind::Quarantined => Some(match document {
            Document::Archive => "parsing.failed",
            Document::Message => "chunking.failed",
            Document::Chunk => "embedding.generation.failed",
            Document::Thread => "summarization.failed",
        }),
        FactKind::Succeeded => match document {
            Document::Archive => Some("archive.complete"),
            Document::Message => Some("message.complete"),
            Document::Chunk => Some("embeddings.generated"),
            Document::Thread => Some("summary.complete"),
        },
        FactKind::HandedOver
        | FactKind::Failed
        | FactKind::Throttled
        | FactKind::Expanded
        | FactKind::Joined
        | FactKind::StagePassed
        | FactKind::Filtered
        | FactKind::Superseded
        | FactKind::Cancelled
        | FactKind::Restored
        | FactKind::Reconfigured
        | FactKind::Reopened
        | FactKind::Purged
        | FactKind::RunCreated
        | FactKind::RunPaused
        | FactKind::RunResumed
        | FactKind::RunCancelled
        | FactKind::RunFinished => None,
    }
}

#[cfg(test)]
mod tests {
    use redrive_pipeline::Definition;

    use super::*;
    use crate::index::Embedder;
    use crate::mail::{Chat, MailSettings};

    fn stages(definition: &Definition) -> Vec<&str> {
        definition.all_stages().map(|stage| stage.name.as_str()).collect()
    }

    #[test]
    fn no_pipeline_of_others_may_hand_items_over_under_a_name_of_mail() {
        let documents = [Document::Archive, Document::Message, Document::Chunk, Document::Thread];
        let names = documents
            .into_iter()
            .flat_map(|document| FactKind::ALL.into_iter().filter_map(move |kind| of_mail(document, kind)));
        let names: std::collections::BTreeSet<&str> = names.collect();
        assert_eq!(names, redrive_core::fact::MAIL_EVENTS.into());
        assert_eq!([PIPELINE, THREADS_PIPELINE], redrive_core::fact::OWN_PIPELINES);
    }

    #[test]
    fn facts_have_their_own_names() {
        for kind in FactKind::ALL {
            assert_eq!(event(Some("classify"), Some("embed"), kind, &[]), kind.name());
            assert_eq!(event(None, None, kind, &[]), kind.name());
        }
        assert_eq!(event(Some("mail"), None, FactKind::RunFinished, &[]), "run.finished");
    }

    #[test]
    fn every_stage_of_mail_begins_and_fails_by_a_name_of_its_own() {
        let chat =
            Chat { base_url: "http://127.0.0.1:1".to_owned(), model: "m".to_owned(), api_key_env: None };
        let settings = MailSettings {
            embedder: Embedder::Builtin,
            chat: Some(chat),
            chunk_tokens: 100,
            processes: None,
            services: false,
        };
        let (mail, threads) = settings.definitions(&["a.mbox".to_owned()]).expect("valid");
        for (definition, stage) in [&mail, &threads]
            .into_iter()
            .flat_map(|one| stages(one).into_iter().map(move |stage| (one, stage)))
        {
            let named = |kind| event(Some(&definition.name), Some(stage), kind, &[]);
            assert!(!named(FactKind::Admitted).starts_with("item."), "{stage}");
            assert!(named(FactKind::Dead).ends_with(".failed"), "{stage}");
            assert!(!named(FactKind::Succeeded).starts_with("item."), "{stage}");
            assert_eq!(named(FactKind::StagePassed), "item.stage_passed");
        }
        for (stage, begins, fails) in [
            ("archive", "archive.ingested", "parsing.failed"),
            ("message", "json.parsed", "chunking.failed"),
            ("embed", "chunks.prepared", "embedding.generation.failed"),
        ] {
            assert_eq!(event(Some("mail"), Some(stage), FactKind::RetryScheduled, &[]), begins);
            assert_eq!(event(Some("mail"), Some(stage), FactKind::Quarantined, &[]), fails);
        }
        assert_eq!(
            event(Some("mail-threads"), Some("summarise"), FactKind::Redriven, &[]),
            "summarization.requested"
        );
        assert_eq!(event(Some("mail-threads"), Some("keep"), FactKind::Succeeded, &[]), "summary.complete");
    }

    #[test]
    fn an_event_with_the_token_of_its_answer_is_the_only_announcement() {
        let settings = MailSettings {
            embedder: Embedder::Builtin,
            chat: None,
            chunk_tokens: 100,
            processes: None,
            services: true,
        };
        let (mail, threads) = settings.definitions(&["a.mbox".to_owned()]).expect("valid");
        for definition in [&mail, &threads] {
            let told: Vec<String> = definition.all_stages().filter_map(|stage| stage.event.clone()).collect();
            for stage in stages(definition) {
                let named = |kind| event(Some(&definition.name), Some(stage), kind, &told);
                assert_eq!(named(FactKind::Admitted), "item.admitted", "{stage}");
                assert_eq!(named(FactKind::RetryScheduled), "item.retry_scheduled", "{stage}");
                assert!(named(FactKind::Dead).ends_with(".failed"), "{stage}");
                assert!(!named(FactKind::Succeeded).starts_with("item."), "{stage}");
            }
        }
    }
}
