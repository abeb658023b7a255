//! How a worker hears of answers and orders.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use redrive_engine::handler::Answer;
use redrive_engine::worker::{CallId, Stop};

use crate::hub::{Hub, TaskId, Timer};

/// Answers that have arrived for one worker.
#[derive(Debug, Default)]
pub struct Mailbox {
    answers: Mutex<VecDeque<(CallId, Answer)>>,
    closed: AtomicBool,
    reader: AtomicU64,
}

impl Mailbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Puts an answer in; gives the task to be woken, or `None` when nobody will read it any more.
    pub fn put(&self, id: CallId, answer: Answer) -> Option<TaskId> {
        if self.closed.load(Ordering::SeqCst) {
            return None;
        }
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push_back((id, answer));
        Some(self.reader.load(Ordering::SeqCst))
    }

    /// Takes the oldest answer out.
    pub fn take(&self) -> Option<(CallId, Answer)> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn has_answers(&self) -> bool {
        !self.answers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Nobody reads it any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

/// What a worker's process is told.
#[derive(Debug, Default)]
pub struct Orders {
    stop: AtomicU8,
    task: AtomicU64,
}

impl Orders {
    /// What it is told to do.
    pub fn stop(&self) -> Stop {
        match self.stop.load(Ordering::SeqCst) {
            0 => Stop::No,
            1 => Stop::Drain,
            _ => Stop::Now,
        }
    }

    /// Tells it to stop.
    pub fn tell(&self, stop: Stop) {
        self.stop.store(stop as u8, Ordering::SeqCst);
    }

    /// Which task it is now.
    pub fn set_task(&self, task: TaskId) {
        self.task.store(task, Ordering::SeqCst);
    }

    /// The task that it is.
    pub fn task(&self) -> TaskId {
        self.task.load(Ordering::SeqCst)
    }
}

/// Waits for an answer, a word to stop, or some time.
pub struct Wait {
    timer: Timer,
    mailbox: Arc<Mailbox>,
    orders: Arc<Orders>,
    told: Stop,
}

impl Wait {
    /// Waits at most so many milliseconds.
    #[must_use]
    pub fn new(hub: &Arc<Hub>, mailbox: &Arc<Mailbox>, orders: &Arc<Orders>, ms: i64) -> Self {
        mailbox.reader.store(orders.task(), Ordering::SeqCst);
        Self { timer: hub.sleep(ms), mailbox: mailbox.clone(), orders: orders.clone(), told: orders.stop() }
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.mailbox.has_answers() || self.orders.stop() != self.told {
            return Poll::Ready(());
        }
        Pin::new(&mut self.timer).poll(context)
    }
}
