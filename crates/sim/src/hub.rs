//! What everything in a simulated run shares: virtual time, the queue of events, chance, the log.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use redrive_engine::handler::Answer;
use redrive_engine::worker::CallId;

use crate::mailbox::Mailbox;
use crate::met::{Met, Score};
use crate::rng::{Rng, mix, mix_bytes};

/// Names a task.
pub type TaskId = u64;
/// A task: something with a life of its own that only moves when it is polled.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A broken law or expectation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which law or rule.
    pub law: String,
    /// In what way.
    pub what: String,
}

/// Something that happens at a moment of virtual time.
pub enum Event {
    /// A task may go on.
    Poll(TaskId),
    /// A handler answers.
    Answer {
        /// To whom.
        mailbox: Arc<Mailbox>,
        /// To which call.
        id: CallId,
        /// The answer.
        answer: Answer,
        /// What is special about it.
        special: Option<Met>,
    },
    /// A process is to die: now, or at its next write.
    Doom(usize),
    /// A process dies.
    Crash(usize),
    /// A process comes up.
    Start(usize),
    /// A worker stands still for so long.
    Freeze(usize, i64),
    /// A worker's clock jumps by so much.
    Jump(usize, i64),
    /// The machine's clock, which all processes have, is put by so much.
    Step(i64),
    /// A worker is told to stop; hard or softly.
    Stop(usize, bool),
    /// All faults end.
    Heal,
    /// Time to see whether everything has ended.
    Look,
}

struct State {
    now: i64,
    next: u64,
    heap: BinaryHeap<Reverse<(i64, u64, u64)>>,
    events: BTreeMap<u64, Event>,
    current: TaskId,
    last_task: TaskId,
    spawned: Vec<(TaskId, TaskId, Task)>,
    killed: Vec<TaskId>,
    healed: bool,
    broken: Option<Broken>,
    hash: u64,
    log: Option<Vec<String>>,
    score: Score,
}

/// The shared part of a run.
pub struct Hub {
    /// Chance.
    pub rng: Rng,
    state: Mutex<State>,
}

/// When every run begins.
pub const EPOCH: i64 = 1_700_000_000_000;

impl Hub {
    /// The hub of a run.
    #[must_use]
    pub fn new(seed: u64, verbose: bool) -> Arc<Self> {
        let state = State {
            now: EPOCH,
            next: 0,
            heap: BinaryHeap::new(),
            events: BTreeMap::new(),
            current: 0,
            last_task: 0,
            spawned: Vec::new(),
            killed: Vec::new(),
            healed: false,
            broken: None,
            hash: seed,
            log: verbose.then(Vec::new),
            score: Score { runs: 1, ..Score::default() },
        };
        Arc::new(Self { rng: Rng::new(mix(&[seed, 1])), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time nobody's clock need agree with.
    pub fn now(&self) -> i64 {
        self.lock().now
    }

    /// Puts an event into the queue. Events of one moment happen in an order that chance decides.
    pub fn at(&self, when: i64, event: Event) {
        let tie = self.rng.bits();
        let mut state = self.lock();
        state.next += 1;
        let no = state.next;
        let when = when.max(state.now);
        state.heap.push(Reverse((when, tie, no)));
        state.events.insert(no, event);
    }

    /// Moves time to the next event and gives it.
    pub fn next(&self) -> Option<Event> {
        let mut state = self.lock();
        let Reverse((when, _, no)) = state.heap.pop()?;
        state.now = when;
        state.score.events += 1;
        state.events.remove(&no)
    }

    /// How many events happened so far.
    pub fn events(&self) -> u64 {
        self.lock().score.events
    }

    /// Says which task is being polled.
    pub fn set_current(&self, task: TaskId) {
        self.lock().current = task;
    }

    /// Begins a task below the one that is being polled.
    pub fn spawn(&self, task: Task) -> TaskId {
        let id = {
            let mut state = self.lock();
            state.last_task += 1;
            let (id, parent) = (state.last_task, state.current);
            state.spawned.push((id, parent, task));
            id
        };
        self.at(self.now(), Event::Poll(id));
        id
    }

    /// Ends a task.
    pub fn kill(&self, task: TaskId) {
        self.lock().killed.push(task);
    }

    /// Tasks that were begun and ended since this was last asked.
    pub fn changes(&self) -> (Vec<(TaskId, TaskId, Task)>, Vec<TaskId>) {
        let mut state = self.lock();
        (std::mem::take(&mut state.spawned), std::mem::take(&mut state.killed))
    }

    /// Whether all faults are over.
    pub fn healed(&self) -> bool {
        self.lock().healed
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.lock().healed = true;
    }

    /// Counts that something was met.
    pub fn meet(&self, met: Met) {
        self.lock().score.meet(met);
    }

    /// Changes the score.
    pub fn score(&self, change: impl FnOnce(&mut Score)) {
        change(&mut self.lock().score);
    }

    /// The score as it is.
    pub fn scored(&self) -> Score {
        let state = self.lock();
        let virtual_ms = u64::try_from(state.now - EPOCH).unwrap_or(0);
        Score { virtual_ms, ..state.score.clone() }
    }

    /// Notes a broken law; the first one counts.
    pub fn broke(&self, law: impl Into<String>, what: impl Into<String>) {
        let broken = Broken { law: law.into(), what: what.into() };
        self.log("BROKEN", &[], || format!("{}: {}", broken.law, broken.what));
        self.lock().broken.get_or_insert(broken);
    }

    /// The first broken law.
    pub fn broken(&self) -> Option<Broken> {
        self.lock().broken.clone()
    }

    /// Notes an event: always in the log's hash, in words only when somebody wants to read them.
    pub fn log(&self, what: &'static str, numbers: &[i64], words: impl FnOnce() -> String) {
        let mut state = self.lock();
        let (hash, now) = (state.hash, state.now);
        let mut mixed = mix(&[hash, now.cast_unsigned(), mix_bytes(what.as_bytes())]);
        for number in numbers {
            mixed = mix(&[mixed, number.cast_unsigned()]);
        }
        state.hash = mixed;
        let at = now - EPOCH;
        if let Some(log) = &mut state.log {
            log.push(format!("{:>12.3} {what:<10} {}", Milli(at), words()));
        }
    }

    /// The hash of everything that was noted, and the words.
    pub fn story(&self) -> (u64, Vec<String>) {
        let mut state = self.lock();
        (state.hash, state.log.take().unwrap_or_default())
    }

    /// Waits for a span of virtual time.
    pub fn sleep(self: &Arc<Self>, ms: i64) -> Timer {
        Timer { hub: self.clone(), at: self.now() + ms.max(0), queued: false }
    }
}

/// Milliseconds shown as seconds.
struct Milli(i64);

impl std::fmt::Display for Milli {
    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&(self.0 as f64 / 1_000.0), f)
    }
}

/// A wait in virtual time.
pub struct Timer {
    hub: Arc<Hub>,
    at: i64,
    queued: bool,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let (now, current) = {
            let state = self.hub.lock();
            (state.now, state.current)
        };
        if now >= self.at {
            return Poll::Ready(());
        }
        if !self.queued {
            self.hub.at(self.at, Event::Poll(current));
            self.queued = true;
        }
        Poll::Pending
    }
}

/// The answer of a future that has to be there at once.
///
/// # Panics
/// When it is not: the stores of a simulation wait for nobody.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("a store of a simulation made its caller wait"),
    }
}
