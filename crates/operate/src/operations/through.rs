//! An operation on a set is carried on here, with work on the runs of its items, until it has ended.

use std::convert::Infallible;

use redrive_core::id::{OperationId, RunId};
use redrive_core::status::Control;
use redrive_engine::admin;
use redrive_engine::report::RunReport;
use redrive_store::OperationState;

use super::carrier::EVERY;
use super::carry::go_on;
use super::{OperationView, carry_on, show, unknown};
use crate::error::Result;
use crate::work::{Observer, Worked, work_on};
use crate::{Floor, Role};

/// Items that are read at a time.
const PAGE: usize = 5_000;

/// How an operation stands after work on the runs of its items.
#[derive(Debug)]
pub struct Through {
    /// The operation.
    pub view: OperationView,
    /// How the runs stand.
    pub runs: Vec<RunReport>,
    /// Whether the work was told to stop.
    pub interrupted: bool,
}

/// Carries an operation on here and works on the runs of its items, until it has ended or work does not bring it on.
///
/// # Errors
/// When a run cannot be worked on, or the store fails.
pub async fn work_through(floor: &Floor, operation: OperationId, observer: &dyn Observer) -> Result<Through> {
    floor.require(Role::Operator)?;
    floor.store.operation(operation).await?.ok_or_else(|| unknown(operation))?;
    let of_items = runs_of(floor, operation).await?;
    loop {
        let view = carry_on(floor, operation).await?;
        let mut through = Through { view, runs: Vec::new(), interrupted: false };
        let mut open = Vec::new();
        for run in &of_items {
            let row = floor.store.run(*run).await?;
            open.extend(row.filter(|row| row.control == Control::Go).map(|row| row.id));
        }
        for run in &open {
            let worked = match &*open {
                [_] => work_and_carry(floor, *run, operation, observer).await?,
                // Others would pile up meanwhile that nobody works on: these are sent in turns.
                _ => work_on(floor, *run, observer).await?,
            };
            through.runs.push(worked.report);
            through.interrupted |= worked.interrupted;
            if worked.interrupted {
                break;
            }
        }
        let ended = through.view.state != OperationState::Open;
        if through.interrupted || ended || !moved(floor, operation, &through.view).await? {
            return Ok(Through { view: show(floor, operation).await?, ..through });
        }
    }
}

/// Works on a run, and carries the operation on meanwhile.
async fn work_and_carry(
    floor: &Floor,
    run: RunId,
    operation: OperationId,
    observer: &dyn Observer,
) -> Result<Worked> {
    let carry = async || -> Infallible {
        loop {
            floor.env.clock.sleep(EVERY).await;
            if let Err(error) = go_on(floor, operation).await {
                tracing::warn!(target: "redrive::operations", %operation, %error, "operation cannot go on now");
            }
        }
    };
    tokio::select! {
        worked = work_on(floor, run, observer) => worked,
        never = carry() => match never {},
    }
}

/// The runs of an operation's items.
async fn runs_of(floor: &Floor, operation: OperationId) -> Result<Vec<RunId>> {
    let (mut runs, mut after) = (Vec::new(), None);
    loop {
        let page = floor.store.members(operation, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(runs) };
        after = Some(last.item);
        let items = floor.store.items_of(page.iter().map(|member| member.item).collect()).await?;
        runs.extend(items.iter().map(|item| item.run));
        runs.sort_unstable();
        runs.dedup();
    }
}

/// Whether work has changed how an operation stands that waits: otherwise to wait on would be for ever.
async fn moved(floor: &Floor, operation: OperationId, before: &OperationView) -> Result<bool> {
    let tally = admin::tally(&*floor.store, operation).await?;
    Ok(before.outcomes.is_none_or(|told| told != tally))
}
