//! `redrive-sim`: plays seeds and says what broke.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use redrive_engine::env::system_now;
use redrive_sim::{Campaign, StoreKind};

/// Seeded deterministic runs of the engine with faults; every law is checked after every write.
#[derive(Parser)]
#[command(name = "redrive-sim")]
struct Args {
    /// How many seeds to play.
    #[arg(long, default_value_t = 1_000)]
    runs: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The store to play over.
    #[arg(long, value_enum, default_value_t = Over::Memory)]
    store: Over,
    /// Play this one seed.
    #[arg(long)]
    replay: Option<u64>,
    /// Stop after so many failing seeds.
    #[arg(long, default_value_t = 10)]
    failures: usize,
    /// With --replay: print the course of events.
    #[arg(long)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Over {
    Memory,
    Sqlite,
}

impl From<Over> for StoreKind {
    fn from(over: Over) -> Self {
        match over {
            Over::Memory => Self::Memory,
            Over::Sqlite => Self::Sqlite,
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut text = String::new();
    let good = match args.replay {
        Some(seed) => replay(&args, seed, &mut text),
        None => campaign(&args, &mut text),
    };
    let told = std::io::stdout().lock().write_all(text.as_bytes());
    if good && told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(args: &Args, seed: u64, text: &mut String) -> bool {
    let outcome = StoreKind::from(args.store).play(seed, args.verbose);
    for line in &outcome.log {
        text.push_str(line);
        text.push('\n');
    }
    let reply = outcome
        .broken
        .as_ref()
        .map_or_else(|| "every law holds".to_owned(), |broken| format!("{}: {}", broken.law, broken.what));
    text.push_str(&format!("seed {seed}, course {:016x}: {reply}\n", outcome.hash));
    outcome.broken.is_none()
}

fn campaign(args: &Args, text: &mut String) -> bool {
    let campaign =
        Campaign { store: args.store.into(), seed: args.seed, runs: args.runs, failures: args.failures };
    let begun = system_now();
    let (score, failed) = campaign.play();
    let seconds = system_now().since(begun).as_secs_f64().max(0.001);
    text.push_str(&score.table());
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let speed = score.runs as f64 / seconds;
    text.push_str(&format!("{seconds:.1} s, {speed:.0} runs/s\n"));
    for failed in &failed {
        text.push_str(&format!("{failed}\n"));
    }
    let missing = if args.runs >= 1_000 { score.missing() } else { Vec::new() };
    for met in &missing {
        text.push_str(&format!("no run met: {}\n", met.name()));
    }
    failed.is_empty() && missing.is_empty()
}
