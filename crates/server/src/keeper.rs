//! Has forgotten what pipelines of the folder keep no longer.

use std::sync::Arc;

use redrive_operate::retention::{self, Forgot};

use crate::app::App;
use crate::limits;

/// Looks again and again until the process is told to stop. What is under way then is carried on as any operation is.
pub async fn watch(app: Arc<App>) {
    if app.catalog.folder().is_none() {
        return;
    }
    let mut draining = app.draining.clone();
    while !*draining.borrow() {
        match retention::look(&app.floor, &app.catalog).await {
            Ok(forgot) => forgot.iter().for_each(|Forgot { pipeline, pruned, purged }| {
                tracing::info!(target: "redrive::serve", pipeline, pruned, purged, "forgot what is kept no longer");
            }),
            Err(error) => {
                tracing::warn!(target: "redrive::serve", %error, "what is kept no longer cannot be forgotten now");
            }
        }
        tokio::select! {
            () = app.floor.env.clock.sleep(limits::FORGET_EVERY) => {}
            _ = draining.changed() => {}
        }
    }
}
