//! What an operation was asked to do, as it is kept: another process can read it and go on with it.

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_store::{Error, ItemFilter, Operation, OperationKind, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Act, Forget, Redrive, Rerun, Retry, Seen, SetPurge, SetRedrive, SetRerun};

/// Everything that an operation on many items has to know besides how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Request {
    /// Sends dead items back.
    Redrive(Redrive),
    /// Sends back those of these dead items that are as they were seen.
    RedriveSeen {
        /// Which, and as what.
        items: Vec<Seen>,
    },
    /// Sends back the dead items that were frozen with it.
    RedriveSet(SetRedrive),
    /// Has the items done again that were frozen with it.
    RerunSet(SetRerun),
    /// Removes the dead items that were frozen with it.
    PurgeSet(SetPurge),
    /// Removes dead items.
    Purge {
        /// Which.
        filter: ItemFilter,
    },
    /// Takes a run out.
    Cancel {
        /// Which.
        run: RunId,
    },
    /// Tells waiting items when to go.
    Retry(Retry),
    /// Has items done again.
    Rerun(Rerun),
    /// Sends dead items back with the content that somebody gave them. That is not kept here: one that was broken off ends
    /// where it was.
    Import {
        /// Where the content came from, in words.
        from: String,
    },
    /// Forgets old finished runs.
    Prune(Forget),
    /// The same of one pipeline.
    PruneOf {
        /// Which.
        pipeline: String,
        /// Which of its runs.
        forget: Forget,
    },
    /// Pauses a pipeline, or a stage of it.
    Pause {
        /// The pipeline.
        pipeline: String,
        /// The stage; `None`: all of them.
        stage: Option<String>,
        /// Why.
        why: String,
    },
    /// Lets a pipeline, or a stage of it, go on.
    Resume {
        /// The pipeline.
        pipeline: String,
        /// The stage; `None`: the pipeline as a whole.
        stage: Option<String>,
    },
    /// What somebody did at once. It is written down before it is done, so that nothing is done that nobody said.
    Act(Act),
}

impl Request {
    /// What kind of operation it makes.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::Redrive(_) | Self::RedriveSeen { .. } | Self::RedriveSet(_) => OperationKind::Redrive,
            Self::Purge { .. } | Self::PurgeSet(_) => OperationKind::Purge,
            Self::Cancel { .. } => OperationKind::Cancel,
            Self::Retry(_) => OperationKind::Retry,
            Self::Rerun(_) | Self::RerunSet(_) => OperationKind::Rerun,
            Self::Import { .. } => OperationKind::Import,
            Self::Prune(_) | Self::PruneOf { .. } => OperationKind::Prune,
            Self::Pause { .. } => OperationKind::Pause,
            Self::Resume { .. } => OperationKind::Resume,
            Self::Act(act) => act.kind(),
        }
    }

    /// The same, begun at this moment: what can be undone for a while is so from now on.
    #[must_use]
    pub fn started(mut self, now: Timestamp) -> Self {
        if let Self::PurgeSet(set) = &mut self {
            set.at = Some(Timestamp(now.0.saturating_add(set.undo_ms)));
        }
        self
    }

    /// The filters that its set of dead items was chosen by, where it has one.
    #[must_use]
    pub fn set(&self) -> Option<&[ItemFilter]> {
        match self {
            Self::RedriveSet(set) => Some(&set.filters),
            Self::PurgeSet(set) => Some(&set.filters),
            Self::RerunSet(set) => {
                Some(&set.filters).filter(|filters| !filters.is_empty()).map(Vec::as_slice)
            }
            Self::Redrive(_)
            | Self::RedriveSeen { .. }
            | Self::Purge { .. }
            | Self::Cancel { .. }
            | Self::Retry(_)
            | Self::Rerun(_)
            | Self::Import { .. }
            | Self::Prune(_)
            | Self::PruneOf { .. }
            | Self::Pause { .. }
            | Self::Resume { .. }
            | Self::Act(_) => None,
        }
    }

    /// The text that is kept.
    ///
    /// # Errors
    /// Never but for a mistake in the program.
    pub fn written(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::Internal(format!("a request: {error}")))
    }

    /// Reads what an operation was asked. Rows of older versions did not repeat the kind, and had the filter of a purge as
    /// the whole request.
    ///
    /// # Errors
    /// [`Error::Unreadable`] for one that a newer version wrote.
    pub fn of(operation: &Operation) -> Result<Self> {
        let unreadable = |error: serde_json::Error| Error::Unreadable {
            what: format!("the request of operation {}", operation.id),
            why: error.to_string(),
        };
        let mut kept: Value = serde_json::from_str(&operation.request).map_err(unreadable)?;
        if operation.kind == OperationKind::Purge
            && kept.get("filter").is_none()
            && kept.get("kind").is_none()
        {
            kept = serde_json::json!({ "filter": kept });
        }
        if let Value::Object(fields) = &mut kept {
            let kind = serde_json::to_value(operation.kind).map_err(unreadable)?;
            fields.entry("kind").or_insert(kind);
        }
        serde_json::from_value(kept).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::id::{ItemId, ItemSeq, OperationId, Rev};
    use redrive_core::policy::OwnPolicy;
    use redrive_store::OperationState;

    use super::*;
    use crate::admin::Pace;

    fn row(kind: OperationKind, request: &str) -> Operation {
        Operation {
            id: OperationId(7),
            kind,
            state: OperationState::Open,
            actor: "tester".to_owned(),
            request: request.to_owned(),
            after: None,
            changed: 0,
            skipped: 0,
            created_at: Timestamp(1),
            updated_at: Timestamp(1),
        }
    }

    fn some_filter() -> ItemFilter {
        ItemFilter { run: Some(RunId(3)), text: Some("a \"b\"".to_owned()), ..ItemFilter::default() }
    }

    fn again() -> Rerun {
        Rerun {
            run: RunId(3),
            key: None,
            stage: redrive_core::id::StageNo(1),
            before: vec![Some(-5), None],
            anew: vec![9],
            can_reread: true,
            dead: Some(some_filter()),
        }
    }

    #[test]
    fn every_request_is_read_back_as_it_was_written() {
        let an_own = || {
            let known = redrive_core::policy::preset("llm").expect("a preset");
            Some(OwnPolicy::new(serde_json::json!("llm"), known.policy.clone()))
        };
        let redrive = Redrive {
            filter: some_filter(),
            limit: Some(7),
            rate: Some(0.5),
            canary: vec![ItemSeq(4)],
            goes_first: true,
            retry: an_own(),
        };
        let all = [
            Request::Redrive(redrive),
            Request::RedriveSeen { items: vec![Seen { item: ItemSeq(4), rev: Rev(9) }] },
            Request::RedriveSet(SetRedrive {
                filters: vec![some_filter(), ItemFilter::default()],
                limit: Some(9),
                rate: Some(2.5),
                canary: Some(3),
                stop_at: Some(0.1),
                stopped: Some("3 of 9".to_owned()),
                retry: an_own(),
                pace: Some(Pace { from: Timestamp(9), before: 3 }),
            }),
            Request::PurgeSet(SetPurge {
                filters: vec![some_filter()],
                undo_ms: 600_000,
                at: Some(Timestamp(9)),
            }),
            Request::Purge { filter: some_filter() },
            Request::Purge { filter: ItemFilter::default() },
            Request::Cancel { run: RunId(12) },
            Request::Retry(Retry { filter: some_filter(), due: Some(Timestamp(7)) }),
            Request::Rerun(again()),
            Request::RerunSet(SetRerun { filters: vec![some_filter()], reruns: vec![again(), again()] }),
            Request::Import { from: "edited.jsonl".to_owned() },
            Request::Prune(Forget { older_than_ms: 86_400_000, with_dead: true }),
            Request::PruneOf {
                pipeline: "a".to_owned(),
                forget: Forget { older_than_ms: 86_400_000, with_dead: false },
            },
            Request::Pause { pipeline: "p".to_owned(), stage: None, why: "so".to_owned() },
            Request::Resume { pipeline: "p".to_owned(), stage: Some("s".to_owned()) },
            Request::Act(Act::PauseRun { run: RunId(12) }),
            Request::Act(Act::ResumeRun { run: RunId(12) }),
            Request::Act(Act::CloseRun { run: RunId(12) }),
            Request::Act(Act::PauseGate { gate: "g".to_owned(), why: "so".to_owned() }),
            Request::Act(Act::ResumeGate { gate: "g".to_owned() }),
            Request::Act(Act::ResetGate { gate: "g".to_owned() }),
            Request::Act(Act::StopOperation { operation: OperationId(3) }),
            Request::Act(Act::UndoOperation { operation: OperationId(3) }),
            Request::Act(Act::KillItem { run: RunId(12), item: ItemId([7; 16]), why: "so".to_owned() }),
            Request::Act(Act::NoteGroup {
                group: "g".to_owned(),
                words: Some("so".to_owned()),
                acknowledged: Some(true),
            }),
        ];
        for request in all {
            let kept = row(request.kind(), &request.written().unwrap());
            assert_eq!(Request::of(&kept), Ok(request));
        }
    }

    #[test]
    fn requests_of_older_versions_are_read() {
        let filter = serde_json::to_string(&some_filter()).unwrap();
        let redrive = format!("{{\"filter\":{filter},\"limit\":2,\"rate\":null}}");
        let read = |kind, text: &str| Request::of(&row(kind, text)).unwrap();
        let asked = Redrive { limit: Some(2), ..Redrive::of(some_filter()) };
        assert_eq!(read(OperationKind::Redrive, &redrive), Request::Redrive(asked));
        assert_eq!(read(OperationKind::Purge, &filter), Request::Purge { filter: some_filter() });
        let cancel = read(OperationKind::Cancel, "{\"run\":\"r12\"}");
        assert_eq!(cancel, Request::Cancel { run: RunId(12) });
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in ["", "{}", "[]", "{\"kind\":\"explode\",\"filter\":{}}"] {
            let refused = Request::of(&row(OperationKind::Redrive, text));
            assert!(matches!(refused, Err(Error::Unreadable { .. })), "{text}: {refused:?}");
        }
    }
}
