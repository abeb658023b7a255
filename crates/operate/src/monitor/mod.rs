//! What monitoring reads: all of it from one snapshot of the store, from kept counters and the ends of indexes, so that it
//! costs the same however many items there are.

mod around;
mod counted;
pub mod families;
mod names;
mod page;

use std::sync::Arc;
use std::time::Duration;

use redrive_core::laws::Law;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::report::Crew;
use redrive_store::{RunFilter, RunSet, VitalsQuery};

use crate::Floor;
use crate::audit;
use crate::error::Result;
use crate::gates;
use crate::items::cause::Around;
use crate::pipelines::Pipeline;
use crate::retry_job;
use crate::runs::Runs;
use families as f;
use names::Names;

pub use page::{CONTENT_TYPE, Page, Told};

/// An item that was due for longer is starved.
pub const STARVED_AFTER: Duration = Duration::from_secs(300);
/// Items of a run's stage that are counted one by one.
pub(crate) const MOST_COUNTED: usize = 10_000;

/// All metrics, as text. Pipelines of `folder` are told with 0 before their first run.
///
/// # Errors
/// When the store fails.
pub async fn metrics(floor: &Floor, folder: &[Arc<Pipeline>]) -> Result<String> {
    Ok(page(floor, folder).await?.text())
}

/// All metrics. Pipelines of `folder` are told with 0 before their first run.
///
/// # Errors
/// When the store fails.
pub async fn page(floor: &Floor, folder: &[Arc<Pipeline>]) -> Result<Page> {
    let begun = floor.env.clock.uptime();
    let mut page = read(floor, folder).await?;
    if let Some(tracer) = &floor.env.traced {
        let counts = tracer.counts();
        for (outcome, n) in [("sent", counts.sent), ("dropped", counts.dropped)] {
            page.add(&f::OTLP_SPANS, &[outcome], counted::number(n.cast_signed()));
        }
    }
    let took = floor.env.clock.uptime().saturating_sub(begun);
    page.add(&f::SCRAPE, &[], took.as_secs_f64());
    Ok(page)
}

/// The metrics of the retry job, as text.
///
/// # Errors
/// When the store fails.
pub async fn metrics_of_the_job(floor: &Floor) -> Result<String> {
    Ok(read(floor, &[]).await?.text_of("retry_job_"))
}

async fn read(floor: &Floor, folder: &[Arc<Pipeline>]) -> Result<Page> {
    let now = floor.now();
    let snapshot = floor.store.snapshot().await?;
    let floor = Floor { store: snapshot.store, index: snapshot.index, ..floor.clone() };
    let store = &*floor.store;
    let mut rows = Runs::of(store).all(RunFilter::default()).await?;
    rows.sort_by_key(|row| row.id);
    let due_before = Timestamp(now.0.saturating_sub(millis(STARVED_AFTER)));
    let query = VitalsQuery { now, due_before, since: now, most: MOST_COUNTED };
    let vitals = store.vitals(query).await?;
    let names = Names::of(&rows, &vitals.pruned, folder);
    let mut page = Page::default();
    page.add(&f::BUILD, &[env!("CARGO_PKG_VERSION")], 1.0);
    counted::zeros(&mut page, &names);
    let all = store.counters_of_all(RunSet::All).await?;
    for counted in &all {
        let Ok(at) = rows.binary_search_by_key(&counted.run, |row| row.id) else { continue };
        let plan = names.known(&rows[at]).map(|known| &known.plan);
        counted::add(&mut page, &names, &rows[at].spec.pipeline, plan, &counted.counters);
    }
    for pruned in &vitals.pruned {
        let plan = names.newest(&pruned.pipeline).map(|known| &known.plan);
        counted::add(&mut page, &names, &pruned.pipeline, plan, &pruned.counters);
    }
    let (crew, gates) = (Crew::read(store, &floor.env).await?, gates::list(&floor).await?);
    let pauses = store.pauses().await?;
    let around = Around { crew: &crew, gates: &gates, pauses: &pauses };
    around::runs(&mut page, &names, &rows, &all);
    around::vitals(&mut page, &names, &rows, &vitals, &around, now);
    around::pauses(&mut page, &names, &pauses);
    around::workers(&mut page, &store.workers().await?, &crew);
    around::gates(&mut page, &gates);
    around::open_operations(&mut page, store, now).await?;
    around::outbox(&mut page, &store.outbox(MOST_COUNTED).await?, now);
    remembered(&mut page, &names, &floor).await?;
    Ok(page)
}

/// What the auditor and the retry job wrote down.
async fn remembered(page: &mut Page, names: &Names, floor: &Floor) -> Result<()> {
    let seconds = |at: Option<i64>| at.map_or(0.0, |ms| counted::number(ms) / 1_000.0);
    let amount = |n: u64| counted::number(n.cast_signed());
    let audit = audit::record(&*floor.store).await?;
    for law in Law::ALL {
        page.add(&f::LAWS, &[&law.to_string()], amount(audit.broken(law)));
    }
    page.add(&f::LAWS_ITEMS, &[], amount(audit.items));
    page.add(&f::LAWS_AT, &[], seconds(audit.looked_at));
    let job = retry_job::record(&*floor.store).await?;
    let collections = |page: &mut Page, collection: &str| {
        for family in [&f::JOB_REQUEUED, &f::JOB_SKIPPED, &f::JOB_EXHAUSTED, &f::JOB_STUCK, &f::JOB_FAILED] {
            page.add(family, &[collection], 0.0);
        }
    };
    for collection in names.collections() {
        collections(page, &collection);
    }
    for ((pipeline, made_by), done) in &job.collections() {
        let collection = names.told(pipeline, made_by.as_deref());
        collections(page, &collection);
        page.add(&f::JOB_REQUEUED, &[&collection], amount(done.requeued));
        page.add(&f::JOB_SKIPPED, &[&collection], amount(done.skipped));
    }
    page.add(&f::JOB_RUNS, &["success"], amount(job.succeeded));
    page.add(&f::JOB_RUNS, &["failure"], amount(job.failed));
    for (kind, n) in &job.errors {
        page.add(&f::JOB_ERRORS, &[kind], amount(*n));
    }
    page.add(&f::JOB_TOOK, &[], counted::number(job.took_ms.cast_signed()) / 1_000.0);
    for (bound, n) in f::SWEEP_BOUNDS.iter().copied().chain([f64::INFINITY]).zip(&job.took) {
        page.observe(&f::JOB_TOOK, &[], bound, *n);
    }
    page.add(&f::JOB_LAST, &[], seconds(job.succeeded_at));
    Ok(())
}
