//! `redrive dead export` and `redrive dead import`.

use std::io::BufRead;
use std::path::Path;
use std::process::ExitCode;

use redrive_operate::dead::{Changed, Export, Import, Imported, LINES, Selection, Which};
use redrive_operate::{Code, Error};
use serde::Serialize;

use crate::commands::{Answer, Context};
use crate::exit;
use crate::output::progress::Unit;
use crate::output::target::{Existing, Guard, Sink, Target};
use crate::output::text::{safe, things};
use crate::output::{json, note};

/// What was written into a file.
#[derive(Serialize)]
struct InFile {
    file: String,
    written: u64,
    damaged: u64,
}

/// Writes dead items as JSON Lines, each as `explain --json` shows it.
pub async fn export(context: &Context, which: &Which, output: Option<&Path>, overwrite: bool) -> Answer {
    let existing = if overwrite { Existing::Replaced } else { Existing::Kept };
    let guard = Guard::of_store(&context.global.store)?;
    let mut target = output.map(|path| Target::look("--output", path, existing, guard)).transpose()?;
    let mut floor = context.floor_to_read()?;
    if let Some(target) = &mut target {
        target.spare_runs(&*floor.store).await?;
    }
    let selection = Selection::of(&floor, which).await?;
    let mut sink = match &target {
        Some(target) => target.open().await?,
        None => Sink::standard_output()?,
    };
    let (mut written, mut damaged) = (0, 0);
    let watch = context.watch(&mut floor, "writing", Unit::Items);
    let mut export = Export::of(&floor, selection).await?;
    while let Some(exported) = export.next().await? {
        let item = &exported.0.item;
        if let Some(damage) = &item.damage {
            damaged += 1;
            note(&safe(&format!(
                "{} ({}) is written without its content, which is damaged: {damage}",
                item.key, item.id
            )));
        }
        let mut line = serde_json::to_vec(&exported).map_err(|error| Error::internal(error.to_string()))?;
        line.push(b'\n');
        sink.put(&line)?;
        written += 1;
        if sink.reader_left() {
            break;
        }
    }
    drop(watch);
    // What was edited is worth more than the news that nothing is dead.
    let untouched = written == 0 && target.as_ref().is_some_and(Target::holds_something);
    if !untouched {
        sink.finish()?;
    }
    if let (Some(target), true) = (&target, context.global.json) {
        json(&InFile { file: target.shown(), written, damaged })?;
    }
    let kept =
        target.as_ref().filter(|_| untouched).map(|target| format!("; {} is as it was", target.shown()));
    context.say(&format!("{} written{}", things(written, "dead item"), kept.unwrap_or_default()));
    Ok(if damaged == 0 { ExitCode::SUCCESS } else { exit::broken() })
}

/// Sends dead items back with the content of an exported and edited file. Every line that cannot be used is told.
pub async fn import(context: &Context, file: &str) -> Answer {
    let mut floor = context.floor()?;
    let watch = context.watch(&mut floor, "reading in", Unit::Items);
    let reader: Box<dyn BufRead> = if file == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = std::fs::File::open(file).map_err(|error| {
            Error::wrong(format!("cannot read {file}: {error}")).code(Code::UnreadableFile)
        })?;
        Box::new(std::io::BufReader::new(opened))
    };
    let from = if file == "-" { "standard input" } else { file };
    let (mut import, mut changed, mut before) = (Import::of(&floor, from), Changed::default(), 0);
    let mut lines = reader.lines().enumerate();
    loop {
        let (numbers, texts, broken) = some_lines(&mut lines);
        let is_last = texts.len() < LINES;
        for (number, became) in numbers.into_iter().zip(import.lines(&texts).await?) {
            match became {
                Imported::SentBack => changed.items += 1,
                // The same command after one that was broken off.
                Imported::SentBackBefore => before += 1,
                Imported::LeftAlone { why } => {
                    changed.skipped += 1;
                    note(&format!("{file}:{number}: {why}"));
                }
            }
        }
        floor.env.progress.reached(changed.items + changed.skipped + before, None);
        if let Some(error) = broken {
            return Err(error.into());
        }
        if is_last {
            break;
        }
    }
    drop(watch);
    if before > 0 {
        context.say(&format!("{} sent back before", things(before, "item")));
    }
    import.finish().await?;
    super::told(context, &changed, "sent back")?;
    Ok(if changed.skipped == 0 { ExitCode::SUCCESS } else { exit::partial() })
}

/// The next lines that hold something, with their numbers, and why there are no more where they cannot be read.
fn some_lines(
    lines: &mut dyn Iterator<Item = (usize, std::io::Result<String>)>,
) -> (Vec<usize>, Vec<String>, Option<std::io::Error>) {
    let (mut numbers, mut texts) = (Vec::new(), Vec::new());
    while texts.len() < LINES {
        match lines.next() {
            Some((_, Ok(line))) if line.trim().is_empty() => {}
            Some((at, Ok(line))) => {
                numbers.push(at + 1);
                texts.push(line);
            }
            Some((_, Err(error))) => return (numbers, texts, Some(error)),
            None => break,
        }
    }
    (numbers, texts, None)
}
