//! Takes apart what is too long: at inner items or sentences, at lines, at words, and at last between characters.

use std::ops::Range;

use crate::document::{BlockKind, trimmed};
use crate::outline;

/// How deep source code is taken apart by its layout before it is by lines.
const MAX_DEPTH: u8 = 6;
/// More lines than these are not taken one by one.
const MAX_LINES: usize = 200_000;

/// How a unit is taken apart next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seam {
    Items(u8),
    Sentences,
    Lines,
    /// Words, then characters: the pieces are as long as may be.
    Anywhere,
    /// It was taken apart to the last.
    None,
}

impl Seam {
    pub(super) fn of(kind: BlockKind) -> Self {
        match kind {
            BlockKind::Heading | BlockKind::Prose => Self::Sentences,
            BlockKind::Verbatim => Self::Lines,
            BlockKind::Item => Self::Items(0),
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Items(depth) if depth < MAX_DEPTH => Self::Items(depth + 1),
            Self::Items(_) | Self::Sentences => Self::Lines,
            Self::Lines => Self::Anywhere,
            Self::Anywhere | Self::None => Self::None,
        }
    }
}

/// How much a piece may hold.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    pub(super) tokens: usize,
    pub(super) count: &'a dyn Fn(&str) -> usize,
}

/// Takes a range apart at its first seam that parts it. The pieces are trimmed, never empty, and each is finer than the
/// whole; `room` is looked at only where there is no seam left.
pub(super) fn split(
    text: &str,
    range: &Range<usize>,
    seam: Seam,
    room: Room<'_>,
) -> Vec<(Range<usize>, Seam)> {
    let mut seam = seam;
    loop {
        let found: Vec<Range<usize>> = match seam {
            Seam::Items(_) => outline::items(text, range.clone()),
            Seam::Sentences => outline::sentences(text, range.clone()),
            Seam::Lines => outline::lines(text, range.clone()).take(MAX_LINES + 1).collect(),
            Seam::Anywhere => {
                return cut(text, range, room).into_iter().map(|piece| (piece, Seam::None)).collect();
            }
            Seam::None => return vec![(range.clone(), Seam::None)],
        };
        // Where the layout says nothing, going deeper does not help.
        let next = if matches!(seam, Seam::Items(_)) && found.len() < 2 { Seam::Lines } else { seam.next() };
        if found.len() > 1 && found.len() <= MAX_LINES {
            let pieces = found.into_iter().map(|piece| trimmed(text, piece));
            return pieces.filter(|piece| !piece.is_empty()).map(|piece| (piece, next)).collect();
        }
        seam = next;
    }
}

/// Cuts a range into the longest pieces that fit, between words if there is a space in the second half.
fn cut(text: &str, range: &Range<usize>, room: Room<'_>) -> Vec<Range<usize>> {
    let mut pieces = Vec::new();
    let mut rest = trimmed(text, range.clone());
    while !rest.is_empty() {
        let end = rest.start + longest(&text[rest.clone()], room);
        let piece = trimmed(text, rest.start..end);
        if !piece.is_empty() {
            pieces.push(piece);
        }
        rest = trimmed(text, end..rest.end);
    }
    pieces
}

/// How many bytes at the start of a text fit: at least one character, and at most a thirtieth less than could.
///
/// Each look is at a place where the text should be full by the tokens of the last, so that a few looks do.
fn longest(text: &str, room: Room<'_>) -> usize {
    let mut good = forward(text, 1);
    let mut bad = None;
    // Four bytes make a token in most texts.
    let mut next = forward(text, room.tokens.saturating_mul(4));
    for look in 0.. {
        if let Some(bad) = bad {
            if bad - good <= good / 32 {
                break;
            }
            if next <= good || next >= bad || look > 4 {
                next = forward(text, good + (bad - good) / 2);
            }
            if next <= good || next >= bad {
                break;
            }
        } else {
            next = next.max(forward(text, good + good / 8 + 1));
        }
        let tokens = (room.count)(&text[..next]);
        if tokens > room.tokens {
            bad = Some(next);
        } else if next == text.len() {
            return next;
        } else {
            good = next;
        }
        next = forward(text, next.saturating_mul(room.tokens) / tokens.max(1));
    }
    let space = text[..good].rfind(char::is_whitespace).filter(|at| *at > good / 2);
    // The rest of a word is not torn off a piece that could end before the word.
    match space {
        Some(at) if !text[good..].starts_with(char::is_whitespace) => at,
        _ => good,
    }
}

/// The first place at or after `at` where a text may be cut: not inside a character, nor before a mark that belongs to
/// the character before it.
fn forward(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    let limit = at + 64;
    let mut joined = text[..at].ends_with('\u{200d}');
    for character in text[at..].chars() {
        if !(joined || is_mark(character)) || at > limit {
            break;
        }
        joined = character == '\u{200d}';
        at += character.len_utf8();
    }
    at
}

/// Combining marks, variation selectors, joiners and skin tones.
fn is_mark(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{200d}' | '\u{20d0}'..='\u{20ff}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{1f3fb}'..='\u{1f3ff}')
}

/// Where the last words of a range begin that `fits` allows; the end of the range if none.
pub(super) fn tail(text: &str, range: &Range<usize>, fits: &dyn Fn(&str) -> bool) -> usize {
    let mut start = range.end;
    let piece = &text[range.clone()];
    for (at, _) in piece.rmatch_indices(char::is_whitespace) {
        let from = range.start + at;
        let words = trimmed(text, from..range.end);
        if words.is_empty() {
            continue;
        }
        if !fits(&text[words.clone()]) {
            break;
        }
        start = words.start;
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_at_most(limit: usize) -> impl Fn(&str) -> bool {
        move |text: &str| text.len() <= limit
    }

    fn room(tokens: usize) -> Room<'static> {
        Room { tokens, count: &str::len }
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        for (text, limit) in
            [("aaaaaaaaaaaaaaaaaaaa", 6), ("ääääääääääää", 5), ("👨‍👩‍👧‍👦👨‍👩‍👧‍👦", 3), ("e\u{301}e\u{301}e\u{301}", 4)]
        {
            let pieces = cut(text, &(0..text.len()), room(limit));
            assert_eq!(pieces.iter().map(|piece| &text[piece.clone()]).collect::<String>(), text);
        }
        assert_eq!(cut("e\u{301}e\u{301}", &(0..6), room(4)), [0..3, 3..6]);
    }

    #[test]
    fn words_are_kept_whole_when_there_is_a_space() {
        let text = "alpha beta gamma delta";
        let pieces = cut(text, &(0..text.len()), room(12));
        let words: Vec<&str> = pieces.into_iter().map(|piece| &text[piece]).collect();
        assert_eq!(words, ["alpha beta", "gamma delta"]);
    }

    #[test]
    fn the_tail_is_whole_words() {
        let text = "alpha beta gamma";
        assert_eq!(&text[tail(text, &(0..text.len()), &bytes_at_most(12))..], "beta gamma");
        assert_eq!(&text[tail(text, &(0..text.len()), &bytes_at_most(2))..], "");
    }
}
