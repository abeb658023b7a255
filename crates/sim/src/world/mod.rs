//! One simulated run, from its seed to its end.

mod setup;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_engine::worker::Stop;
use redrive_store::Store;

use crate::clock;
use crate::fault::Actor;
use crate::hub::{Broken, Event, Hub, Task, TaskId};
use crate::mailbox::Orders;
use crate::met::{Met, Score};
use crate::neighbours::{Lives, Machine};
use crate::people::Operator;
use crate::scenario::Scenario;
use crate::slip::{self, Slip};
use crate::source::Source;
use crate::store::FaultyStore;
use crate::worker::Worker;

/// Where the source stands among the processes; workers come before it.
const SOURCE: usize = 10;
const OPERATORS: [usize; 2] = [11, 12];
const MEDIC: usize = 13;
/// Events after which the faults end, however little time has passed.
const FAULTY_EVENTS: u64 = 6_000;
/// Events within which everything has to come to its end afterwards.
const HEALING_EVENTS: u64 = 60_000;

/// How a run went.
#[derive(Debug)]
pub struct Outcome {
    /// What was broken, if anything.
    pub broken: Option<Broken>,
    /// What was met.
    pub score: Score,
    /// Hash of the whole course of events.
    pub hash: u64,
    /// The course of events in words, when asked for.
    pub log: Vec<String>,
}

/// A simulated run.
pub struct World {
    hub: Arc<Hub>,
    scenario: Scenario,
    store: FaultyStore,
    run: RunId,
    tasks: BTreeMap<TaskId, (usize, Task)>,
    slots: BTreeMap<usize, TaskId>,
    frozen: BTreeMap<usize, i64>,
    actors: BTreeMap<usize, Arc<Actor>>,
    skews: Vec<Arc<AtomicI64>>,
    /// How far the clock of the source and of the operators is off.
    still: Arc<AtomicI64>,
    orders: Vec<Arc<Orders>>,
    lives: Arc<Lives>,
    source: Source,
    operators: Vec<Operator>,
    healed_at: Option<u64>,
    healed_time: i64,
    slip: Option<Slip>,
}

/// Within so many milliseconds without a fault everything has ended (L12): far longer than what the policies of any scenario come
/// to, which is three quarters of an hour, and far shorter than the longest step of a clock.
const ENDS_WITHIN: i64 = 3 * 3_600_000;
/// Steps of a machine's clock: a leap second, an hour, two days.
const STEPS: [i64; 3] = [1_000, 3_600_000, 172_800_000];

/// Runs a seed over an empty store.
///
/// # Panics
/// When the store cannot create a run.
#[must_use]
pub fn play(seed: u64, inner: Arc<dyn Store>, verbose: bool) -> Outcome {
    play_with(seed, inner, verbose, None)
}

/// Runs a seed with workers that make a mistake.
///
/// # Panics
/// When the store cannot create a run.
#[must_use]
pub fn play_with(seed: u64, inner: Arc<dyn Store>, verbose: bool, slip: Option<Slip>) -> Outcome {
    let mut world = World::new(seed, inner, verbose, slip);
    world.begin();
    let broken = world.go_on();
    let score = world.hub.scored();
    let hub = world.hub.clone();
    drop(world);
    let (hash, log) = hub.story();
    Outcome { broken, score, hash, log }
}

impl World {
    /// Brings everybody up and puts what is to go wrong into the queue.
    fn begin(&mut self) {
        let hub = self.hub.clone();
        let (now, pace, chaos) = (hub.now(), self.scenario.pace, self.scenario.chaos);
        let slots: Vec<usize> = self.actors.keys().copied().filter(|slot| *slot != MEDIC).collect();
        for slot in slots {
            hub.at(now + hub.rng.span(0, pace.tick), Event::Start(slot));
        }
        let end = now + pace.faults;
        hub.at(end, Event::Heal);
        let mut at = now;
        while at < end {
            at += pace.tick;
            let worker = hub.rng.size(0, self.scenario.workers - 1);
            let anybody = *hub.rng.pick(&[worker, worker, SOURCE, OPERATORS[0]]);
            let when = at - hub.rng.span(0, pace.tick);
            let perhaps = |chance: u64, event: Event| {
                if hub.rng.permille(chance) {
                    hub.at(when, event);
                }
            };
            perhaps(chaos.crashes, Event::Doom(anybody));
            perhaps(chaos.freezes, Event::Freeze(worker, hub.rng.span(pace.lease, pace.lease * 3)));
            perhaps(chaos.jumps, Event::Jump(worker, hub.rng.span(-pace.lease * 3, pace.lease * 3)));
            perhaps(chaos.stops, Event::Stop(worker, hub.rng.permille(500)));
            if chaos.steps > 0 {
                perhaps(chaos.steps, Event::Step(*hub.rng.pick(&STEPS) * hub.rng.pick(&[-1, 1])));
            }
        }
    }

    fn go_on(&mut self) -> Option<Broken> {
        while let Some(event) = self.hub.next() {
            if self.happen(event) {
                self.at_the_end();
                return self.hub.broken();
            }
            if let Some(broken) = self.hub.broken() {
                return Some(broken);
            }
            let events = self.hub.events();
            match self.healed_at {
                None if events > FAULTY_EVENTS => self.heal(),
                Some(since) if events - since > HEALING_EVENTS => {
                    let oracle = self.store.oracle();
                    let (live, stuck, control) = (oracle.live(), oracle.stuck(), oracle.control());
                    let what = format!("{live} items live on, the run is {control:?}: {stuck}");
                    drop(oracle);
                    self.hub.broke("L7", format!("it does not come to an end: {what}"));
                }
                Some(_) if self.hub.now() - self.healed_time > ENDS_WITHIN => {
                    let stuck = self.store.oracle().stuck();
                    self.hub.broke("L12", format!("{ENDS_WITHIN} ms without a fault, and no end: {stuck}"));
                }
                _ => {}
            }
        }
        Some(Broken { law: "L7".to_owned(), what: "nothing happens any more".to_owned() })
    }

    /// Lets an event happen; `true` when it was the end.
    fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::Poll(task) => self.poll(task),
            Event::Answer { mailbox, id, answer, special } => {
                special.into_iter().for_each(|met| self.hub.meet(met));
                match mailbox.put(id, answer) {
                    Some(reader) => self.hub.at(self.hub.now(), Event::Poll(reader)),
                    None => self.hub.meet(Met::AnswerToNobody),
                }
            }
            Event::Doom(slot) if !self.hub.healed() => match self.hub.rng.below(3) {
                0 => self.crash(slot),
                way => self.actors[&slot].doom(way == 1),
            },
            Event::Crash(slot) => self.crash(slot),
            Event::Start(slot) => self.start(slot),
            Event::Freeze(slot, ms) if !self.hub.healed() => {
                self.hub.meet(Met::Zombie);
                self.hub.log("freeze", &[ms], || format!("worker-{slot} for {ms} ms"));
                self.frozen.insert(slot, self.hub.now() + ms);
            }
            Event::Jump(slot, ms) if !self.hub.healed() => {
                self.hub.meet(if ms < 0 { Met::JumpBack } else { Met::JumpForward });
                self.hub.log("jump", &[ms], || format!("worker-{slot} by {ms} ms"));
                self.skews[slot].store(ms, Ordering::SeqCst);
            }
            Event::Step(ms) if !self.hub.healed() => {
                self.hub.meet(if ms < 0 { Met::StepBack } else { Met::StepForward });
                self.hub.log("step", &[ms], || format!("every clock by {ms} ms"));
                for skew in self.skews.iter().chain([&self.still]) {
                    // Not further than twice the longest step, or the oracle could say nothing of gates.
                    let put = skew.load(Ordering::SeqCst) + ms;
                    skew.store(put.clamp(-2 * STEPS[2], 2 * STEPS[2]), Ordering::SeqCst);
                }
            }
            Event::Stop(slot, hard) if !self.hub.healed() => {
                self.hub.log("stop", &[i64::from(hard)], || format!("worker-{slot}, hard: {hard}"));
                self.orders[slot].tell(if hard { Stop::Now } else { Stop::Drain });
                self.hub.at(self.hub.now(), Event::Poll(self.orders[slot].task()));
            }
            Event::Doom(_) | Event::Freeze(..) | Event::Jump(..) | Event::Step(_) | Event::Stop(..) => {}
            Event::Heal => self.heal(),
            Event::Look => return self.look(),
        }
        self.take_changes();
        false
    }

    fn poll(&mut self, id: TaskId) {
        let Some((slot, mut task)) = self.tasks.remove(&id) else { return };
        let thaw = self.frozen.get(&slot).copied().filter(|thaw| *thaw > self.hub.now());
        if let Some(thaw) = thaw {
            self.hub.at(thaw, Event::Poll(id));
            self.tasks.insert(id, (slot, task));
            return;
        }
        self.hub.set_current(id);
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        match polled {
            Poll::Pending => {
                self.tasks.insert(id, (slot, task));
            }
            // Only a worker that was stopped ends and comes back.
            Poll::Ready(()) if slot < SOURCE && self.slots.get(&slot) == Some(&id) => {
                self.lives.end(slot);
                let pause = self.hub.rng.span(0, self.scenario.pace.tick * 3);
                self.hub.at(self.hub.now() + pause, Event::Start(slot));
            }
            Poll::Ready(()) => {}
        }
    }

    fn take_changes(&mut self) {
        let (spawned, killed) = self.hub.changes();
        for (id, parent, task) in spawned {
            let slot = self.tasks.get(&parent).map_or(MEDIC, |(slot, _)| *slot);
            self.tasks.insert(id, (slot, task));
        }
        for id in killed {
            self.tasks.remove(&id);
        }
    }

    fn crash(&mut self, slot: usize) {
        self.hub.log("crash", &[], || self.actors[&slot].name.clone());
        if slot >= SOURCE {
            self.hub.meet(Met::CrashOperator);
        }
        if slot == SOURCE {
            self.source.reading.store(false, Ordering::SeqCst);
        }
        self.tasks.retain(|_, (of, _)| *of != slot);
        self.lives.end(slot);
        self.frozen.remove(&slot);
        let pause = self.hub.rng.span(0, self.scenario.pace.lease);
        self.hub.at(self.hub.now() + pause, Event::Start(slot));
    }

    fn start(&mut self, slot: usize) {
        let running = self.slots.get(&slot).is_some_and(|task| self.tasks.contains_key(task));
        if running {
            return;
        }
        self.actors.insert(slot, Actor::new(slot, self.actors[&slot].name.clone()));
        let store = self.store.seen_by(self.actors[&slot].clone());
        let task: Task = match slot {
            SOURCE => Box::pin(Source { store, ..self.source.clone() }.read()),
            MEDIC => Box::pin(Operator { store, ..self.operators[2].clone() }.heal()),
            slot if slot > SOURCE => {
                let at = OPERATORS.iter().position(|of| *of == slot).unwrap_or(0);
                Box::pin(Operator { store, ..self.operators[at].clone() }.act())
            }
            slot => Box::pin(self.worker(slot, store).live()),
        };
        let id = self.hub.spawn(task);
        let (spawned, _) = self.hub.changes();
        self.tasks.extend(spawned.into_iter().map(|(id, _, task)| (id, (slot, task))));
        self.slots.insert(slot, id);
        if let Some(orders) = self.orders.get(slot) {
            orders.tell(Stop::No);
            orders.set_task(id);
        }
    }

    fn worker(&self, slot: usize, store: FaultyStore) -> Worker {
        Worker {
            hub: self.hub.clone(),
            store,
            env: clock::env(
                &self.hub,
                &self.skews[slot],
                Arc::new(Machine::new(&self.hub, &self.lives, slot)),
            ),
            recipe: slip::recipe(&self.scenario.recipe, self.slip),
            slip: self.slip,
            script: self.scenario.script.clone(),
            run: self.run,
            pace: self.scenario.pace,
            admitting: if slot == 0 { self.source.reading.clone() } else { Arc::default() },
            orders: self.orders[slot].clone(),
            roster: self.scenario.roster,
        }
    }

    /// From here on nothing fails, and everything has to come to its end.
    fn heal(&mut self) {
        if self.healed_at.is_some() {
            return;
        }
        self.hub.log("heal", &[], String::new);
        self.hub.heal();
        self.healed_at = Some(self.hub.events());
        self.skews.iter().chain([&self.still]).for_each(|skew| skew.store(0, Ordering::SeqCst));
        self.healed_time = self.hub.now();
        self.hub.at(self.hub.now(), Event::Start(MEDIC));
        self.hub.at(self.hub.now(), Event::Look);
    }

    /// Whether everything has ended.
    fn look(&mut self) -> bool {
        let said = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
        let quiet =
            said(&self.source.done) && self.operators.iter().take(2).all(|operator| said(&operator.done));
        let oracle = self.store.oracle();
        let ended = oracle.live() == 0 && (oracle.finished() || oracle.control() == Control::Cancelled);
        drop(oracle);
        if !(quiet && ended) {
            self.hub.at(self.hub.now() + self.scenario.pace.tick, Event::Look);
        }
        quiet && ended
    }

    fn at_the_end(&self) {
        let (lines, keys) = (self.source.own_ids(), self.source.keys());
        let now = Timestamp(self.hub.now());
        if let Err(broken) = self.store.oracle().at_the_end(self.store.inner(), &lines, &keys, now) {
            self.hub.broke(broken.law, broken.what);
        }
    }
}
