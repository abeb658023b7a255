//! What is done to characters before words are looked up.

use unicode_normalization::UnicodeNormalization;

use super::classes::{MARKS, MOVING, PUNCTUATION, REMOVED};

/// Calls `take` for each character of the normalised text; any white space is a space.
///
/// ASCII goes straight through. Between two printable characters of ASCII nothing can move across, so only the runs
/// between them are decomposed.
pub(super) fn each_char(text: &str, mut take: impl FnMut(char)) {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        if is_plain(first) {
            take(char::from(first.to_ascii_lowercase()));
            rest = &rest[1..];
        } else {
            let end = rest.bytes().position(is_plain).unwrap_or(rest.len());
            cleaned.clear();
            clean(&rest[..end], &mut cleaned);
            for part in cleaned.split_inclusive(stays) {
                decompose(part, &mut take);
            }
            rest = &rest[end..];
        }
    }
}

/// ASCII that stays, if only as a space.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')
}

/// Drops what is not text, makes all white space a space, and puts spaces around ideographs.
fn clean(run: &str, cleaned: &mut String) {
    for char in run.chars().filter(|char| !char.is_ascii() && !is_in(&REMOVED, *char)) {
        if is_ideograph(char) {
            cleaned.extend([' ', char, ' ']);
        } else if char.is_whitespace() {
            cleaned.push(' ');
        } else {
            cleaned.push(char);
        }
    }
}

/// Whether a character stays as it is and where it is. Characters younger than the reference do, even if Unicode takes
/// them apart by now.
fn stays(char: char) -> bool {
    char.is_ascii() || !(is_in(&MOVING, char) || is_in(&MARKS, char))
}

/// Takes characters apart, drops the marks and lower-cases the rest. The last character may be one to leave whole.
fn decompose(part: &str, take: &mut impl FnMut(char)) {
    let whole = part.chars().next_back().filter(|char| stays(*char));
    let part = &part[..part.len() - whole.map_or(0, char::len_utf8)];
    let kept = part.nfd().chain(whole).filter(|char| !is_in(&MARKS, *char));
    kept.flat_map(char::to_lowercase).for_each(take);
}

/// Whether a character is a word of its own.
pub(super) fn is_punctuation(char: char) -> bool {
    if char.is_ascii() { char.is_ascii_punctuation() } else { is_in(&PUNCTUATION, char) }
}

/// The ranges are those of the reference, gaps included.
fn is_ideograph(char: char) -> bool {
    matches!(u32::from(char),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}

fn is_in(ranges: &[(u32, u32)], char: char) -> bool {
    let code = u32::from(char);
    let after = ranges.partition_point(|(first, _)| *first <= code);
    after > 0 && code <= ranges[after - 1].1
}
