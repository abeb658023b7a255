//! What goes over the wire in calls, for whoever tries a stage out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Most bytes of a body that are shown.
pub const MOST_SHOWN: usize = 64 << 10;

/// Takes note of what a handler sends and gets. A handler has one only where somebody wants to see that; what it hands in
/// shows no secret any more.
#[derive(Debug, Default)]
pub struct Tap(Mutex<Vec<Wire>>);

/// One question, and what came back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Wire {
    /// Where it went: an address, or a program with its arguments.
    pub to: String,
    /// Its headers, by name.
    pub headers: Vec<(String, String)>,
    /// Its body, or as much of it as is shown.
    pub body: String,
    /// How many bytes the body has.
    pub bytes: usize,
    /// What came back; `null` when nothing did.
    pub answer: Option<Came>,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Came {
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// The body, or as much of it as was read and is shown.
    pub body: String,
    /// How many bytes of it were read.
    pub bytes: usize,
}

impl Tap {
    /// Takes note of what is sent.
    pub fn sent(&self, wire: Wire) {
        self.lock().push(wire);
    }

    /// Takes note of what came back to what was sent last.
    pub fn came(&self, answer: Came) {
        if let Some(last) = self.lock().last_mut() {
            last.answer = Some(answer);
        }
    }

    /// Everything so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Wire> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
