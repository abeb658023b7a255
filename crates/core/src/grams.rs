//! What a text is looked up by beside its words: short pieces of what no word search takes apart.
//!
//! A word search knows words by the spaces around them. Thai or Chinese has none, a sign such as `∑` or an emoji is no
//! word at all, and nobody types a hash or a line of base64 in full. Of such runs, pieces are kept: two letters of scripts
//! that are written without spaces, single signs, and three letters of words too long to be typed. Texts in other
//! scripts have none, and cost nothing.

/// Words of so many letters and more are also found by a part of them: the shortest hash in use has as many.
pub const LONG: usize = 32;
/// Shorter parts of long words are not looked for: they are in every second line of base64.
const LEAST: usize = 6;
/// Longer parts of long words are looked for in pieces: a passage may end in the middle of what is asked for.
const PIECE: usize = 32;
/// A run of letters up to this long is one thing to look for; a longer one is several words written together.
const WHOLE: usize = 4;
/// Most things that are looked for of one word.
const MOST: usize = 64;
/// Stands between two runs, so that the end of one and the beginning of the next are no piece.
const BETWEEN: &str = "0";

/// Pieces in a row that are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The pieces.
    pub grams: Vec<String>,
    /// Whether the last piece may go on: it is a letter, and pieces have two.
    pub open: bool,
}

impl Lookup {
    /// Tells whether the pieces of a text have these in a row.
    #[must_use]
    pub fn is_in(&self, text: &[String]) -> bool {
        let Some((last, before)) = self.grams.split_last() else { return false };
        text.windows(self.grams.len()).any(|at| {
            let (end, start) = (&at[before.len()], &at[..before.len()]);
            start == before && if self.open { end.starts_with(last.as_str()) } else { end == last }
        })
    }
}

/// How a character is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// A letter or digit of a script with spaces between words.
    Spaced,
    /// A letter of a script without, whose words have two letters as a rule: Chinese, Japanese, Korean.
    Dense,
    /// A letter of a script without, whose words are longer: Thai, Lao, Khmer, Burmese …
    Unspaced,
    /// A sign that stands for itself: emoji, mathematics, arrows.
    Sign,
    /// What parts words: spaces, punctuation, lines of boxes.
    Other,
}

/// A run of characters that are written alike.
struct Run {
    writing: Writing,
    letters: Vec<char>,
}

/// The pieces of a text, in their order; empty for a text that words suffice for.
#[must_use]
pub fn of(text: &str) -> Vec<String> {
    let mut grams: Vec<String> = Vec::new();
    for run in runs(text) {
        let pieces = run.grams();
        if !pieces.is_empty() && !grams.is_empty() {
            grams.push(BETWEEN.to_owned());
        }
        grams.extend(pieces);
    }
    grams
}

/// What is looked for of a word of a query; a text that has any of it is found, and one that has more of it before others.
#[must_use]
pub fn lookups(word: &str) -> Vec<Lookup> {
    let mut lookups = Vec::new();
    for run in runs(word) {
        lookups.extend(run.lookups());
    }
    lookups.truncate(MOST);
    lookups
}

/// Tells whether there is more in a word than letters of a script with spaces.
#[must_use]
pub fn is_more_than_a_word(word: &str) -> bool {
    word.chars().any(|c| matches!(writing(c), Writing::Dense | Writing::Unspaced | Writing::Sign))
}

/// Tells whether a character is a sign that is looked up by itself.
#[must_use]
pub fn is_sign(c: char) -> bool {
    writing(c) == Writing::Sign
}

/// Tells whether a character belongs to a script that is written without spaces, its vowel signs and tone marks included.
#[must_use]
pub fn is_unspaced(c: char) -> bool {
    matches!(writing(c), Writing::Dense | Writing::Unspaced)
}

impl Run {
    fn grams(&self) -> Vec<String> {
        match self.writing {
            Writing::Spaced if self.letters.len() >= LONG => windows(&self.letters, 3),
            Writing::Sign => windows(&self.letters, 1),
            Writing::Dense | Writing::Unspaced => {
                let mut pairs = windows(&self.letters, 2);
                // So that the last letter is the beginning of a piece as every other is.
                pairs.extend(self.letters.last().map(char::to_string));
                pairs
            }
            Writing::Spaced | Writing::Other => Vec::new(),
        }
    }

    fn lookups(&self) -> Vec<Lookup> {
        let closed = |grams: Vec<String>| Lookup { grams, open: false };
        let letters = &self.letters[..];
        match self.writing {
            Writing::Spaced => {
                let parts = letters.chunks(PIECE).filter(|part| part.len() >= LEAST);
                parts.map(|part| closed(windows(part, 3))).collect()
            }
            Writing::Sign => windows(letters, 1).into_iter().map(|sign| closed(vec![sign])).collect(),
            Writing::Dense | Writing::Unspaced => {
                if let [letter] = letters {
                    return vec![Lookup { grams: vec![letter.to_string()], open: true }];
                }
                let length = match self.writing {
                    _ if letters.len() <= WHOLE => letters.len(),
                    Writing::Dense => 2,
                    _ => WHOLE,
                };
                letters.windows(length).map(|part| closed(windows(part, 2))).collect()
            }
            Writing::Other => Vec::new(),
        }
    }
}

fn windows(letters: &[char], length: usize) -> Vec<String> {
    letters.windows(length).map(|window| window.iter().collect()).collect()
}

/// The runs of a text in lower case. A mark that only colours the sign before it is no character of its own.
fn runs(text: &str) -> impl Iterator<Item = Run> {
    let mut letters = text
        .chars()
        .filter(|c| !matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{200d}' | '\u{1f3fb}'..='\u{1f3ff}'))
        .flat_map(char::to_lowercase)
        .peekable();
    std::iter::from_fn(move || {
        let first = letters.next()?;
        let writing = writing(first);
        let mut run = Run { writing, letters: Vec::new() };
        if writing != Writing::Other {
            run.letters.push(first);
        }
        while let Some(next) = letters.next_if(|c| self::writing(*c) == writing) {
            if writing != Writing::Other {
                run.letters.push(next);
            }
        }
        Some(run)
    })
}

fn writing(c: char) -> Writing {
    match c {
        '\0'..='\u{7f}' => {
            if c.is_ascii_alphanumeric() {
                Writing::Spaced
            } else {
                Writing::Other
            }
        }
        // Hangul, kana, Bopomofo, Yi, and the ideographs with their extensions.
        '\u{1100}'..='\u{11ff}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{3096}'
        | '\u{3099}'..='\u{309f}'
        | '\u{30a1}'..='\u{30fa}'
        | '\u{30fc}'..='\u{318f}'
        | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{a48f}'
        | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ffdc}'
        | '\u{1b000}'..='\u{1b16f}'
        | '\u{20000}'..='\u{3ffff}' => Writing::Dense,
        // Thai and Lao without their signs of punctuation, Tibetan syllables, Burmese, Khmer, the scripts of the Tai,
        // Balinese, Javanese.
        '\u{e01}'..='\u{e3a}'
        | '\u{e40}'..='\u{e4e}'
        | '\u{e50}'..='\u{e59}'
        | '\u{e81}'..='\u{edf}'
        | '\u{f40}'..='\u{f84}'
        | '\u{f86}'..='\u{fbc}'
        | '\u{1000}'..='\u{1049}'
        | '\u{1050}'..='\u{109f}'
        | '\u{1780}'..='\u{17d3}'
        | '\u{17d7}'
        | '\u{17dc}'..='\u{17ff}'
        | '\u{1950}'..='\u{19df}'
        | '\u{1a20}'..='\u{1aad}'
        | '\u{1b00}'..='\u{1b59}'
        | '\u{a980}'..='\u{a9c0}'
        | '\u{a9cf}'..='\u{a9ff}'
        | '\u{aa00}'..='\u{aa5b}'
        | '\u{aa60}'..='\u{aadf}' => Writing::Unspaced,
        // Boxes and blocks are drawn with, not read.
        '\u{2500}'..='\u{259f}' => Writing::Other,
        '\u{a2}'..='\u{a9}'
        | '\u{ac}'
        | '\u{ae}'..='\u{b1}'
        | '\u{d7}'
        | '\u{f7}'
        | '\u{20a0}'..='\u{20cf}'
        | '\u{2190}'..='\u{245f}'
        | '\u{25a0}'..='\u{2767}'
        | '\u{2776}'..='\u{27e5}'
        | '\u{27f0}'..='\u{2982}'
        | '\u{2999}'..='\u{29d7}'
        | '\u{29dc}'..='\u{29fb}'
        | '\u{29fe}'..='\u{2bff}'
        | '\u{1f000}'..='\u{1faff}' => Writing::Sign,
        c if c.is_alphanumeric() || ('\u{300}'..='\u{36f}').contains(&c) => Writing::Spaced,
        _ => Writing::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells whether a text is found by a word, as every store looks.
    fn finds(text: &str, word: &str) -> bool {
        let there = of(text);
        lookups(word).iter().any(|lookup| lookup.is_in(&there))
    }

    #[test]
    fn texts_that_words_suffice_for_have_no_pieces() {
        for text in ["", "plain words, 42 of them", "Größe Привет مرحبا αβγ", "├── src │ x", "a\tb\0c"]
        {
            assert_eq!(of(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn runs_without_spaces_are_found_by_any_part() {
        let text = "เมืองหลวงของประเทศไทยคือกรุงเทพมหานคร";
        for part in ["กรุงเทพมหานคร", "ประเทศ", "ไทย", "ค", "ร", text]
        {
            assert!(finds(text, part), "{part}");
        }
        assert!(!finds(text, "เชียงใหม่ๆๆ"));
        assert!(finds("東京都に住む", "京都") && finds("東京都に住む", "住") && finds("서울은 크다", "서울"));
        assert!(!finds("東京と都", "京都"), "two runs are not one");
    }

    #[test]
    fn signs_are_found_one_by_one() {
        assert!(finds("released 🎉 today", "🎉") && finds("∑x ≤ ∫y", "∫") && finds("👍🏽", "👍"));
        assert!(!finds("released today", "🎉"));
    }

    #[test]
    fn long_words_are_found_by_a_part_and_short_ones_are_left_to_words() {
        let hash = "9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08";
        assert!(finds(hash, "9f86d081") && finds(hash, "D15D6C15B0") && finds(hash, hash));
        assert!(!finds(hash, "9f86d"), "too short to mean anything");
        assert!(!finds(hash, "deadbeef"));
        assert!(!finds("interesting", "terest"));
        assert_eq!(of(&"x".repeat(LONG - 1)), Vec::<String>::new());
    }

    #[test]
    fn a_passage_that_ends_within_a_word_is_found_by_the_rest_of_it() {
        let word: String =
            (0..40_u32).map(|n| format!("{:04x}", n.wrapping_mul(2_654_435_761) % 65_521)).collect();
        assert!(finds(&word[70..], &word) && finds(&word[..70], &word));
    }

    #[test]
    fn one_word_does_not_ask_without_end() {
        assert_eq!(lookups(&"語".repeat(10_000)).len(), MOST);
    }
}
