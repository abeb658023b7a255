//! `redrive compact` and `redrive backup`.

use std::process::ExitCode;

use redrive_operate::Error;
use redrive_operate::care::{self, Compacted, Copied, Room};
use serde::Serialize;

use super::{Answer, Context};
use crate::args::BackupArgs;
use crate::output::progress::Unit;
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::{bytes, span};
use crate::output::{json, note};

/// Gives room back to the disk.
pub async fn compact(context: &Context) -> Answer {
    let mut floor = context.floor()?;
    let watch = context.watch(&mut floor, "compacting", Unit::Bytes);
    let done = care::compact(&floor).await?;
    drop(watch);
    if let Some(left) = &done.left {
        note(left);
    }
    if context.global.json {
        json(&done)?;
    } else {
        context.tell(&compacted(&done))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn compacted(done: &Compacted) -> String {
    let Compacted { bytes_before, bytes_after, took_ms, .. } = *done;
    let took = span(i64::try_from(took_ms).unwrap_or(i64::MAX));
    match bytes_before.saturating_sub(bytes_after) {
        0 => format!("there was no room to give back: the store has {}", bytes(bytes_after)),
        given => format!(
            "{} given back to the disk in {took}: the store had {} and has {}",
            bytes(given),
            bytes(bytes_before),
            bytes(bytes_after)
        ),
    }
}

/// Says what gives room back, where there is much of it.
pub fn hint_at(context: &Context, room: Option<Room>) {
    if let Some(Room { free, of }) = room {
        let (free, of) = (bytes(free), bytes(of));
        context.hint(&format!("{free} of the store's {of} are free; `redrive compact` gives them back"));
    }
}

/// A copy, and where it is.
#[derive(Serialize)]
struct InFile {
    file: String,
    #[serde(flatten)]
    copied: Copied,
}

/// Copies the whole store into a file.
pub async fn backup(context: &Context, args: BackupArgs) -> Answer {
    let guard = Guard::of_store(&context.global.store)?;
    let existing = Existing::Store { overwrite: args.overwrite };
    let target = Target::look("FILE", &args.file, existing, guard)?;
    let mut floor = context.floor_to_read()?;
    let sink = target.open().await?;
    let unfinished = sink.unfinished().ok_or_else(|| Error::internal("a copy without a file"))?.to_owned();
    let watch = context.watch(&mut floor, "copying", Unit::Bytes);
    let copied = care::backup(&floor, unfinished).await?;
    drop(watch);
    sink.finish()?;
    let file = target.shown();
    if context.global.json {
        json(&InFile { file, copied })?;
    } else {
        let took = span(i64::try_from(copied.took_ms).unwrap_or(i64::MAX));
        context.tell(&format!("{} copied to {file} in {took}; the copy is whole", bytes(copied.bytes)))?;
    }
    Ok(ExitCode::SUCCESS)
}
