use std::time::Duration;

use super::*;
use crate::definition::{Definition, FilesDef, SourceKind, StageDef};
use crate::problem::Problem;

/// What `redrive index` writes.
const INDEX: &str = r#"name = "index"
order = "fresh-first"
retry_share = 0.2
deadline = "none"
[source]
kind = "files"
path = "/home/me/docs"
[[stage]]
name = "parse"
kind = "parse"
[[stage.children]]
name = "embed"
kind = "embed"
provider = "builtin"
index = true
[[stage.children]]
name = "upsert"
kind = "upsert"
[[stage]]
name = "publish"
kind = "publish"
"#;

const GIB: u64 = 1 << 30;
const FILES: &str = "[source]\nkind = \"files\"\n";
const CHILD: &str = "[[stage.children]]\nname = \"c\"\nkind = \"pass\"\n";

fn read(text: &str) -> Result<Definition, Vec<Problem>> {
    crate::parse(text, "p.toml")
}

fn told(text: &str) -> Vec<String> {
    let told = |problem: &Problem| match &problem.hint {
        Some(hint) => format!("{problem} ({hint})"),
        None => problem.to_string(),
    };
    read(text).unwrap_err().iter().map(told).collect()
}

/// A file that reads files; what is added to the source starts on line 4.
fn source(rest: &str) -> String {
    format!("name = \"p\"\n{FILES}{rest}\n[[stage]]\nname = \"s\"\nkind = \"parse\"\n{CHILD}")
}

/// A file with a parse stage; what is added to it starts on line 7.
fn parsing(rest: &str) -> String {
    format!("name = \"p\"\n{FILES}[[stage]]\nname = \"s\"\nkind = \"parse\"\n{rest}\n{CHILD}")
}

/// A file with one stage that embeds; what is added to it starts on line 5.
fn embedding(rest: &str) -> String {
    format!("name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"embed\"\n{rest}\n")
}

/// A stage as it is written, at a depth of lists.
fn written(depth: usize, name: &str, keys: &str) -> String {
    format!("[[stage{}]]\nname = \"{name}\"\n{keys}\n", ".children".repeat(depth))
}

fn first(text: &str) -> StageDef {
    read(text).unwrap().stages.swap_remove(0)
}

/// Expects exactly these problems, each by how it starts.
fn expect(text: &str, expected: &[&str]) {
    let found = told(text);
    let equal = found.len() == expected.len()
        && found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected));
    assert!(equal, "{text}\nexpected {expected:#?}\nfound {found:#?}");
}

#[test]
fn what_index_writes_is_read_with_its_defaults() {
    let definition = read(INDEX).unwrap();
    assert_eq!(definition.warnings, []);
    assert_eq!(definition.source.kind, SourceKind::Files(FilesDef::default()));
    assert_eq!((definition.source.paths, definition.source.key), (vec!["/home/me/docs".to_owned()], None));
    let [parse, publish] = &definition.stages[..] else { panic!() };
    let [embed, upsert] = &parse.children[..] else { panic!() };
    let chunks =
        StageKind::Parse { max_tokens: 256, min_tokens: 48, overlap: 0, memory: GIB, max_pages: 2_000 };
    assert_eq!(parse.kind, chunks);
    let vectors = StageKind::EmbedBuiltin {
        input: "/text".to_owned(),
        output: "/embedding".to_owned(),
        index: true,
        recycle_after: 100_000,
        memory: GIB,
    };
    assert_eq!(embed.kind, vectors);
    assert_eq!((&upsert.kind, &publish.kind), (&StageKind::Upsert, &StageKind::Publish));
    for (stage, word, batch) in
        [(parse, "parse", 16), (embed, "embed", 64), (upsert, "upsert", 256), (publish, "publish", 64)]
    {
        assert_eq!((stage.kind.name(), stage.batch, stage.concurrency), (word, batch, 2));
        assert_eq!((stage.batch_tokens, stage.timeout), (None, Duration::from_secs(60)), "{word}");
        assert_eq!((stage.gate.as_ref(), stage.default_gate()), (None, None), "{word}");
        assert_eq!(stage.kind.indexes(), word == "embed");
    }
}

#[test]
fn files_are_chosen_by_keys_of_the_source() {
    let default = FilesDef {
        hidden: false,
        follow_symlinks: false,
        ignore_rules: true,
        max_bytes: 8 << 20,
        max_container_bytes: 64 << 20,
        text: false,
    };
    assert_eq!(FilesDef::default(), default);
    let text = "hidden = true\nfollow_symlinks = true\nignore_rules = false\nmax_bytes = 1\nmax_container_bytes = \"1GiB\"\ntext = true";
    let files = FilesDef {
        hidden: true,
        follow_symlinks: true,
        ignore_rules: false,
        max_bytes: 1,
        max_container_bytes: GIB,
        text: true,
    };
    assert_eq!(read(&source(text)).unwrap().source.kind, SourceKind::Files(files));
}

#[test]
fn mistakes_in_a_source_of_files_are_told_with_line_and_key() {
    let table = [
        ("path = \"-\"", "p.toml:4: source.path: expected a directory (name it, or leave path out"),
        ("path = \"\"", "p.toml:4: source.path: expected a directory (name it"),
        ("key = \"/id\"", "p.toml:4: source.key: a file is known by its path (leave it out)"),
        ("hidden = 1", "p.toml:4: source.hidden: expected true or false, found an integer"),
        ("\nmax_bytes = 0", "p.toml:5: source.max_bytes: not between 1 byte and 1GiB"),
        (
            "max_container_bytes = \"2GiB\"",
            "p.toml:4: source.max_container_bytes: not between 1 byte and 1GiB",
        ),
        (
            "max_bytes = true",
            "p.toml:4: source.max_bytes: expected a size: bytes, or a string such as \"16MB\"",
        ),
        ("max_byts = 1", "p.toml:4: source.max_byts: unknown key (did you mean \"max_bytes\"?)"),
    ];
    for (rest, expected) in table {
        expect(&source(rest), &[expected]);
    }
}

#[test]
fn the_keys_of_files_are_unknown_to_lines() {
    let stage = "[[stage]]\nname = \"s\"\nkind = \"pass\"\n";
    for key in ["hidden", "follow_symlinks", "ignore_rules", "max_bytes", "max_container_bytes"] {
        for kind in ["", "kind = \"jsonl\""] {
            let expected = format!("p.toml:4: source.{key}: unknown key (it belongs to kind = \"files\")");
            expect(&format!("name = \"p\"\n[source]\n{kind}\n{key} = 1\n{stage}"), &[&expected]);
        }
    }
    let text = format!("name = \"p\"\n[source]\nkeys = 1\n{stage}");
    expect(&text, &["p.toml:3: source.keys: unknown key (did you mean \"key\"?)"]);
}

#[test]
fn a_source_that_is_not_known_is_the_only_problem() {
    let table = [
        (
            "mbx",
            "unknown source \"mbx\"; available are jsonl, csv, files, mbox, threads, inbox (did you mean \"mbox\"?)",
        ),
        (
            "fiels",
            "unknown source \"fiels\"; available are jsonl, csv, files, mbox, threads, inbox (did you mean \"files\"?)",
        ),
    ];
    for (word, expected) in table {
        let text = INDEX.replace("\"files\"", &format!("{word:?}\nhidden = true"));
        expect(&text, &[&format!("p.toml:6: source.kind: {expected}")]);
    }
}

#[test]
fn chunks_are_cut_by_keys_of_the_parse_stage() {
    let text =
        "chunk_tokens = 8192\nmin_tokens = 4096\noverlap = 4096\nmemory = \"64GiB\"\nmax_pages = 100000";
    let kind = StageKind::Parse {
        max_tokens: 8_192,
        min_tokens: 4_096,
        overlap: 4_096,
        memory: 64 * GIB,
        max_pages: 100_000,
    };
    assert_eq!(first(&parsing(text)).kind, kind);
    assert_eq!(first(&parsing("batch = 1\nmin_tokens = 0")).batch, 1);
    let StageKind::Parse { min_tokens, .. } = first(&parsing("chunk_tokens = 64")).kind else { panic!() };
    assert_eq!(min_tokens, 32, "the default keeps within half of a small chunk");
}

#[test]
fn mistakes_in_a_parse_stage_are_told_with_line_and_key() {
    let table = [
        ("chunk_tokens = 15", "p.toml:7: stage.s.chunk_tokens: 15 is not between 16 and 8192"),
        ("chunk_tokens = 15\nmin_tokens = 4000", "p.toml:7: stage.s.chunk_tokens: 15 is not between"),
        (
            "chunk_tokens = 101\nmin_tokens = 51",
            "p.toml:8: stage.s.min_tokens: 51 is more than half of chunk_tokens, 101 (use at most 50)",
        ),
        (
            "overlap = 129",
            "p.toml:7: stage.s.overlap: 129 is more than half of chunk_tokens, 256 (use at most 128)",
        ),
        ("min_tokens = -1", "p.toml:7: stage.s.min_tokens: -1 is not between 0 and 8192"),
        ("memory = \"63MiB\"", "p.toml:7: stage.s.memory: not between 64MiB and 64GiB"),
        ("memory = -1", "p.toml:7: stage.s.memory: not between 64MiB and 64GiB"),
        ("max_pages = 0", "p.toml:7: stage.s.max_pages: 0 is not between 1 and 100000"),
        ("max_tokens = 9", "p.toml:7: stage.s.max_tokens: unknown key (did you mean \"min_tokens\"?)"),
        (
            "batch = 65",
            "p.toml:7: stage.s.batch: more than the 64 files that one call may have (leave batch out;",
        ),
        ("batch_tokens = 2", "p.toml:7: stage.s.batch_tokens: unknown key"),
    ];
    for (rest, expected) in table {
        expect(&parsing(rest), &[expected]);
    }
    let alone = format!("name = \"p\"\n{FILES}[[stage]]\nname = \"s\"\nkind = \"parse\"\n");
    let expected =
        "p.toml:4: stage.s.children: missing: the chunks of a file need stages to run through (add [[stage";
    expect(&alone, &[expected]);
    expect(&format!("{alone}children = []"), &["p.toml:7: stage.s.children: needs at least one stage"]);
}

#[test]
fn the_built_in_model_embeds_payloads_too() {
    let rest =
        "model = \"static256\"\ninput = \"/a\"\noutput = \"/b\"\nrecycle_after = 0\nmemory = \"64MiB\"";
    let stage = first(&embedding(&format!("provider = \"builtin\"\n{rest}\n[price.static256]\ninput = 1")));
    let kind = StageKind::EmbedBuiltin {
        input: "/a".to_owned(),
        output: "/b".to_owned(),
        index: false,
        recycle_after: 0,
        memory: 64 << 20,
    };
    assert_eq!((stage.kind, stage.batch, stage.concurrency), (kind, 64, 2));
    assert_eq!(read(&embedding("provider = \"builtin\"")).unwrap().warnings, []);
}

#[test]
fn what_is_asked_of_a_service_has_no_meaning_for_the_built_in_model() {
    for key in SERVICE_KEYS {
        let expected = format!(
            "p.toml:6: stage.s.{key}: has no meaning for the built-in model (leave it out, or use provider = \"openai\")"
        );
        expect(&embedding(&format!("provider = \"builtin\"\n{key} = 1")), &[&expected]);
    }
    let table = [
        (
            "model = \"static512\"",
            "p.toml:6: stage.s.model: unknown built-in model \"static512\"; available is static256 (leave model out",
        ),
        ("model = 3", "p.toml:6: stage.s.model: expected a string, found an integer"),
        ("recycle_after = -1", "p.toml:6: stage.s.recycle_after: -1 is not between 0 and"),
        ("memory = 1", "p.toml:6: stage.s.memory: not between 64MiB and 64GiB"),
        ("index = 1", "p.toml:6: stage.s.index: expected true or false, found an integer"),
        ("prompt = \"x\"", "p.toml:6: stage.s.prompt: unknown key"),
    ];
    for (rest, expected) in table {
        expect(&embedding(&format!("provider = \"builtin\"\n{rest}")), &[expected]);
    }
    let service = "model = \"m\"\napi_key_env = \"K\"\nrecycle_after = 1";
    expect(&embedding(service), &["p.toml:7: stage.s.recycle_after: unknown key"]);
}

#[test]
fn a_service_can_fill_the_index_too() {
    let text = INDEX.replace("provider = \"builtin\"", "model = \"m\"\napi_key_env = \"K\"");
    let embed = read(&text).unwrap().stages.swap_remove(0).children.swap_remove(0);
    assert!(embed.kind.indexes() && matches!(embed.kind, StageKind::Embed { .. }), "{embed:?}");
    assert_eq!((embed.batch, embed.batch_tokens, embed.concurrency), (64, Some(200_000), 16));
    assert_eq!(embed.default_gate().as_deref(), Some("api.openai.com/m/embeddings"));
}

#[test]
fn an_index_has_neither_input_nor_output() {
    for provider in ["provider = \"builtin\"\n", "model = \"m\"\n"] {
        for key in ["input", "output"] {
            let text = INDEX.replace("provider = \"builtin\"\n", &format!("{provider}{key} = \"/x\"\n"));
            let expected = format!(
                "p.toml:15: stage.parse.children.embed.{key}: with index = true a chunk is embedded, and its vector is kept in the index (leave it out)"
            );
            expect(&text, &[&expected]);
        }
    }
}

#[test]
fn upsert_and_publish_have_no_keys_of_their_own() {
    for word in ["upsert", "publish"] {
        let text = INDEX.replace(&format!("kind = \"{word}\""), &format!("kind = \"{word}\"\nurl = \"x\""));
        let found = told(&text);
        assert!(found.len() == 1 && found[0].contains(&format!("{word}.url: unknown key")), "{found:?}");
    }
}

#[test]
fn documents_need_a_source_of_files() {
    let text = INDEX.replace("kind = \"files\"", "kind = \"jsonl\"");
    let needs = "needs a source of files (set kind = \"files\" in [source])";
    let expected = [
        format!("p.toml:10: stage.parse.kind: {needs}"),
        format!("p.toml:15: stage.parse.children.embed.index: {needs}"),
        format!("p.toml:18: stage.parse.children.upsert.kind: {needs}"),
        format!("p.toml:21: stage.publish.kind: {needs}"),
    ];
    assert_eq!(told(&text), expected);
    let start = text.find("[source]").unwrap();
    let end = text.find("[[stage]]").unwrap();
    let found = told(&format!("{}{}", &text[..start], &text[end..]));
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn stages_that_index_have_their_places() {
    let pass = "kind = \"pass\"";
    let parse = "kind = \"parse\"";
    let embed = "kind = \"embed\"\nprovider = \"builtin\"";
    let index = "kind = \"embed\"\nprovider = \"builtin\"\nindex = true";
    let upsert = "kind = \"upsert\"";
    let publish = "kind = \"publish\"";
    let chunks = "an upsert stage is one of the children of a parse stage (move it to the [[stage.children]]";
    let embedded =
        "an upsert stage comes after one that embeds with index = true (put [[stage.children]] with kind";
    let leads = "a parse stage is the first of a pipeline (make it the first [[stage]] of the file)";
    let parsed =
        "a publish stage comes after a parse stage (make it a [[stage]] of the file, after the parse";
    let indexed =
        "only the chunks of a parse stage have a place in the index (move it to the [[stage.children]]";
    // Each stage has three lines and those that its keys add; the first begins on line 4.
    type Stages<'s> = &'s [(usize, &'s str, &'s str)];
    let table: [(Stages<'_>, &[(&str, &str)]); 13] = [
        (&[(0, "a", parse), (1, "b", pass), (0, "c", pass)], &[]),
        (&[(0, "a", parse), (1, "b", index), (1, "c", pass), (1, "d", upsert), (0, "e", publish)], &[]),
        (&[(0, "a", pass)], &[]),
        (&[(0, "a", pass), (0, "b", parse), (1, "c", pass)], &[("9: stage.b.kind", leads)]),
        (&[(0, "a", parse), (1, "b", parse), (2, "c", pass)], &[("9: stage.a.children.b.kind", leads)]),
        (&[(0, "a", parse), (1, "b", upsert)], &[("9: stage.a.children.b.kind", embedded)]),
        (&[(0, "a", parse), (1, "b", embed), (1, "c", upsert)], &[("13: stage.a.children.c.kind", embedded)]),
        (&[(0, "a", parse), (1, "b", upsert), (1, "c", index)], &[("9: stage.a.children.b.kind", embedded)]),
        (&[(0, "a", parse), (1, "b", index), (0, "c", upsert)], &[("14: stage.c.kind", chunks)]),
        (
            &[(0, "a", parse), (1, "b", index), (2, "c", upsert)],
            &[("14: stage.a.children.b.children.c.kind", chunks)],
        ),
        (&[(0, "a", parse), (1, "b", pass), (0, "c", index)], &[("14: stage.c.index", indexed)]),
        (
            &[(0, "a", publish), (0, "b", parse), (1, "c", pass)],
            &[("6: stage.a.kind", parsed), ("9: stage.b.kind", leads)],
        ),
        (&[(0, "a", parse), (1, "b", publish)], &[("9: stage.a.children.b.kind", parsed)]),
    ];
    for (stages, expected) in table {
        let stages: String = stages.iter().map(|(depth, name, keys)| written(*depth, name, keys)).collect();
        let text = format!("name = \"p\"\n{FILES}{stages}");
        if expected.is_empty() {
            assert!(read(&text).is_ok(), "{text}\n{:#?}", told(&text));
            continue;
        }
        let expected: Vec<_> =
            expected.iter().map(|(key, message)| format!("p.toml:{key}: {message}")).collect();
        expect(&text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_stage_that_cannot_be_read_is_not_missed_by_others() {
    let kinds = "available are http, command, external, event, embed, chat, filter, pass, parse, mail, upsert, publish";
    for (word, line, key, near) in [
        ("parse", 10, "parse", "parsse"),
        ("embed", 13, "parse.children.embed", "emebd"),
        ("upsert", 18, "parse.children.upsert", "upsret"),
        ("publish", 21, "publish", "pubish"),
    ] {
        let text = INDEX.replace(&format!("kind = \"{word}\""), &format!("kind = \"{near}\""));
        let expected = format!(
            "p.toml:{line}: stage.{key}.kind: unknown kind \"{near}\"; {kinds} (did you mean \"{word}\"?)"
        );
        expect(&text, &[&expected]);
    }
}

#[test]
fn hashes_of_stages_without_an_index_stay() {
    let table = [
        (
            "kind = \"embed\"\nmodel = \"text-embedding-3-small\"\napi_key_env = \"K\"",
            "c57ad3467870694437986665bbccbc2cdc2cb0e53759a7799a0dd4c2670dea50",
        ),
        (
            "kind = \"embed\"\nbase_url = \"http://127.0.0.1:9000/v1\"\nmodel = \"m\"\ninput = \"/t\"\noutput = \"/v\"\ndimensions = 256\nindex = false",
            "e9d202766609e859502dd0530626cbfba18763756b426687b7273e6bc33b5b24",
        ),
        ("kind = \"pass\"", "58e53ea5ef88d9add58f819eac5a15f1acf461a3af61d4412e43d29ec43d1757"),
    ];
    for (keys, hash) in table {
        let text = format!("name = \"p\"\n{}", written(0, "s", keys));
        assert_eq!(first(&text).config_hash(), hash, "{keys}");
    }
}

#[test]
fn the_hash_follows_chunks_and_vectors_and_not_what_a_process_may_use() {
    let parse = |rest: &str| first(&parsing(rest)).config_hash();
    for same in ["memory = \"2GiB\"", "concurrency = 9", "chunk_tokens = 256", "timeout = \"5m\""] {
        assert_eq!(parse(""), parse(same), "{same}");
    }
    for other in ["chunk_tokens = 128", "min_tokens = 9", "overlap = 9", "max_pages = 9"] {
        assert_ne!(parse(""), parse(other), "{other}");
    }
    let embed = |rest: &str| first(&embedding(&format!("provider = \"builtin\"\n{rest}"))).config_hash();
    for same in ["memory = \"2GiB\"", "recycle_after = 0", "model = \"static256\"", "batch = 3"] {
        assert_eq!(embed(""), embed(same), "{same}");
    }
    assert_ne!(embed(""), embed("input = \"/x\""));
    let nested = |text: &str| read(text).unwrap().stages[0].children[0].config_hash();
    assert_ne!(embed(""), nested(INDEX));
    let service = "base_url = \"http://h/v1\"\nmodel = \"m\"";
    let indexed = nested(&INDEX.replace("provider = \"builtin\"", service));
    assert_ne!(indexed, first(&embedding(service)).config_hash());
}
