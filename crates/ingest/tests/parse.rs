//! What parsers make of good files, of bad ones and of noise.

mod fixtures;

use std::path::Path;

use fixtures::{EML, encrypted_pdf, pdf};
use proptest::prelude::*;
use redrive_ingest::document::{BlockKind, Document};
use redrive_ingest::kind::{Guess, Kind};
use redrive_ingest::parse::{Limits, ParseError, parse};

fn kind(name: &str) -> Kind {
    match Kind::guess(Path::new(name)) {
        Guess::Is(kind) => kind,
        other => panic!("{name}: {other:?}"),
    }
}

const ALL: [&str; 8] = ["x.txt", "x.md", "x.html", "x.rs", "x.py", "x.eml", "x.mbox", "x.pdf"];

fn parsed(bytes: &[u8], name: &str) -> Document {
    let document = parse(bytes, kind(name), &Limits::default()).unwrap();
    assert!(document.is_sound(), "{document:?}");
    document
}

fn blocks(document: &Document) -> Vec<(BlockKind, &str, String)> {
    let path = |block: &redrive_ingest::document::Block| document.path(block.heading).join("/");
    document.blocks.iter().map(|block| (block.kind, document.text_of(block), path(block))).collect()
}

#[test]
fn markdown_knows_its_sections() {
    let text = "---\ntitle: x\n---\n# Top\n\nIntro\nline.\n\n## Sub *one*\n\n```sh\n# not a heading\n```\n\n- a\n- b\n\n  more b\n\nSetext\n===\n\n[ref]: http://x\n";
    let document = parsed(text.as_bytes(), "a.md");
    use BlockKind::{Heading, Prose, Verbatim};
    let expected: &[(BlockKind, &str, &str)] = &[
        (Verbatim, "---\ntitle: x\n---", ""),
        (Heading, "# Top", "Top"),
        (Prose, "Intro\nline.", "Top"),
        (Heading, "## Sub *one*", "Top/Sub one"),
        (Verbatim, "```sh\n# not a heading\n```", "Top/Sub one"),
        (Prose, "- a", "Top/Sub one"),
        (Prose, "- b\n\n  more b", "Top/Sub one"),
        (Heading, "Setext\n===", "Setext"),
        (Prose, "[ref]: http://x", "Setext"),
    ];
    let found = blocks(&document);
    let found: Vec<_> = found.iter().map(|(kind, text, path)| (*kind, *text, path.as_str())).collect();
    assert_eq!(found, expected);
    assert_eq!(document.title.as_deref(), Some("Top"));
    let lines = document.blocks[4].lines;
    assert_eq!((lines.first, lines.last), (11, 13));
}

#[test]
fn html_is_what_a_reader_sees() {
    let html = "<!doctype html><head><title>The &amp; title</title><style>p{}</style><script>if (a<b) x()</script></head>\
        <body><h1>One <em>two</em></h1><p>Hello,<b> wor</b>ld &copy;<p>second<ul><li>a<li>b</ul>\
        <pre>x\n  y</pre><table><tr><td>1<td>2</table><img alt='a cat'><!-- no --></body>";
    let document = parsed(html.as_bytes(), "a.html");
    assert_eq!(document.title.as_deref(), Some("The & title"));
    let texts: Vec<&str> = document.blocks.iter().map(|block| document.text_of(block)).collect();
    assert_eq!(
        texts,
        ["The & title", "One two", "Hello, world ©", "second", "- a", "- b", "x\n  y", "1 | 2", "a cat"]
    );
    assert_eq!(document.path(document.blocks[3].heading), ["One two"]);
}

#[test]
fn messages_have_heads_bodies_and_attachments() {
    let document = parsed(EML.as_bytes(), "a.eml");
    assert_eq!(document.title.as_deref(), Some("Grüße"));
    let texts: Vec<&str> = document.blocks.iter().map(|block| document.text_of(block)).collect();
    assert_eq!(
        texts,
        [
            "Subject: Grüße\nFrom: Ada L. <ada@example.org>\nTo: bob@example.org\nDate: 2026-06-01T10:00:00+02:00",
            "First paragraph with grün.",
            "Second paragraph.",
            "Attached: plan.pdf",
        ]
    );
    let mbox = "From a@x Mon Jun 1\nSubject: one\n\nFirst.\n\nFrom b@x Mon Jun 1\nSubject: two\n\nSecond.\nFrom here on.\n";
    let document = parsed(mbox.as_bytes(), "a.mbox");
    let titles: Vec<&str> = document.headings.iter().map(|heading| heading.title.as_str()).collect();
    assert_eq!(titles, ["one", "two"]);
    assert!(document.text.ends_with("Second.\nFrom here on."), "{}", document.text);
    let html = "Subject: x\nContent-Type: text/html\n\n<h2>Only</h2><p>HTML";
    assert!(parsed(html.as_bytes(), "a.eml").text.ends_with("Only\n\nHTML"));
}

#[test]
fn pdf_pages_are_counted() {
    let document = parsed(&pdf(&["Hello page one", "", "And three"]), "a.pdf");
    let found: Vec<_> = document.blocks.iter().map(|block| (document.text_of(block), block.page)).collect();
    assert_eq!(found, [("Hello page one", Some(1)), ("And three", Some(3))]);
}

#[test]
fn source_code_falls_apart_into_items() {
    let document = parsed(b"use a;\n\n/// Doc.\nfn one() {\n    x();\n}\n\nfn two() {}\n", "a.rs");
    let labels: Vec<_> = document.blocks.iter().map(|block| block.label.as_deref().unwrap()).collect();
    assert_eq!(labels, ["use a;", "fn one()", "fn two() {}"]);
}

#[test]
fn an_empty_file_is_an_empty_document() {
    for name in ALL {
        for bytes in [&b""[..], b" \n\n\t"] {
            assert_eq!(parsed(bytes, name).blocks, [], "{name}");
        }
    }
}

#[test]
fn bad_files_are_refused_by_what_is_wrong_with_them() {
    let many: Vec<&str> = vec!["x"; 30];
    let limits = Limits { max_pages: 20, max_bytes: 1 << 20, max_text: 2000 };
    let whole = pdf(&["Hello"]);
    let long = "a(b".replace('(', &"long ".repeat(1000));
    let broken = |error: &ParseError| matches!(error, ParseError::Broken { .. });
    let not_text = |error: &ParseError| matches!(error, ParseError::NotText { .. });
    let too_large = |error: &ParseError| matches!(error, ParseError::TooLarge { .. });
    type Expected<'a> = &'a dyn Fn(&ParseError) -> bool;
    let cases: Vec<(&str, Vec<u8>, &str, Expected<'_>)> = vec![
        ("binary named .txt", b"\x7fELF\x02\x01\0\0\0".to_vec(), "a.txt", &not_text),
        ("binary named .md", vec![0; 100], "a.md", &not_text),
        ("binary named .html", vec![1; 100], "a.html", &not_text),
        ("no pdf", b"just text".to_vec(), "a.pdf", &broken),
        ("half a pdf", whole[..whole.len() / 3].to_vec(), "a.pdf", &broken),
        ("encrypted", encrypted_pdf(), "a.pdf", &|error| *error == ParseError::Encrypted),
        ("many pages", pdf(&many), "a.pdf", &|error| {
            *error == ParseError::TooManyPages { pages: 30, limit: 20 }
        }),
        ("long page", pdf(&[&long]), "a.pdf", &too_large),
        ("long text", vec![b'a'; 3000], "a.txt", &too_large),
        ("long html", vec![b'a'; 3000], "a.html", &too_large),
        ("large file", vec![b'a'; 2 << 20], "a.txt", &too_large),
        ("no message", b"\n\n\nno headers".to_vec(), "a.eml", &broken),
    ];
    for (name, bytes, file, expected) in cases {
        match parse(&bytes, kind(file), &limits) {
            Err(error) if expected(&error) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn ten_thousand_pages_are_counted_and_not_read() {
    let pages = vec!["x"; 10_000];
    let refused = parse(&pdf(&pages), Kind::Pdf, &Limits::default());
    assert_eq!(refused, Err(ParseError::TooManyPages { pages: 10_000, limit: 2_000 }));
}

#[test]
fn html_is_read_in_the_encoding_it_declares() {
    let russian = b"<meta charset=\"windows-1251\"><p>\xcf\xf0\xe8\xe2\xe5\xf2";
    assert_eq!(parsed(russian, "a.html").text, "Привет");
    let lying = "<meta charset=iso-8859-1><p>grün";
    assert_eq!(parsed(lying.as_bytes(), "a.html").text, "grün");
    assert!(
        parse(b"<meta charset=utf-8><p>\xcf\xf0\xe8\xe2\xe5\xf2", Kind::Html, &Limits::default()).is_ok()
    );
}

#[test]
fn a_guessed_encoding_is_noted() {
    assert_eq!(parsed(b"gr\xfcn", "a.md").notes, ["not UTF-8; read as Windows-1252"]);
    assert!(parsed("grün".as_bytes(), "a.md").notes.is_empty());
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "#",
        " ",
        "\n",
        "\n\n",
        "```",
        "- ",
        "<div",
        ">",
        "</",
        "<pre>",
        "<title>",
        "<script>",
        "&amp;",
        "&#x",
        "\"",
        "=",
        "From ",
        "Subject: ",
        "Content-Type: multipart/mixed; boundary=a\n",
        "--a\n",
        "--a--",
        "=?utf-8?b?",
        "?=",
        "%PDF-1.4\n",
        "1 0 obj",
        "<<",
        ">>",
        "stream\n",
        "endstream",
        "endobj",
        "xref\n0 1\n",
        "trailer",
        "startxref\n9",
        "/Type /Page",
        "[",
        "]",
        "(",
        ")",
        "}",
        "{",
        "    ",
        "fn x() {",
        "é",
        "漢",
        "\u{200d}",
        "|",
        "---\n",
        "~~~",
        "*",
        "[a]: ",
    ])
    .prop_map(|word| word.as_bytes().to_vec());
    let bytes = prop::collection::vec(any::<u8>(), 0..12);
    prop::collection::vec(prop_oneof![4 => words, 1 => bytes], 0..60).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn no_parser_panics_and_every_document_is_sound(bytes in noise()) {
        for name in ALL {
            if let Ok(document) = parse(&bytes, kind(name), &Limits::default()) {
                prop_assert!(document.is_sound(), "{}: {:?}", name, document);
            }
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for name in ALL {
            if let Ok(document) = parse(&bytes, kind(name), &Limits::default()) {
                prop_assert!(document.is_sound());
            }
        }
    }

    #[test]
    fn a_damaged_pdf_does_no_harm(at in 0_usize..900, byte in any::<u8>(), cut in 0_usize..900) {
        let mut bytes = pdf(&["Hello page one", "two"]);
        let at = at % bytes.len();
        bytes[at] = byte;
        if cut % 3 == 0 {
            bytes.truncate(cut);
        }
        if let Ok(document) = parse(&bytes, Kind::Pdf, &Limits::default()) {
            prop_assert!(document.is_sound());
        }
    }
}
