//! Items go again where a stage is configured otherwise than when they passed it.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Gone};
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_store::{Applied, Change, Commit, ItemFilter, ItemQuery, Result, RunRow, Store};

use super::{PAGE, live_descendants};
use crate::env::Env;
use crate::{crash, trace};

/// How many items go again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Again {
    /// Those that ended at the stage: they have what it was given, and go again from it.
    pub from_stage: u64,
    /// Those that passed it: what it was given is not kept, so they are read again and go through every stage before it.
    /// Where such a stage keeps its outputs, they are reused.
    pub from_start: u64,
    /// Those that passed it with content that somebody gave them in place of their source's: they stay as they are.
    pub edited: u64,
}

/// How an item goes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the stage that is configured otherwise.
    FromStage,
    /// It is read again, and goes from the beginning.
    FromStart,
    /// Not at all: its content was given to it, and is not in the source.
    Edited,
}

/// What is to go again.
#[derive(Clone, Copy)]
pub struct Reconfigure<'a> {
    /// The run. Nobody claims anything of it by the old configuration any more.
    pub run: RunId,
    /// The stage that is configured otherwise.
    pub stage: StageNo,
    /// Whether the source can be read again: what has passed the stage waits for that, which is noted first.
    pub can_reread: bool,
    /// Whether somebody else is done with it already: what goes by the new configuration must not go again.
    pub is_done: &'a (dyn Fn(&RunRow) -> bool + Send + Sync),
}

/// What has to happen to an item.
enum Needs {
    Nothing,
    Stage,
    Start,
}

fn needs(item: &Item, stage: StageNo, can_reread: bool) -> Needs {
    let gone = matches!(item.state.kind(), StateKind::Superseded | StateKind::Cancelled);
    if gone || item.is_refused() || item.stage < stage {
        return Needs::Nothing;
    }
    match item.state.kind() {
        StateKind::Waiting if item.stage == stage => Needs::Nothing,
        // Whoever holds it goes by the old configuration.
        StateKind::Dead | StateKind::Filtered | StateKind::Running if item.stage == stage => Needs::Stage,
        _ if can_reread => Needs::Start,
        _ => Needs::Nothing,
    }
}

/// Says how many items [`reconfigure`] would send again, and changes nothing.
///
/// # Errors
/// When the store fails.
pub async fn would_go_again(
    store: &dyn Store,
    run: RunId,
    stage: StageNo,
    can_reread: bool,
) -> Result<Again> {
    let mut again = Again::default();
    let mut see = |_: &Item, way: Way| match way {
        Way::FromStage => again.from_stage += 1,
        Way::FromStart => again.from_start += 1,
        Way::Edited => again.edited += 1,
    };
    see_again(store, run, stage, can_reread, &mut see).await?;
    Ok(again)
}

/// Shows every item that [`reconfigure`] would send again, or leave as it is because it was edited.
///
/// # Errors
/// When the store fails.
pub async fn see_again(
    store: &dyn Store,
    run: RunId,
    stage: StageNo,
    can_reread: bool,
    see: &mut (dyn FnMut(&Item, Way) + Send),
) -> Result<()> {
    let filter = ItemFilter { run: Some(run), top: true, ..ItemFilter::default() };
    let mut after = None;
    loop {
        let page = store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.seq);
        for item in &page {
            match needs(item, stage, can_reread) {
                Needs::Nothing => {}
                Needs::Stage => see(item, Way::FromStage),
                Needs::Start if is_edited(store, item).await? => see(item, Way::Edited),
                Needs::Start => see(item, Way::FromStart),
            }
        }
    }
}

/// Sends the items of a run again that have passed a stage, are held at it, or ended at it.
///
/// # Errors
/// When the store fails; saying it again does the rest.
pub async fn reconfigure(store: &dyn Store, asked: Reconfigure<'_>, plan: &Plan, env: &Env) -> Result<Again> {
    let Reconfigure { run, stage, can_reread, is_done } = asked;
    let filter = ItemFilter { run: Some(run), top: true, ..ItemFilter::default() };
    let (mut again, mut after) = (Again::default(), None);
    loop {
        let page = store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
        let Some(last) = page.last().map(|item| item.seq) else { return Ok(again) };
        if store.run(run).await?.as_ref().is_none_or(is_done) {
            return Ok(again);
        }
        let mut stale = false;
        for item in &page {
            let start = match needs(item, stage, can_reread) {
                Needs::Nothing => continue,
                Needs::Stage => false,
                Needs::Start => true,
            };
            if start && is_edited(store, item).await? {
                again.edited += 1;
                continue;
            }
            if start && again.from_start == 0 {
                // A crash from here on finds a source that is to be read from its beginning.
                let last = store.run(run).await?.map_or(0, |row| row.reading);
                store.begin_reading(run, last, None).await?;
                crash::point("reconfigure.reading_begun");
            }
            let done = send(store, item, start, plan, env).await?;
            again.from_start += u64::from(done && start);
            again.from_stage += u64::from(done && !start);
            stale |= !done;
        }
        if !stale {
            after = Some(last);
        }
    }
}

/// Whether somebody gave an item other content than its source has: reading it again would undo that.
pub(super) async fn is_edited(store: &dyn Store, item: &Item) -> Result<bool> {
    Ok(item.generation > 0 && store.history(item.seq).await?.marks.iter().any(|mark| mark.what == "edited"))
}

/// Sends one item; `false` when it moved meanwhile.
async fn send(store: &dyn Store, item: &Item, start: bool, plan: &Plan, env: &Env) -> Result<bool> {
    let now = env.clock.now();
    let at = || Moment { now, draw: env.dice.draw() };
    let event = || if start { Event::Superseded(Gone::Reconfigured) } else { Event::Reconfigured };
    let below = if start { live_descendants(store, item).await? } else { Vec::new() };
    let all = std::iter::once(item).chain(&below);
    let changes: Vec<Change> =
        all.filter_map(|item| decide(item, event(), plan, at()).ok()).map(Change::from).collect();
    let spans = trace::prepare(&env.traced, plan, changes.iter().map(|change| &change.transition));
    let commit =
        Commit { changes, all_or_nothing: true, unless_cancelled: Some(item.run), now, ..Commit::default() };
    let applied = store.commit(commit).await?;
    spans.committed(&applied);
    Ok(!applied.contains(&Applied::Stale))
}
