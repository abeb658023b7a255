//! `redrive retry` and `redrive rerun`.

use std::process::ExitCode;

use redrive_operate::again::{self, Held, Rerunning, Retried, Retry};

use super::dead::set;
use super::work::{self, Watching};
use super::{Answer, Context};
use crate::args::{RerunArgs, RetryArgs};
use crate::exit;
use crate::output::text::{count, things};
use crate::output::{advice, json};

/// Has waiting items go now, or at another time.
pub async fn retry(context: &Context, args: RetryArgs) -> Answer {
    let (dry_run, later) = (args.dry_run, args.later);
    let request = Retry::from(args);
    request.said_which()?;
    if dry_run {
        let told = again::preview_retry(&context.floor_to_read()?, &request).await?;
        let code = told_retry(context, &told, later.is_some())?;
        tell_held(context, &told);
        return Ok(code);
    }
    let floor = context.floor()?;
    let told = again::retry(&floor, &request, &Watching::of(context)).await?;
    let code = told_retry(context, &told, later.is_some())?;
    tell_held(context, &told);
    if request.work {
        for report in &told.runs {
            if context.global.json {
                advice::next(report, &[]).iter().for_each(|hint| context.hint(hint));
            } else {
                work::tell_of(context, &floor, report).await?;
            }
        }
        return Ok(exit::of_work(told.runs.iter().map(|report| report.status), told.interrupted, true));
    }
    Ok(code)
}

fn told_retry(context: &Context, told: &Retried, later: bool) -> Answer {
    if context.global.json {
        json(told)?;
        return Ok(ExitCode::SUCCESS);
    }
    let would = if told.dry_run {
        " would go"
    } else if told.items == 1 {
        " goes"
    } else {
        " go"
    };
    let when = if later { context.screen().when(&told.due) } else { "now".to_owned() };
    let left = match told.skipped {
        0 => String::new(),
        n => format!("; {} left alone: due then already, or past their deadline", count(n)),
    };
    context.tell(&format!("{}{would} {when}{left}", things(told.items, "waiting item")))?;
    Ok(ExitCode::SUCCESS)
}

/// Says what keeps items from going though they are told to, and what can be done about it.
fn tell_held(context: &Context, told: &Retried) {
    for held in told.held.iter().filter(|_| told.items + told.skipped > 0) {
        context.hint(&way_out(held));
    }
}

fn way_out(held: &Held) -> String {
    match held {
        Held::Run { run } => format!("run {run} is paused: `redrive resume {run}` lets it go on"),
        Held::Gate { gate, why } => {
            format!("gate {gate} lets nothing through: {why}; `redrive gates resume {gate}` opens it")
        }
        Held::Pause(pause) => format!("{}: `{}` lets it go on", pause.said(), pause.resume),
        Held::Nobody { run } => format!("nobody works on run {run}: `redrive resume {run}` does"),
    }
}

/// Does items again from a stage they have passed.
pub async fn rerun(context: &Context, args: RerunArgs) -> Answer {
    let request = args.request();
    if args.freeze {
        return set::freeze(context, &args.frozen()).await;
    }
    if args.dry_run {
        return told_rerun(context, &again::preview_rerun(&context.floor_to_read()?, &request).await?);
    }
    let floor = context.floor()?;
    if !args.yes {
        let ahead = again::preview_rerun(&floor, &request).await?;
        let sent = ahead.items.sent();
        if sent > 0 {
            let items = things(sent, "item");
            context
                .confirm(&format!("Do {items} of run {} again from {}?", ahead.run, ahead.stage), false)?;
        }
    }
    let told = again::rerun(&floor, &request, &Watching::of(context)).await?;
    told_rerun(context, &told)?;
    match &told.report {
        Some(report) => {
            if !context.global.json {
                work::tell_of(context, &floor, report).await?;
            }
            Ok(exit::of_work([report.status], told.interrupted, true))
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

fn told_rerun(context: &Context, told: &Rerunning) -> Answer {
    if context.global.json {
        json(told)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&rerun_words(told))?;
    let run = told.run;
    if told.dry_run || told.items.sent() == 0 || told.report.is_some() {
        return Ok(ExitCode::SUCCESS);
    }
    context.hint(&match told.paused {
        true => format!("run {run} is paused: `redrive resume {run}` lets it go on"),
        false => format!("`redrive resume {run}` works on them"),
    });
    Ok(ExitCode::SUCCESS)
}

fn rerun_words(told: &Rerunning) -> String {
    let items = told.items;
    let go = |n: u64| match (told.dry_run, n) {
        (true, _) => "would go",
        (false, 1) => "goes",
        (false, _) => "go",
    };
    let stay = |n: u64| if n == 1 { "stays as it is" } else { "stay as they are" };
    let stage = &told.stage;
    let mut words = Vec::new();
    if items.from_stage > 0 {
        words.push(format!(
            "{} {} again from {stage}",
            things(items.from_stage, "item"),
            go(items.from_stage)
        ));
    }
    if items.from_start > 0 {
        words.push(format!(
            "{} {} again from the start: what {stage} was given is not kept (`reuse = true` keeps it)",
            things(items.from_start, "item"),
            go(items.from_start)
        ));
    }
    if items.not_kept > 0 {
        let why = told.unreadable.as_deref().unwrap_or("the source cannot be read again");
        words.push(format!(
            "{} {}: what {stage} was given is not kept, and {why}",
            things(items.not_kept, "item"),
            stay(items.not_kept)
        ));
    }
    if items.gone > 0 {
        words.push(format!(
            "{} {}: what {stage} was given is not kept, and the source does not have {} any more as {} {}",
            things(items.gone, "item"),
            stay(items.gone),
            if items.gone == 1 { "it" } else { "them" },
            if items.gone == 1 { "it" } else { "they" },
            if items.gone == 1 { "was" } else { "were" },
        ));
    }
    if items.edited > 0 {
        let (edited, stay) = (things(items.edited, "item"), stay(items.edited));
        words.push(format!("{edited} {stay}: content that was edited is kept"));
    }
    if items.moved > 0 {
        words.push(format!("{} left alone: something happened meanwhile", things(items.moved, "item")));
    }
    if told.goes_on {
        words.push(format!("going on with what was sent again from {stage} before"));
    }
    if words.is_empty() {
        words.push(format!("nothing of run {} has ended and passed {stage}", told.run));
    }
    words.join("\n")
}
