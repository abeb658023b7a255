//! Proves the laws over everything a store holds.

use redrive_core::id::RunId;
use redrive_core::item::{Item, StateKind};
use redrive_core::laws::{Case, Census, Law, Violation, check_item, check_starved, left_its_source};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::Timestamp;
use redrive_store::{
    Damage, Error, History, Index, ItemFilter, ItemQuery, Result, RunFilter, RunRow, RunSet, Snapshot, Store,
    TombstoneQuery,
};
use serde::Serialize;

mod audit;

use crate::counts::counts;
use crate::progress::Progress;

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

pub use audit::{AuditPage, audit_page};

/// Which runs are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// All of them.
    All,
    /// This one.
    One(RunId),
}

/// Checks every law for the given runs, that nothing in the index hangs in the air, and that everything is as it was written.
/// The laws are read from one snapshot, and what is written from another: workers may go on meanwhile. `plan` gives a run's
/// pipeline, where it can still be read; `progress` hears of the items.
///
/// # Errors
/// When the store fails; `NotFound` for a run that is not there.
pub async fn check(
    store: &dyn Store,
    wanted: Runs,
    plan: impl Fn(&RunRow) -> Option<Plan>,
    now: Timestamp,
    progress: &dyn Progress,
) -> Result<CheckReport> {
    let Snapshot { store: frozen, index } = store.snapshot().await?;
    let looked = async {
        let mut found = Found { all: items_of(&*frozen, wanted).await?, ..Found::default() };
        let look = Look { store: &*frozen, now, progress };
        let laws = check_laws(look, &*index, wanted, plan, &mut found).await;
        Ok((laws, found))
    };
    // The file is read through by another reader meanwhile.
    let (damage, looked) = tokio::join!(store.damage(DAMAGE), looked);
    let (laws, mut found): (_, Found) = looked?;
    found.damage = damage?;
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

/// How many items there are to look at; none where that cannot be read.
async fn items_of(store: &dyn Store, wanted: Runs) -> Result<u64> {
    let wanted = match wanted {
        Runs::All => RunSet::All,
        Runs::One(run) => RunSet::Of(vec![run]),
    };
    let of = match store.counters_of_all(wanted).await {
        Err(Error::Corrupt(_)) => Vec::new(),
        of => of?,
    };
    let there =
        of.iter().map(|of| counts(&of.counters, |_| true)).map(|of| of.admitted.saturating_sub(of.purged));
    Ok(there.sum())
}

/// What is looked at, when, and who hears how far it is.
#[derive(Clone, Copy)]
struct Look<'a> {
    store: &'a dyn Store,
    now: Timestamp,
    progress: &'a dyn Progress,
}

async fn check_laws(
    look: Look<'_>,
    index: &dyn Index,
    wanted: Runs,
    plan: impl Fn(&RunRow) -> Option<Plan>,
    found: &mut Found,
) -> Result<()> {
    let store = look.store;
    match wanted {
        Runs::One(run) => {
            let missing = || Error::NotFound(format!("run {run}"));
            let row = store.run(run).await?.ok_or_else(missing)?;
            check_run(look, &row, plan(&row).as_ref(), found).await?;
        }
        Runs::All => {
            let mut before = None;
            loop {
                let page = store.runs(RunFilter::default(), before, PAGE).await?;
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                for row in &page {
                    check_run(look, row, plan(row).as_ref(), found).await?;
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
    /// Items that there are to look at.
    all: u64,
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

async fn check_run(look: Look<'_>, row: &RunRow, plan: Option<&Plan>, found: &mut Found) -> Result<()> {
    let Look { store, progress, .. } = look;
    found.runs += 1;
    let counters = store.counters(row.id).await?;
    let run = Run::of(look, row, plan, &counters).await?;
    let mut census = Census::default();
    count_tombstones(store, row.id, &mut census).await?;
    let mut after = None;
    loop {
        let filter = ItemFilter { run: Some(row.id), ..ItemFilter::default() };
        let page = store.items(ItemQuery { filter, after, limit: PAGE }).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.seq);
        let histories = store.histories(page.iter().map(|item| item.seq).collect(), usize::MAX).await?;
        for (item, history) in page.iter().zip(&histories) {
            run.check(look, item, history, found).await?;
            census.observe(item, &history.attempts);
        }
        progress.reached(found.items, Some(found.all));
    }
    found.violations.extend(census.compare(row.id, &counters));
    Ok(())
}

/// A run whose items are looked at.
struct Run<'a> {
    row: &'a RunRow,
    plan: Option<&'a Plan>,
    purged: bool,
    attended: bool,
    under_way: bool,
}

impl<'a> Run<'a> {
    async fn of(
        look: Look<'_>,
        row: &'a RunRow,
        plan: Option<&'a Plan>,
        counters: &[Counter],
    ) -> Result<Self> {
        let Look { store, now, .. } = look;
        // A successor may have gone.
        let gone = |metric: &Metric| matches!(metric, Metric::Purged(_) | Metric::Forgotten(_));
        Ok(Self {
            row,
            plan,
            purged: counters.iter().any(|counter| gone(&counter.metric) && counter.n > 0),
            // A run nobody works on starves nothing: its items wait for a command, not for a lane.
            attended: row.control == Control::Go
                && store.workers().await?.iter().any(|worker| worker.attends(row.id, now)),
            // A run is cancelled parents first, in several transactions: until that is done, children outlive them.
            under_way: row.control == Control::Cancelled && row.finished_at.is_none(),
        })
    }

    async fn check(&self, look: Look<'_>, item: &Item, history: &History, found: &mut Found) -> Result<()> {
        let Look { store, now, .. } = look;
        let superseded = item.state.kind() == StateKind::Superseded;
        let has_successor = self.purged || (superseded && other_version(store, item).await?);
        let children = match self.may_have_children(item) {
            true => store.children(item.seq).await?,
            false => Default::default(),
        };
        let case = Case {
            item,
            attempts: &history.attempts,
            marks: &history.marks,
            plan: self.plan,
            children,
            has_successor,
        };
        let broken = check_item(&case).into_iter();
        found.violations.extend(broken.filter(|broken| !(self.under_way && broken.law == Law::L10)));
        let grace = 60_000 + self.row.pause.before_ms;
        found.violations.extend(check_starved(item, now, grace).filter(|_| self.attended));
        found.items += 1;
        found.attempts += history.attempts.len() as u64;
        Ok(())
    }

    /// Whether an item is among those that a stage can expand: the items of one owner pass the stages of that owner.
    fn may_have_children(&self, item: &Item) -> bool {
        let Some(plan) = self.plan else { return true };
        let Some(here) = plan.stage(item.stage) else { return true };
        plan.stages().any(|(_, stage)| stage.owner == here.owner && stage.first_child.is_some())
    }
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

async fn other_version(store: &dyn Store, item: &Item) -> Result<bool> {
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
