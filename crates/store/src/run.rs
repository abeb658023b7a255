//! Rows about runs, workers and operations.

use std::collections::BTreeMap;

use redrive_core::budget::BudgetChange;
use redrive_core::id::{ItemSeq, OperationId, Rev, RunId, WorkerId};
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A run to be created.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NewRun {
    /// Name of its pipeline.
    pub pipeline: String,
    /// Identity of its source: with the pipeline's name it says which run a second call continues.
    pub source: String,
    /// Category, for workers that take only some.
    pub category: Option<String>,
    /// Higher goes first.
    pub priority: i32,
    /// The pipeline file's text.
    pub definition: String,
    /// The folder that relative paths in it start from.
    pub folder: String,
}

/// The source of a standing run, to which items are handed in. Every other source is standard input or a whole path.
const INBOX: &str = "inbox";

impl NewRun {
    /// The source of the standing run of a category: the category is a part of its identity.
    #[must_use]
    pub fn inbox(category: Option<&str>) -> String {
        category.map_or_else(|| INBOX.to_owned(), |category| format!("{INBOX}:{category}"))
    }

    /// The source of a run over given items: what they are is its identity.
    #[must_use]
    pub fn items(mark: redrive_core::id::ContentHash) -> String {
        let digits: String = mark.0.iter().map(|byte| format!("{byte:02x}")).collect();
        // No category is called that.
        format!("{INBOX}:={digits}")
    }

    /// Whether that is the source of a run over given items.
    #[must_use]
    pub fn is_of_items(source: &str) -> bool {
        source.strip_prefix(INBOX).is_some_and(|rest| rest.starts_with(":="))
    }

    /// Whether that is the source of a standing run.
    #[must_use]
    pub fn is_inbox(source: &str) -> bool {
        source.strip_prefix(INBOX).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// What the names of pipelines of Redrive's own begin with: their items are messages to somebody.
    pub const INTERNAL: &str = "redrive.notify.";

    /// Whether it is of Redrive's own making.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.pipeline.starts_with(Self::INTERNAL)
    }

    /// Whether it stands: its source is not read, but items are handed to it.
    #[must_use]
    pub fn is_standing(&self) -> bool {
        Self::is_inbox(&self.source)
    }
}

/// A run as it is kept. Its status is derived, see [`redrive_core::status::run_status`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRow {
    /// Its number.
    pub id: RunId,
    /// What it was created with.
    pub spec: NewRun,
    /// What was asked of it.
    pub control: Control,
    /// Why.
    pub reason: Option<String>,
    /// How often its pipeline was changed. Nothing is claimed by whoever has another edition of it.
    pub edition: u32,
    /// The number of the last reading of its source; 0 before the first.
    pub reading: u32,
    /// How far its source was read, in the source's own terms.
    pub cursor: Option<String>,
    /// Whether the last reading of its source is over: it came to the end, or had as much as was asked for.
    pub admitted_all: bool,
    /// Lines of the last reading that repeated an earlier one and were admitted once.
    pub duplicates: u64,
    /// Saved failure budget, as JSON.
    pub budget: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its last item finished; cleared when it goes on.
    pub finished_at: Option<Timestamp>,
    /// Since when, and how long before that, it was kept from going on.
    pub pause: Pause,
    /// Since when, and how long before that, nobody was at it.
    pub idle: Pause,
    /// Facts that its stages found out and have to know again, by name.
    pub learnt: BTreeMap<String, u64>,
}

/// A run that is gone on with, or that was created for want of one.
#[derive(Debug, Clone, PartialEq)]
pub struct BegunRun {
    /// The run.
    pub row: RunRow,
    /// Whether it was created.
    pub created: bool,
}

/// What is noted of a run that is handed over.
pub const HANDED_OVER: &str = "handed over";

impl RunRow {
    /// Whether it is a standing run that takes items: it was neither closed nor cancelled.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.spec.is_standing() && !self.admitted_all && self.control != Control::Cancelled
    }

    /// What is noted of a reading that admits only a part of the source, because somebody asked for no more.
    #[must_use]
    pub fn part_mark(reading: u32) -> String {
        format!("reading {reading}: a part")
    }

    /// Whether its last reading is over and admitted only a part of the source: the rest is admitted when the source is read
    /// again, and not by whoever only works on the run.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.admitted_all && self.learnt.contains_key(&Self::part_mark(self.reading))
    }

    /// What is noted of a reading that has to see again what an earlier one saw, before it begins.
    #[must_use]
    pub fn again_mark(reading: u32) -> String {
        format!("reading {reading}: again")
    }

    /// Whether its last reading left it open what of the items before it is still in the source: it took only a part, or saw
    /// again what an earlier one saw and came to no end.
    #[must_use]
    pub fn leaves_open(&self) -> bool {
        let again = !self.admitted_all && self.learnt.contains_key(&Self::again_mark(self.reading));
        again || (self.is_part() && self.reading > 1)
    }

    /// Whether it was handed over to whoever works on runs.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.spec.is_standing() || self.learnt.contains_key(HANDED_OVER)
    }
}

/// How long a run was kept from going on (deadlines do not run meanwhile), or nobody was at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Pause {
    /// Since when it is so now.
    pub since: Option<Timestamp>,
    /// Milliseconds before that, added up.
    pub before_ms: i64,
}

/// What is asked of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlChange {
    /// What.
    pub control: Control,
    /// Why, in words.
    pub reason: Option<String>,
    /// When it was asked.
    pub at: Timestamp,
}

/// Whether a run has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Its last item finished then.
    Finished(Timestamp),
    /// Likewise, if its source was read to the end and nothing is left; it stays as it is where that is not so.
    IfDone(Timestamp),
    /// It goes on.
    GoesOn,
}

/// Changes to a run; what is `None` stays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunChange {
    /// What is asked of it now, and why.
    pub control: Option<ControlChange>,
    /// A failure budget to be kept; not written where another one is kept than it was made from.
    pub budget: Option<BudgetChange>,
    /// The folder that relative paths of the pipeline start from; another one makes another edition of it.
    pub folder: Option<String>,
    /// New text of the pipeline file; another text than before makes another edition of it.
    pub definition: Option<String>,
    /// That its last item finished, or that it goes on.
    pub end: Option<RunEnd>,
    /// How long it was kept from going on.
    pub pause: Option<Pause>,
    /// How long nobody was at it.
    pub idle: Option<Pause>,
    /// A fact that a stage found out: kept unless one is kept under that name.
    pub learn: Option<(String, u64)>,
}

impl RunChange {
    /// Asks something of a run.
    #[must_use]
    pub fn ask(control: Control, reason: Option<String>, at: Timestamp) -> Self {
        Self { control: Some(ControlChange { control, reason, at }), ..Self::default() }
    }

    /// Says that a run's last item finished.
    #[must_use]
    pub fn finished(at: Timestamp) -> Self {
        Self { end: Some(RunEnd::Finished(at)), ..Self::default() }
    }

    /// Says that a run's last item finished, as far as is known to whoever says so.
    #[must_use]
    pub fn if_done(at: Timestamp) -> Self {
        Self { end: Some(RunEnd::IfDone(at)), ..Self::default() }
    }

    /// Says that a run goes on.
    #[must_use]
    pub fn goes_on() -> Self {
        Self { end: Some(RunEnd::GoesOn), ..Self::default() }
    }
}

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunFilter {
    /// Only of this pipeline.
    pub pipeline: Option<String>,
    /// Only over this source.
    pub source: Option<String>,
    /// Only those that are not finished and not cancelled.
    pub unfinished: bool,
    /// Only those that are not cancelled.
    pub uncancelled: bool,
    /// Only those whose source was not read to its end, or that still take items.
    pub unread: bool,
    /// Only those that have dead items.
    pub with_dead: bool,
}

impl RunFilter {
    /// The runs of the same pipeline and source that can be gone on with: unfinished ones, or also finished ones. A standing
    /// run that was closed takes nothing any more, whatever it still has to do.
    #[must_use]
    pub fn going_on(new: &NewRun, finished: bool) -> Self {
        let (pipeline, source) = (Some(new.pipeline.clone()), Some(new.source.clone()));
        // A standing run that was closed takes nothing more; one over given items is the same when all of them are in it.
        let unread = new.is_standing() && !NewRun::is_of_items(&new.source);
        Self { pipeline, source, unfinished: !finished, uncancelled: true, unread, with_dead: false }
    }
}

/// A worker that comes up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewWorker {
    /// Name for people.
    pub name: String,
    /// Enough to tell, on the same machine, whether its process still exists.
    pub identity: String,
    /// The runs it works on.
    pub runs: Vec<RunId>,
}

/// A worker that has not been retired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerRow {
    /// Its number.
    pub id: WorkerId,
    /// What it registered with.
    pub spec: NewWorker,
    /// Everything it holds is held until then.
    pub lease_until: Timestamp,
    /// When it came up.
    pub started_at: Timestamp,
    /// When its lease was given or last renewed, by the clock that said until when; `None` where nobody wrote that down.
    pub renewed_at: Option<Timestamp>,
}

impl WorkerRow {
    /// Whether it works on a run, and its lease is not over.
    #[must_use]
    pub fn attends(&self, run: RunId, now: Timestamp) -> bool {
        self.lease_until >= now && self.spec.runs.contains(&run)
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retired {
    /// It stopped cleanly and holds nothing.
    Stopped,
    /// Its process is known to be gone; what it held is free to be taken over at once.
    Lost,
}

/// What an operation on many items does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Sends dead items back.
    Redrive,
    /// Removes dead items.
    Purge,
    /// Takes a run out.
    Cancel,
    /// Says when waiting items go on.
    Retry,
    /// Has items done again from a stage that they have passed.
    Rerun,
    /// Sends dead items back with other content.
    Import,
    /// Forgets old finished runs.
    Prune,
    /// Pauses a pipeline, a stage, a run or a gate.
    Pause,
    /// Lets one go on.
    Resume,
    /// Has a standing run take nothing more.
    Close,
    /// Has a gate forget what was found out about it.
    Reset,
    /// Stops another operation, or undoes it.
    Stop,
    /// Gives an item up.
    Kill,
    /// Writes down what is known about a group of dead items.
    Note,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Pages are left.
    Open,
    /// All pages are done.
    Done,
    /// Somebody stopped it.
    Cancelled,
    /// Its items are written down as they were seen, and nobody has said yet that it is to be done.
    Frozen,
}

/// An operation on many items: durable, resumable, and its own audit record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// Its number; 0 until it is saved.
    pub id: OperationId,
    /// What it does.
    pub kind: OperationKind,
    /// How far it is.
    pub state: OperationState,
    /// Who asked.
    pub actor: String,
    /// What was asked, as JSON.
    pub request: String,
    /// Items up to this one are done.
    pub after: Option<ItemSeq>,
    /// Items changed.
    pub changed: u64,
    /// Items that had changed meanwhile and were left alone.
    pub skipped: u64,
    /// When it began.
    pub created_at: Timestamp,
    /// When it last went on.
    pub updated_at: Timestamp,
}

/// An item of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Member {
    /// The item.
    pub item: ItemSeq,
    /// The change number it had when it was seen.
    pub rev: Rev,
    /// The generation that the operation made of it; `None` until it has.
    pub sent: Option<u32>,
}

/// What somebody wrote about a group of dead items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupNote {
    /// The group's mark.
    pub group: String,
    /// The words; may be empty.
    pub note: String,
    /// When somebody said that it is known and looked after; `None` when nobody did.
    pub acknowledged_at: Option<Timestamp>,
    /// Who wrote last; empty where that is not known.
    pub actor: String,
    /// When.
    pub updated_at: Timestamp,
}

impl GroupNote {
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.note.is_empty() && self.acknowledged_at.is_none()
    }
}

/// What the daemons of a store have to remember together, under a name: how far a schedule is, or what was told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memo {
    /// Its name.
    pub name: String,
    /// Its change number, from 1.
    pub rev: i64,
    /// What is remembered, as text; whoever has the name knows its form.
    pub state: String,
    /// When it was last written.
    pub updated_at: Timestamp,
}

/// A gate as it is kept: what workers and processes share about one dependency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRow {
    /// Its name.
    pub name: String,
    /// Its change number, from 1.
    pub rev: i64,
    /// Its state, as JSON: [`redrive_core::gate`] writes and reads it.
    pub state: String,
    /// When it last changed.
    pub updated_at: Timestamp,
}
