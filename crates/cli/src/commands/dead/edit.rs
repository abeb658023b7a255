//! `redrive dead edit`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use redrive_engine::report::RunReport;
use redrive_operate::dead::{self, Difference, Draft, Edited, indented};
use redrive_operate::items::ItemName;
use redrive_operate::{Error, Floor};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::args::EditArgs;
use crate::commands::work::{Watching, hint_at_work, tell_of};
use crate::commands::{Answer, Context};
use crate::exit;
use crate::output::text::{safe, short};
use crate::output::{json, lines, note};
use crate::wiring;

/// Names of files that are tried, one after the other.
const NAMES: u32 = 1_000;

/// What was done, and how its run stands where that was worked on.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    edited: &'a Edited,
    #[serde(rename = "report")]
    worked: Option<RunReport>,
}

/// Gives one dead item other content, and sends it back.
pub async fn edit(context: &Context, args: EditArgs) -> Answer {
    let floor = context.floor()?;
    let draft = dead::draft(&floor, &ItemName { item: args.item.clone(), run: args.run }).await?;
    let (content, kept) = new_content(&draft, &args)?;
    draft.takes(Some(&content))?;
    let edited = match draft.send_back(&floor, &content).await {
        Ok(edited) => edited,
        Err(error) => return Err(keep(error, &draft, &content, kept.as_deref())),
    };
    // It is in the store now, or was there before.
    if let Some(path) = kept {
        let _ = std::fs::remove_file(path);
    }
    if !context.global.json {
        let told: Vec<String> = edited.differences.iter().map(shown).collect();
        let item = format!("item {} ({})", edited.item, short(&draft.key, 40));
        lines(&safe(&match edited.sent_back {
            true if told.is_empty() => format!("{item} was sent back with this content before"),
            true => format!("{}\n{item} was sent back with new content", told.join("\n")),
            false => format!("{item} is unchanged; nothing was done"),
        }))?;
    }
    finish(context, &floor, &edited, args.work).await
}

async fn finish(context: &Context, floor: &Floor, edited: &Edited, work: bool) -> Answer {
    let worked = match work && edited.sent_back {
        true => Some(dead::work_after(floor, edited, &Watching::of(context)).await?),
        false => None,
    };
    let code = worked
        .as_ref()
        .map_or(ExitCode::SUCCESS, |worked| exit::of_work([worked.report.status], worked.interrupted, true));
    let report = worked.map(|worked| worked.report);
    if context.global.json {
        json(&Told { edited, worked: report })?;
        return Ok(code);
    }
    match &report {
        Some(report) => drop(tell_of(context, floor, report).await?),
        None if edited.sent_back => hint_at_work(context, floor, edited.run, "it").await?,
        None => {}
    }
    Ok(code)
}

/// The new content, and the file that holds it where an editor wrote one.
fn new_content(draft: &Draft, args: &EditArgs) -> Result<(Box<RawValue>, Option<PathBuf>), Error> {
    if let Some(file) = &args.file {
        let text = std::fs::read_to_string(file)
            .map_err(|error| Error::wrong(format!("cannot read {}: {error}", file.display())))?;
        return Ok((parsed(&text, file, draft)?, None));
    }
    draft.has_parts()?;
    if args.set.is_empty() {
        draft.takes(None)?;
        let path = in_editor(draft)?;
        return Ok((parsed(&left_in(&path, draft)?, &path, draft)?, Some(path)));
    }
    let mut content = draft.content.clone();
    for (pointer, value) in &args.set {
        let value = RawValue::from_string(value.clone())
            .or_else(|_| serde_json::value::to_raw_value(value))
            .map_err(|error| Error::wrong(format!("{pointer}: {error}")))?;
        content = wiring::put(&content, pointer, &value)
            .map_err(|wrong| Error::wrong(format!("--set {pointer}: {wrong}")))?;
    }
    Ok((content, None))
}

/// What an editor left: a file, and text.
fn left_in(path: &Path, draft: &Draft) -> Result<String, Error> {
    let shown = path.display();
    let wrong = |why: String| Error::wrong(format!("{shown} {why}; nothing was sent back"));
    let again = || format!("`redrive dead edit {}` begins anew", draft.id);
    match std::fs::symlink_metadata(path) {
        // A pipe, for one, would be waited for.
        Ok(there) if !there.is_file() => {
            return Err(wrong("is no regular file any more after the editor".to_owned()).hint(again()));
        }
        Ok(_) => {}
        Err(error) => return Err(wrong(format!("cannot be read after the editor: {error}")).hint(again())),
    }
    let kept = || format!("it is kept; mend it and say `redrive dead edit {} --file {shown}`", draft.id);
    let bytes =
        std::fs::read(path).map_err(|error| wrong(format!("cannot be read: {error}")).hint(kept()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to() + 1;
        wrong(format!("is not UTF-8: byte {at} of it")).hint(kept())
    })
}

fn parsed(text: &str, file: &Path, draft: &Draft) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(text.trim().to_owned()).map_err(|error| {
        let file = file.display();
        Error::wrong(format!("{file} is not JSON: {error}; nothing was sent back"))
            .hint(format!("it is kept; mend it and say `redrive dead edit {} --file {file}`", draft.id))
    })
}

/// Lets somebody edit the content; the file it then is in.
fn in_editor(draft: &Draft) -> Result<PathBuf, Error> {
    let editor = editor()?;
    let path = private_file(draft, ".json", &indented(draft.content.get()))?;
    note(&safe(&format!("item {} ({}): {}", draft.id, short(&draft.key, 40), short(&draft.message, 200))));
    // By the shell, as everything that starts an editor does: it may have arguments.
    let ended = Command::new("sh").arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(&path).status();
    let failed = match ended {
        Ok(status) if status.success() => return Ok(path),
        Ok(status) => format!("the editor ended with {status}"),
        Err(error) => format!("the editor cannot be started: {error}"),
    };
    let kept = path.display();
    Err(Error::wrong(format!("{failed}; nothing was sent back")).hint(format!(
        "what was edited is in {kept}; `redrive dead edit {} --file {kept}` takes it",
        draft.id
    )))
}

fn editor() -> Result<String, Error> {
    let named = |name| std::env::var(name).ok().filter(|editor: &String| !editor.trim().is_empty());
    match named("VISUAL").or_else(|| named("EDITOR")) {
        Some(editor) => Ok(editor),
        None if std::io::stdin().is_terminal() => Ok("vi".to_owned()),
        None => Err(Error::wrong("there is no editor: neither VISUAL nor EDITOR is set, and no terminal")
            .hint("set EDITOR, or say --set /POINTER=VALUE, or --file FILE")),
    }
}

/// Writes a file that nobody else can read, under a name that was free.
fn private_file(draft: &Draft, ending: &str, text: &str) -> Result<PathBuf, Error> {
    let id: String = draft.id.to_string().chars().take(12).collect();
    let wrong = |error: std::io::Error, path: &Path| {
        Error::internal(format!("cannot write {}: {error}", path.display()))
    };
    for n in 0..NAMES {
        let path = std::env::temp_dir().join(format!("redrive-{id}-{}-{n}{ending}", std::process::id()));
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(wrong(error, &path)),
        };
        writeln!(file, "{text}").map_err(|error| wrong(error, &path))?;
        return Ok(path);
    }
    Err(Error::internal("no name is free for a file to edit"))
}

/// Keeps an edit that could not be sent back, as a file that can be imported.
fn keep(error: Error, draft: &Draft, content: &RawValue, edited: Option<&Path>) -> Error {
    match private_file(draft, ".jsonl", &draft.line(content)) {
        Ok(path) => {
            if let Some(edited) = edited {
                let _ = std::fs::remove_file(edited);
            }
            error.hint(format!(
                "what was edited is in {0}; `redrive dead import {0}` sends it back once the item is dead",
                path.display()
            ))
        }
        Err(_) => error,
    }
}

/// A difference in a line.
fn shown(difference: &Difference) -> String {
    let pointer = if difference.pointer.is_empty() { "(all)" } else { &difference.pointer };
    let text = |value: &serde_json::Value| short(&value.to_string(), 30);
    match (&difference.before, &difference.after) {
        (Some(before), Some(after)) => format!("  {pointer}: {} → {}", text(before), text(after)),
        (None, Some(after)) => format!("  {pointer}: added {}", text(after)),
        (Some(before), None) => format!("  {pointer}: removed {}", text(before)),
        (None, None) => format!("  {pointer}"),
    }
}
