//! Facts are passed on.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::id::{FactId, StoreId};
use redrive_core::time::Timestamp;
use redrive_engine::{crash, env};
use redrive_store::{KeptFact, OutboxView, Store};

use super::letter::{Letter, Writer};
use super::turn::{self, Turn};
use super::waves::{HeldBack, wave};
use crate::error::{Error, Result};
use crate::{Floor, Role};

/// Facts that are read at a time, beside those that are held.
const BATCH: usize = 4_096;
/// Most facts that are under way at a time.
const WAVE: usize = 1_024;
/// Most facts that are read at a time: as many can be held before they keep all others back.
const MOST: usize = 20_000;
/// When what was not taken is tried again first; then twice as late each time.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// At the latest.
const LAST_WAIT: Duration = Duration::from_secs(60);

/// Facts that wait for longer are late.
const LATE: Duration = Duration::from_secs(600);
/// How often it is looked whether somebody wrote something.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The same where very many facts are held.
const LOOK_SELDOM: Duration = Duration::from_secs(1);
/// How often facts are looked for, whether or not somebody wrote something.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(5);

/// What became of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    /// The bus has it, and somebody will get it.
    Taken,
    /// Nobody wants it: it leads to no queue.
    Unroutable,
    /// The bus could not keep it.
    Refused,
}

/// Why it is not known what became of letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(pub String);

/// Carries letters to the bus.
#[async_trait]
pub trait Post: Send {
    /// Hands letters over, and says of each, in their order, what became of it.
    ///
    /// # Errors
    /// When that is not known. They are handed over again, and may arrive twice.
    async fn send(&mut self, letters: &[Letter]) -> std::result::Result<Vec<Sent>, Failed>;
}

/// What is done with facts that lead to no queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Unrouted {
    /// They stay in the store until a queue is bound for them.
    #[default]
    Keep,
    /// They are forgotten, as if they had been taken: nobody wants them. Those by which an item is handed over stay.
    Drop,
    /// So are those of these pipelines; others stay.
    DropOf(Vec<String>),
}

/// Facts of one name that the bus did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// What they tell of.
    pub event: String,
    /// Why it did not.
    pub why: Sent,
    /// How many were tried.
    pub facts: u64,
}

/// What one round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Round {
    /// Somebody else passes facts on.
    Elsewhere,
    /// Everything that could be handed over was.
    Done {
        /// Facts that were passed on.
        passed: u64,
        /// Facts that were forgotten because nobody wants them.
        dropped: u64,
        /// Whether there is more to be passed on at once.
        more: bool,
        /// What the bus did not take, where it was tried anew.
        held: Vec<Held>,
        /// Facts that wait because they, or one before them, were not taken.
        waiting: usize,
    },
    /// The bus is not there, or does not answer.
    Down {
        /// Facts that were passed on before.
        passed: u64,
        /// Why.
        why: String,
    },
}

/// What the bus did not take, and when it is tried again.
#[derive(Default)]
struct Stuck {
    held: HeldBack,
    tried: BTreeMap<(String, Sent), u64>,
    /// Facts that waited at the last look.
    facts: usize,
    /// When all of it is tried again, by the uptime.
    again: Option<Duration>,
    wait: Duration,
}

impl Stuck {
    /// Lets everything be tried again whose time has come.
    fn release(&mut self, uptime: Duration) {
        if self.again.is_some_and(|at| at <= uptime) {
            self.again = None;
            self.held = HeldBack::default();
            self.tried.clear();
        }
    }

    fn hold(&mut self, letter: &Letter, why: Sent) {
        self.held.subjects.insert(letter.subject);
        self.held.facts.insert(letter.fact);
        *self.tried.entry((letter.event.clone(), why)).or_default() += 1;
    }

    /// Ends a round; what is to be told, where everything was tried anew.
    fn settle(&mut self, waiting: usize, uptime: Duration) -> Vec<Held> {
        self.facts = waiting;
        if self.held.subjects.is_empty() {
            self.wait = FIRST_WAIT;
            return Vec::new();
        }
        if self.again.is_some() {
            return Vec::new();
        }
        self.again = Some(uptime.saturating_add(self.wait.max(FIRST_WAIT)));
        self.wait = self.wait.max(FIRST_WAIT).saturating_mul(2).min(LAST_WAIT);
        let tried = self.tried.iter();
        tried.map(|((event, why), facts)| Held { event: event.clone(), why: *why, facts: *facts }).collect()
    }
}

/// Passes on what a store has to tell.
pub struct Relay {
    floor: Floor,
    store: StoreId,
    turn: Turn,
    writer: Writer,
    stuck: Stuck,
    unrouted: Unrouted,
    /// When it was last looked whether facts are kept, by the uptime.
    looked: Duration,
}

impl Relay {
    /// Has the store keep facts from now on, and begins. Nothing is passed on yet.
    ///
    /// # Errors
    /// When whoever asks may not, or the store fails.
    pub async fn open(floor: Floor, unrouted: Unrouted) -> Result<Self> {
        floor.require(Role::Admin)?;
        let bits = env::secret()?;
        let mut name = [0; 8];
        name.copy_from_slice(&bits[..8]);
        let store = floor.store.keep_facts(StoreId(u64::from_be_bytes(name))).await?;
        let who: String = bits[8..24].iter().map(|byte| format!("{byte:02x}")).collect();
        let (turn, looked) = (Turn::new(who), floor.env.clock.uptime());
        Ok(Self { floor, store, turn, writer: Writer::default(), stuck: Stuck::default(), unrouted, looked })
    }

    fn is_unwanted(&self, letter: &Letter) -> bool {
        let dropped = match &self.unrouted {
            Unrouted::Keep => false,
            Unrouted::Drop => true,
            Unrouted::DropOf(pipelines) => {
                letter.pipeline.as_ref().is_some_and(|name| pipelines.contains(name))
            }
        };
        dropped && !letter.answered
    }

    /// Passes on what there is.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn round(&mut self, post: &mut dyn Post) -> Result<Round> {
        if !self.turn.take(&self.floor).await? {
            return Ok(Round::Elsewhere);
        }
        self.keep_on().await?;
        self.stuck.release(self.floor.env.clock.uptime());
        let limit = BATCH.saturating_add(self.stuck.facts).min(MOST);
        let mut facts = self.floor.store.facts(limit).await?;
        let full = facts.len() == limit;
        let (mut passed, mut dropped) = (0, 0);
        loop {
            let some = wave(&mut facts, &self.stuck.held, WAVE);
            if some.is_empty() {
                break;
            }
            if !self.turn.take(&self.floor).await? {
                return Ok(Round::Elsewhere);
            }
            let letters = self.writer.letters(&*self.floor.store, self.store, &some).await?;
            let sent = match post.send(&letters).await {
                Ok(sent) => sent,
                Err(Failed(why)) => return Ok(Round::Down { passed, why }),
            };
            let gone = self.take_down(&letters, &sent, &some, &mut facts).await?;
            (passed, dropped) = (passed + gone.0, dropped + gone.1);
        }
        let held = self.stuck.settle(facts.len(), self.floor.env.clock.uptime());
        Ok(Round::Done { passed, dropped, more: full && passed + dropped > 0, held, waiting: facts.len() })
    }

    /// Sees to it by and by that facts are kept, as long as there is somebody to pass them on.
    async fn keep_on(&mut self) -> Result<()> {
        let uptime = self.floor.env.clock.uptime();
        if uptime.saturating_sub(self.looked) < LOOK_AT_LEAST_EVERY {
            return Ok(());
        }
        self.looked = uptime;
        if !self.floor.store.outbox(0).await?.kept {
            self.floor.store.keep_facts(self.store).await?;
            tracing::warn!(
                target: "redrive::bus",
                "somebody had no more facts kept: what happened since is not told; they are kept again from now on"
            );
        }
        Ok(())
    }

    /// Forgets what the bus has and what nobody wants, says how many of each, and remembers what the bus did not take.
    async fn take_down(
        &mut self,
        letters: &[Letter],
        sent: &[Sent],
        some: &[KeptFact],
        rest: &mut Vec<KeptFact>,
    ) -> Result<(u64, u64)> {
        if sent.len() != letters.len() {
            return Err(Error::internal("the bus did not say what became of every letter"));
        }
        let (mut done, mut dropped): (Vec<FactId>, u64) = (Vec::new(), 0);
        for ((letter, sent), kept) in letters.iter().zip(sent).zip(some) {
            match sent {
                Sent::Taken => done.push(letter.fact),
                Sent::Unroutable if self.is_unwanted(letter) => {
                    done.push(letter.fact);
                    dropped += 1;
                }
                Sent::Unroutable | Sent::Refused => {
                    self.stuck.hold(letter, *sent);
                    rest.push(kept.clone());
                }
            }
        }
        let passed = done.len() as u64 - dropped;
        if !done.is_empty() {
            crash::point("relay.before_forget");
            self.floor.store.facts_passed_on(done).await?;
            crash::point("relay.after_forget");
        }
        Ok((passed, dropped))
    }

    /// Lets another relay begin at once.
    ///
    /// # Errors
    /// When the store fails: then it begins once the turn of this one is over.
    pub async fn close(mut self) -> Result<()> {
        self.turn.give_back(&self.floor).await
    }

    /// What changes when somebody writes, to be asked for before a round; `None` where the store does not say.
    pub async fn stamp(&self) -> Option<u64> {
        self.floor.store.stamp().await.ok()
    }

    /// Waits until there may be something to pass on: somebody wrote since this stamp, what was not taken is to be tried again,
    /// or it is time for a sign of life.
    pub async fn news(&self, stamp: Option<u64>) {
        let clock = &self.floor.env.clock;
        let begun = clock.uptime();
        // Whoever looks has to read over all that is held.
        let every = if self.stuck.facts > BATCH { LOOK_SELDOM } else { LOOK_EVERY };
        loop {
            clock.sleep(every).await;
            let uptime = clock.uptime();
            let again = self.stuck.again.is_some_and(|at| at <= uptime);
            let late = uptime.saturating_sub(begun) >= LOOK_AT_LEAST_EVERY;
            if again || late || stamp.is_none() || self.stamp().await != stamp {
                return;
            }
        }
    }
}

/// Has no more facts kept; those that wait stay until they are passed on.
///
/// # Errors
/// When whoever asks may not, somebody passes facts on, or the store fails.
pub async fn stop_telling(floor: &Floor) -> Result<OutboxView> {
    floor.require(Role::Admin)?;
    if somebody_relays(floor).await? {
        return Err(Error::refused("a process passes facts of this store on").hint(
            "stop it first, or start it without --bus: as long as somebody passes them on, facts are kept",
        ));
    }
    floor.store.drop_facts().await?;
    waiting(&*floor.store).await
}

/// Whether some process passes facts on now.
///
/// # Errors
/// When the store fails.
pub async fn somebody_relays(floor: &Floor) -> Result<bool> {
    turn::is_taken(floor).await
}

/// Whether facts wait for longer than they should: nobody passes them on, or the bus does not take them.
#[must_use]
pub fn are_late(outbox: &OutboxView, now: Timestamp) -> bool {
    outbox.oldest.is_some_and(|at| now.since(at) > LATE)
}

/// Whether facts are kept, and how many wait, counted up to a limit.
///
/// # Errors
/// When the store fails.
pub async fn waiting(store: &dyn Store) -> Result<OutboxView> {
    Ok(store.outbox(MOST).await?)
}
