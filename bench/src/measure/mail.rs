//! How fast mail archives become threads with summaries: the real binary over a made-up corpus, beside the same reading and threading without a store.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use redrive_mail::corpus::{Corpus, Options, make};
use redrive_mail::head::Head;
use redrive_mail::mbox::Mbox;
use redrive_mail::thread::{Link, threads};
use serde_json::{Value, json};

use super::{Scratch, binary};
use crate::clock::Watch;
use crate::report::{Spread, save, say, table};
use crate::{Common, Failure, facts};

/// Messages, unless told.
const MESSAGES: usize = 5_000;

/// Measures.
pub fn run(common: &Common) -> Result<(), Failure> {
    let scratch = Scratch::new(common)?;
    let facts = facts::gather(scratch.folder())?;
    facts::show(&facts);
    let messages = common.items.unwrap_or(MESSAGES);
    let corpus = make(Options { messages, ..Options::default() });
    let folder = scratch.folder().join("mail");
    for file in &corpus.files {
        let path = folder.join(&file.path);
        std::fs::create_dir_all(path.parent().unwrap_or(&folder))?;
        std::fs::write(path, &file.bytes)?;
    }
    let bytes: usize = corpus.files.iter().map(|file| file.bytes.len()).sum();
    say(&format!("{messages} messages, {} MB, {} threads", bytes / 1_000_000, corpus.key_sentences.len()));
    let (mut whole, mut again, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..common.repeat {
        let store = format!("sqlite:{}", scratch.store()?.display());
        let (report, seconds) = taken_in(&folder, &store)?;
        let found = report["mail"]["threads"]["messages"].as_u64().unwrap_or(0);
        if found != (corpus.ids.len() + corpus.nameless) as u64 {
            return Err(format!("{found} messages were taken in").into());
        }
        whole.push(messages as f64 / seconds);
        again.push(taken_in(&folder, &store)?.1 * 1_000.0);
        let watch = Watch::start();
        let made = threaded(&corpus)?;
        bare.push(messages as f64 / watch.seconds());
        if made == 0 {
            return Err("no thread was made".into());
        }
    }
    let (whole, again, bare) = (Spread::of(whole), Spread::of(again), Spread::of(bare));
    table(
        &["mail", "median (min–max)"],
        &[
            vec!["messages/s to threads with summaries".into(), whole.text(0)],
            vec!["reading and threading alone, messages/s".into(), bare.text(0)],
            vec!["the same command again, ms".into(), again.text(0)],
        ],
    );
    let result = json!({
        "facts": facts, "messages": messages, "bytes": bytes, "messages_per_second": whole.json(),
        "bare_messages_per_second": bare.json(), "again_ms": again.json(),
    });
    save(common.json.as_deref(), &result)
}

/// Runs the binary; its report, and how long it took.
fn taken_in(folder: &Path, store: &str) -> Result<(Value, f64), Failure> {
    let watch = Watch::start();
    let output = Command::new(binary()?)
        .args(["mail", "--json", "--quiet", "--store", store])
        .arg(folder)
        .stdin(Stdio::null())
        .output()?;
    let seconds = watch.seconds();
    // Messages that are none are dead, which is exit code 3.
    if !matches!(output.status.code(), Some(0 | 3)) {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok((serde_json::from_slice(&output.stdout)?, seconds))
}

/// Reads and threads everything; how many threads there are.
fn threaded(corpus: &Corpus) -> Result<usize, Failure> {
    let mut links = Vec::new();
    for file in &corpus.files {
        let mut bytes = Vec::new();
        if file.path.ends_with(".gz") {
            flate2::read::MultiGzDecoder::new(&file.bytes[..]).read_to_end(&mut bytes)?;
        } else {
            bytes.clone_from(&file.bytes);
        }
        for entry in Mbox::new(&bytes[..]) {
            let entry = entry?;
            let head = Head::read(&entry.head);
            let key = head.key(entry.version);
            links.push(Link {
                key,
                references: head.references,
                subject: head.subject,
                date_ms: head.date_ms,
            });
        }
    }
    links.sort_by(|a, b| a.key.cmp(&b.key));
    links.dedup_by(|a, b| a.key == b.key);
    Ok(threads(&links).len())
}
