//! `redrive dead list` and `redrive dead groups`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::{Item, State};
use redrive_core::plan::Plan;
use redrive_operate::Error;
use redrive_store::{Group, ItemQuery, Store};
use serde::Serialize;

use super::filter::resolve;
use crate::args::DeadFilter;
use crate::commands::{Answer, Context};
use crate::output::table::{Side, table};
use crate::output::text::{count, short};
use crate::output::{json, lines};
use crate::wiring;

/// Most items of a page.
const MOST: usize = 500;

#[derive(Serialize)]
struct DeadItem {
    id: String,
    key: String,
    run: RunId,
    stage: String,
    reason: Option<&'static str>,
    class: Option<&'static str>,
    message: Option<String>,
    attempts: u32,
    generation: u32,
    failed_at: String,
    group: Option<String>,
}

/// Reads the plans of runs once.
#[derive(Default)]
pub struct Plans(BTreeMap<RunId, Option<Plan>>);

impl Plans {
    /// A stage's name in its run.
    pub async fn stage(
        &mut self,
        store: &dyn Store,
        run: RunId,
        no: redrive_core::id::StageNo,
    ) -> Result<String, Error> {
        if let std::collections::btree_map::Entry::Vacant(place) = self.0.entry(run) {
            place.insert(store.run(run).await?.as_ref().and_then(wiring::plan_of));
        }
        let plan = self.0.get(&run).and_then(Option::as_ref);
        Ok(plan
            .and_then(|plan| plan.stage(no))
            .map_or_else(|| format!("#{}", no.0), |stage| stage.name.clone()))
    }
}

/// Lists dead items.
pub async fn list(context: &Context, typed: &DeadFilter, limit: usize, after: Option<&str>) -> Answer {
    let store = context.store_to_read()?;
    let filters = resolve(&*store, typed, context.env.clock.now()).await?;
    let limit = limit.clamp(1, MOST);
    let (first, mut after) = read_cursor(after)?;
    let mut found: Vec<(usize, Item)> = Vec::new();
    for (place, filter) in filters.iter().enumerate().skip(first) {
        let wanted = limit + 1 - found.len();
        let page =
            store.items(ItemQuery { filter: filter.clone(), after: after.take(), limit: wanted }).await?;
        found.extend(page.into_iter().map(|item| (place, item)));
        if found.len() > limit {
            break;
        }
    }
    let next = (found.len() > limit).then(|| {
        let (place, item) = &found[limit - 1];
        format!("{place}.{}", item.seq.0)
    });
    found.truncate(limit);
    let mut plans = Plans::default();
    let mut items = Vec::new();
    for (_, item) in &found {
        let stage = plans.stage(&*store, item.run, item.stage).await?;
        items.push(view(item, stage));
    }
    if context.global.json {
        json(&serde_json::json!({ "items": items, "next": next }))?;
        return Ok(ExitCode::SUCCESS);
    }
    lines(&listing(&items))?;
    if let Some(next) = next {
        context.hint(&format!("there are more: --after {next}"));
    } else if !items.is_empty() {
        context.hint("`redrive dead groups` groups them; `redrive dead show ITEM` tells one's life; `redrive dead redrive` sends them back");
    }
    Ok(ExitCode::SUCCESS)
}

fn view(item: &Item, stage: String) -> DeadItem {
    let last = item.last.as_ref();
    DeadItem {
        id: item.id.to_string(),
        key: item.key.to_string(),
        run: item.run,
        stage,
        reason: match item.state {
            State::Dead { reason } => Some(reason.name()),
            _ => None,
        },
        class: last.map(|last| last.class.name()),
        message: last.map(|last| last.message.to_string()),
        attempts: item.attempt,
        generation: item.generation,
        failed_at: item.updated_at.to_string(),
        group: last.map(|last| last.group.to_string()).filter(|group| !group.is_empty()),
    }
}

fn listing(items: &[DeadItem]) -> String {
    if items.is_empty() {
        return "no dead items".to_owned();
    }
    let headings = [
        ("item", Side::Left),
        ("run", Side::Left),
        ("key", Side::Left),
        ("stage", Side::Left),
        ("reason", Side::Left),
        ("attempts", Side::Right),
        ("failed at", Side::Left),
        ("message", Side::Left),
    ];
    table(
        headings,
        items.iter().map(|item| {
            [
                item.id[..12].to_owned(),
                item.run.to_string(),
                short(&item.key, 32),
                item.stage.clone(),
                item.reason.unwrap_or_default().to_owned(),
                item.attempts.to_string(),
                item.failed_at.clone(),
                short(item.message.as_deref().unwrap_or_default(), 60),
            ]
        }),
    )
}

fn read_cursor(cursor: Option<&str>) -> Result<(usize, Option<ItemSeq>), Error> {
    let Some(cursor) = cursor else { return Ok((0, None)) };
    let read = cursor.split_once('.').and_then(|(place, seq)| Some((place.parse().ok()?, seq.parse().ok()?)));
    let (place, seq) = read.ok_or_else(|| Error::wrong(format!("'{cursor}' is not a cursor")))?;
    Ok((place, Some(ItemSeq(seq))))
}

/// Shows dead items grouped by alike errors.
pub async fn groups(context: &Context, typed: &DeadFilter, limit: usize) -> Answer {
    let store = context.store_to_read()?;
    let limit = limit.clamp(1, MOST);
    let mut merged: BTreeMap<String, Group> = BTreeMap::new();
    for filter in resolve(&*store, typed, context.env.clock.now()).await? {
        for group in store.groups(filter, limit).await? {
            merged.entry(group.group.clone()).and_modify(|known| known.items += group.items).or_insert(group);
        }
    }
    let mut groups: Vec<Group> = merged.into_values().collect();
    groups.sort_by(|a, b| b.items.cmp(&a.items).then_with(|| a.group.cmp(&b.group)));
    groups.truncate(limit);
    let mut plans = Plans::default();
    let mut rows = Vec::new();
    for group in groups {
        let stage = plans.stage(&*store, group.run, group.stage).await?;
        rows.push((group, stage));
    }
    if context.global.json {
        let shown: Vec<_> = rows
            .iter()
            .map(|(group, stage)| {
                serde_json::json!({
                    "group": group.group, "items": group.items, "stage": stage, "class": group.class,
                    "message": group.message, "example": group.example, "first_at": group.first_at.to_string(),
                    "last_at": group.last_at.to_string(),
                })
            })
            .collect();
        json(&serde_json::json!({ "groups": shown }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = [
        ("group", Side::Left),
        ("items", Side::Right),
        ("stage", Side::Left),
        ("class", Side::Left),
        ("last at", Side::Left),
        ("message", Side::Left),
    ];
    let text = table(
        headings,
        rows.iter().map(|(group, stage)| {
            [
                group.group.clone(),
                count(group.items),
                stage.clone(),
                group.class.map(|class| class.name().to_owned()).unwrap_or_default(),
                group.last_at.to_string(),
                short(&group.message, 80),
            ]
        }),
    );
    lines(if rows.is_empty() { "no dead items" } else { &text })?;
    Ok(ExitCode::SUCCESS)
}
