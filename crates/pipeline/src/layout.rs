//! Where the stages that index documents can stand.
//!
//! A file is parsed first; its chunks are embedded and put into the index as its children; then it is published.

use crate::definition::{MailStep, SourceKind, StageDef, StageKind};
use crate::problem::Report;
use crate::reader::{Table, join};

const CHUNKS_ONLY: &str = "move it to the [[stage.children]] of the parse stage";

/// Checks the place of every stage. All stages that are written must have been read; `source` is none where that of
/// the file is not known.
pub(crate) fn check(
    top: &Table<'_, '_>,
    source: Option<SourceKind>,
    stages: &[StageDef],
    report: &mut Report<'_>,
) {
    let mut layout = Layout { top, source, report };
    layout.list("stage", "stage", None, stages);
}

struct Layout<'c, 't, 'r> {
    top: &'c Table<'c, 'c>,
    source: Option<SourceKind>,
    report: &'r mut Report<'t>,
}

/// One stage and what is around it.
struct Spot<'s> {
    /// Its path by numbers, as tables are found: `stage[0].children[1]`.
    path: String,
    /// Its path by names, as problems tell it: `stage.parse.children.embed`.
    key: String,
    stage: &'s StageDef,
    /// The stage whose children run through this one.
    parent: Option<&'s StageDef>,
    /// Those before it in its list.
    before: &'s [StageDef],
}

impl Layout<'_, '_, '_> {
    fn list(&mut self, path: &str, key: &str, parent: Option<&StageDef>, stages: &[StageDef]) {
        for (index, stage) in stages.iter().enumerate() {
            let spot = Spot {
                path: format!("{path}[{index}]"),
                key: join(key, &stage.name),
                stage,
                parent,
                before: &stages[..index],
            };
            self.spot(&spot);
            self.list(
                &join(&spot.path, "children"),
                &join(&spot.key, "children"),
                Some(stage),
                &stage.children,
            );
        }
    }

    fn spot(&mut self, spot: &Spot<'_>) {
        let first = spot.parent.is_none() && spot.before.is_empty();
        let of_chunks = spot.parent.is_some_and(|parent| is_parse(parent) || is_unfold(parent));
        match &spot.stage.kind {
            StageKind::Parse { .. } => {
                self.needs_files(spot, "kind");
                if !first {
                    let hint = "make it the first [[stage]] of the file";
                    self.fail(spot, "kind", "a parse stage is the first of a pipeline", hint);
                }
            }
            StageKind::Embed { index: true, .. } | StageKind::EmbedBuiltin { index: true, .. } => {
                self.needs_files(spot, "index");
                if !of_chunks {
                    let message = "only the chunks of a parse stage have a place in the index";
                    self.fail(spot, "index", message, CHUNKS_ONLY);
                }
            }
            StageKind::Upsert => {
                self.needs_files(spot, "kind");
                if !of_chunks {
                    self.fail(
                        spot,
                        "kind",
                        "an upsert stage is one of the children of a parse stage",
                        CHUNKS_ONLY,
                    );
                } else if !spot.before.iter().any(|stage| stage.kind.indexes()) {
                    let message = "an upsert stage comes after one that embeds with index = true";
                    let hint = "put [[stage.children]] with kind = \"embed\" and index = true before it";
                    self.fail(spot, "kind", message, hint);
                }
            }
            StageKind::Publish => {
                self.needs_files(spot, "kind");
                if spot.parent.is_some() || !spot.before.iter().any(is_parse) {
                    let hint = "make it a [[stage]] of the file, after the parse stage";
                    self.fail(spot, "kind", "a publish stage comes after a parse stage", hint);
                }
            }
            StageKind::Mail { step } => self.mail(spot, *step),
            StageKind::Http { .. }
            | StageKind::Command { .. }
            | StageKind::External { .. }
            | StageKind::Event { .. }
            | StageKind::Embed { index: false, .. }
            | StageKind::EmbedBuiltin { index: false, .. }
            | StageKind::Chat { .. }
            | StageKind::Filter { .. }
            | StageKind::Pass => {}
        }
    }

    /// A step of mail needs mail, and those of threads need threads.
    fn mail(&mut self, spot: &Spot<'_>, step: MailStep) {
        let of_threads = matches!(step, MailStep::Summarise | MailStep::Gather);
        let wanted = match self.source {
            None => return,
            Some(SourceKind::Mbox) if !of_threads => None,
            Some(SourceKind::Threads) if of_threads || step == MailStep::Keep => None,
            Some(_) if of_threads => Some("threads"),
            Some(_) => Some("mbox"),
        };
        if let Some(wanted) = wanted {
            let hint = format!("set kind = \"{wanted}\" in [source]");
            self.fail(spot, "step", &format!("needs a source of {wanted}"), &hint);
        }
    }

    fn needs_files(&mut self, spot: &Spot<'_>, key: &str) {
        if self.source == Some(SourceKind::Mbox) && (key == "index" || spot.stage.kind == StageKind::Upsert) {
            return;
        }
        if let Some(SourceKind::Lines(_) | SourceKind::Inbox | SourceKind::Mbox | SourceKind::Threads) =
            self.source
        {
            let message = "needs a source of files";
            self.fail(spot, key, message, "set kind = \"files\" in [source]");
        }
    }

    fn fail(&mut self, spot: &Spot<'_>, key: &str, message: &str, hint: &str) {
        let at = self.top.locate(&join(&spot.path, key)).unwrap_or(0);
        self.report.problem(at, &join(&spot.key, key), message, Some(hint.to_owned()));
    }
}

fn is_unfold(stage: &StageDef) -> bool {
    matches!(stage.kind, StageKind::Mail { step: MailStep::Unfold })
}

fn is_parse(stage: &StageDef) -> bool {
    matches!(stage.kind, StageKind::Parse { .. })
}
