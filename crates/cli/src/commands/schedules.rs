//! `redrive schedules`.

use std::process::ExitCode;

use redrive_core::schedule::Skip;
use redrive_operate::schedules::{self, ScheduleView};

use super::{Answer, Context};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::table::{Column, Table};
use crate::output::text::{count, safe};

/// Lists the schedules that daemons of the store look after.
pub async fn schedules(context: &Context) -> Answer {
    let floor = context.floor_to_read()?;
    let list = schedules::list(&floor).await?;
    if context.global.json {
        json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    if list.schedules.is_empty() {
        context.tell("no schedules")?;
        context.hint(
            "`redrive serve --pipelines DIR` looks after those of its pipelines that have a [schedule]",
        );
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&words(&list.schedules, &context.screen()))?;
    Ok(ExitCode::SUCCESS)
}

fn words(schedules: &[ScheduleView], screen: &Screen) -> String {
    let mut table = Table::new([
        Column::text("pipeline").least(16),
        Column::text("when").least(11),
        Column::text("time zone").rank(4),
        Column::text("next"),
        Column::text("last").rank(1),
        Column::text("run").rank(2),
        Column::number("fired").rank(3),
        Column::number("skipped").rank(3),
    ]);
    for schedule in schedules {
        let last = schedule.last.as_ref();
        let run = last.and_then(|last| last.run).map_or_else(|| "-".to_owned(), |run| run.to_string());
        table.row([
            schedule.pipeline.clone(),
            schedule.cron.clone(),
            schedule.time_zone.clone(),
            schedule.next.first().map_or_else(|| "-".to_owned(), |at| screen.times.say(at)),
            last.map_or_else(|| "-".to_owned(), |last| screen.times.say_happened(&last.at)),
            run,
            count(schedule.times_fired),
            count(schedule.times_skipped),
        ]);
    }
    let mut text = table.on(screen);
    for schedule in schedules {
        for line in more(schedule, screen) {
            text.push_str(&format!("\n{}: {}", safe(&schedule.pipeline), safe(&line)));
        }
    }
    text
}

/// What does not fit into a row.
fn more(schedule: &ScheduleView, screen: &Screen) -> Vec<String> {
    let mut more = Vec::new();
    more.extend(schedule.problem.clone());
    let failed = schedule.last.as_ref().and_then(|last| last.failed.as_ref().map(|why| (last, why)));
    more.extend(failed.map(|(last, why)| {
        format!("due {}, and no run could be begun: {why}", screen.times.say_happened(&last.due))
    }));
    more.extend(schedule.skipped.as_ref().map(|skipped| {
        let why = match skipped.why {
            Skip::Overlap => "the run before had not ended",
            Skip::Queued => "another time waited for the end of the run already",
            Skip::Missed => "no daemon was there",
        };
        format!("skipped last: {}, {why}", screen.times.say_happened(&skipped.due))
    }));
    more.extend(schedule.waiting.first().map(|due| {
        format!("due {}, and waits for the end of the run before", screen.times.say_happened(due))
    }));
    more
}

#[cfg(test)]
mod tests {
    use redrive_core::id::RunId;
    use redrive_core::schedule::{Missed, Overlap};
    use redrive_operate::schedules::{FiredView, SkippedView};

    use super::*;
    use crate::output::sample::at_widths;

    fn sample(pipeline: &str, failed: Option<&str>) -> ScheduleView {
        let at = |text: &str| text.to_owned();
        ScheduleView {
            pipeline: pipeline.to_owned(),
            cron: "0 3 * * mon-fri".to_owned(),
            time_zone: "Europe/Berlin".to_owned(),
            overlap: Overlap::Queue,
            missed: Missed::Once,
            next: vec![at("2031-01-02T02:00:00.000Z")],
            problem: None,
            last: Some(FiredView {
                due: at("2021-01-01T02:00:00.000Z"),
                at: at("2021-01-01T02:00:00.700Z"),
                run: failed.is_none().then_some(RunId(12)),
                failed: failed.map(ToOwned::to_owned),
            }),
            skipped: Some(SkippedView {
                due: at("2021-01-02T02:00:00.000Z"),
                at: at("2021-01-02T02:00:00.100Z"),
                why: Skip::Overlap,
            }),
            waiting: Vec::new(),
            times_fired: 1_312,
            times_skipped: 2,
        }
    }

    #[test]
    fn schedules_fit_their_screen() {
        let all = [sample("nightly", None), sample("moods", Some("cannot read in.jsonl: no such file"))];
        at_widths("schedules", |screen| words(&all, screen));
    }
}
