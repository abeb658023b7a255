//! Searching a store from the request to the report, with the built-in model.

use std::sync::Arc;

use redrive_core::event::{Place, Transition};
use redrive_core::fact::Facts;
use redrive_core::id::{ContentHash, StageNo};
use redrive_core::index::{Chunk, ChunkPlace, DocKey, Effect, KeptVector, Over, Publish, VectorKey};
use redrive_core::item::{Item, NewItem};
use redrive_core::time::Timestamp;
use redrive_core::vector::Quantised;
use redrive_embed::{Embedder, builtin};
use redrive_index::search::{MailFilter, Mode, SearchError, SearchReport, SearchRequest, search, show};
use redrive_store::index::{Collection, NewCollection, Seen, SeenAs};
use redrive_store::{Applied, Commit, Index, ItemFilter, ItemQuery, MemoryStore, NewRun, Store, Submit};

const NOW: Timestamp = Timestamp(1_000);
const VERSION: ContentHash = ContentHash([1; 16]);

/// A store with an item whose transitions carry effects.
struct World {
    store: MemoryStore,
    item: Item,
}

impl World {
    async fn new() -> Self {
        let store = MemoryStore::new();
        let run = NewRun {
            pipeline: "index".to_owned(),
            source: "test".to_owned(),
            category: None,
            priority: 0,
            definition: String::new(),
            folder: "/".to_owned(),
        };
        let run = store.create_run(run, NOW).await.unwrap().id;
        let submit = Submit {
            reading: redrive_core::reading::Reading::FIRST,
            run,
            stage: StageNo(0),
            items: vec![NewItem::new("item", &b"item"[..], 0)],
            deadline: None,
            new_versions: false,
            changes: Vec::new(),
            cursor: None,
            now: NOW,
        };
        store.submit(submit).await.unwrap();
        let query = ItemQuery {
            filter: ItemFilter { run: Some(run), ..ItemFilter::default() },
            after: None,
            limit: 1,
        };
        let item = store.items(query).await.unwrap().remove(0);
        Self { store, item }
    }

    async fn collection(&self, root: &str, model: &str) -> Collection {
        let new = NewCollection {
            root: root.to_owned(),
            model: model.to_owned(),
            dimensions: 256,
            settings: "{}".to_owned(),
        };
        self.store.open_collection(new, NOW).await.unwrap()
    }

    async fn apply(&mut self, effect: Effect) {
        let guard = self.item.rev;
        self.item.rev = guard.next();
        let transition = Transition {
            guard,
            from: Place {
                stage: self.item.stage,
                kind: self.item.state.kind(),
                dead: None,
                verdict: None,
                awaited: false,
            },
            tries: 0,
            anew: true,
            under: None,
            after: self.item.clone(),
            payload: None,
            record: None,
            children: None,
            effect: Some(effect),
            mark: None,
            healed: None,
            facts: Facts::default(),
        };
        let commit = Commit {
            changes: vec![transition.into()],
            all_or_nothing: true,
            unless_cancelled: None,
            run: None,
            operation: None,
            now: NOW,
        };
        assert_eq!(self.store.commit(commit).await.unwrap(), [Applied::Done]);
    }

    /// A document of one chunk for each text, on a page each when it is a PDF.
    async fn add(&mut self, collection: &Collection, path: &str, kind: &str, texts: &[&str]) {
        let doc = DocKey { collection: collection.no, path: path.into() };
        let seen = SeenAs { size: 1, stamp: None, hash: VERSION };
        let seen = Seen { path: path.into(), kind: kind.to_owned(), seen };
        self.store.observe(collection.no, vec![seen]).await.unwrap();
        for (text, ordinal) in texts.iter().zip(0_u32..) {
            let key = VectorKey { model: collection.model_no, text: ContentHash::of(&[text.as_bytes()]) };
            self.apply(Effect::Keep(Arc::new(KeptVector { key, vector: vector(text) }))).await;
            let line = ordinal * 10 + 1;
            let chunk = Chunk {
                doc: doc.clone(),
                edition: VERSION,
                key: ordinal.to_string().into(),
                place: ChunkPlace {
                    ordinal,
                    page: (kind == "pdf").then_some(ordinal + 1),
                    lines: (line, line + 9),
                    bytes: (0, text.len() as u64),
                },
                context: format!("About {path}"),
                text: (*text).to_owned(),
                vector: Some(key),
            };
            self.apply(Effect::Put(Arc::new(chunk))).await;
        }
        self.apply(Effect::Publish(Publish {
            doc,
            version: VERSION,
            edition: VERSION,
            over: Over::Any,
            facts: None,
            mark: 0,
        }))
        .await;
    }

    async fn search(
        &self,
        collections: &[Collection],
        request: &SearchRequest,
    ) -> Result<SearchReport, SearchError> {
        let vector = (request.mode != Mode::Words).then(|| vector(&request.query));
        search(&self.store, collections, vector.as_ref(), request).await
    }
}

fn vector(text: &str) -> Quantised {
    Quantised::new(&builtin().embed(&[text]).unwrap()[0])
}

fn request(query: &str, mode: Mode) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        count: 5,
        mode,
        paths: Vec::new(),
        kind: None,
        page: None,
        mail: MailFilter::default(),
    }
}

fn paths(report: &SearchReport) -> Vec<&str> {
    report.hits.iter().map(|hit| hit.path.as_str()).collect()
}

const LEASE: &str =
    "A lease gives a worker the right to an item for a limited time.\nIf the worker dies, it runs out.";
const BACKOFF: &str = "Exponential backoff doubles the pause after every failed try and adds a random part.";
const CODE: &str = "pub fn give_way(&mut self) {\n    self.pause(SHORT);\n}";
const PAGES: [&str; 2] = ["The invoice is due within thirty days.", "Bread is baked in an oven."];

async fn world() -> (World, Vec<Collection>) {
    let mut world = World::new().await;
    let notes = world.collection("/notes", "builtin").await;
    world.add(&notes, "docs/lease.md", "markdown", &[LEASE]).await;
    world.add(&notes, "docs/backoff.md", "markdown", &[BACKOFF]).await;
    world.add(&notes, "src/admit.rs", "code:rust", &[CODE]).await;
    world.add(&notes, "bill.pdf", "pdf", &PAGES).await;
    (world, vec![notes])
}

#[tokio::test]
async fn a_paraphrase_is_found_by_meaning_and_a_name_by_its_words() {
    let (world, notes) = world().await;
    for (query, mode, first) in [
        ("what happens to work held by a crashed process", Mode::Meaning, "docs/lease.md"),
        ("what happens to work held by a crashed process", Mode::Hybrid, "docs/lease.md"),
        ("fn give_way", Mode::Hybrid, "src/admit.rs"),
        ("give_way", Mode::Words, "src/admit.rs"),
        ("GIVE way NEAR(\" OR *", Mode::Words, "src/admit.rs"),
    ] {
        let report = world.search(&notes, &request(query, mode)).await.unwrap();
        assert_eq!(paths(&report)[0], first, "{query} {mode:?}");
    }
}

#[tokio::test]
async fn a_hit_says_where_it_is_and_what_it_was_found_by() {
    let (world, notes) = world().await;
    let report = world.search(&notes, &request("worker lease", Mode::Hybrid)).await.unwrap();
    let hit = &report.hits[0];
    assert_eq!(
        (hit.path.as_str(), hit.root.as_str(), hit.kind.as_str()),
        ("docs/lease.md", "/notes", "markdown")
    );
    assert_eq!((hit.start, hit.end, hit.page, hit.text.as_str()), (1, 10, None, LEASE));
    assert!(hit.by.meaning.is_some() && hit.by.words.is_some() && hit.score > 0.3 && hit.score <= 1.0);
    assert_eq!(report.candidates.meaning, 5);
    assert!(report.hits.windows(2).all(|pair| pair[0].score >= pair[1].score));

    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["mode"], "hybrid");
    assert_eq!(json["hits"][0]["page"], serde_json::Value::Null);
    assert_eq!(json["hits"][0]["snippet"][0]["marks"][0], serde_json::json!([2, 7]));
    let shown = show::lines(&report, false);
    assert!(shown[0].starts_with("docs/lease.md:1-10  ") && shown[1] == "  About docs/lease.md", "{shown:?}");

    let report = world.search(&notes, &request("worker lease", Mode::Words)).await.unwrap();
    assert_eq!(paths(&report), ["docs/lease.md"]);
    assert_eq!((report.hits[0].by.meaning, report.candidates.meaning), (None, 0));
}

#[tokio::test]
async fn globs_kinds_and_pages_narrow_a_search() {
    let (world, notes) = world().await;
    let with = |globs: &[&str], kind: Option<&str>, page| SearchRequest {
        paths: globs.iter().map(|glob| (*glob).to_owned()).collect(),
        kind: kind.map(str::to_owned),
        page,
        ..request("pause", Mode::Meaning)
    };
    for (request, mut expected) in [
        (with(&["docs"], None, None), vec!["docs/backoff.md", "docs/lease.md"]),
        (with(&["*.md", "*.rs"], None, None), vec!["docs/backoff.md", "docs/lease.md", "src/admit.rs"]),
        (with(&[], Some("rust"), None), vec!["src/admit.rs"]),
        (with(&["docs"], Some("rust"), None), vec![]),
        (with(&[], Some("pdf"), Some(2)), vec!["bill.pdf"]),
        (with(&[], None, Some(2)), vec!["bill.pdf"]),
        (with(&["nowhere/**"], None, None), vec![]),
    ] {
        let report = world.search(&notes, &request).await.unwrap();
        let mut found = paths(&report);
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{request:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused_with_the_reason() {
    let (world, notes) = world().await;
    let other = world.collection("/other", "another").await;
    let both = vec![notes[0].clone(), other];
    let base = request("x", Mode::Hybrid);
    for (collections, request, message) in [
        (&notes, SearchRequest { query: " \n".to_owned(), ..base.clone() }, "the query is empty"),
        (
            &notes,
            SearchRequest { query: "?!".to_owned(), mode: Mode::Words, ..base.clone() },
            "the query has no word to look for",
        ),
        (&vec![], base.clone(), "there is no index to search"),
        (
            &both,
            base.clone(),
            "'/notes' and '/other' were indexed by different models, 'builtin' and 'another'",
        ),
        (
            &notes,
            SearchRequest { kind: Some("klingon".to_owned()), ..base.clone() },
            "no file is of kind 'klingon'; there are: rust, markdown, pdf",
        ),
        (
            &notes,
            SearchRequest { paths: vec!["a[".to_owned()], ..base.clone() },
            "'a[' is not a glob: unclosed character class; missing ']'",
        ),
    ] {
        let vector = vector("x");
        let error = search(&world.store, collections, Some(&vector), &request).await.unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(search(&world.store, &notes, None, &base).await, Err(SearchError::NoVector));
}

#[tokio::test]
async fn a_file_does_not_crowd_out_the_others() {
    let (mut world, notes) = world().await;
    let texts: Vec<String> = (0..9).map(|at| format!("A lease of a worker, case {at}.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    world.add(&notes[0], "many.md", "markdown", &texts).await;
    let report = world.search(&notes, &request("lease of a worker", Mode::Hybrid)).await.unwrap();
    assert_eq!(paths(&report).iter().filter(|path| **path == "many.md").count(), 3);
    let only =
        SearchRequest { paths: vec!["many.md".to_owned()], ..request("lease of a worker", Mode::Hybrid) };
    assert_eq!(world.search(&notes, &only).await.unwrap().hits.len(), 5);
}

#[tokio::test]
async fn a_filter_reads_all_documents_and_only_published_ones() {
    let mut world = World::new().await;
    let notes = vec![world.collection("/notes", "builtin").await];
    let seen = |at: usize| Seen {
        path: format!("bulk/{at}.txt").into(),
        kind: "text".to_owned(),
        seen: SeenAs { size: 1, stamp: None, hash: VERSION },
    };
    // More than two pages of them before the one that is published.
    world.store.observe(notes[0].no, (0..2_100).map(seen).collect()).await.unwrap();
    world.add(&notes[0], "docs/lease.md", "markdown", &[LEASE]).await;
    let request = SearchRequest { paths: vec!["**".to_owned()], ..request("lease", Mode::Words) };
    let report = world.search(&notes, &request).await.unwrap();
    assert_eq!((report.candidates.files, paths(&report)), (Some(1), vec!["docs/lease.md"]));
    let none = SearchRequest { count: 0, ..request };
    assert!(world.search(&notes, &none).await.unwrap().hits.is_empty());
}
