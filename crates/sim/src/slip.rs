//! Workers and readers that make a mistake, to show that the checks can fail.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::event::ItemReply;
use redrive_core::failure::Failure;
use redrive_core::gate::{GateState, Paused, PausedBy};
use redrive_core::item::Payload;
use redrive_core::time::Timestamp;
use redrive_engine::handler::{Answer, Reply};
use redrive_engine::recipe::Recipe;
use redrive_engine::worker::Part;
use redrive_store::{ClaimedItem, DamagedItem, GateRow, Pauses};

/// A mistake of every worker, or of whoever reads the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slip {
    /// Has more calls under way than a gate allows.
    TooMany,
    /// Does not hear how long a service wants to be left alone.
    IgnoresHints,
    /// Forgets, when it reads a gate, that it is closed.
    ForgetsClosing,
    /// Forgets, when it reads a gate, that it waits for somebody.
    ForgetsPause,
    /// Has a gate of its own for every stage that shares one.
    SplitGate,
    /// Blames the items for what their gate should answer for.
    NoGate,
    /// Grants a service whatever wait it asks for.
    NoCap,
    /// Takes a gate for closed for ever.
    NeverOpens,
    /// Looks at a closed gate all the time.
    Spins,
    /// Goes on reading where it was, though the source has changed.
    ReadsOn,
    /// Does not look for what has left the source.
    KeepsRemoved,
    /// Believes that more of the source agrees with what was read than does.
    AgreesTooFar,
    /// Works on an item whose content is damaged as if it had none.
    WorksOnDamaged,
    /// Does not look for the items of a claim whose answer was lost.
    SkipsReconcile,
    /// Waits for ever where nothing is known to be due.
    MissesWakeUps,
    /// Claims more before what ended is recorded, and forgets that then.
    ClaimsWithoutRecord,
    /// Takes back nothing that a vanished worker held.
    NeverReaps,
    /// Settles no parent whose children ended elsewhere.
    NeverSweeps,
    /// Does not watch its clock.
    IgnoresClock,
    /// Hears that something is paused, and goes on with it.
    IgnoresPauses,
}

impl Slip {
    /// Every mistake.
    pub const ALL: [Self; 20] = [
        Self::TooMany,
        Self::IgnoresHints,
        Self::ForgetsClosing,
        Self::ForgetsPause,
        Self::SplitGate,
        Self::NoGate,
        Self::NoCap,
        Self::NeverOpens,
        Self::Spins,
        Self::ReadsOn,
        Self::KeepsRemoved,
        Self::AgreesTooFar,
        Self::WorksOnDamaged,
        Self::SkipsReconcile,
        Self::MissesWakeUps,
        Self::ClaimsWithoutRecord,
        Self::NeverReaps,
        Self::NeverSweeps,
        Self::IgnoresClock,
        Self::IgnoresPauses,
    ];

    /// The rule that it breaks.
    #[must_use]
    pub fn breaks(self) -> &'static str {
        match self {
            Self::TooMany => "gate-places",
            Self::IgnoresHints => "item-hint",
            Self::ForgetsClosing => "gate-closed",
            Self::ForgetsPause => "gate-paused",
            Self::SplitGate => "gate-probe",
            Self::NoGate => "gate-blame",
            Self::IgnoresPauses => "pause",
            Self::NoCap => "gate-wait",
            Self::NeverOpens => "L7",
            Self::Spins => "spin",
            Self::ReadsOn | Self::KeepsRemoved | Self::AgreesTooFar => "L1",
            Self::WorksOnDamaged => "damage",
            Self::SkipsReconcile
            | Self::MissesWakeUps
            | Self::ClaimsWithoutRecord
            | Self::NeverReaps
            | Self::NeverSweeps
            | Self::IgnoresClock => "L7",
        }
    }

    /// The part of the worker's loop that it leaves out.
    #[must_use]
    pub fn omits(self) -> Option<Part> {
        match self {
            Self::SkipsReconcile => Some(Part::Reconcile),
            Self::MissesWakeUps => Some(Part::Tick),
            Self::ClaimsWithoutRecord => Some(Part::Record),
            Self::NeverReaps => Some(Part::Reap),
            Self::NeverSweeps => Some(Part::Sweep),
            Self::IgnoresClock => Some(Part::Clock),
            _ => None,
        }
    }
}

/// The recipe as a worker with this mistake has it.
#[must_use]
pub fn recipe(true_one: &Arc<Recipe>, slip: Option<Slip>) -> Arc<Recipe> {
    let Recipe { plan, stages, gates, order, share, budget, max_dead, thresholds } = &**true_one;
    let (mut stages, mut gates) = (stages.clone(), gates.clone());
    match slip {
        Some(Slip::TooMany) => gates.iter_mut().for_each(|gate| gate.spec.max_concurrency += 8),
        Some(Slip::NoCap) => {
            let cap = Duration::from_secs(1_000_000_000);
            gates.iter_mut().for_each(|gate| gate.spec.hint_cap = cap);
        }
        Some(Slip::NoGate) => stages.iter_mut().for_each(|stage| stage.gate = None),
        Some(Slip::SplitGate) => {
            let shared = std::mem::take(&mut gates);
            for stage in &mut stages {
                if let Some(gate) = stage.gate.and_then(|at| shared.get(at)) {
                    // With limits of its own it is one of its own.
                    let mut gate = gate.clone();
                    gate.spec.hint_cap += Duration::from_millis(gates.len() as u64);
                    stage.gate = Some(gates.len());
                    gates.push(gate);
                }
            }
        }
        _ => return true_one.clone(),
    }
    Arc::new(Recipe {
        plan: plan.clone(),
        stages,
        gates,
        order: *order,
        share: *share,
        budget: budget.clone(),
        max_dead: *max_dead,
        thresholds: *thresholds,
    })
}

/// What a worker with this mistake makes of what is paused.
pub fn pauses(pauses: &mut Pauses, slip: Option<Slip>) {
    if slip == Some(Slip::IgnoresPauses) {
        pauses.rows.clear();
    }
}

/// What a worker with this mistake makes of the gates it reads.
pub fn rows(rows: &mut [GateRow], slip: Option<Slip>) {
    let Some(slip @ (Slip::ForgetsClosing | Slip::ForgetsPause | Slip::NeverOpens)) = slip else {
        return;
    };
    for row in rows {
        let mut state = GateState::read(&row.state).unwrap_or_default();
        match slip {
            Slip::ForgetsClosing => state.closed = None,
            Slip::ForgetsPause => state.pause = None,
            _ => {
                let (by, why) = (PausedBy::Operator, "planted".to_owned());
                state.pause = Some(Paused { by, why, since: Timestamp(0) });
            }
        }
        row.state = state.write();
    }
}

/// What a worker with this mistake makes of an answer.
#[must_use]
pub fn answer(mut answer: Answer, slip: Option<Slip>) -> Answer {
    if slip == Some(Slip::IgnoresHints) {
        let deaf = |failure: Failure| failure.with_hint(None);
        answer.reply = match answer.reply {
            Reply::Whole(failure) => Reply::Whole(deaf(failure)),
            Reply::Items(replies) => Reply::Items(
                replies
                    .into_iter()
                    .map(|reply| match reply {
                        ItemReply::Failed { failure, shared } => {
                            ItemReply::Failed { failure: deaf(failure), shared }
                        }
                        reply => reply,
                    })
                    .collect(),
            ),
            part @ Reply::Part { .. } => part,
        };
    }
    answer
}

/// Damaged items as a worker has them that takes no notice of that.
#[must_use]
pub fn whole(damaged: Vec<DamagedItem>) -> Vec<ClaimedItem> {
    let whole = |damaged: DamagedItem| ClaimedItem { item: damaged.item, payload: Payload::from([]) };
    damaged.into_iter().map(whole).collect()
}
