//! Proves the laws over everything a store holds.

use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_core::laws::{Case, Census, Law, Violation, check_item, check_starved, left_its_source};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::tally::Metric;
use redrive_core::time::Timestamp;
use redrive_store::{
    Damage, Error, Index, ItemFilter, ItemQuery, Result, RunFilter, RunRow, Snapshot, Store, TombstoneQuery,
};
use serde::Serialize;

const PAGE: usize = 1_000;
/// Violations of one law that are listed.
const SHOWN: usize = 20;
/// Damages that are looked for, and listed.
const DAMAGE: usize = 100;

/// What a check found, as `check --json` prints it.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// Whether every law holds and everything is as it was written.
    pub ok: bool,
    /// Runs looked at.
    pub runs: u64,
    /// Items looked at.
    pub items: u64,
    /// Attempts looked at.
    pub attempts: u64,
    /// Law by law.
    pub laws: Vec<LawReport>,
    /// What is not as it was written: in the file itself, or in a content; the first ones.
    pub damage: Vec<Damage>,
}

/// One law.
#[derive(Debug, Clone, Serialize)]
pub struct LawReport {
    /// Which.
    pub law: Law,
    /// What it says.
    pub says: &'static str,
    /// Whether it holds, as far as a store at rest can show.
    pub ok: bool,
    /// What of it a store at rest cannot show.
    pub beyond: Option<&'static str>,
    /// How often it does not.
    pub broken: u64,
    /// Where it does not; the first ones.
    pub violations: Vec<Violation>,
}

/// Which runs are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// All of them.
    All,
    /// This one.
    One(RunId),
}

/// Checks every law for the given runs, that nothing in the index hangs in the air, and that everything is as it was written.
/// All of it is read from one snapshot: workers may go on meanwhile. `plan` gives a run's pipeline, where it can still be
/// read.
///
/// # Errors
/// When the store fails; `NotFound` for a run that is not there.
pub async fn check(
    store: &dyn Store,
    wanted: Runs,
    plan: impl Fn(&RunRow) -> Option<Plan>,
    now: Timestamp,
) -> Result<CheckReport> {
    let Snapshot { store, index } = store.snapshot().await?;
    let mut found = Found { damage: store.damage(DAMAGE).await?, ..Found::default() };
    let laws = check_laws(&*store, &*index, wanted, plan, now, &mut found).await;
    match laws {
        // What cannot be read is a part of what was found.
        Err(Error::Corrupt(what)) => found.damage.push(Damage { item: None, key: None, what }),
        laws => laws?,
    }
    let laws: Vec<LawReport> = Law::ALL.into_iter().map(|law| found.report(law)).collect();
    let ok = laws.iter().all(|law| law.ok) && found.damage.is_empty();
    let Found { runs, items, attempts, damage, .. } = found;
    Ok(CheckReport { ok, runs, items, attempts, laws, damage })
}

async fn check_laws(
    store: &dyn Store,
    index: &dyn Index,
    wanted: Runs,
    plan: impl Fn(&RunRow) -> Option<Plan>,
    now: Timestamp,
    found: &mut Found,
) -> Result<()> {
    match wanted {
        Runs::One(run) => {
            let missing = || Error::NotFound(format!("run {run}"));
            let row = store.run(run).await?.ok_or_else(missing)?;
            check_run(store, &row, plan(&row).as_ref(), now, found).await?;
        }
        Runs::All => {
            let mut before = None;
            loop {
                let page = store.runs(RunFilter::default(), before, PAGE).await?;
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                for row in &page {
                    check_run(store, row, plan(row).as_ref(), now, found).await?;
                }
            }
        }
    }
    // A chunk that lost its vector or its document was there before what it stands on: that is law L5.
    let faults = index.index_faults(PAGE).await?;
    found.violations.extend(faults.into_iter().map(|what| Violation { law: Law::L5, item: None, what }));
    Ok(())
}

#[derive(Default)]
struct Found {
    runs: u64,
    items: u64,
    attempts: u64,
    violations: Vec<Violation>,
    damage: Vec<Damage>,
}

impl Found {
    fn report(&self, law: Law) -> LawReport {
        let broken: Vec<&Violation> =
            self.violations.iter().filter(|violation| violation.law == law).collect();
        LawReport {
            law,
            says: law.says(),
            beyond: law.beyond_a_store_at_rest(),
            ok: broken.is_empty(),
            broken: broken.len() as u64,
            violations: broken.into_iter().take(SHOWN).cloned().collect(),
        }
    }
}

async fn check_run(
    store: &dyn Store,
    row: &RunRow,
    plan: Option<&Plan>,
    now: Timestamp,
    found: &mut Found,
) -> Result<()> {
    found.runs += 1;
    // A run nobody works on starves nothing: its items wait for a command, not for a lane.
    let attended =
        row.control == Control::Go && store.workers().await?.iter().any(|worker| worker.attends(row.id, now));
    // A run is cancelled parents first, in several transactions: until that is done, children outlive them.
    let under_way = row.control == Control::Cancelled && row.finished_at.is_none();
    let counters = store.counters(row.id).await?;
    // A successor may have gone.
    let gone = |metric: &Metric| matches!(metric, Metric::Purged(_) | Metric::Forgotten(_));
    let purged = counters.iter().any(|counter| gone(&counter.metric) && counter.n > 0);
    let mut census = Census::default();
    count_tombstones(store, row.id, &mut census).await?;
    let mut after = None;
    loop {
        let filter = ItemFilter { run: Some(row.id), ..ItemFilter::default() };
        let page = store.items(ItemQuery { filter, after, limit: PAGE }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.seq);
        for item in &page {
            let history = store.history(item.seq).await?;
            let has_successor =
                purged || (item.state.kind() == StateKind::Superseded && other_version(store, item).await?);
            let has_children =
                plan.is_none_or(|plan| plan.stages().any(|(_, stage)| stage.first_child.is_some()));
            let children = if has_children { store.children(item.seq).await? } else { Default::default() };
            let case = Case {
                item,
                attempts: &history.attempts,
                marks: &history.marks,
                plan,
                children,
                has_successor,
            };
            let broken = check_item(&case).into_iter();
            found.violations.extend(broken.filter(|broken| !(under_way && broken.law == Law::L10)));
            found
                .violations
                .extend(check_starved(item, now, 60_000 + row.pause.before_ms).filter(|_| attended));
            census.observe(item, &history.attempts);
            found.items += 1;
            found.attempts += history.attempts.len() as u64;
        }
    }
    found.violations.extend(census.compare(row.id, &counters));
    Ok(())
}

async fn count_tombstones(store: &dyn Store, run: RunId, census: &mut Census) -> Result<()> {
    let mut query = TombstoneQuery { run: Some(run), limit: PAGE, ..TombstoneQuery::default() };
    loop {
        let page = store.tombstones(query.clone()).await?;
        let Some(last) = page.last() else { return Ok(()) };
        query.after = Some(last.seq);
        for tombstone in page {
            census.observe_tombstone(tombstone.run, tombstone.was);
        }
    }
}

async fn other_version(store: &dyn Store, item: &redrive_core::item::Item) -> Result<bool> {
    let filter = ItemFilter { ids: Some(item.id.versions()), ..ItemFilter::default() };
    let versions = store.items(ItemQuery { filter, after: None, limit: PAGE }).await?;
    for version in versions.iter().filter(|version| version.id != item.id) {
        // A successor may have left the source in its turn.
        if version.state.kind() != StateKind::Superseded
            || left_its_source(&store.history(version.seq).await?.marks)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
