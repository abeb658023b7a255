//! What the world is told: which facts follow from what happens to items and runs.
//!
//! [`decide`](crate::decide) puts an item's facts into its transition, and stores ask the functions here about what is admitted,
//! purged, or changed about a run. Nobody else makes one, so none can be forgotten or made up. A fact names no content and
//! no error text: whoever hears of it asks for those where they are kept.

mod follow;
mod kind;
mod taken;

use serde::{Serialize, Serializer};

use crate::answer::AnswerToken;
use crate::event::Transition;
use crate::failure::Class;
use crate::id::{ItemId, RunId, StageNo};
use crate::item::{Item, State};
use crate::status::Control;
use crate::time::Timestamp;

pub(crate) use follow::{Happened, follow};
pub use kind::FactKind;
use kind::Kinds;
pub use taken::{MAIL_EVENTS, OWN_PIPELINES, is_taken};

/// What the world is told of one change of an item: the kinds of facts, and where the item stood.
///
/// What ended names the stage, generation and attempt that it ended at; what begins anew, those that it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    kinds: Kinds,
    stage: StageNo,
    generation: u32,
    attempt: u32,
}

impl Facts {
    fn at(item: &Item, kinds: Kinds) -> Self {
        Self { kinds, stage: item.stage, generation: item.generation, attempt: item.attempt }
    }

    /// The kinds, in the order in which they are told.
    pub fn kinds(self) -> impl Iterator<Item = FactKind> {
        self.kinds.iter()
    }
}

/// Something the world is told. It serialises as the body of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What happened.
    #[serde(rename = "fact")]
    pub kind: FactKind,
    /// The item it is about; `None` for what is told of a whole run, as all that is about an item below.
    pub item: Option<ItemId>,
    /// That item's key.
    pub key: Option<String>,
    /// The run.
    pub run: RunId,
    /// The stage it happened at.
    pub stage: Option<StageNo>,
    /// How often the item had been sent back.
    pub generation: Option<u32>,
    /// The attempt it happened in, or after.
    pub attempt: Option<u32>,
    /// When.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// When the item is due again, where it waits for that.
    #[serde(serialize_with = "as_text_if_any", skip_serializing_if = "Option::is_none")]
    pub due: Option<Timestamp>,
    /// The class of the failure, where it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Why an item is dead, or what keeps a run from going on: a name, never a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the answer of an item that was handed over names, so that it finds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The name under which an item is handed over by this very fact, as its stage says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
}

impl Fact {
    /// What the world is told of a transition, its children not included.
    pub fn of_transition(transition: &Transition) -> impl Iterator<Item = Self> {
        Self::each(transition.facts, &transition.after, transition.after.updated_at)
    }

    /// What the world is told of an item that is admitted.
    pub fn of_admitted(item: &Item) -> impl Iterator<Item = Self> {
        let kinds = Kinds::of(&[FactKind::Admitted]).and(follow::of_state(&item.state));
        Self::each(Facts::at(item, kinds), item, item.created_at)
    }

    /// What the world is told of an item that is purged.
    pub fn of_purged(item: &Item, at: Timestamp) -> impl Iterator<Item = Self> {
        Self::each(Facts::at(item, Kinds::of(&[FactKind::Purged])), item, at)
    }

    /// What the world is told of a run that is created.
    #[must_use]
    pub fn of_created(run: RunId, at: Timestamp) -> Self {
        Self::of_run(FactKind::RunCreated, run, at)
    }

    /// What the world is told when something else is asked of a run than before.
    #[must_use]
    pub fn of_control(run: RunId, before: Control, after: Control, at: Timestamp) -> Option<Self> {
        let kind = match after {
            _ if after == before => return None,
            Control::Go => FactKind::RunResumed,
            Control::Cancelled => FactKind::RunCancelled,
            Control::Paused | Control::PausedBudget | Control::PausedQuota | Control::PausedOutage => {
                FactKind::RunPaused
            }
        };
        let reason = after.status().filter(|_| kind == FactKind::RunPaused);
        let reason = reason.map(|status| status.name().to_owned());
        Some(Self { reason, ..Self::of_run(kind, run, at) })
    }

    /// What the world is told when a run was not finished and is.
    #[must_use]
    pub fn of_finish(run: RunId, before: Option<Timestamp>, after: Option<Timestamp>) -> Option<Self> {
        let at = after.filter(|_| before.is_none())?;
        Some(Self::of_run(FactKind::RunFinished, run, at))
    }

    /// The same fact as it is read from a store, which keeps no token: that follows from the rest.
    #[must_use]
    pub fn named(mut self) -> Self {
        if let (FactKind::HandedOver, Some(item), Some(stage), Some(generation), Some(attempt)) =
            (self.kind, self.item, self.stage, self.generation, self.attempt)
        {
            self.token = Some(AnswerToken { item, stage, generation, attempt }.to_string());
        }
        self
    }

    fn of_run(kind: FactKind, run: RunId, at: Timestamp) -> Self {
        Self {
            kind,
            item: None,
            key: None,
            run,
            stage: None,
            generation: None,
            attempt: None,
            at,
            due: None,
            class: None,
            reason: None,
            token: None,
            route: None,
        }
    }

    fn each(facts: Facts, item: &Item, at: Timestamp) -> impl Iterator<Item = Self> {
        facts.kinds().map(move |kind| {
            let due = match item.state {
                State::Waiting { due, .. } if kind.has_due() => Some(due),
                _ => None,
            };
            let reason = match item.state {
                State::Dead { reason } if kind.is_death() => Some(reason.name().to_owned()),
                _ => None,
            };
            let handed = item.handed.as_ref().filter(|_| kind == FactKind::HandedOver);
            Self {
                kind,
                item: Some(item.id),
                key: Some(item.key.to_string()),
                run: item.run,
                stage: Some(facts.stage),
                generation: Some(facts.generation),
                attempt: Some(facts.attempt),
                at,
                due,
                class: item.last.as_ref().filter(|_| kind.has_class()).map(|last| last.class),
                reason,
                token: handed.map(|_| AnswerToken::of(item).to_string()),
                route: handed.and_then(|handed| handed.route.as_deref()).map(str::to_owned),
            }
        })
    }
}

fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn as_text_if_any<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}
