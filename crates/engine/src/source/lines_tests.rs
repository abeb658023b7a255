use std::io::Write;
use std::path::Path;

use super::*;

fn spec(paths: &[&Path], key: Option<&str>) -> LineSpec {
    let paths = paths.iter().map(|path| path.display().to_string()).collect();
    LineSpec { paths, key: key.map(Into::into), ..LineSpec::default() }
}

fn rest(source: &mut Lines) -> (Vec<NewItem>, String) {
    let mut items = Vec::new();
    loop {
        let piece = source.next_piece().expect("it can be read");
        items.extend(piece.items);
        if piece.done {
            return (items, piece.position);
        }
    }
}

fn streamed(text: &[u8], key: Option<&str>) -> Vec<NewItem> {
    let reader = Box::new(std::io::Cursor::new(text.to_vec()));
    rest(&mut Lines::stream("test", reader, spec(&[], key))).0
}

fn keys(items: &[NewItem]) -> Vec<&str> {
    items.iter().map(|item| &*item.key).collect()
}

#[test]
fn a_line_that_is_not_usable_is_an_item_all_the_same_and_says_why() {
    let deep = "[".repeat(100_000);
    let nested = format!("{}1{}", "[".repeat(129), "]".repeat(129));
    let cases: &[(&[u8], &str)] = &[
        (b"{oops", "is not JSON"),
        (b"\xff\xfe\x00", "is not UTF-8: byte 1"),
        (b"{\"id\": [1]}", "no string, number or boolean at /id"),
        (
            b"{\"id\": 20261117000000000001}",
            "a key at /id that is no whole number of 64 bits; write it as a string",
        ),
        (b"{\"id\": 1.5}", "a key at /id that is no whole number of 64 bits"),
        (b"nope", "is not JSON: expected value at column 2"),
        (b"{\"other\": 1}", "no string, number or boolean at /id"),
        (b"{\"id\":1} trailing", "is not JSON: trailing characters at column 10"),
        (b"{\"id\":1e400}", "is not JSON: number out of range"),
        (b"{\"id\":\"\\ud800\"}", "is not JSON: "),
        (deep.as_bytes(), "nested deeper than the 128"),
        (nested.as_bytes(), "nested deeper than the 128"),
    ];
    for (bad, why) in cases {
        let mut text = b"{\"id\": \"a\"}\n".to_vec();
        text.extend_from_slice(bad);
        text.extend_from_slice(b"\n{\"id\": 7}\n");
        let items = streamed(&text, Some("/id"));
        assert_eq!((keys(&items)[0], keys(&items)[2], items.len()), ("a", "7", 3), "{why}");
        assert!(items[1].key.starts_with("unusable-"), "{}", items[1].key);
        let message = &items[1].refused.as_ref().expect("refused").message;
        assert!(message.contains(why), "{message}");
        let kept: serde_json::Value = serde_json::from_slice(&items[1].payload).expect("it is JSON");
        assert_eq!((&kept["file"], items[1].origin), (&"test".into(), 2), "where it can be read again");
        // It is the same item wherever it stands.
        let moved = streamed(&[b"{\"id\": \"z\"}\n", &text[..]].concat(), Some("/id"));
        assert_eq!(
            (&moved[2].key, &moved[2].payload, moved[2].origin),
            (&items[1].key, &items[1].payload, 3)
        );
    }
}

#[test]
fn a_huge_line_is_refused_without_being_kept() {
    let mut text = b"\"".to_vec();
    text.extend(std::iter::repeat_n(b'x', MAX_LINE * 2));
    text.extend_from_slice(b"\"\n{}\n");
    let items = streamed(&text, None);
    assert_eq!(items.len(), 2);
    assert!(items[0].refused.as_ref().expect("refused").message.contains("bytes, more than"));
    assert!(items[0].payload.len() < 1_000);
}

#[test]
fn blank_lines_and_a_byte_order_mark_are_no_items() {
    let items = streamed(b"\xef\xbb\xbf{\"a\":1}\r\n\n   \n{\"a\":2}", None);
    assert_eq!(items.len(), 2);
    assert_eq!(&*items[0].payload, b"{\"a\":1}");
    assert_eq!(items[1].origin, 4);
}

#[test]
fn reading_goes_on_where_it_stopped_and_starts_again_where_it_agrees() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("in.jsonl");
    let text: String = (0..4_500).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    std::fs::write(&path, &text).expect("written");
    let open = |position: Option<&str>| Lines::open(spec(&[&path], None), position).expect("opens");
    let mut first = open(None);
    let one = first.next_piece().expect("reads");
    let two = first.next_piece().expect("reads");
    assert_eq!((one.items.len(), two.items.len(), two.done), (1_000, 1_000, false));
    let mut again = open(Some(&two.position));
    assert_eq!(
        (again.standing(), again.start().agreed),
        (Standing::Anew, 2_001),
        "another reading, from there"
    );
    assert_eq!(&*again.next_piece().expect("reads").items[0].payload, b"{\"n\":2000}");
    for (edit, from) in [("{\"n\":1500}", 1_000), ("{\"n\":0}\n", 0), ("{\"n\":1999}\n", 1_000)] {
        std::fs::write(&path, text.replace(edit, "")).expect("written");
        let mut changed = open(Some(&two.position));
        let agreed = if from == 0 { 0 } else { from + 1 };
        assert_eq!((changed.standing(), changed.start().agreed), (Standing::Anew, agreed), "{edit}");
        let first = changed.next_piece().expect("reads").items[0].origin;
        assert_eq!(first, from + 1, "{edit}");
    }
    let later = text.replace("{\"n\":3000}", "");
    std::fs::write(&path, later).expect("written");
    assert_eq!(open(Some(&two.position)).start().agreed, 2_001, "what was read is as it was");
}

#[test]
fn a_file_that_was_read_to_its_end_tells_whether_it_is_still_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("in.jsonl");
    std::fs::write(&path, "{\"n\":1}\n{\"n\":2}").expect("written");
    let mut lines = Lines::open(spec(&[&path], None), None).expect("opens");
    let (items, position) = rest(&mut lines);
    assert_eq!(items.len(), 2);
    assert!(!lines.has_changed(true).expect("looked at"));
    assert_eq!(
        Lines::open(spec(&[&path], None), Some(&position)).expect("opens").standing(),
        Standing::Unchanged
    );
    // The last line had no end: what is appended belongs to it.
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).expect("opens");
    file.write_all(b"2}\n{\"n\":3}\n").expect("appended");
    assert!(!lines.has_changed(false).expect("looked at"), "somebody may still be writing");
    assert!(lines.has_changed(false).expect("looked at"));
    let (items, position) = rest(&mut lines);
    let last: Vec<_> = items.iter().map(|item| item.origin).collect();
    assert!(last.ends_with(&[2, 3]), "{last:?}");
    // Of equal size and time, and told by its content alone.
    let times = std::fs::metadata(&path).expect("there").modified().expect("a time");
    std::fs::write(&path, "{\"n\":1}\n{\"n\":22}\n{\"n\":4}\n").expect("written");
    std::fs::File::options().write(true).open(&path).expect("opens").set_modified(times).expect("set");
    assert_eq!(Lines::open(spec(&[&path], None), Some(&position)).expect("opens").standing(), Standing::Anew);
    assert!(!lines.has_changed(false).expect("looked at"));
    assert!(lines.has_changed(false).expect("looked at"), "the time of its change cannot be set");
}

#[test]
fn several_files_are_read_as_one_and_keep_their_names() {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &[u8]| std::fs::write(dir.path().join(name), text).expect("written");
    write("a.jsonl", b"{\"id\":1}\n{\"id\":2}");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(b"{\"id\":3}\noops\n").expect("packed");
    write("b.jsonl.gz", &packed.finish().expect("packed"));
    write("c.csv", b"id,text\n4,\"two\nlines, \"\"quoted\"\"\"\n5\n6,x\n");
    let pattern = dir.path().join("*");
    let mut lines = Lines::open(spec(&[&pattern], Some("/id")), None).expect("opens");
    let (items, position) = rest(&mut lines);
    let usable: Vec<&str> = keys(&items).into_iter().filter(|key| !key.starts_with("unusable-")).collect();
    assert_eq!((usable, items.len()), (vec!["1", "2", "3", "4", "6"], 7));
    let why = |at: usize| items[at].refused.as_ref().expect("refused").message.to_string();
    assert!(why(3).starts_with("line 2 of b.jsonl.gz") && why(5).starts_with("line 4 of c.csv"));
    assert_eq!(&*items[4].payload, br#"{"id":"4","text":"two\nlines, \"quoted\""}"#);
    assert!(why(5).contains("has 1 fields, the header has 2"), "{}", why(5));
    let open = || Lines::open(spec(&[&pattern], Some("/id")), Some(&position)).expect("opens");
    assert_eq!(open().standing(), Standing::Unchanged);
    write("d.jsonl", b"{\"id\":7}\n");
    let mut more = open();
    assert_eq!(more.standing(), Standing::Anew);
    assert_eq!(keys(&rest(&mut more).0).last(), Some(&"7"));
}

#[test]
fn a_csv_is_gone_on_with_in_the_middle() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("in.csv");
    let rows: String = (0..2_500).map(|n| format!("{n},\"v\n{n}\"\n")).collect();
    std::fs::write(&path, format!("id,v\n{rows}")).expect("written");
    let open = |position: Option<&str>| Lines::open(spec(&[&path], Some("/id")), position).expect("opens");
    let piece = open(None).next_piece().expect("reads");
    let (items, _) = rest(&mut open(Some(&piece.position)));
    assert_eq!((piece.items.len(), items.len()), (1_000, 1_500));
    assert_eq!(&*items[0].payload, br#"{"id":"1000","v":"v\n1000"}"#);
    assert_eq!(items[0].origin, 2_002, "the line of the file where it begins");
}

#[test]
fn what_is_no_text_of_lines_is_refused_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("in.jsonl");
    for (bytes, why) in
        [(&b"\xff\xfe{\x00"[..], "UTF-16"), (b"\x28\xb5\x2f\xfdxx", "zstd"), (b"PK\x03\x04", "ZIP")]
    {
        std::fs::write(&path, bytes).expect("written");
        let Err(error) = Lines::open(spec(&[&path], None), None) else { panic!("{why} was taken for lines") };
        assert!(error.to_string().contains(why), "{error}");
    }
    std::fs::write(&path, b"\x1f\x8b\x08\x00cut off").expect("written");
    let mut cut = Lines::open(spec(&[&path], None), None).expect("opens");
    assert!(cut.next_piece().is_err(), "a damaged archive is no end of the source");
    for (header, why) in [("id,id\n1,2\n", "there twice"), ("id,\n1,2\n", "empty")] {
        let path = dir.path().join("in.csv");
        std::fs::write(&path, header).expect("written");
        let Err(error) = Lines::open(spec(&[&path], None), None) else { panic!("a bad header was taken") };
        assert!(error.to_string().contains(why), "{error}");
    }
}
