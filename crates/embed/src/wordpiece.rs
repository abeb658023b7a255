//! The tokenizer of BERT (uncased), exact to the token: clean, split off CJK, strip accents, lower-case, split at spaces
//! and punctuation, then the longest known piece from the left.
//!
//! It follows the crate `tokenizers` in everything but one point: `[CLS]` and its like in a text are text, so that a
//! document cannot place a special token. `model/scripts/check_tokenizer.py` compares the two.

mod classes;
mod normalise;
mod vocabulary;

use vocabulary::{Hashes, Vocabulary};

/// A word of more characters is unknown as a whole.
const MAX_WORD: usize = 100;

/// Splits texts into the tokens of a vocabulary.
#[derive(Debug)]
pub struct WordPiece<'a> {
    vocabulary: Vocabulary<'a>,
    unknown: u32,
    /// The tokens of words that are one character of ASCII.
    single: Vec<u32>,
}

impl<'a> WordPiece<'a> {
    /// Takes a vocabulary with a token on each line; a token's number is that of its line, from 0.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn new(vocabulary: &'a str) -> Result<Self, String> {
        let vocabulary = Vocabulary::new(vocabulary)?;
        let unknown = vocabulary.find("[UNK]").ok_or("the vocabulary has no [UNK]")?;
        let token = |byte: u8| vocabulary.find(char::from(byte).encode_utf8(&mut [0; 4])).unwrap_or(unknown);
        let single = (0..128).map(token).collect();
        Ok(Self { vocabulary, unknown, single })
    }

    /// How many tokens there are.
    #[expect(clippy::len_without_is_empty, reason = "it has [UNK] at least")]
    #[must_use]
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// The token of a word that has no pieces.
    #[must_use]
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The tokens of a text, without special ones before or after.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut tokens = Vec::with_capacity(text.len() / 4);
        self.each_token(text, |token| tokens.push(token));
        tokens
    }

    /// Calls `take` for each token of a text, in order.
    ///
    /// Words of plain ASCII, which are nearly all, are cut out and looked up at once. What has other characters in it
    /// goes the long way, up to a space or mark that ends the word whatever comes before.
    pub fn each_token(&self, text: &str, mut take: impl FnMut(u32)) {
        let bytes = text.as_bytes();
        let mut desk = Desk { lower: [0; MAX_WORD], hashes: Hashes::new(), pieces: [0; MAX_WORD] };
        let mut at = 0;
        while let Some(first) = bytes.get(at) {
            match CLASSES[usize::from(*first)] {
                Class::Space => at += 1,
                Class::Mark => {
                    take(self.single[usize::from(*first)]);
                    at += 1;
                }
                Class::Letter | Class::Other => {
                    let is_letter = |byte: &u8| CLASSES[usize::from(*byte)] == Class::Letter;
                    let end = at + bytes[at..].iter().take_while(|byte| is_letter(byte)).count();
                    if bytes.get(end).is_none_or(|next| CLASSES[usize::from(*next)] != Class::Other) {
                        self.plain_word(&bytes[at..end], &mut desk, &mut take);
                        at = end;
                    } else {
                        let ends =
                            |byte: &u8| matches!(CLASSES[usize::from(*byte)], Class::Space | Class::Mark);
                        let end = bytes[end..].iter().position(ends).map_or(bytes.len(), |after| end + after);
                        self.any_words(&text[at..end], &mut desk, &mut take);
                        at = end;
                    }
                }
            }
        }
    }

    /// One word of ASCII letters and digits.
    fn plain_word(&self, word: &[u8], desk: &mut Desk, take: &mut impl FnMut(u32)) {
        if word.len() > MAX_WORD {
            return take(self.unknown);
        }
        let lower = &mut desk.lower[..word.len()];
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        self.pieces(lower, &mut desk.hashes, &mut desk.pieces, take);
    }

    /// Words of any characters.
    fn any_words(&self, text: &str, desk: &mut Desk, take: &mut impl FnMut(u32)) {
        let mut word = Word::default();
        let mut end_word = |word: &mut Word, take: &mut dyn FnMut(u32)| {
            if word.chars > MAX_WORD {
                take(self.unknown);
            } else if word.chars > 0 {
                self.pieces(word.text.as_bytes(), &mut desk.hashes, &mut desk.pieces, &mut |token| {
                    take(token)
                });
            }
            word.clear();
        };
        normalise::each_char(text, |char| {
            if char.is_whitespace() {
                end_word(&mut word, take);
            } else if normalise::is_punctuation(char) {
                end_word(&mut word, take);
                word.push(char);
                end_word(&mut word, take);
            } else {
                word.push(char);
            }
        });
        end_word(&mut word, take);
    }

    /// Takes the longest known piece from the left until nothing is left. One piece that is missing makes the whole
    /// word unknown.
    fn pieces(
        &self,
        word: &[u8],
        hashes: &mut Hashes,
        pieces: &mut [u32; MAX_WORD],
        take: &mut impl FnMut(u32),
    ) {
        let mut found = 0;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((token, length)) = self.vocabulary.longest(rest, found > 0, hashes) else {
                return take(self.unknown);
            };
            // There is a place: a piece has a character at least, and a word not more than this many.
            pieces[found] = token;
            found += 1;
            rest = &rest[length..];
        }
        pieces[..found].iter().for_each(|token| take(*token));
    }
}

/// Room to work in, which is not made anew for each word.
struct Desk {
    lower: [u8; MAX_WORD],
    hashes: Hashes,
    pieces: [u32; MAX_WORD],
}

/// What a byte is to the cutting of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// White space: between words.
    Space,
    /// Punctuation: a word of its own.
    Mark,
    /// What else stays as it is, but for its case.
    Letter,
    /// Control characters, and bytes of characters beyond ASCII.
    Other,
}

/// The classes of all bytes; those of [`normalise`], for ASCII.
const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0_u8;
    while byte < 127 {
        classes[byte as usize] = match byte {
            b'\t' | b'\n' | b'\r' | b' ' => Class::Space,
            _ if byte.is_ascii_punctuation() => Class::Mark,
            _ if byte.is_ascii_alphanumeric() => Class::Letter,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// The word being read; of one that is too long only the length counts.
#[derive(Default)]
struct Word {
    text: String,
    chars: usize,
}

impl Word {
    fn push(&mut self, char: char) {
        self.chars += 1;
        if self.chars <= MAX_WORD {
            self.text.push(char);
        }
    }

    fn clear(&mut self) {
        self.text.clear();
        self.chars = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[PAD]\n[UNK]\nun\n##aff\n##able\n##a\naffable\n,\n[\ncls\n]\n東\ncafe\nx\n##x\n";

    fn names(text: &str) -> String {
        let words = WordPiece::new(SMALL).unwrap();
        let lines: Vec<&str> = SMALL.lines().collect();
        words.encode(text).iter().map(|token| lines[*token as usize]).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn text_becomes_the_longest_pieces_from_the_left() {
        let table = [
            ("", ""),
            (" \t\r\n\u{a0}\u{3000}", ""),
            ("unaffable", "un ##aff ##able"),
            ("UNAFFABLE", "un ##aff ##able"),
            ("affable,un", "affable , un"),
            ("unaffx", "un ##aff ##x"),
            ("unaffy", "[UNK]"),
            ("Café cafe\u{301}", "cafe cafe"),
            ("un東un", "un 東 un"),
            ("[CLS]", "[ cls ]"),
            ("u\u{0}n\u{200b}", "un"),
            ("[PAD]", "[ [UNK] ]"),
        ];
        for (text, expected) in table {
            assert_eq!(names(text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_short_way_gives_the_tokens_of_the_long_way() {
        let words = WordPiece::new(SMALL).unwrap();
        let parts = [
            "un", "AFFABLE", "affable", " ", "\n", "\u{c}", "\u{85}", ",", "東", "é", "e\u{301}", "\0", "x",
            "[", "\u{7f}",
        ];
        let mut state = 1_u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(parts[(state >> 16) as usize % parts.len()]);
            }
            let mut long = Vec::new();
            let mut desk = Desk { lower: [0; MAX_WORD], hashes: Hashes::new(), pieces: [0; MAX_WORD] };
            words.any_words(&text, &mut desk, &mut |token| long.push(token));
            assert_eq!(words.encode(&text), long, "{text:?}");
        }
    }

    #[test]
    fn a_word_of_more_than_a_hundred_characters_is_unknown() {
        assert_eq!(names(&"x".repeat(100)).split(' ').count(), 100);
        assert_eq!(names(&"x".repeat(101)), "[UNK]");
        assert_eq!(names(&format!("un {} un", "x".repeat(100_000))), "un [UNK] un");
    }

    #[test]
    fn a_vocabulary_that_is_none_is_refused() {
        let table = [
            ("", "the vocabulary has no [UNK]"),
            ("a\nb\n", "the vocabulary has no [UNK]"),
            ("[UNK]\na\na\n", "the vocabulary has \"a\" twice"),
        ];
        for (text, message) in table {
            assert_eq!(WordPiece::new(text).unwrap_err(), message);
        }
    }
}
