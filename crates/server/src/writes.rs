//! Whether the store can be written: reading goes on where a disk is full, and a process that only reads would look well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redrive_operate::{Kind, room};
use tokio::sync::Notify;

use crate::app::App;
use crate::limits;

/// Whether the store could be written when that was last tried.
pub struct Writes {
    well: AtomicBool,
    failed: Notify,
}

impl Default for Writes {
    fn default() -> Self {
        Self { well: AtomicBool::new(true), failed: Notify::new() }
    }
}

impl Writes {
    /// Whether the last one went well.
    pub fn go_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    /// Somebody found no room.
    pub fn found_no_room(&self) {
        self.well.store(false, Ordering::Relaxed);
        self.failed.notify_one();
    }
}

/// Tries again and again until the process is told to stop. Where it failed, more is written: a little may find room that
/// nothing else does.
pub async fn watch(app: Arc<App>) {
    let mut draining = app.draining.clone();
    let mut failing = false;
    while !*draining.borrow() {
        let well = app.writes.go_well();
        let well = match room::try_writing(&app.floor, !well).await {
            Ok(()) => {
                if std::mem::take(&mut failing) {
                    tracing::info!(target: "redrive::serve", "the store can be written again");
                }
                true
            }
            // Somebody else writes, which can be done.
            Err(error) if error.kind == Kind::Busy => well,
            Err(error) => {
                if !std::mem::replace(&mut failing, true) {
                    tracing::warn!(target: "redrive::serve", %error, "the store cannot be written");
                }
                false
            }
        };
        app.writes.well.store(well, Ordering::Relaxed);
        let rest = if well { limits::TRY_WRITING_EVERY } else { limits::TRY_WRITING_AGAIN };
        tokio::select! {
            () = app.floor.env.clock.sleep(rest) => {}
            () = app.writes.failed.notified(), if well => {}
            _ = draining.changed() => {}
        }
    }
}
