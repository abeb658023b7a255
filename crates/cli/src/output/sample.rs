//! For tests: what tables and progress look like, kept as text at 80, 120 and 200 columns.
//!
//! `REDRIVE_RENEW=1` writes the texts anew; what changed is then seen in the difference of the commit.

use std::path::Path;

use redrive_core::failure::Class;
use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_core::item::DeadReason;
use redrive_core::status::{Counts, RunStatus};
use redrive_core::time::Timestamp;
use redrive_engine::report::{
    Attempts, Concurrency, DeadBy, GateReport, GateTotals, PerMinute, RunReport, StageReport, UsageReport,
    VerdictCounts,
};
use redrive_operate::dead::{DeadGroup, DeadItem};

use super::screen::Screen;
use super::wrap::columns;

/// Compares what is shown at each width with what is kept, and looks that every line fits.
///
/// # Panics
/// When it differs, or does not fit.
pub fn at_widths(name: &str, shown: impl Fn(&Screen) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/snapshots");
    for width in [80, 120, 200] {
        let screen = Screen::sample(Some(width));
        let text = screen.prose(&shown(&screen)) + "\n";
        for line in text.lines() {
            assert!(columns(line) <= width, "{name} at {width}, {} columns: {line}", columns(line));
            assert!(!line.ends_with(' '), "{name} at {width} has spaces at the end of {line:?}");
        }
        let file = folder.join(format!("{name}.{width}.txt"));
        if std::env::var_os("REDRIVE_RENEW").is_some() {
            std::fs::write(&file, &text).expect("written");
        }
        let kept = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            kept == text,
            "{name} at {width} is not as it is kept (REDRIVE_RENEW=1 writes it anew).\nkept:\n{kept}\nnow:\n{text}"
        );
    }
}

/// The moment of a sample, so many milliseconds from the screen's.
pub fn moment(away_ms: i64) -> Timestamp {
    Timestamp(1_700_000_000_000 + away_ms)
}

/// A run of three stages in the middle of its work.
pub fn run() -> RunReport {
    let counts = Counts {
        admitted: 5_000,
        succeeded: 1_204,
        dead: 57,
        waiting: 3_727,
        running: 12,
        ..Counts::default()
    };
    let stage = |name: &str, counts: Counts, [total, failures, throttles]: [u64; 3]| StageReport {
        name: name.to_owned(),
        below: None,
        counts,
        awaited: 0,
        verdicts: VerdictCounts::default(),
        attempts: Attempts { total, failures, throttles, crashes: 0 },
        usage: None,
    };
    let spent =
        UsageReport { tokens_in: 1_234_567, tokens_out: 98_765, usd: Some(12.34), unpriced_tokens: 0 };
    let at = |waiting: u64, running: u64, dead: u64, succeeded: u64| Counts {
        admitted: waiting + running + dead + succeeded,
        waiting,
        running,
        dead,
        succeeded,
        ..Counts::default()
    };
    let mut stages = vec![
        stage("parse", at(1_500, 4, 41, 0), [3_510, 51, 0]),
        stage("summarise-with-a-model", at(2_100, 8, 12, 0), [1_702, 340, 88]),
        stage("store", at(127, 0, 4, 1_204), [1_216, 12, 0]),
    ];
    stages[1].usage = Some(spent);
    RunReport {
        run: RunId(12),
        pipeline: "reviews".to_owned(),
        source: "/home/ann/work/data/reviews-of-november.jsonl".to_owned(),
        category: Some("night".to_owned()),
        priority: 0,
        status: RunStatus::Running,
        reason: None,
        paused: Vec::new(),
        counts,
        awaited: 0,
        awaited_until: None,
        verdicts: VerdictCounts::default(),
        attempts: Attempts { total: 6_428, failures: 403, throttles: 88, crashes: 1 },
        usage: Some(spent),
        dead: DeadBy::default(),
        duplicates: 3,
        admitted_all: true,
        read: None,
        next_due: Some(moment(4_000).to_string()),
        next_due_at: Some(moment(4_000)),
        next_retry: None,
        unasked: None,
        created_at: moment(-125_000).to_string(),
        finished_at: None,
        elapsed_ms: 125_000,
        workers: vec!["pid 4711".to_owned()],
        stages,
    }
}

/// A gate that is closed for a reason of several lines, and one that is open.
pub fn gates() -> Vec<GateReport> {
    let open = GateReport {
        name: "127.0.0.1:8080".to_owned(),
        state: "open",
        why: String::new(),
        kind: None,
        since: None,
        until: None,
        concurrency: Concurrency { now: 0, limit: 8, most: None },
        requests_per_minute: PerMinute::default(),
        tokens_per_minute: PerMinute::default(),
        latency_ms: 0,
        batch: [].into(),
        workers: 1,
        totals: GateTotals { calls: 1, passed: 1, ..GateTotals::default() },
        updated_at: moment(-1_000).to_string(),
    };
    let closed = GateReport {
        name: "api.openai.example".to_owned(),
        state: "closed",
        why: "the service answered 429 to 12 of 14 calls and asks to be left alone for a minute; \
              calls go on one at a time after that"
            .to_owned(),
        since: Some(moment(-20_000).to_string()),
        until: Some(moment(40_000).to_string()),
        concurrency: Concurrency { now: 12, limit: 64, most: None },
        requests_per_minute: PerMinute { now: Some(1_261), given: Some(3_000), ..PerMinute::default() },
        tokens_per_minute: PerMinute { now: Some(48_200), learnt: Some(90_000), ..PerMinute::default() },
        latency_ms: 1_430,
        batch: [("embed".to_owned(), 1)].into(),
        totals: GateTotals {
            calls: 48_211,
            passed: 46_000,
            throttled: 1_209,
            failed: 2,
            other: 988,
            tokens: 0,
        },
        ..open.clone()
    };
    vec![closed, open]
}

/// An item that is dead, as lists tell it.
pub fn dead(n: u8, key: &str, message: &str) -> DeadItem {
    DeadItem {
        id: id(n),
        key: key.to_owned(),
        run: RunId(12),
        stage: "summarise-with-a-model".to_owned(),
        reason: Some(if n == 1 { DeadReason::Final } else { DeadReason::Exhausted }),
        class: Some(Class::Final),
        message: Some(message.to_owned()),
        attempts: n.into(),
        generation: 0,
        failed_at: moment(-60_000 * 40 * i64::from(n) * i64::from(n)).to_string(),
        group: Some("a1b2c3d4".to_owned()),
        purge_at: None,
    }
}

/// A group of dead items.
pub fn group(n: u64, message: &str) -> DeadGroup {
    DeadGroup {
        group: format!("a1b2c3d{n}"),
        items: n * 1_000,
        stage: "parse".to_owned(),
        class: Some(Class::Retryable),
        message: message.to_owned(),
        example: id(1),
        first_at: moment(-90_000_000).to_string(),
        last_at: moment(-42_000).to_string(),
        note: (n > 1).then(|| "the vendor knows".to_owned()),
        noted_by: None,
        acknowledged_at: None,
        open: n == 1,
    }
}

fn id(n: u8) -> ItemId {
    ItemId::derive(RunId(12), None, &n.to_string(), ContentHash::of(&[b"sample"]))
}
