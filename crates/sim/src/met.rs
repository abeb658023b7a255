//! What a run met: a run without faults proves nothing, so it is counted.

/// Declares the kinds with their names.
macro_rules! met {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something a run can meet.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Met { $($(#[$doc])* $name,)* }

        impl Met {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in the table.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

met! {
    /// A commit was written and its answer lost.
    LostCommit = "commit applied, answer lost",
    /// A claim was written and its answer lost.
    LostClaim = "claim applied, answer lost",
    /// Another write was applied and its answer lost.
    LostOther = "other write applied, answer lost",
    /// One part of a turn was refused, and the others were written.
    PartRefused = "one part of a turn refused",
    /// A write was not applied and its answer lost.
    NotApplied = "write not applied, answer lost",
    /// The store was busy.
    Busy = "store busy",
    /// The disk was full.
    Full = "disk full",
    /// A read failed.
    ReadFailed = "read failed",
    /// A claim found a content damaged.
    DamagedRead = "content read damaged",
    /// A worker died with a write under way that never arrived.
    CrashBefore = "worker killed before a write",
    /// A worker died after its write, before the answer.
    CrashAfter = "worker killed after a write",
    /// A worker died while handlers worked.
    CrashCalling = "worker killed during calls",
    /// An operator's or the source's process died in the middle of its work.
    CrashOperator = "operator or source killed",
    /// Items of a vanished worker were taken over.
    Takeover = "lease takeover",
    /// A vanished worker was retired as lost before its lease was over.
    RetiredLost = "worker retired as lost",
    /// A neighbour on the same machine was found dead, and its items taken back at once.
    NeighbourLost = "dead neighbour taken over",
    /// A worker ended because only retries due too late were left.
    WaitsNoLonger = "worker that waits no longer",
    /// Somebody paused a pipeline or a stage.
    PipelinePaused = "pipeline or stage paused",
    /// A worker claimed that had not heard of it.
    Unaware = "claim that did not know of a pause",
    /// An item succeeded with a verdict.
    Judged = "item with a verdict",
    /// A handler knew that an item needs no call.
    Recalled = "call that was not needed",
    /// A commit with an old token was refused.
    Stale = "stale commit refused",
    /// A worker stood still for longer than its lease and went on.
    Zombie = "zombie worker",
    /// A worker's clock jumped forward.
    JumpForward = "clock jump forward",
    /// A worker's clock jumped back.
    JumpBack = "clock jump back",
    /// The source was edited.
    SourceEdited = "source edited",
    /// A line that left the source was taken out.
    Removed = "line that left the source taken out",
    /// The machine's clock was put forward.
    StepForward = "clock step forward",
    /// The machine's clock was put back.
    StepBack = "clock step back",
    /// What a clock ahead wrote was mended.
    ClockMended = "clock mended",
    /// A worker lost its number and took a new one.
    Reregistered = "worker registered anew",
    /// A session gave up on a store that failed for too long.
    GaveUp = "session gave up on the store",
    /// What a lost claim gave was given back.
    Reconciled = "lost claim given back",
    /// An answer came after the timeout.
    LateAnswer = "late answer",
    /// An answer came for a worker that was gone.
    AnswerToNobody = "answer to nobody",
    /// An answer came twice.
    DuplicateAnswer = "duplicate answer",
    /// A call was not answered in time.
    Timeout = "call timed out",
    /// An answer had the wrong number of replies.
    WrongCount = "wrong number of replies",
    /// Half of a batch was given back.
    GivenBack = "half of a batch given back",
    /// A batch failed as a whole and was taken apart.
    Bisection = "bisection",
    /// An item failed alone, so that it is to blame.
    Poison = "poison found",
    /// A whole batch failed.
    Shared = "whole batch failed",
    /// A throttle with a hint.
    Hinted = "rate limit with hint",
    /// A throttle without one.
    Throttled = "rate limit without hint",
    /// A known output was used.
    Reused = "output reused",
    /// The run was paused by its budget.
    BudgetPause = "budget pause",
    /// The run was paused by exhausted credit.
    QuotaPause = "quota pause",
    /// An operator paused the run.
    Paused = "paused by operator",
    /// A paused run was let go on.
    Resumed = "resumed",
    /// The run was cancelled.
    Cancel = "cancel",
    /// A dead item was sent back.
    Redrive = "redrive",
    /// A dead item was sent back with other content.
    Edited = "redrive with edited content",
    /// A waiting item was told to go now, or later.
    Rescheduled = "waiting item rescheduled",
    /// An item was handed over, and its answer awaited.
    HandedOver = "item handed over",
    /// Its answer came.
    Answered = "item answered later",
    /// An answer came that fitted nothing any more.
    StaleAnswer = "late or second answer",
    /// No answer came in time.
    Unanswered = "answer that never came",
    /// An answer was asked for, and was not there.
    AskedInVain = "answer asked for in vain",
    /// An item was sent back under a policy of its own.
    OwnPolicy = "item redriven under a policy of its own",
    /// It spent as many attempts as that allows, and not as many as its stage's own does.
    OwnExhausted = "item exhausted by a policy of its own",
    /// It passed the stage, and has no such policy from there on.
    OwnPassed = "item passed under a policy of its own",
    /// An item that had ended was done again.
    Rerun = "done again by an operator",
    /// A parent was reopened by a child.
    Reopened = "reopened parent",
    /// A parent settled.
    Joined = "joined parent",
    /// A newer version took an item's place.
    Superseded = "superseded",
    /// A line changed back to what it was.
    Restored = "changed back, restored",
    /// A submission to a cancelled run was refused.
    TooLate = "submitted to a cancelled run",
    /// A worker opened a run of its roster.
    Roster = "opened from a roster",
    /// A line was submitted again.
    Resubmitted = "submitted again",
    /// Two lines had one key.
    SecondContent = "two lines with one key",
    /// An item was given up by an operator.
    Killed = "killed",
    /// Dead items were removed.
    Purge = "purge",
    /// What the world is told was compared with what happened.
    Told = "facts told",
    /// An item died of its deadline.
    Expired = "deadline passed",
    /// An item was quarantined.
    Quarantined = "quarantined",
    /// An item's attempts were spent.
    Exhausted = "exhausted",
    /// A worker was stopped cleanly and finished its calls.
    StopDrain = "clean stop, drain",
    /// A worker was stopped cleanly and broke off its calls.
    StopNow = "clean stop, now",
    /// What is known about a gate was written and its answer lost.
    LostGate = "gate saved, answer lost",
    /// Two workers wrote about a gate at once.
    GateStale = "gate saved by two at once",
    /// A service asked to be left alone.
    GateClosed = "gate closed",
    /// It asked for longer than is granted.
    GateParked = "gate parked, hint above its cap",
    /// A gate's closing outlived the worker that found it.
    GateOutlived = "closed gate met by a new session",
    /// Calls failed, and the gate closed.
    GateAway = "dependency taken for away",
    /// One call was made to find out whether it is back.
    GateProbe = "dependency tried out",
    /// Calls pass again.
    GateBack = "dependency back",
    /// A run was paused because a dependency stayed away.
    OutagePause = "run paused for an outage",
    /// Credit was exhausted.
    GateQuota = "gate paused for want of credit",
    /// An operator paused a gate.
    GateStopped = "gate paused by operator",
    /// An operator let a gate go on.
    GateResumed = "gate resumed by operator",
    /// An operator made a gate forget.
    GateReset = "gate reset by operator",
    /// An item was turned away, and its gate answered for it.
    TurnedAway = "item turned away at its gate",
    /// A service had as many calls as it takes at once.
    TooManyAtOnce = "more calls at once than a service takes",
    /// An item that was told when to come back came no earlier.
    HintKept = "item came back after its hint",
    /// A worker waited for a gate to open.
    GateWait = "worker waited at a gate",
    /// What a service takes in one request was remembered.
    GateShape = "size of requests remembered",
    /// An item was larger than its gate ever lets pass.
    NeverFits = "item larger than its gate",
    /// A batch was cut short because of its tokens.
    ShortBatch = "batch filled up by tokens",
}

/// Which kinds were met, and how much was done.
#[derive(Debug, Clone, Default)]
pub struct Score {
    /// For each kind, in how many runs.
    pub runs_with: Vec<u64>,
    /// Runs.
    pub runs: u64,
    /// Applied writes, each followed by a check.
    pub writes: u64,
    /// Commits among them.
    pub commits: u64,
    /// Checks of the whole store.
    pub snapshots: u64,
    /// Handler calls.
    pub calls: u64,
    /// Items admitted.
    pub items: u64,
    /// Simulated milliseconds.
    pub virtual_ms: u64,
    /// Scheduler events.
    pub events: u64,
}

impl Score {
    /// Takes in that a kind was met in the run.
    pub fn meet(&mut self, met: Met) {
        self.runs_with.resize(Met::ALL.len(), 0);
        self.runs_with[met as usize] = 1;
    }

    /// Whether a kind was met.
    #[must_use]
    pub fn has(&self, met: Met) -> bool {
        self.runs_with.get(met as usize).is_some_and(|n| *n > 0)
    }

    /// Adds another score.
    pub fn add(&mut self, other: &Self) {
        self.runs_with.resize(Met::ALL.len(), 0);
        for (mine, its) in self.runs_with.iter_mut().zip(&other.runs_with) {
            *mine += its;
        }
        self.runs += other.runs;
        self.writes += other.writes;
        self.commits += other.commits;
        self.snapshots += other.snapshots;
        self.calls += other.calls;
        self.items += other.items;
        self.virtual_ms += other.virtual_ms;
        self.events += other.events;
    }

    /// The kinds that no run met.
    #[must_use]
    pub fn missing(&self) -> Vec<Met> {
        Met::ALL.iter().copied().filter(|met| !self.has(*met)).collect()
    }

    /// The table: what was met, in how many runs.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{:<36} {:>10} {:>7}\n", "met", "runs", "share");
        for met in Met::ALL {
            let n = self.runs_with.get(*met as usize).copied().unwrap_or(0);
            #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
            let share = n as f64 * 100.0 / self.runs.max(1) as f64;
            text.push_str(&format!("{:<36} {n:>10} {share:>6.1}%\n", met.name()));
        }
        text.push_str(&format!(
            "{} runs, {} items, {} handler calls, {} writes checked ({} commits), {} whole snapshots, {} events, {} virtual hours\n",
            self.runs,
            self.items,
            self.calls,
            self.writes,
            self.commits,
            self.snapshots,
            self.events,
            self.virtual_ms / 3_600_000
        ));
        text
    }
}
