//! Searching a small library: the right passage is found in every mode, and only where it was asked for.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::index::{DOCS, Library, Provider};
use crate::support::{Names, array, column, count, names, text};
use serde_json::Value;

/// A file, what it says, and a question that only it answers.
const PASSAGES: &[(&str, &str, &str)] = &[
    ("animals/otter.md", "The otter swims in the river and eats fish.", "which animal swims and eats fish"),
    ("animals/eagle.md", "An eagle builds its nest on a high cliff.", "eagle nest on a cliff"),
    (
        "kitchen/bread.md",
        "Knead the dough, let it rise, then bake the bread in a hot oven.",
        "how to bake bread",
    ),
    (
        "kitchen/soup.txt",
        "Boil carrots and onions slowly to make a vegetable soup.",
        "vegetable soup with carrots",
    ),
    ("science/moon.md", "The moon orbits the earth once in about a month.", "moon orbits the earth"),
    (
        "science/atom.md",
        "An atom has a nucleus of protons and neutrons.",
        "protons and neutrons in the nucleus",
    ),
    ("travel/train.txt", "The night train to Vienna leaves from platform nine.", "train to Vienna platform"),
    (
        "travel/ferry.md",
        "A ferry carries cars across the strait twice a day.",
        "ferry for cars across the strait",
    ),
    ("money/tax.md", "Income tax must be paid before the end of July.", "when must income tax be paid"),
    ("music/violin.md", "A violin has four strings and is played with a bow.", "violin strings and bow"),
    (
        "code/lease.rs",
        "/// Renews the lease of a worker.\npub fn renew_lease(worker: u32) -> bool {\n    worker > 0\n}\n",
        "renew_lease",
    ),
    ("code/parse.py", "def parse_invoice(text):\n    return text.split(';')\n", "parse_invoice"),
];

fn library() -> Library {
    let library = Library::builtin();
    PASSAGES.iter().for_each(|(name, content, _)| library.write(name, content));
    library.index(&[], 0);
    library
}

fn hits(library: &Library, args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["search"].into_iter().chain(args.iter().copied()).collect();
    array(&library.place.json(&args)["hits"]).to_vec()
}

fn paths(library: &Library, args: &[&str]) -> Names {
    column(&Value::Array(hits(library, args)), "path")
}

#[test]
fn every_mode_finds_the_passage_that_answers() {
    let library = library();
    for mode in ["hybrid", "meaning", "words"] {
        for (name, content, question) in PASSAGES {
            let hits = hits(&library, &[question, "--mode", mode]);
            let first = hits.first().unwrap_or_else(|| panic!("{mode}: nothing for {question:?}"));
            assert_eq!(first["path"], *name, "{mode}: {question:?}");
            assert_eq!(text(&first["text"]).trim(), content.trim(), "{mode}: {question:?}");
        }
    }
    // Words of a query need no quotes.
    assert_eq!(hits(&library, &["otter", "fish"]), hits(&library, &["otter fish"]));
}

#[test]
fn a_hit_is_as_the_contract_says() {
    let library = library();
    library.write(
        "long.md",
        format!(
            "# Top\n\nFirst line.\n\n## Zebra\n\nThe zebra\nhas stripes.\n\n{}",
            crate::support::index::prose(1, 900)
        ),
    );
    library.index(&[], 0);
    let report = library.place.json(&["search", "zebra stripes"]);
    let hits = array(&report["hits"]);
    assert_eq!(hits[0]["path"], "long.md");
    let mut scores = Vec::new();
    for hit in hits {
        let fields: BTreeSet<&str> = hit.as_object().expect("an object").keys().map(String::as_str).collect();
        let wanted = BTreeSet::from(["path", "page", "start", "end", "score", "text"]);
        assert!(fields.is_superset(&wanted), "{fields:?}");
        assert_eq!(hit["page"], Value::Null, "only PDFs have pages");
        // The lines are those of the file.
        let file = library.place.read(&format!("{DOCS}/{}", text(&hit["path"])));
        let (start, end) = (count(&hit["start"]) as usize, count(&hit["end"]) as usize);
        let lines: Vec<&str> = file.lines().skip(start - 1).take(end + 1 - start).collect();
        let said = text(&hit["text"]);
        assert!(lines.join("\n").contains(said.trim()), "{start}-{end} of {hit}");
        scores.push(hit["score"].as_f64().expect("a number"));
    }
    assert!(scores.is_sorted_by(|one, other| one >= other), "best first: {scores:?}");
    let shown = library.place.run(&["search", "zebra stripes"]).expect(0).stdout;
    assert!(shown.starts_with("long.md:") && shown.contains("The zebra"), "{shown}");
}

#[test]
fn a_search_is_limited_to_what_was_asked_for() {
    let library = library();
    let all: Names = PASSAGES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let with =
        |keep: &dyn Fn(&str) -> bool| -> Names { all.iter().filter(|name| keep(name)).cloned().collect() };
    let table: &[(&[&str], Names)] = &[
        (&[], all.clone()),
        (&["--path", "kitchen"], with(&|name| name.starts_with("kitchen/"))),
        (&["--path", "kitchen/*.md"], names(["kitchen/bread.md"])),
        (
            &["--path", "*.txt", "--path", "code/**"],
            with(&|name| name.ends_with("txt") || name.starts_with("code")),
        ),
        (&["--path", "nowhere/**"], names::<&str>([])),
        (&["--lang", "rust"], names(["code/lease.rs"])),
        (&["--lang", "python"], names(["code/parse.py"])),
        (&["--lang", "code"], with(&|name| name.starts_with("code/"))),
        (&["--lang", "markdown", "--path", "travel"], names(["travel/ferry.md"])),
        (&["--lang", "rust", "--path", "travel"], names::<&str>([])),
        (&["--page", "1"], names::<&str>([])),
    ];
    for (options, wanted) in table {
        let args: Vec<&str> = ["anything", "-k", "50", "--mode", "meaning"]
            .into_iter()
            .chain(options.iter().copied())
            .collect();
        assert_eq!(&paths(&library, &args), wanted, "{options:?}");
    }
    for k in [1, 3, 12, 1_000_000] {
        assert_eq!(
            hits(&library, &["the river", "--mode", "meaning", "-k", &k.to_string()]).len(),
            k.min(12),
            "-k {k}"
        );
    }
}

/// A PDF with one line on each page.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: String = (0..pages.len()).map(|at| format!("{} 0 R ", 4 + at * 2)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned(),
    ];
    for (at, line) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + at * 2
        ));
        let content = format!("BT /F1 24 Tf 72 720 Td ({line}) Tj ET");
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    let (mut out, mut table) = ("%PDF-1.4\n".to_owned(), String::new());
    for (at, object) in objects.iter().enumerate() {
        table.push_str(&format!("{:010} 00000 n \n", out.len()));
        out.push_str(&format!("{} 0 obj\n{object}\nendobj\n", at + 1));
    }
    let (start, size) = (out.len(), objects.len() + 1);
    out.push_str(&format!("xref\n0 {size}\n0000000000 65535 f \n{table}"));
    out.push_str(&format!("trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"));
    out.into_bytes()
}

#[test]
fn pages_of_a_pdf_are_told_and_can_be_asked_for() {
    let library = Library::builtin();
    library.write(
        "book.pdf",
        pdf(&["the walrus sleeps on the ice", "a camel walks in the desert", "the walrus wakes up"]),
    );
    library.write("note.md", "The walrus is in a book.");
    library.index(&[], 0);
    let pages = |args: &[&str]| -> BTreeSet<(String, Option<u64>)> {
        hits(&library, args).iter().map(|hit| (text(&hit["path"]), hit["page"].as_u64())).collect()
    };
    let book = |page| ("book.pdf".to_owned(), Some(page));
    let walrus = BTreeSet::from([book(1), book(3), ("note.md".to_owned(), None)]);
    assert_eq!(pages(&["walrus", "--mode", "words"]), walrus);
    for mode in ["hybrid", "meaning", "words"] {
        assert_eq!(pages(&["walrus", "--page", "3", "--mode", mode]), BTreeSet::from([book(3)]), "{mode}");
    }
    assert_eq!(pages(&["camel in the desert", "-k", "1"]), BTreeSet::from([book(2)]));
    assert_eq!(pages(&["walrus", "--page", "2", "--mode", "words"]), BTreeSet::new());
    assert_eq!(pages(&["walrus", "--lang", "pdf", "--mode", "words"]), BTreeSet::from([book(1), book(3)]));
    let shown = library.place.run(&["search", "camel", "-k", "1"]).expect(0).stdout;
    assert!(shown.contains("book.pdf") && shown.contains("(page 2)"), "{shown}");
}

#[test]
fn nothing_found_is_no_error() {
    let library = library();
    let ran = library.place.run(&["search", "xylophone", "--mode", "words"]).expect(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("hint: nothing was found"), "{}", ran.stderr);
    assert_eq!(
        library.place.json(&["search", "xylophone", "--mode", "words"])["hits"],
        Value::Array(Vec::new())
    );
}

#[test]
fn odd_queries_are_only_words() {
    let library = library();
    library.write("odd.md", "An \"OR\" gate: NEAR, NOT and AND; 100% of a_b* (c)");
    library.index(&[], 0);
    // What would be operators elsewhere.
    for query in [
        "\"",
        "otter\"",
        "otter*",
        "NEAR(otter, 3)",
        "path:otter",
        "otter AND",
        "otter) OR (",
        "-otter",
        "'; DROP TABLE chunk",
    ] {
        for mode in ["words", "hybrid"] {
            let ran = library.place.run(&["search", "--mode", mode, "--json", "--", query]);
            assert!(matches!(ran.code(), Some(0 | 2)), "{mode} {query:?}: {:?} {}", ran.code(), ran.stderr);
            assert!(
                !ran.stderr.to_lowercase().contains("syntax") && !ran.stderr.contains("panicked"),
                "{}",
                ran.stderr
            );
            if query.contains("otter") {
                assert_eq!(array(&ran.json()["hits"])[0]["path"], "animals/otter.md", "{mode} {query:?}");
            }
        }
    }
    // Only stop words are words all the same.
    for mode in ["hybrid", "meaning", "words"] {
        assert!(!hits(&library, &["the of and", "--mode", mode]).is_empty(), "{mode}");
        assert_eq!(
            hits(&library, &["\u{1f389} otter", "--mode", mode])[0]["path"],
            "animals/otter.md",
            "{mode}"
        );
    }
    library.place.check();
}

#[test]
fn a_hint_after_a_query_without_words_leads_somewhere() {
    let library = library();
    for query in ["\u{1f389}", "!?", "   "] {
        let ran = library.place.run(&["search", query]);
        if ran.code() == Some(0) {
            continue;
        }
        let ran = ran.expect(2);
        let words = library.place.run(&["search", query, "--mode", "words"]);
        assert!(
            !ran.stderr.contains("--mode words") || words.code() == Some(0),
            "{query:?}: {}and then: {}",
            ran.stderr,
            words.stderr
        );
    }
}

#[test]
fn a_word_that_only_the_text_knows_is_found_without_saying_how() {
    let library = library();
    library.write("nihon.md", "\u{65e5}\u{672c}\u{8a9e} is a language");
    library.index(&[], 0);
    for mode in ["words", "hybrid"] {
        let ran =
            library.place.run(&["search", "\u{65e5}\u{672c}\u{8a9e}", "--mode", mode, "--json"]).expect(0);
        assert_eq!(array(&ran.json()["hits"])[0]["path"], "nihon.md", "{mode}");
    }
}

#[test]
fn nothing_in_a_file_drives_the_terminal() {
    let library = Library::builtin();
    // A text with a few control characters is a text.
    let evil =
        "# Head\u{1b}]0;owned\u{7}\n\nThe otter \u{1b}[31mswims\u{9b}2J\r\u{202e} away, and then it rests.\n";
    library.write("evil\u{1b}[2J\u{202e}.md", format!("{evil}{}", crate::support::index::prose(3, 100)));
    library.write("bad\u{1b}[1m\n.pdf", "%PDF-1.4\nnothing\n");
    library.write("good.md", "fine");
    let is_raw = |c: &char| (c.is_control() && *c != '\n') || ('\u{202a}'..='\u{202e}').contains(c);
    let mut all = vec![library.place.run(&["index", DOCS])];
    let commands: [&[&str]; 7] = [
        &["search", "otter"],
        &["search", "owned"],
        &["failures", "r1"],
        &["show", "r1"],
        &["dead", "list"],
        &["stats"],
        &["runs"],
    ];
    all.extend(commands.iter().map(|args| library.place.run(args)));
    for ran in &all {
        let raw: Vec<char> = ran.stdout.chars().chain(ran.stderr.chars()).filter(is_raw).collect();
        assert!(raw.is_empty(), "{raw:?} in\n{:?}\n{:?}", ran.stdout, ran.stderr);
    }
    assert!(all[1].stdout.contains("evil") && all[1].stdout.contains("swims"), "{}", all[1].stdout);
    assert!(all[3].stdout.contains("bad"), "{}", all[3].stdout);
    let json = library.place.run(&["search", "otter", "--json"]).expect(0);
    assert!(!json.stdout.contains('\u{1b}'));
    assert!(
        text(&array(&json.json()["hits"])[0]["text"]).contains("\u{1b}[31mswims"),
        "JSON has it as it is"
    );
}

#[test]
fn indexes_of_different_models_are_searched_one_at_a_time() {
    let provider = Provider::start(Duration::ZERO);
    let library = library();
    std::fs::create_dir(library.place.path("more")).expect("made");
    library.place.write("more/otter.md", "The otter is here as well.");
    let base = provider.base_url();
    library
        .place
        .run(&["index", "more", "--embedder", "openai", "--model", "m", "--base-url", &base])
        .expect(0);

    let ran = library.place.run(&["search", "otter"]).expect(2);
    for fragment in ["different models", "/docs (builtin/", "/more (m)", "--in DIR"] {
        assert!(ran.stderr.contains(fragment), "no {fragment:?} in\n{}", ran.stderr);
    }
    assert_eq!(hits(&library, &["otter", "--in", DOCS])[0]["path"], "animals/otter.md");
    assert_eq!(paths(&library, &["otter", "--in", "more"]), names(["otter.md"]));
    assert_eq!(paths(&library, &["otter", "--in", "more", "--model", "m"]), names(["otter.md"]));
    library.place.run(&["search", "otter", "--in", "more", "--model", "n"]).expect(2);
}

#[test]
fn indexes_of_one_model_are_searched_together() {
    let library = library();
    std::fs::create_dir(library.place.path("more")).expect("made");
    library.place.write("more/otter.md", "The otter is here as well.");
    library.place.run(&["index", "more"]).expect(0);
    assert_eq!(paths(&library, &["otter", "--mode", "words"]), names(["animals/otter.md", "otter.md"]));
    let shown = library.place.run(&["search", "otter", "--mode", "words"]).expect(0).stdout;
    assert!(shown.contains("/docs/animals/otter.md:") && shown.contains("/more/otter.md:"), "{shown}");
    assert_eq!(paths(&library, &["otter", "--mode", "words", "--in", "more"]), names(["otter.md"]));
}
