//! Looks after the schedules of the folder of pipelines.

use std::sync::Arc;

use redrive_operate::schedules::{Clerk, Happened, What};

use crate::app::App;
use crate::limits;

/// Looks at schedules again and again until the process is told to stop. What is decided then is done by the next.
pub async fn watch(app: Arc<App>) {
    if app.catalog.folder().is_none() {
        return;
    }
    let who = format!("{}-{:x}", std::process::id(), app.floor.now().0);
    let clerk = Clerk::new(app.floor.clone(), who);
    let mut draining = app.draining.clone();
    while !*draining.borrow() {
        match clerk.look(&app.catalog).await {
            Ok(happened) => happened.iter().for_each(told),
            Err(error) => {
                tracing::warn!(target: "redrive::serve", %error, "schedules cannot be looked at");
            }
        }
        tokio::select! {
            () = app.floor.env.clock.sleep(limits::SCHEDULE_EVERY) => {}
            _ = draining.changed() => {}
        }
    }
}

fn told(happened: &Happened) {
    let Happened { pipeline, due, what } = happened;
    let due = due.map(|due| due.to_string()).unwrap_or_default();
    match what {
        What::Fired(run) => {
            tracing::info!(target: "redrive::serve", pipeline, due, %run, "schedule fired");
        }
        What::Failed(error) => {
            tracing::warn!(target: "redrive::serve", pipeline, due, why = %error, "schedule fired, and no run could be begun");
        }
        What::Skipped(why) => {
            tracing::info!(target: "redrive::serve", pipeline, due, ?why, "schedule skipped a time");
        }
        What::Broken(error) => {
            tracing::warn!(target: "redrive::serve", pipeline, why = %error, "schedule cannot be looked after");
        }
    }
}
