//! Items that go through a gate, or through the loop that people write, to a service. Nothing sleeps: time is a number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use redrive_core::gate::{Gate, GateSpec, GateState, Lesson, LimitKind, Permit, Sign};
use redrive_core::time::Timestamp;

use crate::cases::Case;
use crate::dice::Dice;
use crate::provider::{Answer, End, Service};

/// Nothing takes longer than this, in microseconds.
const MOST: i64 = 1_200_000_000;
/// How long an item waits whose call got lost, in microseconds.
const AFTER_LOSS: i64 = 250_000;

/// How it went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Played {
    /// Seconds until the last good answer.
    pub took: f64,
    /// Calls that were turned away.
    pub rejected: usize,
    /// Items that passed.
    pub passed: usize,
    /// Calls by an item before the end of the hint it got.
    pub early: usize,
    /// What the gate took it for in the end.
    pub kind: Option<LimitKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives(usize),
    Ends(usize),
    Wake,
}

/// A call under way.
#[derive(Clone, Copy)]
struct Call {
    item: usize,
    worker: usize,
    permit: Option<Permit>,
    answer: Option<Answer>,
}

/// An item.
#[derive(Clone, Copy, Default)]
struct Item {
    tries: u32,
    throttles: u32,
    /// No call before this, by its hint, in microseconds.
    not_before: i64,
}

/// What both clients share: the clock, the wire and the service.
struct World<'a> {
    case: &'a Case,
    service: Service,
    dice: Dice,
    jitter: f64,
    now: i64,
    events: BinaryHeap<Reverse<(i64, Event)>>,
    calls: Vec<Call>,
    items: Vec<Item>,
    played: Played,
}

impl<'a> World<'a> {
    fn new(case: &'a Case, seed: u64, jitter: f64) -> Self {
        Self {
            case,
            service: Service::new(&case.provider, seed),
            dice: Dice::new(seed ^ 0xabcd),
            jitter,
            now: 0,
            events: BinaryHeap::new(),
            calls: Vec::new(),
            items: vec![Item::default(); case.items],
            played: Played::default(),
        }
    }

    fn at(&mut self, at: i64, event: Event) {
        let at = if matches!(event, Event::Arrives(_)) { at } else { self.case.awake_at(at) };
        self.events.push(Reverse((at, event)));
    }

    fn micros(seconds: f64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "minutes at most")]
        let micros = (seconds * 1e6) as i64;
        micros
    }

    #[expect(clippy::cast_precision_loss, reason = "minutes at most")]
    fn seconds(micros: i64) -> f64 {
        micros as f64 / 1e6
    }

    fn start(&mut self, item: usize, worker: usize, permit: Option<Permit>) {
        if self.now < self.items[item].not_before {
            self.played.early += 1;
        }
        self.calls.push(Call { item, worker, permit, answer: None });
        let way = Self::micros(0.001 + self.jitter * self.dice.share());
        self.at(self.now + way, Event::Arrives(self.calls.len() - 1));
    }

    fn arrives(&mut self, call: usize) {
        let item = self.calls[call].item;
        let answer = self.service.arrive(Self::seconds(self.now), self.items[item].tries);
        self.calls[call].answer = Some(answer);
        self.items[item].tries += 1;
        let back = Self::micros(answer.took + self.jitter * 0.3 * self.dice.share());
        self.at(self.now + back, Event::Ends(call));
    }

    /// Counts the end of a call, and says how it was answered.
    fn ends(&mut self, call: usize) -> Option<(usize, Answer)> {
        let Call { item, answer, .. } = self.calls[call];
        let answer = answer?;
        match answer.end {
            End::Passed => {
                self.played.passed += 1;
                self.played.took = Self::seconds(self.now);
            }
            End::TurnedAway => {
                self.played.rejected += 1;
                self.items[item].throttles += 1;
            }
            End::Lost => {}
        }
        if let Some(hint) = answer.hint {
            // What is told in whole milliseconds may end a millisecond before.
            self.items[item].not_before = self.now + Self::micros(hint.as_secs_f64()) - 2_000;
        }
        Some((item, answer))
    }

    fn is_done(&self) -> bool {
        self.played.passed == self.case.items || self.now > MOST
    }

    fn result(mut self) -> Played {
        if self.played.passed < self.case.items {
            self.played.took = Self::seconds(MOST);
        }
        self.played
    }
}

/// Lets the case's items through gates that share a store.
pub fn gated(case: &Case, seed: u64, jitter: f64) -> Played {
    let mut world = World::new(case, seed, jitter);
    let spec = GateSpec { max_concurrency: u32::try_from(case.at_once).unwrap_or(64), ..GateSpec::default() };
    let mut gates: Vec<Gate> = (0..case.workers)
        .map(|no| Gate::new(spec.clone(), GateState::default(), format!("w{no}"), Timestamp(0)))
        .collect();
    let mut store = GateState::default();
    let mut under_way = vec![0_usize; case.workers];
    let mut ready: VecDeque<usize> = (0..case.items).collect();
    let mut waiting: BTreeMap<(i64, usize), ()> = BTreeMap::new();
    let (mut next_sync, mut turn) = (250_000_i64, 0_usize);
    let mut woken = i64::MAX;
    loop {
        let now = Timestamp(world.now / 1_000);
        while let Some(((due, item), ())) = waiting.pop_first() {
            if due > world.now {
                waiting.insert((due, item), ());
                break;
            }
            ready.push_back(item);
        }
        let mut again: Option<i64> = waiting.first_key_value().map(|((due, _), ())| *due);
        let awake = case.awake_at(world.now);
        let workers = if awake > world.now { 0 } else { case.workers };
        if workers == 0 {
            again = Some(awake);
        }
        for offset in 0..workers {
            let worker = (turn + offset) % case.workers;
            gates[worker].expect_calls(Some(ready.len() / case.workers));
            while under_way[worker] < case.at_once
                && let Some(item) = ready.front().copied()
            {
                match gates[worker].admit(0, now) {
                    Ok(permit) => {
                        ready.pop_front();
                        under_way[worker] += 1;
                        world.start(item, worker, Some(permit));
                    }
                    Err(at) => {
                        let at = at.map(|at| (at.0 * 1_000).max(world.now + 1_000));
                        again = again.into_iter().chain(at).min();
                        break;
                    }
                }
            }
        }
        turn += 1;
        if case.workers > 1 && world.now >= next_sync {
            next_sync = world.now + 250_000;
            gates.iter_mut().for_each(|gate| gate.merge(&store, now));
        }
        for gate in &mut gates {
            if case.workers > 1 && gate.to_save(now).is_some() {
                gate.merge(&store, now);
                if let Some(state) = gate.to_save(now) {
                    gate.saved(&state, now);
                    store = state;
                }
            }
        }
        if case.workers > 1 {
            again = Some(again.map_or(next_sync, |at| at.min(next_sync)));
        }
        if let Some(at) = again.map(|at| case.awake_at(at)).filter(|at| *at < woken) {
            woken = at;
            world.at(at, Event::Wake);
        }
        let Some(Reverse((at, event))) = world.events.pop() else { break };
        world.now = world.now.max(at);
        if event == Event::Wake {
            if at != woken {
                continue;
            }
            woken = i64::MAX;
        }
        let now = Timestamp(world.now / 1_000);
        match event {
            Event::Wake => {}
            Event::Arrives(call) => world.arrives(call),
            Event::Ends(call) => {
                let Call { worker, permit, .. } = world.calls[call];
                let Some(((item, answer), permit)) = world.ends(call).zip(permit) else { continue };
                under_way[worker] -= 1;
                let sign = match answer.end {
                    End::Passed => Sign::Answered,
                    End::TurnedAway => Sign::Throttled { hint: answer.hint },
                    End::Lost => Sign::Failed { calls: 1, lost: true, fresh: true },
                };
                gates[worker].ended(permit, &Lesson { sign, tokens: None, limits: answer.limits }, now);
                let wait = match answer.end {
                    End::Passed => None,
                    End::TurnedAway => {
                        let before = world.items[item].throttles - 1;
                        let wait = gates[worker].keeps_item(before, answer.hint, permit.is_probe(), now);
                        Some(i64::try_from(wait.as_micros()).unwrap_or(MOST))
                    }
                    End::Lost => Some(AFTER_LOSS),
                };
                if let Some(wait) = wait {
                    waiting.insert((world.now + wait, item), ());
                }
            }
        }
        if world.is_done() {
            break;
        }
    }
    world.played.kind = gates.iter().find_map(|gate| gate.shared().evidence.kind);
    world.result()
}

/// The loop that people write: so many workers, each of which keeps an item until it is through, and waits for as long as it
/// was told to, or twice as long each time.
pub fn looped(case: &Case, seed: u64, jitter: f64) -> Played {
    let mut world = World::new(case, seed, jitter);
    let mut next = 0;
    let mut waiting: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    for worker in 0..case.at_once.min(case.items) {
        world.start(worker, worker, None);
        next = worker + 1;
    }
    loop {
        let wakes = waiting.peek().map(|Reverse((at, _))| *at);
        let first = world.events.peek().map(|Reverse((at, _))| *at);
        match (wakes, first) {
            (Some(at), first) if first.is_none_or(|first| at <= first) => {
                world.now = at;
                if let Some(Reverse((_, item))) = waiting.pop() {
                    world.start(item, 0, None);
                }
            }
            (_, Some(_)) => {
                let Some(Reverse((at, event))) = world.events.pop() else { break };
                world.now = at;
                match event {
                    Event::Arrives(call) => world.arrives(call),
                    Event::Ends(call) => {
                        let Some((item, answer)) = world.ends(call) else { continue };
                        if answer.end == End::Passed {
                            if next < case.items {
                                world.start(next, 0, None);
                                next += 1;
                            }
                        } else {
                            let tries = world.items[item].tries.min(8);
                            let backoff = 0.5 * f64::from(1_u32 << (tries - 1));
                            let backoff = backoff.min(30.0) * (0.5 + world.dice.share());
                            let wait = answer.hint.map_or(backoff, |hint| hint.as_secs_f64());
                            waiting.push(Reverse((world.now + World::micros(wait), item)));
                        }
                    }
                    Event::Wake => {}
                }
            }
            (_, None) => break,
        }
        if world.is_done() {
            break;
        }
    }
    world.result()
}
