//! A source whose rows are known, a service that keeps a ledger, and the edits of the table.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::{Answer, Place, Server, count, key, one_stage};

/// Rows of a source: key and number.
pub type Rows = Vec<(String, u64)>;

/// How a source is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Jsonl,
    Gzip,
    Csv,
    /// Two files by a pattern.
    Several,
}

/// Every kind of lines.
pub const KINDS: [Kind; 4] = [Kind::Jsonl, Kind::Gzip, Kind::Csv, Kind::Several];

impl Kind {
    /// What the pipeline names.
    pub fn path(self) -> &'static str {
        match self {
            Self::Jsonl => "in.jsonl",
            Self::Gzip => "in.jsonl.gz",
            Self::Csv => "in.csv",
            Self::Several => "part-*.jsonl",
        }
    }

    /// Writes the source.
    pub fn write(self, place: &Place, rows: &[(String, u64)]) {
        let lines = |rows: &[(String, u64)]| -> String {
            rows.iter().map(|(key, n)| format!("{{\"id\":\"{key}\",\"n\":{n}}}\n")).collect()
        };
        match self {
            Self::Jsonl => place.write("in.jsonl", lines(rows)),
            Self::Gzip => {
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(lines(rows).as_bytes()).expect("packed");
                place.write("in.jsonl.gz", packed.finish().expect("packed"));
            }
            Self::Csv => {
                let records: String = rows.iter().map(|(key, n)| format!("{key},{n}\n")).collect();
                place.write("in.csv", format!("id,n\n{records}"));
            }
            Self::Several => {
                let half = rows.len() / 2;
                place.write("part-1.jsonl", lines(&rows[..half]));
                place.write("part-2.jsonl", lines(&rows[half..]));
            }
        }
    }
}

/// So many rows.
pub fn rows(count: usize) -> Rows {
    (0..count).map(|n| (key(n), n as u64)).collect()
}

/// What somebody does to a source.
pub type Edit = fn(&mut Rows);

/// Every edit, by its name.
pub const EDITS: [(&str, Edit); 8] = [
    ("insert", |rows| {
        for n in 0..5 {
            rows.insert(rows.len() / 3, (format!("new-{n}"), 9_000 + n));
        }
    }),
    ("delete", |rows| drop(rows.drain(10..15))),
    ("edit", |rows| rows[12].1 = 7_777),
    ("swap", |rows| {
        let last = rows.len() - 2;
        rows.swap(3, last);
    }),
    ("truncate", |rows| rows.truncate(rows.len() / 2)),
    ("replace", |rows| *rows = (0..40).map(|n| (format!("other-{n}"), n)).collect()),
    ("append", |rows| rows.extend((0..5).map(|n| (format!("late-{n}"), 8_000 + n)))),
    ("edit the last", |rows| {
        let last = rows.len() - 1;
        rows[last].1 = 6_666;
    }),
];

/// How often every version of every row was worked on.
pub type Ledger = Arc<Mutex<BTreeMap<(String, u64), usize>>>;

/// The number of a row, from JSON or CSV.
pub fn number(payload: &Value) -> u64 {
    payload["n"].as_u64().or_else(|| payload["n"].as_str().and_then(|n| n.parse().ok())).expect("a number")
}

/// A service that keeps a ledger of what passes, and fails the rows whose key is `stubborn` once.
pub fn service(stubborn: Option<&'static str>) -> (Server, Ledger) {
    let ledger = Ledger::default();
    let book = ledger.clone();
    let server = Server::start(move |call| {
        if call.items.iter().any(|item| Some(&*item.key) == stubborn && item.before == 0) {
            return Answer::status(500, "not yet");
        }
        let mut book = book.lock().expect("not poisoned");
        let results: Vec<Value> = call
            .items
            .iter()
            .map(|item| {
                let n = number(&item.payload);
                *book.entry((item.key.clone(), n)).or_default() += 1;
                serde_json::json!({ "id": item.id, "output": { "id": item.key, "twice": n * 2 } })
            })
            .collect();
        Answer::results(&results)
    });
    (server, ledger)
}

/// A pipeline of one stage over a source of this kind.
pub fn pipeline(kind: Kind, server: &Server, more: &str) -> String {
    let stage = format!("{}\nconcurrency = 4\n{more}", server.stage());
    one_stage(&stage).replace("in.jsonl", kind.path())
}

/// Every row of the source has its result, and nothing else has one.
pub fn accounted(what: &str, place: &Place, rows: &Rows) {
    let wanted: BTreeMap<String, u64> = rows.iter().map(|(key, n)| (key.clone(), n * 2)).collect();
    let found: BTreeMap<String, u64> =
        place.results().into_iter().map(|(key, output)| (key, count(&output["twice"]))).collect();
    assert_eq!(found, wanted, "{what}");
    place.check();
}

/// Versions of rows that were worked on more than once.
pub fn twice(ledger: &Ledger) -> Vec<(String, u64)> {
    let book = ledger.lock().expect("not poisoned");
    book.iter().filter(|(_, times)| **times > 1).map(|(row, _)| row.clone()).collect()
}
