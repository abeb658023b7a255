//! Has people told what happens to the runs of pipelines of the folder.

use std::sync::Arc;
use std::time::Duration;

use redrive_operate::notices::{self, Told};

use crate::app::App;
use crate::limits;

/// Looks again and again until the process is told to stop: when somebody wrote something, and now and then because time
/// passes. What is decided and not handed over then is handed over by the next.
pub async fn watch(app: Arc<App>) {
    if app.catalog.folder().is_none() {
        return;
    }
    let mut draining = app.draining.clone();
    let mut looked: Option<(u64, Duration)> = None;
    while !*draining.borrow() {
        let (stamp, uptime) = (app.floor.store.stamp().await.ok(), app.floor.env.clock.uptime());
        let rests = looked.is_some_and(|(seen, at)| {
            Some(seen) == stamp && uptime.saturating_sub(at) < limits::TELL_AT_LEAST_EVERY
        });
        if !rests {
            look(&app).await;
            // What is written meanwhile, here or elsewhere, is a reason for the next look.
            looked = stamp.map(|stamp| (stamp, uptime));
        }
        tokio::select! {
            () = app.floor.env.clock.sleep(limits::TELL_EVERY) => {}
            _ = draining.changed() => {}
        }
    }
}

/// Looks once.
pub async fn look(app: &App) {
    match notices::look(&app.floor, &app.catalog).await {
        Ok(all) => all.iter().for_each(told),
        Err(error) => {
            tracing::warn!(target: "redrive::serve", %error, "what is to be told cannot be looked for");
        }
    }
}

fn told(told: &Told) {
    let pipeline = &told.pipeline;
    match &told.messages {
        Ok(messages) => {
            tracing::info!(target: "redrive::serve", pipeline, messages, "notifications handed over");
        }
        Err(error) => {
            tracing::warn!(target: "redrive::serve", pipeline, why = %error, "notifications cannot be handed over now");
        }
    }
}
