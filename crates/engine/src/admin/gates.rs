//! Gates are paused, let go on, and made to forget.

use redrive_core::gate::{GateState, PausedBy};
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Error, GateRow, Result, Store};

use crate::shared;

/// How often a change is tried again because a worker wrote at the same moment.
const TRIES: u32 = 20;

/// Changes a gate and returns it as it then is; `None` when there is no such gate and none is to be made.
///
/// # Errors
/// When the store fails, or others write all the time.
pub async fn change_gate(
    store: &dyn Store,
    name: &str,
    make: bool,
    now: Timestamp,
    change: impl Fn(&mut GateState) + Send,
) -> Result<Option<GateState>> {
    for _ in 0..TRIES {
        let row = store.gates().await?.into_iter().find(|row| row.name == name);
        if row.is_none() && !make {
            return Ok(None);
        }
        let mut state = row.as_ref().map(|row| shared::gate(row, now)).transpose()?.unwrap_or_default();
        change(&mut state);
        let rev = row.map_or(0, |row| row.rev);
        let row = GateRow { name: name.to_owned(), rev, state: state.write(), updated_at: now };
        if store.save_gates(vec![row]).await? == [Applied::Done] {
            return Ok(Some(state));
        }
    }
    Err(Error::Busy(format!("gate {name} is written to all the time")))
}

/// Lets those of these gates go on that wait for somebody, and returns their names. A gate that an operator paused stays
/// so.
///
/// # Errors
/// When the store fails.
pub async fn resume_gates(store: &dyn Store, names: &[String], now: Timestamp) -> Result<Vec<String>> {
    let waits = |state: &GateState| match &state.pause {
        Some(pause) => pause.by == PausedBy::Quota,
        None => state.breaker.away_since.is_some(),
    };
    // Looked at again when it is written: an operator may have paused it meanwhile.
    let go_on = |state: &mut GateState| {
        if waits(state) {
            state.resume(now);
        }
    };
    let mut resumed = Vec::new();
    for row in store.gates().await?.into_iter().filter(|row| names.contains(&row.name)) {
        if waits(&shared::gate(&row, now)?)
            && let Some(state) = change_gate(store, &row.name, false, now, go_on).await?
            && state.pause.is_none()
        {
            resumed.push(row.name);
        }
    }
    Ok(resumed)
}
