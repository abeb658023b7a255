//! Archives are split where messages begin, in every dialect, whatever is in them.

use std::io::{BufReader, Read};

use proptest::prelude::*;
use redrive_mail::head::Head;
use redrive_mail::mbox::{Entry, Mbox, unquoted, version_of};

const FROM: &str = "From a@x Tue Nov 17 10:00:00 2026\n";

fn entries(archive: &[u8]) -> Vec<Entry> {
    Mbox::new(archive).map(|entry| entry.expect("memory can be read")).collect()
}

fn texts(archive: &[u8]) -> Vec<String> {
    let slice = |entry: &Entry| {
        let start = usize::try_from(entry.offset).unwrap();
        &archive[start..start + usize::try_from(entry.length).unwrap()]
    };
    entries(archive)
        .iter()
        .map(|entry| String::from_utf8_lossy(&unquoted(slice(entry))).into_owned())
        .collect()
}

#[test]
fn messages_begin_after_from_lines_that_tell_a_date() {
    let archive = format!(
        "{FROM}Subject: 1\n\nFrom here on text.\n\nFrom now on, too.\n>From quoted.\n>>From twice.\n\n\
         From MAILER-DAEMON Fri Jul  3 09:05:01 +0000 1998\nSubject: 2\n\nbody\n\n\
         From jdoe at example.com  Wed Jan 10 12:34 2001\n\nno head\n"
    );
    assert_eq!(
        texts(archive.as_bytes()),
        [
            "Subject: 1\n\nFrom here on text.\n\nFrom now on, too.\nFrom quoted.\n>From twice.",
            "Subject: 2\n\nbody",
            "\nno head"
        ]
    );
}

#[test]
fn a_from_line_without_an_empty_line_before_it_counts_before_a_header_only() {
    let pasted = format!("{FROM}Subject: 1\n\ntext\n{FROM}and more text\n");
    assert_eq!(entries(pasted.as_bytes()).len(), 1);
    let cut = format!("{FROM}Subject: 1\n\nYWJj\n{FROM}Subject: 2\n\nb\n");
    assert_eq!(texts(cut.as_bytes()), ["Subject: 1\n\nYWJj", "Subject: 2\n\nb"]);
}

#[test]
fn a_right_content_length_keeps_from_lines_in_the_text_and_a_wrong_one_does_not_hide_messages() {
    let body = format!("one\n\n{FROM}Subject: pasted\n\ntwo\n");
    for (length, count) in [(body.len(), 2), (body.len() - 3, 3), (body.len() + 500, 3), (usize::MAX, 3)] {
        let archive = format!("{FROM}Content-Length: {length}\n\n{body}\n{FROM}Subject: 2\n\nb\n");
        assert_eq!(entries(archive.as_bytes()).len(), count, "length {length}");
    }
    let last = format!("{FROM}Content-Length: {}\n\n{body}", body.len());
    assert_eq!(entries(last.as_bytes()).len(), 1, "at the end of the archive");
}

#[test]
fn an_archive_that_grows_keeps_the_versions_of_what_was_in_it() {
    let first = format!("{FROM}Subject: 1\n\nbody");
    let then = format!("{first}\n\n{FROM}Subject: 2\n\nb\n");
    assert_eq!(entries(first.as_bytes())[0].version, entries(then.as_bytes())[0].version);
    let cut = &first.as_bytes()[..first.len() - 2];
    assert!(
        entries(cut)[0].version < entries(first.as_bytes())[0].version,
        "the whole message is the greater one"
    );
    assert_eq!(version_of(b"Subject: 1\n\nbody\r\n\n"), entries(first.as_bytes())[0].version);
}

#[test]
fn a_file_without_from_lines_is_one_message_and_an_empty_one_none() {
    assert_eq!(texts(b"\n\nSubject: x\n\ny\n"), ["Subject: x\n\ny"]);
    assert!(entries(b"").is_empty() && entries(b"\n\r\n\n").is_empty());
}

/// A reader that makes up one long message, and fails at its end.
struct Endless {
    left: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(std::io::Error::other("the disk is broken"));
        }
        let n = buffer.len().min(self.left);
        buffer[..n].fill(b'x');
        self.left -= n;
        Ok(n)
    }
}

#[test]
fn a_line_of_64_mib_needs_no_memory_and_an_error_comes_after_what_was_read() {
    let head: &[u8] = b"From a@x Tue Nov 17 10:00:00 2026\nSubject: big\n\n";
    let reader = BufReader::new(head.chain(Endless { left: 64 << 20 }));
    let all: Vec<_> = Mbox::new(reader).collect();
    assert_eq!(all.len(), 2);
    let entry = all[0].as_ref().unwrap();
    assert_eq!((entry.length, entry.head.len()), ((64 << 20) + 14, 13));
    assert!(all[1].as_ref().is_err_and(|error| error.to_string().contains("broken")));
}

/// A message that does not hold a line that begins another.
fn message() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[a-zA-Z>: .]{0,30}",
        Just("From here".to_owned()),
        Just(">From there".to_owned()),
        Just(String::new())
    ];
    (proptest::collection::vec(line, 0..8), 0..1_000_u32).prop_map(|(lines, n)| {
        format!("Message-ID: <{n}@x>\n\n{}", lines.join("\n")).trim_end_matches(['\n', '\r']).to_owned()
    })
}

proptest! {
    #[test]
    fn what_is_put_into_an_mboxrd_comes_out_again(messages in proptest::collection::vec(message(), 0..8), crlf: bool) {
        let mut archive = String::new();
        for message in &messages {
            archive.push_str(FROM);
            for line in message.lines() {
                if line.trim_start_matches('>').starts_with("From ") {
                    archive.push('>');
                }
                archive.push_str(line);
                archive.push('\n');
            }
            archive.push('\n');
        }
        let wanted: Vec<String> = messages.iter().map(|one| if crlf { one.replace('\n', "\r\n") } else { one.clone() }).collect();
        if crlf {
            archive = archive.replace('\n', "\r\n");
        }
        prop_assert_eq!(texts(archive.as_bytes()), wanted);
    }

    #[test]
    fn no_bytes_make_it_panic_and_no_byte_is_in_two_messages(
        pieces in proptest::collection::vec(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            Just(FROM.as_bytes().to_vec()), Just(b"\n".to_vec()), Just(b"\r\n".to_vec()),
            Just(b"Content-Length: 60\n\n".to_vec()), Just(b"Message-ID: <a@x>\n".to_vec()), Just(b"From ".to_vec()),
        ], 0..40),
        small in 1..50_usize,
    ) {
        let archive = pieces.concat();
        let found = entries(&archive);
        let mut end = 0;
        for entry in &found {
            prop_assert!(entry.offset >= end);
            end = entry.offset + entry.length;
            prop_assert!(end <= archive.len() as u64);
            let start = usize::try_from(entry.offset).unwrap();
            prop_assert_eq!(entry.version, version_of(&archive[start..usize::try_from(end).unwrap()]));
            let _ = Head::read(&entry.head);
        }
        let slow: Vec<Entry> = Mbox::new(BufReader::with_capacity(small, &archive[..])).map(Result::unwrap).collect();
        prop_assert_eq!(slow, found);
    }

    #[test]
    fn no_message_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), head in "(Subject|From|Date|References|Content-Type): [ -~]{0,80}\n") {
        let raw = [head.as_bytes(), b"MIME-Version: 1.0\n\n", &bytes].concat();
        let _ = redrive_mail::body::open(&raw, &redrive_ingest::parse::Limits::default());
        let _ = redrive_mail::body::open(&bytes, &redrive_ingest::parse::Limits::default());
        let _ = Head::read(&raw);
    }
}
