//! Characters that nobody sees: between the letters of a value they change nothing for whoever reads it.

/// Ranges of characters that have no width or only say how others are shown.
const UNSEEN: [(char, char); 19] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{13430}', '\u{1345f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Names that such characters have in HTML.
const NAMED: [&str; 8] = ["ZeroWidthSpace", "zwnj", "zwj", "shy", "lrm", "rlm", "NoBreak", "InvisibleComma"];

/// Whether a character is not seen. Blanks and line breaks are.
pub(super) fn is_unseen(letter: char) -> bool {
    let is_control = letter.is_control() && !letter.is_ascii_whitespace();
    is_control || UNSEEN.iter().any(|(first, last)| (*first..=*last).contains(&letter))
}

/// Where the character that stands here as it is ends, if nobody sees it.
pub(super) fn ends(text: &[u8], at: usize) -> Option<usize> {
    let first = *text.get(at)?;
    let length = match first {
        0..=0x7f => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    let letter = std::str::from_utf8(text.get(at..at + length)?).ok()?.chars().next()?;
    is_unseen(letter).then_some(at + length)
}

/// Where the name of HTML that stands here ends, after its `&`, if it is of a character that nobody sees.
pub(super) fn named(text: &[u8], at: usize) -> Option<usize> {
    NAMED.iter().find_map(|name| {
        let end = at + name.len();
        let is = text.get(at..end).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        (is && text.get(end) == Some(&b';')).then_some(end + 1)
    })
}
