//! Sweeps for what nobody holds, and has the laws looked at by and by.

use std::sync::Arc;

use redrive_operate::audit;
use redrive_operate::retry_job::{self, Jumps, Settings, Sweep};

use crate::app::App;
use crate::limits;

/// Looks again and again until the process is told to stop. Of several daemons, the one that comes first does it.
pub async fn watch(app: Arc<App>, settings: Settings) {
    let (mut draining, mut jumps) = (app.draining.clone(), Jumps::default());
    while !*draining.borrow() {
        match retry_job::sweep_in_turn(&app.floor, &settings, &mut jumps).await {
            Ok(Some(sweep)) => told(&sweep),
            Ok(None) => {}
            Err(error) => tracing::warn!(target: "redrive::serve", %error, "the retry job broke off"),
        }
        if let Err(error) = audit::look(&app.floor).await {
            tracing::warn!(target: "redrive::serve", %error, "the laws cannot be looked at now");
        }
        tokio::select! {
            () = app.floor.env.clock.sleep(limits::SWEEP_EVERY) => {}
            _ = draining.changed() => {}
        }
    }
}

fn told(sweep: &Sweep) {
    let Sweep { runs, taken_back, exhausted, came_due, backing_off, starved, errors } = sweep;
    tracing::info!(target: "redrive::serve", runs, taken_back, exhausted, came_due, backing_off, starved, "the retry job swept");
    for error in errors {
        tracing::warn!(target: "redrive::serve", %error, "the retry job went on after an error");
    }
}
