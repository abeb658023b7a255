//! What tests of the real binary share: a place to run it in, an HTTP service that answers by plan, and waiting.

pub mod broker;
pub mod collector;
pub mod daemon;
pub mod guest;
pub mod index;
pub mod ledger;
pub mod place;
pub mod python;
pub mod rehearsal;
pub mod server;
pub mod shifted;
pub mod tools;
pub mod wait;

pub use broker::Broker;
pub use collector::OtelCollector;
pub use daemon::{Daemon, Reply};
pub use ledger::Ledger;
pub use place::{Place, Ran, Started};
pub use python::{Script, python_with};
pub use rehearsal::Rehearsal;
pub use server::{Answer, Call, Server};

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A set of keys or ids.
pub type Names = BTreeSet<String>;

/// A set of names.
pub fn names<T: AsRef<str>>(all: impl IntoIterator<Item = T>) -> Names {
    all.into_iter().map(|name| name.as_ref().to_owned()).collect()
}

/// Keys `k0000` and so on.
pub fn key(n: usize) -> String {
    format!("k{n:04}")
}

/// The keys of the first `n` samples.
pub fn keys(n: usize) -> Names {
    (0..n).map(key).collect()
}

/// A source of `n` samples with the keys of [`keys`].
pub fn samples(n: usize) -> String {
    (0..n).map(|n| format!("{{\"id\":\"{}\",\"n\":{n}}}\n", key(n))).collect()
}

/// A source of `n` texts with the keys of [`keys`].
pub fn texts(n: usize) -> String {
    (0..n).map(|n| format!("{{\"id\":\"{0}\",\"text\":\"text of {0}\"}}\n", key(n))).collect()
}

/// A field of every element of a list, as a set; fails when one is there twice.
pub fn column(list: &Value, field: &str) -> Names {
    let all: Vec<String> = array(list).iter().map(|row| text(&row[field])).collect();
    let set: Names = all.iter().cloned().collect();
    assert_eq!(set.len(), all.len(), "{field} is there twice in {all:?}");
    set
}

/// A list.
pub fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list: {value}"))
}

/// A text.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}")).to_owned()
}

/// A count.
pub fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a count: {value}"))
}

/// The lines of a results file: key to output. Fails when a key is there twice.
pub fn results(text: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let key = self::text(&line["key"]);
        assert!(found.insert(key.clone(), line["output"].clone()).is_none(), "{key} has two results");
    }
    found
}

/// A pipeline with one stage `work`, a short backoff and no failure budget. `stage` are further lines of the stage.
pub fn one_stage(stage: &str) -> String {
    format!(
        "name = \"test\"\n[source]\npath = \"in.jsonl\"\nkey = \"/id\"\n[run]\nfailure_budget = false\n\
         [[stage]]\nname = \"work\"\n{stage}\n"
    )
}

/// The same with a gate that never closes because calls fail.
pub fn without_breaker(stage: &str) -> String {
    format!("{}[gate.plain]\nbreaker = false\n", one_stage(&format!("{stage}\ngate = \"plain\"\n")))
}

/// Lines of a retry policy: so many attempts, with 20 ms between them, also after crashes.
pub fn quick_retry(attempts: u32) -> String {
    format!(
        "retry.max_attempts = {attempts}\nretry.backoff = {{ kind = \"fixed\", delay = \"20ms\" }}\n\
         retry.jitter = \"none\"\nretry.on.crash = {{ backoff = {{ kind = \"fixed\", delay = \"20ms\" }} }}\n"
    )
}
