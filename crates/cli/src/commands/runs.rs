//! `redrive runs`.

mod watch;

use std::process::ExitCode;

use redrive_core::status::Counts;
use redrive_engine::report::RunReport;
use redrive_operate::runs::{self, RunList};

use super::{Answer, Context};
use crate::args::RunsArgs;
use crate::output::summary::{named, over};
use crate::output::table::{Side, columns};
use crate::output::text::{count, short, span, things};
use crate::output::{json, lines};

/// Lists runs, newest first, once or as they change.
pub async fn runs(context: &Context, args: &RunsArgs) -> Answer {
    let floor = context.floor_to_read()?;
    if args.watch {
        return watch::watch(context, &floor, args).await;
    }
    let list = runs::list(&floor, &args.list()).await?;
    if context.global.json {
        json(&list)?;
    } else {
        lines(&words(&list))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The table, and below it all of it added up where that is several runs.
fn words(list: &RunList) -> String {
    let table = listing(&list.runs);
    if list.runs.len() < 2 {
        return table;
    }
    let items = named(&list.total).into_iter().filter(|(name, n)| *n > 0 && *name != "admitted");
    let items: Vec<String> = items.map(|(name, n)| format!("{} {name}", count(n))).collect();
    let all = things(list.total.admitted, "item");
    let each = if items.is_empty() { String::new() } else { format!(": {}", items.join(", ")) };
    format!("{table}\n{}, {all}{each}", things(list.runs.len() as u64, "run"))
}

/// A table whose counts add up: states that no run has items in are left out, and so are categories and priorities that
/// none has.
fn listing(reports: &[RunReport]) -> String {
    let always = ["admitted", "succeeded", "dead"];
    let wanted = |name: &str| {
        let some = |report: &RunReport| named(&report.counts).iter().any(|(of, n)| *of == name && *n > 0);
        always.contains(&name) || reports.iter().any(some)
    };
    let states: Vec<&str> =
        named(&Counts::default()).into_iter().map(|(name, _)| name).filter(|name| wanted(name)).collect();
    let categories = reports.iter().any(|report| report.category.is_some());
    let priorities = reports.iter().any(|report| report.priority != 0);
    let mut headings = vec![("run", Side::Whole), ("pipeline", Side::Left), ("status", Side::Whole)];
    headings.extend(categories.then_some(("category", Side::Left)));
    headings.extend(priorities.then_some(("priority", Side::Right)));
    headings.extend(states.iter().map(|name| (*name, Side::Right)));
    headings.extend([("took", Side::Right), ("source", Side::Left)]);
    columns(
        &headings,
        reports.iter().map(|report| {
            let mut cells = vec![report.run.to_string(), report.pipeline.clone(), report.status.to_string()];
            cells.extend(categories.then(|| report.category.clone().unwrap_or_default()));
            cells.extend(priorities.then(|| report.priority.to_string()));
            let counts = named(&report.counts).into_iter().filter(|(name, _)| states.contains(name));
            cells.extend(counts.map(|(_, n)| count(n)));
            cells.extend([span(report.elapsed_ms), short(&over(&report.source), 60)]);
            cells
        }),
    )
}
