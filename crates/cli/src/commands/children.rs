//! `redrive parse-worker`, `mail-worker`, `embed-worker` and `filter-worker`: what this program is when it is its own child.

use std::io::{BufReader, BufWriter};
use std::process::ExitCode;

use redrive_embed::builtin;
use redrive_embed::worker::{VectorFormat, WorkerLimits};
use redrive_ingest::limits::{ProcessLimits, apply, grant_cpu};
use redrive_ingest::worker::{WorkerOptions, quiet_panics};
use redrive_operate::Error;

use crate::wiring::{EmbedSettings, Filter, FilterSettings, MailSettings, ParseSettings, filter_worker};

/// Parses files until its input ends.
pub fn parse(settings: &str) -> Result<ExitCode, Error> {
    let settings: ParseSettings = read(settings)?;
    quiet_panics();
    let limits = ProcessLimits { address_space: settings.memory, ..ProcessLimits::default() };
    apply(&limits, None)?;
    let mut options = WorkerOptions::default();
    options.walk.max_bytes = settings.max_bytes;
    options.walk.max_container_bytes = settings.max_container_bytes;
    options.walk.follow_symlinks = settings.follow_symlinks;
    options.walk.hidden = settings.hidden;
    options.walk.ignore_rules = settings.ignore_rules;
    options.parse.max_pages = settings.max_pages;
    options.chunk.max_tokens = settings.max_tokens;
    options.chunk.min_tokens = settings.min_tokens;
    options.chunk.overlap = settings.overlap;
    let count = |text: &str| builtin().estimate_tokens(text);
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    redrive_ingest::worker::serve(input, BufWriter::new(output), &options, &count, &mut || {
        grant_cpu(limits.cpu_seconds)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads messages until its input ends.
pub fn mail(settings: &str) -> Result<ExitCode, Error> {
    let settings: MailSettings = read(settings)?;
    quiet_panics();
    let limits = ProcessLimits { address_space: settings.memory, ..ProcessLimits::default() };
    apply(&limits, None)?;
    let mut options = redrive_index::mail::worker::WorkerOptions::default();
    options.parse.max_pages = settings.max_pages;
    options.chunk.max_tokens = settings.max_tokens;
    options.chunk.min_tokens = settings.min_tokens;
    options.chunk.overlap = settings.overlap;
    let count = |text: &str| builtin().estimate_tokens(text);
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    redrive_index::mail::worker::serve(input, BufWriter::new(output), &options, &count, &mut || {
        grant_cpu(limits.cpu_seconds)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Embeds texts until its input ends.
pub fn embed(settings: &str) -> Result<ExitCode, Error> {
    let settings: EmbedSettings = read(settings)?;
    let limits =
        ProcessLimits { address_space: settings.memory, cpu_seconds: u64::MAX, ..ProcessLimits::default() };
    apply(&limits, None)?;
    let format = if settings.numbers { VectorFormat::Numbers } else { VectorFormat::Base64 };
    let limits = WorkerLimits::default()
        .with_text_at(settings.input)
        .map_err(|error| Error::wrong(error.to_string()))?;
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    redrive_embed::worker::serve(BufReader::new(input), output, builtin(), &limits.with_format(format))?;
    Ok(ExitCode::SUCCESS)
}

/// Evaluates an expression for items until its input ends. How long it may take, whoever asks knows.
pub fn filter(settings: &str) -> Result<ExitCode, Error> {
    let settings: FilterSettings = read(settings)?;
    quiet_panics();
    // Reading takes a stack of its own, which evaluating does not.
    let filter = Filter::read(&settings.keep).map_err(Error::wrong)?;
    let limits =
        ProcessLimits { address_space: settings.memory, cpu_seconds: u64::MAX, ..ProcessLimits::default() };
    apply(&limits, None)?;
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    filter_worker::serve(input, BufWriter::new(output), &filter)?;
    Ok(ExitCode::SUCCESS)
}

fn read<T: serde::de::DeserializeOwned>(settings: &str) -> Result<T, Error> {
    serde_json::from_str(settings).map_err(|error| {
        Error::wrong(format!("these settings cannot be read: {error}"))
            .hint("this command is started by redrive itself")
    })
}
