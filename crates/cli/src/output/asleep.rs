//! Says why a run that works on nothing waits, and for how long: once, and again when that changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redrive_core::gate::{GateState, Standing};
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::report::all_counts;
use redrive_store::{GateRow, ItemFilter, ItemQuery, Result, Store};

use super::note;
use super::text::{count, safe, short, span};

/// How often it is looked whether a run sleeps.
const EVERY: Duration = Duration::from_secs(1);
/// A shorter wait is not worth a word.
const WORTH_TELLING: Duration = Duration::from_secs(5);
/// Most items that are looked at.
const LOOKED_AT: usize = 1_000;

/// Follows a run until it is dropped.
pub struct Asleep(Option<tokio::task::JoinHandle<()>>);

/// What a run waits for.
#[derive(Debug, PartialEq)]
struct Sleep {
    until: Option<Timestamp>,
    why: String,
}

impl Asleep {
    /// Follows a run and says when it sleeps, unless told to be quiet.
    pub fn follow(store: Arc<dyn Store>, run: RunId, recipe: &Recipe, env: Env, quiet: bool) -> Self {
        if quiet {
            return Self(None);
        }
        let plan = recipe.plan.clone();
        let gates: Vec<String> = recipe.gates.iter().map(|gate| gate.name.to_string()).collect();
        Self(Some(tokio::spawn(async move {
            let mut told = None;
            loop {
                env.clock.sleep(EVERY).await;
                let now = env.clock.now();
                // What cannot be read now is read the next time.
                let Ok(found) = sleep(&*store, run, &plan, &gates, now).await else { continue };
                if found != told
                    && let Some(sleep) = &found
                {
                    let long = sleep.until.map(|until| format!(" for {}", span(until.0 - now.0)));
                    note(&format!("nothing is due{}: {}", long.unwrap_or_default(), sleep.why));
                }
                told = found;
            }
        })))
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

/// What a run waits for, if it works on nothing and will not for some time.
async fn sleep(
    store: &dyn Store,
    run: RunId,
    plan: &Plan,
    gates: &[String],
    now: Timestamp,
) -> Result<Option<Sleep>> {
    let counts = all_counts(store, run).await?;
    if counts.running > 0 || counts.waiting == 0 {
        return Ok(None);
    }
    let soon = now.after(WORTH_TELLING);
    let next_due = store.next_due(run).await?.at;
    let rows = if gates.is_empty() { Vec::new() } else { store.gates().await? };
    let standing = |row: &GateRow| {
        GateState::read_at(&row.state, row.updated_at, now).ok().map(|gate| gate.standing(now))
    };
    let own = rows.iter().filter(|row| gates.contains(&row.name));
    let own = own.filter_map(|row| Some((row.name.as_str(), standing(row)?)));
    let shut: Vec<(&str, Standing)> = own.filter(|(_, standing)| standing.state != "open").collect();
    let opens = shut.iter().map(|(_, standing)| standing.until).min();
    let until = match (next_due, opens) {
        (Some(due), _) if due > soon => Some(due),
        (_, Some(opens)) if opens.is_none_or(|opens| opens > soon) => opens,
        _ => return Ok(None),
    };
    let filter = ItemFilter { run: Some(run), state: Some(StateKind::Waiting), ..ItemFilter::default() };
    let items = store.items(ItemQuery { filter, after: None, limit: LOOKED_AT }).await?;
    let mut why: Vec<String> = waiting(&items, plan);
    why.extend(shut.iter().map(|(name, standing)| {
        format!("gate {} is {}: {}", safe(name), standing.state, short(&standing.why, 80))
    }));
    Ok(Some(Sleep { until, why: why.join("; ") }))
}

/// How many items wait for what.
fn waiting(items: &[Item], plan: &Plan) -> Vec<String> {
    let mut groups: BTreeMap<(u16, bool, Option<&str>), u64> = BTreeMap::new();
    for item in items {
        let class = item.last.as_ref().map(|last| last.class.name()).filter(|_| item.handed.is_none());
        *groups.entry((item.stage.0, item.handed.is_some(), class)).or_default() += 1;
    }
    let more = if items.len() == LOOKED_AT { "at least " } else { "" };
    let words = groups.into_iter().map(|((stage, awaited, class), n)| {
        let name = plan.stage(StageNo(stage)).map_or("?", |stage| &stage.name);
        let (items, wait) = if n == 1 { ("item", "waits") } else { ("items", "wait") };
        match class {
            Some(class) => {
                format!("{more}{} {items} {wait} for a retry of stage {} ({class})", count(n), safe(name))
            }
            None if awaited => {
                format!("{more}{} {items} {wait} for an answer of stage {}", count(n), safe(name))
            }
            None => format!("{more}{} {items} {wait} for stage {}", count(n), safe(name)),
        }
    });
    words.collect()
}
