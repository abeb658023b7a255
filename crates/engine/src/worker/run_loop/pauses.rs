//! Hearing of what somebody paused.

use redrive_core::time::Timestamp;
use redrive_store::{Error, Store};

use super::WorkerLoop;
use crate::journal;
use crate::worker::desk::Desk;
use crate::worker::driver::{Driver, Step};

impl<D: Driver> WorkerLoop<D> {
    /// Takes in what is paused.
    pub(super) async fn hear_pauses(&mut self, now: Timestamp) -> Result<(), Error> {
        let store = self.store.clone();
        let heard = hear(&*store, &mut self.desk, &mut self.driver, self.mates.is_some(), now).await?;
        if heard {
            self.quiet.clear();
        }
        Ok(())
    }
}

/// Takes in what is paused, and tells whoever watches a run by itself; `true` when that is something else than before.
pub(super) async fn hear(
    store: &dyn Store,
    desk: &mut Desk,
    driver: &mut impl Driver,
    among_others: bool,
    now: Timestamp,
) -> Result<bool, Error> {
    let mut pauses = store.pauses().await?;
    driver.observe(Step::PausesRead { pauses: &mut pauses }, desk, now);
    let known = desk.pauses_known();
    let heard = desk.hear_pauses(&pauses);
    if !among_others {
        heard.paused.iter().for_each(journal::held_up);
        heard.resumed.iter().for_each(journal::goes_on);
    }
    Ok(pauses.rev != known)
}
