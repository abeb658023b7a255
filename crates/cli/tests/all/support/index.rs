//! What tests of `redrive index` share: directories of files, a provider of vectors that keeps a ledger of texts, the
//! index as rows that can be compared, and the children of a running process.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Answer, Call, Names, Place, Ran, Server, Started, array, names, text, wait};

/// The directory that is indexed, within its place.
pub const DOCS: &str = "docs";

/// A directory and the store that its index is in.
pub struct Library {
    pub place: Place,
    options: Vec<String>,
}

impl Library {
    /// An empty directory, to be embedded by the built-in model in two processes.
    pub fn builtin() -> Self {
        Self::with(&["--processes", "2"])
    }

    /// An empty directory, to be embedded by a provider.
    pub fn asking(base_url: &str) -> Self {
        let of_provider = ["--embedder", "openai", "--model", "m", "--base-url", base_url];
        Self::with(&[&["--processes", "2"], &of_provider[..]].concat())
    }

    fn with(options: &[&str]) -> Self {
        let place = Place::new();
        std::fs::create_dir(place.path(DOCS)).expect("made");
        Self { place, options: options.iter().map(|&option| option.to_owned()).collect() }
    }

    /// Writes a file of the directory, and the directories above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.place.path(DOCS).join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        std::fs::write(path, content).expect("written");
    }

    /// Writes several files.
    pub fn write_all(&self, files: &[(String, String)]) {
        files.iter().for_each(|(name, content)| self.write(name, content));
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let options = self.options.iter().map(String::as_str);
        ["index", DOCS, "--json"].into_iter().chain(options).chain(more.iter().copied()).collect()
    }

    /// Starts `redrive index`.
    pub fn start(&self, more: &[&str]) -> Started {
        self.place.start(&self.args(more))
    }

    /// Starts `redrive index` with further variables.
    pub fn start_with(&self, more: &[&str], env: &[(&str, &str)]) -> Started {
        self.place.start_with(&self.args(more), env, b"")
    }

    /// Runs `redrive index` to its end, with further variables.
    pub fn run_with(&self, more: &[&str], env: &[(&str, &str)]) -> Ran {
        self.place.run_with(&self.args(more), env)
    }

    /// Runs `redrive index`, expects an exit code, and returns its report.
    pub fn index(&self, more: &[&str], code: i32) -> Value {
        self.run_with(more, &[]).expect(code).json()
    }

    /// The store's file, opened. Only for when no process writes.
    pub fn store(&self) -> Connection {
        let store = Connection::open(self.place.path(".redrive/state.db")).expect("it opens");
        store.busy_timeout(Duration::from_secs(10)).expect("set");
        store
    }

    /// The index, row by row.
    pub fn rows(&self) -> Rows {
        Rows::read(&self.store())
    }

    /// The texts of items that a killed process was embedding, with the number of items that have each.
    pub fn in_flight(&self) -> BTreeMap<String, u64> {
        let store = self.store();
        let held = "SELECT coalesce(i.payload, c.body) FROM item i LEFT JOIN content c ON c.hash = i.content \
             WHERE i.state = 1 AND i.stage = 1";
        let mut rows = store.prepare(held).expect("it is SQL");
        let mut found = BTreeMap::new();
        for body in rows.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("asked") {
            let chunk = serde_json::from_slice(&body.expect("read")).expect("a chunk");
            *found.entry(input(&chunk)).or_default() += 1;
        }
        found
    }

    /// How many attempts to embed ended because the process or its child died.
    pub fn embed_crashes(&self) -> u32 {
        let crashed = redrive_core::attempt::Outcome::Crashed.code();
        let sql = "SELECT count(*) FROM attempt WHERE stage = 1 AND outcome = ?1";
        self.store().query_row(sql, [crashed], |row| row.get(0)).expect("counted")
    }

    /// Everything that waits is due now.
    pub fn make_due(&self) -> usize {
        self.store().execute("UPDATE item SET due = 0 WHERE state = 0", []).expect("changed")
    }

    /// The texts of all chunks of the index, as they are embedded.
    pub fn texts(&self) -> Names {
        self.texts_by_chunks().into_keys().collect()
    }

    /// The texts that more than one chunk has.
    pub fn repeated_texts(&self) -> Names {
        self.texts_by_chunks().into_iter().filter(|(_, chunks)| *chunks > 1).map(|(text, _)| text).collect()
    }

    fn texts_by_chunks(&self) -> BTreeMap<String, u64> {
        let store = self.store();
        let mut rows = store.prepare("SELECT context, text FROM chunk").expect("it is SQL");
        let mut found = BTreeMap::new();
        let mut chunks = rows.query([]).expect("asked");
        while let Some(row) = chunks.next().expect("read") {
            let part = |at: usize| row.get::<_, String>(at).expect("a text");
            *found.entry(input(&json!({ "context": part(0), "text": part(1) }))).or_default() += 1;
        }
        found
    }

    /// The processes that `redrive index` in this place has started for this kind of work.
    pub fn children(&self, work: &str) -> BTreeSet<u32> {
        let folder = std::fs::canonicalize(self.place.path("")).expect("it is there");
        let all = processes();
        let is_ours = |process: &Process| {
            process.args.get(1).is_some_and(|arg| arg == "index") && process.works_in(&folder)
        };
        let parents: BTreeSet<u32> =
            all.iter().filter(|process| is_ours(process)).map(|one| one.id).collect();
        let is_child = |process: &&Process| {
            parents.contains(&process.parent) && process.args.get(1).is_some_and(|arg| arg == work)
        };
        all.iter().filter(is_child).map(|process| process.id).collect()
    }
}

/// What is embedded for a chunk.
fn input(chunk: &Value) -> String {
    let (context, text) = (text(&chunk["context"]), text(&chunk["text"]));
    if context.is_empty() { text } else { format!("{context}\n\n{text}") }
}

struct Process {
    id: u32,
    parent: u32,
    args: Vec<String>,
}

impl Process {
    fn works_in(&self, folder: &Path) -> bool {
        std::fs::read_link(format!("/proc/{}/cwd", self.id)).is_ok_and(|cwd| cwd == folder)
    }
}

/// All processes. One that ends meanwhile is left out.
fn processes() -> Vec<Process> {
    let ids = std::fs::read_dir("/proc")
        .expect("Linux")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let process = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name before the last parenthesis may hold anything; the state and the parent follow it.
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        Some(Process { id, parent, args: line.split('\0').map(str::to_owned).collect() })
    };
    ids.filter_map(process).collect()
}

/// Sends a process a signal, for example `KILL`; tells whether it was still there.
pub fn signal(process: u32, name: &str) -> bool {
    let sent = Command::new("kill").args(["-s", name, &process.to_string()]).stderr(Stdio::null()).status();
    sent.expect("kill is everywhere").success()
}

/// The index, without the numbers that depend on the order of the work.
#[derive(Debug, PartialEq, Eq)]
pub struct Rows {
    pub docs: BTreeSet<String>,
    pub chunks: BTreeSet<String>,
    pub vectors: BTreeSet<String>,
}

impl Rows {
    fn read(store: &Connection) -> Self {
        // Fails when the words are not those of the chunks.
        store
            .execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)", [])
            .expect("words fit chunks");
        let rows = |sql: &str| -> BTreeSet<String> {
            let mut asked = store.prepare(sql).expect("it is SQL");
            let found = asked.query_map([], |row| row.get::<_, String>(0)).expect("asked");
            let all: Vec<String> = found.map(|row| row.expect("read")).collect();
            let set: BTreeSet<String> = all.iter().cloned().collect();
            assert_eq!(set.len(), all.len(), "a row is there twice");
            set
        };
        Self {
            docs: rows(
                "SELECT quote(path) || quote(kind) || quote(published) || quote(mark) || quote(seen_hash) \
                 || quote(refused) FROM doc",
            ),
            chunks: rows(
                "SELECT quote(d.path) || quote(c.key) || quote(c.edition) || quote(c.ordinal) || '/' \
                 || quote(c.page) || '/' || quote(c.first_line) || '/' || quote(c.last_line) || '/' \
                 || quote(c.first_byte) || '/' || quote(c.end_byte) || quote(c.context) || quote(c.text) \
                 || coalesce(quote(v.text), 'no vector') || coalesce(m.name, 'no model') \
                 FROM chunk c LEFT JOIN doc d ON d.no = c.doc LEFT JOIN vector v ON v.no = c.vector \
                 LEFT JOIN model m ON m.no = v.model",
            ),
            vectors: rows(
                "SELECT quote(m.name) || quote(m.dimensions) || quote(v.text) || quote(v.scale) \
                 || quote(v.codes) FROM vector v LEFT JOIN model m ON m.no = v.model",
            ),
        }
    }

    /// The same without vectors: those of texts that no chunk has any more are kept.
    pub fn without_vectors(self) -> Self {
        Self { vectors: BTreeSet::new(), ..self }
    }

    /// Fails unless both are the same, and shows some of what differs.
    pub fn assert_same(&self, other: &Self) {
        for (what, ours, theirs) in [
            ("documents", &self.docs, &other.docs),
            ("chunks", &self.chunks, &other.chunks),
            ("vectors", &self.vectors, &other.vectors),
        ] {
            let some = |rows: BTreeSet<&String>| {
                let short = |row: &&String| row.chars().take(200).collect::<String>();
                (rows.len(), rows.iter().take(3).map(short).collect::<Vec<_>>())
            };
            let (more, less) =
                (some(ours.difference(theirs).collect()), some(theirs.difference(ours).collect()));
            assert!(ours == theirs, "{what}: {more:?} only here, {less:?} only there");
        }
    }
}

/// A provider of vectors that remembers every text it was sent, and can be made ill.
pub struct Provider {
    /// Where calls come in.
    pub server: Server,
    ill: Arc<Mutex<Illness>>,
}

/// With which status calls fail, and what is in their texts.
type Illness = Option<(u16, String)>;

impl Provider {
    /// Takes so long for every call.
    pub fn start(latency: Duration) -> Self {
        let ill: Arc<Mutex<Illness>> = Arc::default();
        let illness = ill.clone();
        let server = Server::start(move |call| {
            wait::work(latency);
            let texts = sent(call);
            let illness = illness.lock().expect("not poisoned").clone();
            match illness {
                Some((status, marker)) if texts.iter().any(|text| text.contains(&marker)) => {
                    Answer::status(status, "{\"error\":{\"message\":\"ill\"}}")
                }
                _ => Answer::status(200, &answer(&texts).to_string()),
            }
        });
        Self { server, ill }
    }

    /// Its address for `--base-url`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.server.address())
    }

    /// Calls with a text that contains this get this status from now on.
    pub fn fail_for(&self, marker: &str, status: u16) {
        *self.ill.lock().expect("not poisoned") = Some((status, marker.to_owned()));
    }

    /// Nothing fails any more.
    pub fn recover(&self) {
        *self.ill.lock().expect("not poisoned") = None;
    }

    /// How often every text was sent.
    pub fn ledger(&self) -> BTreeMap<String, usize> {
        let mut times = BTreeMap::new();
        for text in self.server.calls().iter().flat_map(sent) {
            *times.entry(text).or_default() += 1;
        }
        times
    }

    /// The texts that were sent.
    pub fn texts(&self) -> Names {
        names(self.ledger().keys())
    }

    /// The texts that were sent more than once.
    pub fn sent_again(&self) -> Names {
        names(self.ledger().iter().filter(|(_, times)| **times > 1).map(|(text, _)| text))
    }
}

fn sent(call: &Call) -> Vec<String> {
    array(&call.item().payload["input"]).iter().map(text).collect()
}

/// Vectors that depend on their texts only.
fn answer(texts: &[String]) -> Value {
    let number = |text: &str, at: usize| {
        let mut hasher = DefaultHasher::new();
        (text, at).hash(&mut hasher);
        f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or(0)) / f64::from(u32::MAX) - 0.5
    };
    let vector = |text: &str| (0..16).map(|at| number(text, at)).collect::<Vec<_>>();
    let data =
        texts.iter().enumerate().map(|(index, text)| json!({ "index": index, "embedding": vector(text) }));
    json!({ "data": data.collect::<Vec<_>>(), "usage": { "prompt_tokens": texts.len() } })
}

/// Prose of so many words, the same for the same seed.
pub fn prose(seed: u64, words: usize) -> String {
    const WORDS: [&str; 24] = [
        "river", "lantern", "engine", "copper", "morning", "ledger", "harbour", "signal", "winter", "paper",
        "bridge", "garden", "number", "letter", "station", "window", "silver", "market", "violin", "forest",
        "needle", "orbit", "puzzle", "saddle",
    ];
    let mut out = String::new();
    for n in 0..words as u64 {
        let mixed = (seed << 20 ^ n).wrapping_add(0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out.push_str(WORDS[(mixed >> 40) as usize % WORDS.len()]);
        out.push_str(match n % 60 {
            59 => ".\n\n",
            19 | 39 => ". ",
            _ => " ",
        });
    }
    out
}

/// Markdown, code and plain texts in some directories; every seventh file says what another one says, and all code has
/// the same licence at its head.
pub fn mixed(files: usize) -> Vec<(String, String)> {
    const LICENCE: &str =
        "// Permission is granted to copy this text, free of charge, with or without changes.\n";
    let file = |n: usize| {
        // A copy has the content of the file before it of the same kind.
        let of = if n % 7 == 6 { n - 3 } else { n } as u64;
        let folder = ["", "notes/", "notes/deep/", "code/"][n % 4];
        match n % 3 {
            0 => {
                let (first, second) = (prose(of, 260), prose(of + 1_000, 200));
                (
                    format!("{folder}{n:04}.md"),
                    format!("# Paper {of}\n\n{first}\n\n## Second part\n\n{second}\n"),
                )
            }
            1 => {
                let function = |k: u64| {
                    let body: String =
                        (0..30).map(|line| format!("    let v{line} = call_{of}({k}, {line});\n")).collect();
                    format!("{LICENCE}fn part_{of}_{k}() {{\n{body}}}\n\n")
                };
                (
                    format!("{folder}{n:04}.rs"),
                    format!("{LICENCE}\n{}", (0..3).map(function).collect::<String>()),
                )
            }
            _ => (format!("{folder}{n:04}.txt"), prose(of + 2_000, 500)),
        }
    };
    (0..files).map(file).collect()
}

/// Says something among the output of a test.
pub fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Numbers that look random and are the same each time, from 0 to 1.
pub fn dice(seed: u64) -> impl Iterator<Item = f64> {
    (0_u64..).map(move |n| {
        let mut hasher = DefaultHasher::new();
        (seed, n).hash(&mut hasher);
        f64::from(u32::try_from(hasher.finish() >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    })
}
