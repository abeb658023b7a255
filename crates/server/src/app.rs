//! What requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_operate::catalog::Catalog;
use redrive_operate::operations::Carrier;
use redrive_operate::{Asker, Floor};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use crate::bodies::Bodies;
use crate::events::Events;
use crate::guard::Hosts;
use crate::tokens::Tokens;
use crate::writes::Writes;

/// What requests share.
pub struct App {
    /// The floor, as the daemon itself asks.
    pub floor: Floor,
    /// The pipelines that can be named.
    pub catalog: Arc<Catalog>,
    /// Who is let in.
    pub tokens: Tokens,
    /// The names that mean this server.
    pub hosts: Hosts,
    /// The document that describes the routes.
    pub document: Value,
    /// Carries operations on.
    pub carrier: Carrier,
    /// Tells what changed.
    pub events: Events,
    /// Bodies that are waited for.
    pub bodies: Bodies,
    /// Places for those that follow events.
    pub followers: Arc<Semaphore>,
    /// Whether the process is told to stop.
    pub draining: watch::Receiver<bool>,
    /// Whether the process was started to answer only.
    pub only_answers: bool,
    /// Whether somebody works here.
    pub working: AtomicBool,
    /// Whether the store can be written.
    pub writes: Writes,
}

impl App {
    /// The floor as somebody else asks.
    pub fn floor_of(&self, asker: Asker) -> Floor {
        Floor { asker, ..self.floor.clone() }
    }

    /// Whether the process is told to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Whether somebody works here.
    pub fn is_working(&self) -> bool {
        self.working.load(Ordering::Relaxed)
    }
}
