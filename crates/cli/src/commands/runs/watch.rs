//! `redrive runs --watch`: the table in its place on a terminal, a line for each change elsewhere.

use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, Write, stdout};
use std::process::ExitCode;

use ratatui_crossterm::crossterm::cursor::MoveToPreviousLine;
use ratatui_crossterm::crossterm::terminal::{self, Clear, ClearType};
use ratatui_crossterm::crossterm::{QueueableCommand, terminal::DisableLineWrap, terminal::EnableLineWrap};
use redrive_core::id::RunId;
use redrive_core::status::{Counts, RunStatus};
use redrive_engine::report::RunReport;
use redrive_operate::runs::{self, RunList};
use redrive_operate::{Error, Floor};

use super::super::{Answer, Context};
use super::words;
use crate::args::RunsArgs;
use crate::output::compact;
use crate::output::screen::Screen;
use crate::output::summary::named;
use crate::output::text::{count, things};

/// Lines of a terminal whose size cannot be found out.
const USUAL: u16 = 24;

/// Tells how runs stand until nobody reads it any more.
pub async fn watch(context: &Context, floor: &Floor, args: &RunsArgs) -> Answer {
    let in_place = stdout().is_terminal() && !context.global.json;
    let (mut before, mut drawn, mut trouble) = (Seen::new(), 0, None);
    loop {
        let written = match runs::list(floor, &args.list()).await {
            Ok(list) => {
                trouble = None;
                if in_place {
                    redraw(&context.screen(), &list, &mut drawn)
                } else {
                    append(context, &mut before, &list)
                }
            }
            // It may be busy: that is told once, and looked at again.
            Err(error) => {
                if trouble.as_ref() != Some(&error) {
                    context.say(&format!("warning: {}; trying on", error.message));
                    (trouble, drawn) = (Some(error), 0);
                }
                Ok(())
            }
        };
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            Err(error) => return Err(Error::internal(format!("cannot write standard output: {error}"))),
            Ok(()) => context.env.clock.sleep(args.interval).await,
        }
    }
}

/// Prints the table over the one that was printed before, as much of it as there are lines.
fn redraw(screen: &Screen, list: &RunList, drawn: &mut u16) -> std::io::Result<()> {
    let height = terminal::size().map_or(USUAL, |(_, rows)| rows).max(2);
    let text = words(list, screen);
    let lines: Vec<&str> = text.lines().take(usize::from(height) - 1).collect();
    let mut out = stdout().lock();
    if *drawn > 0 {
        out.queue(MoveToPreviousLine(*drawn))?;
    }
    out.queue(Clear(ClearType::FromCursorDown))?.queue(DisableLineWrap)?;
    for line in &lines {
        writeln!(out, "{line}")?;
    }
    out.queue(EnableLineWrap)?;
    *drawn = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    out.flush()
}

/// How runs stood when they were last told of.
type Seen = BTreeMap<RunId, (RunStatus, Counts)>;

/// Prints a line for each run that changed.
fn append(context: &Context, before: &mut Seen, list: &RunList) -> std::io::Result<()> {
    let changed = changed(before, &list.runs);
    let now = context.env.clock.now();
    let mut out = stdout().lock();
    for report in changed {
        match context.global.json {
            true => {
                let document = compact(report).map_err(std::io::Error::other)?;
                writeln!(out, "{document}")?;
            }
            false => writeln!(out, "{now} {}", line(report))?,
        }
    }
    out.flush()
}

/// The runs that stand otherwise than before, oldest first; each is remembered as it stands now.
fn changed<'a>(before: &mut Seen, reports: &'a [RunReport]) -> Vec<&'a RunReport> {
    let mut changed = Vec::new();
    for report in reports.iter().rev() {
        let stands = (report.status, report.counts);
        if before.insert(report.run, stands) != Some(stands) {
            changed.push(report);
        }
    }
    changed
}

fn line(report: &RunReport) -> String {
    let states = named(&report.counts).into_iter().filter(|(name, n)| *n > 0 && *name != "admitted");
    let states: Vec<String> = states.map(|(name, n)| format!("{} {name}", count(n))).collect();
    let each = if states.is_empty() { String::new() } else { format!(": {}", states.join(", ")) };
    let all = things(report.counts.admitted, "item");
    crate::output::text::safe(&format!("{} {} {}, {all}{each}", report.run, report.pipeline, report.status))
}
