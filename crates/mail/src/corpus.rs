//! Archives that are made up: discussions on lists, with everything that real archives have wrong.
//!
//! The same seed gives the same bytes. A [`Corpus`] knows what is in it: which messages, which of them cannot be read, and which sentences
//! a summary of a thread should not miss.

mod dice;
mod measure;
mod talk;
mod wire;

use std::collections::BTreeSet;
use std::io::Write;

use dice::Dice;
use talk::Discussion;
use wire::Quoting;

pub use measure::{Measured, measure};

/// What to make up.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The same seed gives the same archives.
    pub seed: u64,
    /// Messages, copies and those that cannot be read not counted.
    pub messages: usize,
    /// Attachments of `big_bytes` each.
    pub big: usize,
    /// How large they are.
    pub big_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, messages: 5_000, big: 2, big_bytes: 20 << 20 }
    }
}

/// A file of the corpus.
#[derive(Debug, Clone)]
pub struct MadeFile {
    /// Its path below the corpus' directory. `box/cur/…` is a Maildir, all others are archives.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Archives, and what is known of them.
#[derive(Debug, Clone, Default)]
pub struct Corpus {
    /// The archives.
    pub files: Vec<MadeFile>,
    /// The names of the messages that have one.
    pub ids: BTreeSet<String>,
    /// Messages without a name.
    pub nameless: usize,
    /// Copies of messages that are in another archive as well.
    pub copies: usize,
    /// Messages that are none.
    pub poison: usize,
    /// Names of messages that stand in the text of another, where only a `Content-Length` tells.
    pub pasted: BTreeSet<String>,
    /// Sentences that tell what a thread came to, by the name of its first message.
    pub key_sentences: Vec<(String, Vec<String>)>,
}

/// Makes a corpus up.
#[must_use]
pub fn make(options: Options) -> Corpus {
    let mut dice = Dice::new(options.seed);
    let mut corpus = Corpus::default();
    let mut boxes: [Vec<u8>; 4] = Default::default();
    let mut maildir = Vec::new();
    let mut left = options.messages;
    let mut big = options.big;
    let mut number = 0;
    while left > 0 {
        let size = dice.between(1, 14).min(left);
        left -= size;
        let mut discussion = Discussion::make(&mut dice, number, size);
        number += 1;
        if big > 0 {
            discussion.messages[size - 1].big = options.big_bytes;
            big -= 1;
        }
        let home = dice.below(5);
        corpus
            .key_sentences
            .push((discussion.messages[0].id.clone().unwrap_or_default(), discussion.key_sentences.clone()));
        for message in &discussion.messages {
            match &message.id {
                Some(id) => drop(corpus.ids.insert(id.clone())),
                None => corpus.nameless += 1,
            }
            corpus.pasted.extend(message.pasted(home == 2));
            let raw = message.raw(home == 2);
            put(&mut boxes, &mut maildir, home, &raw, message.at);
            if message.id.is_some() && message.big == 0 && dice.one_in(40) {
                corpus.copies += 1;
                let copy = wire::forwarded_copy(&raw);
                put(&mut boxes, &mut maildir, (home + 1) % 2, &copy, message.at);
            }
        }
        if dice.one_in(60) {
            corpus.poison += 1;
            put(
                &mut boxes,
                &mut maildir,
                dice.below(2),
                b"\nthis never was a message, only text\n",
                1_700_000_000,
            );
        }
    }
    let [rd, o, cl, mut sloppy] = boxes;
    // The last message of the last archive is cut off, as by a full disk.
    let cut = sloppy.len() - sloppy.len().min(40);
    sloppy.truncate(cut);
    corpus.files = vec![
        MadeFile { path: "list-a.mbox".into(), bytes: rd },
        MadeFile { path: "list-b.mbox.gz".into(), bytes: gzip(&o) },
        MadeFile { path: "list-c.mbox".into(), bytes: cl },
        MadeFile { path: "list-d.mbox".into(), bytes: sloppy },
    ];
    let files = maildir.into_iter().enumerate();
    corpus.files.extend(files.map(|(n, bytes)| MadeFile { path: format!("box/cur/{n:06}.made:2,S"), bytes }));
    corpus
}

/// Puts a message where its archive is kept.
fn put(boxes: &mut [Vec<u8>; 4], maildir: &mut Vec<Vec<u8>>, home: usize, raw: &[u8], at: i64) {
    let quoting = match home {
        0 => Quoting::Rd,
        1 => Quoting::O,
        2 => Quoting::Length,
        3 => Quoting::None,
        _ => return maildir.push(raw.to_vec()),
    };
    wire::append(&mut boxes[home], quoting, raw, at);
}

/// Packs bytes.
#[must_use]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // Writing to memory does not fail.
    let _ = packed.write_all(bytes);
    packed.finish().unwrap_or_default()
}
