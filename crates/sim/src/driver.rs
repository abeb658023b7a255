//! Drives the loop of a simulated worker: calls and waiting are events of the simulation, and the oracle is told of each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::Notice;
use redrive_core::id::{ItemId, StageNo, WorkerId};
use redrive_core::time::{Timestamp, millis};
use redrive_engine::handler::{Answer, Reply};
use redrive_engine::worker::{Call, CallId, Desk, Driver, Part, Pulse, Step, Stop};
use redrive_store::{Claimed, Retired, Slot};

use crate::hub::{Event, TaskId};
use crate::mailbox::{Mailbox, Wait};
use crate::met::Met;
use crate::slip::{self, Slip};
use crate::worker::Worker;

/// Turns that brought nothing which a worker may make within a second.
const FRUITLESS: u32 = 150;

/// A call under way.
struct Open {
    stage: StageNo,
    items: Vec<(ItemId, u32)>,
}

/// Drives one worker's loop.
pub struct SimDriver {
    worker: Worker,
    pulse: Pulse,
    /// Its heartbeat, unless that is its worker's.
    beat: Option<TaskId>,
    /// Its worker has it end.
    closing: Arc<AtomicBool>,
    /// The number that the worker was known by at its last turn.
    known_as: WorkerId,
    mailbox: Arc<Mailbox>,
    open: BTreeMap<CallId, Open>,
    /// Attempts that a handler has been called for: more calls for them are parts of a batch that is taken apart.
    called: BTreeSet<(ItemId, u32)>,
    /// Items that were sent back and have an attempt of the same number again: a call by one who lost its lease meanwhile cannot
    /// be told from one for the new attempt.
    twins: BTreeSet<ItemId>,
    broken_off: Vec<(ItemId, u32)>,
    /// Whether this turn brought anything.
    fruitful: bool,
    /// Turns that brought nothing, and since when they are counted.
    fruitless: (i64, u32),
    /// Somebody else took over something that was held here.
    disturbed: bool,
    /// A gate that something waits for will open.
    waits_for_gate: bool,
}

impl Drop for SimDriver {
    fn drop(&mut self) {
        if !self.open.is_empty() {
            self.worker.hub.meet(Met::CrashCalling);
        }
        self.mailbox.close();
        self.beat.iter().for_each(|beat| self.worker.hub.kill(*beat));
    }
}

impl SimDriver {
    /// Drives the loop of a worker that is registered.
    #[must_use]
    pub fn new(worker: Worker, pulse: Pulse) -> Self {
        let beat = worker.hub.spawn(Box::pin(pulse.clone().beat()));
        let mut driver = Self::among(worker, pulse, Arc::default());
        driver.beat = Some(beat);
        driver
    }

    /// Drives the loop of one of the runs that a worker has open.
    #[must_use]
    pub fn among(worker: Worker, pulse: Pulse, closing: Arc<AtomicBool>) -> Self {
        Self {
            known_as: pulse.worker(),
            worker,
            pulse,
            beat: None,
            closing,
            mailbox: Mailbox::new(),
            open: BTreeMap::new(),
            called: BTreeSet::new(),
            twins: BTreeSet::new(),
            broken_off: Vec::new(),
            fruitful: false,
            fruitless: (0, 0),
            disturbed: false,
            waits_for_gate: false,
        }
    }

    fn slot(&self) -> usize {
        self.worker.store.actor().slot
    }

    /// Has a call answered, at some time, perhaps twice, perhaps never.
    fn schedule(&mut self, call: Call) {
        let Worker { hub, script, .. } = &self.worker;
        let (id, request) = (call.id, call.request);
        hub.score(|score| score.calls += 1);
        hub.log("call", &[i64::from(call.stage.0)], || {
            let keys: Vec<_> = request.items.iter().map(|item| &*item.key).collect();
            format!("{} {} {id:?}: {}", self.worker.store.actor().name, request.stage, keys.join(" "))
        });
        let most = script.gated.batch_tokens.get(call.stage.index()).copied().flatten();
        let tokens: u64 = request.items.iter().map(|item| script.tokens(&item.payload)).sum();
        if most.is_some_and(|most| request.items.len() > 1 && tokens + 65 > most) {
            hub.meet(Met::ShortBatch);
        }
        // One that is broken off while its answer is asked for is awaited as before.
        let begun = request.items.iter().filter(|item| item.handed.is_none());
        let items = begun.map(|item| (item.id, item.attempt)).collect();
        self.open.insert(id, Open { stage: call.stage, items });
        let said = script.answer(hub, &request);
        let timeout = millis(request.timeout);
        let now = hub.now();
        let send = |after: i64, answer: Answer, special: Option<Met>| {
            hub.at(now + after, Event::Answer { mailbox: self.mailbox.clone(), id, answer, special });
        };
        match said.after {
            Some(after) if after < timeout => {
                if !hub.healed() && hub.rng.permille(30) {
                    send(after + hub.rng.span(0, timeout), said.answer.clone(), Some(Met::DuplicateAnswer));
                }
                send(after, said.answer, None);
            }
            late => {
                let failure =
                    Failure::new(Class::Timeout, Kind::Timeout, format!("no answer within {timeout} ms"));
                send(timeout, Reply::Whole(failure).into(), Some(Met::Timeout));
                if let Some(after) = late {
                    send(after, said.answer, Some(Met::LateAnswer));
                }
            }
        }
    }

    fn claimed(&mut self, claimed: &mut Claimed) {
        self.fruitful |= !(claimed.items.is_empty() && claimed.damaged.is_empty());
        for item in &claimed.items {
            if self.called.remove(&(item.item.id, item.item.attempt)) {
                self.twins.insert(item.item.id);
            }
        }
        if self.worker.slip == Some(Slip::WorksOnDamaged) {
            claimed.items.extend(slip::whole(std::mem::take(&mut claimed.damaged)));
        }
    }

    /// L7: a desk with nothing to do asks for all it can take, but for what a gate holds up.
    fn idle_wants_all(&self, wants: &[Slot], desk: &Desk) {
        let Worker { recipe, hub, .. } = &self.worker;
        let all = recipe.plan.stages().all(|(stage, _)| {
            let asked = wants.iter().find(|slot| slot.stage == stage).map_or(0, |slot| slot.limit);
            recipe
                .work(stage)
                .is_some_and(|work| work.gate.is_some() || asked == work.capacity() || desk.is_paused(stage))
        });
        if desk.is_idle() && desk.halt().is_none() && !all {
            hub.broke("L7", format!("an idle worker asks for {wants:?} only"));
        }
    }

    /// A worker that waits does not look all the time.
    fn count_turn(&mut self, next_due: Option<Timestamp>, desk: &Desk, at: Timestamp) {
        let hub = &self.worker.hub;
        let now = hub.now();
        if std::mem::take(&mut self.fruitful) || now - self.fruitless.0 > 1_000 {
            self.fruitless = (now, 0);
        }
        self.fruitless.1 += 1;
        if self.fruitless.1 > FRUITLESS {
            let (opens, wants) = (desk.opens_at(at), desk.wants(at));
            let what = format!(
                "{} turns within a second brought nothing, at {at}: opens at {opens:?}, due at {next_due:?}, wants {wants:?}",
                self.fruitless.1
            );
            hub.broke("spin", what);
        }
        if self.pulse.worker() != self.known_as {
            self.known_as = self.pulse.worker();
            hub.meet(Met::Reregistered);
        }
    }

    fn left(&self, how: Retired) {
        if self.disturbed || how != Retired::Stopped {
            return;
        }
        let Worker { store, hub, .. } = &self.worker;
        let checked = store.oracle().on_broken_off(self.pulse.worker(), &self.broken_off);
        if let Err(broken) = checked {
            hub.broke(broken.law, broken.what);
        }
    }
}

#[async_trait]
impl Driver for SimDriver {
    fn worker(&self) -> WorkerId {
        self.pulse.worker()
    }

    fn stop(&mut self) -> Stop {
        let closing = self.closing.load(Ordering::SeqCst);
        let told = self.worker.orders.stop().max(if closing { Stop::Drain } else { Stop::No });
        match told {
            Stop::No => {}
            Stop::Drain => self.worker.hub.meet(Met::StopDrain),
            Stop::Now => self.worker.hub.meet(Met::StopNow),
        }
        told
    }

    fn is_admitting(&self) -> bool {
        self.worker.admitting.load(Ordering::SeqCst)
    }

    fn start(&mut self, call: Call) {
        let now = self.worker.env.clock.now();
        self.fruitful = true;
        // Whoever asks for an answer goes on with an attempt that was called before.
        let begun = call.request.items.iter().filter(|item| item.handed.is_none());
        let items = begun.map(|item| (item.id, item.attempt));
        let store = &self.worker.store;
        if items.clone().any(|item| self.called.contains(&item)) {
            self.worker.hub.meet(Met::Bisection);
        } else {
            let told_apart = |item: &(ItemId, u32)| !self.twins.contains(&item.0);
            store.oracle().on_called(items.clone().filter(told_apart));
            self.called.extend(items);
        }
        let asked = call.request.items.iter().map(|item| item.id);
        let told = store.oracle().on_hinted_call(call.stage, asked, now);
        let may = told.and_then(|()| store.oracle().on_gate_call(self.slot(), call.stage, now));
        if let Err(broken) = may {
            self.worker.hub.broke(broken.law, broken.what);
        }
        self.schedule(call);
    }

    fn answered(&mut self) -> Option<(CallId, Answer)> {
        let (id, answer) = self.mailbox.take()?;
        self.fruitful = true;
        let Worker { hub, store, env, .. } = &self.worker;
        let open = self.open.remove(&id);
        let alone = open.as_ref().is_some_and(|open| open.items.len() == 1);
        if let Reply::Whole(_) = answer.reply {
            hub.meet(if alone { Met::Poison } else { Met::Shared });
        }
        if let Some(open) = open {
            let (slot, now) = (self.slot(), env.clock.now());
            store.oracle().on_hints(open.stage, &open.items, &answer, now);
            store.oracle().on_gate_answer(slot, open.stage, open.items.len(), &answer, now);
        }
        Some((id, slip::answer(answer, self.worker.slip)))
    }

    fn break_off(&mut self) {
        let open = std::mem::take(&mut self.open);
        for call in open.values() {
            self.worker.store.oracle().on_gate_call_over(self.slot(), call.stage);
        }
        self.broken_off.extend(open.into_values().flat_map(|call| call.items));
    }

    async fn wait(&mut self, at_most: Duration) {
        let spins = self.worker.slip == Some(Slip::Spins) && self.waits_for_gate;
        let ms = if spins { 1 } else { millis(at_most) };
        Wait::new(&self.worker.hub, &self.mailbox, &self.worker.orders, ms).await;
    }

    async fn breathe(&mut self) {
        self.worker.hub.sleep(1).await;
    }

    fn observe(&mut self, step: Step<'_>, desk: &Desk, now: Timestamp) {
        let (store, slot) = (&self.worker.store, self.slot());
        match step {
            Step::Looked => store.oracle().on_looked(self.pulse.worker(), desk.paused_ms()),
            Step::PausesRead { pauses } => slip::pauses(pauses, self.worker.slip),
            Step::GatesRead { rows, first } => {
                store.oracle().on_gates_heard(slot, first, now);
                slip::rows(rows, self.worker.slip);
            }
            Step::Turns { changes, gates, wants } => {
                store.oracle().on_gates_told(slot, gates, desk.gates().is_stale(), now);
                self.fruitful |= changes > 0 || !gates.is_empty();
                self.idle_wants_all(wants, desk);
            }
            Step::Disturbed => self.disturbed = true,
            Step::Claimed(claimed) => self.claimed(claimed),
            Step::Reconciled => self.worker.hub.meet(Met::Reconciled),
            Step::Noticed(notice) => self.worker.hub.meet(match notice {
                Notice::Paused(_) => Met::GateQuota,
                Notice::Away => Met::GateAway,
                Notice::Back => Met::GateBack,
                Notice::Parked(_) => Met::GateParked,
            }),
            Step::Turned { next_due } => self.count_turn(next_due, desk, now),
            Step::Idle { opens } => {
                self.waits_for_gate = opens.is_some();
                if opens.is_some_and(|opens| opens > now) {
                    self.worker.hub.meet(Met::GateWait);
                }
            }
            Step::Left(how) => self.left(how),
        }
    }

    fn omits(&self, part: Part) -> bool {
        self.worker.slip.and_then(Slip::omits) == Some(part)
    }
}
