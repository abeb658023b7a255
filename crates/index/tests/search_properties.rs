//! Whatever a query and a text are, words and snippets are sound.

use proptest::prelude::*;
use redrive_index::search::snippet::{printable, snippet};
use redrive_index::search::words::{Terms, stem};

/// Texts with seams of every sort: scripts, marks, control characters, camel case, long and short lines.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<String>(),
        "[a-zA-Z_0-9 .äÖßé日本\u{301}]{0,40}",
        "(lease|leases|SearchHit|retry_after|\n|\r\n|\t|\u{1b}\\[31m| ){1,60}",
        "x{100,200}( needle)?",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn a_snippet_is_short_and_its_marks_are_in_it(
        text in text(),
        query in prop_oneof![text(), Just("leasing needle searchHit".to_owned())],
        first in any::<u32>(),
    ) {
        let lines = snippet(&text, first, &Terms::of(&query));
        prop_assert!(lines.len() <= 6);
        prop_assert!(lines.windows(2).all(|pair| pair[0].line <= pair[1].line));
        for line in &lines {
            prop_assert!(line.line >= first && line.text.chars().count() <= 160);
            prop_assert!(!line.text.chars().any(char::is_control));
            let mut done = 0;
            for (start, end) in &line.marks {
                prop_assert!(*start >= done && start < end);
                prop_assert!(line.text.get(*start..*end).is_some());
                done = *end;
            }
        }
        // A carriage return at the end of a line is a part of its end.
        let mut shown = text.split('\n').map(|line| printable(line.strip_suffix('\r').unwrap_or(line)));
        prop_assert_eq!(lines.is_empty(), shown.all(|line| line.trim().is_empty()));
    }

    #[test]
    fn words_are_plain_few_and_different(query in text()) {
        let terms = Terms::of(&query);
        let words = terms.lookups();
        prop_assert!(words.len() <= 32);
        prop_assert_eq!(words.is_empty(), terms.is_empty());
        for (at, word) in words.iter().enumerate() {
            prop_assert!(!word.is_empty() && !words[..at].contains(word));
            prop_assert!(!word.contains(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()));
        }
    }

    #[test]
    fn a_text_matches_itself(query in text()) {
        let terms = Terms::of(&query);
        let coverage = terms.coverage(&query);
        prop_assert_eq!(coverage, f64::from(u8::from(!terms.is_empty())));
        prop_assert!((0.0..=1.0).contains(&terms.coverage("a lease of SearchHit")));
    }

    #[test]
    fn a_stem_does_not_depend_on_case(word in "[a-zA-Z]{1,12}") {
        prop_assert_eq!(stem(&word.to_uppercase()), stem(&word.to_lowercase()));
        prop_assert!(!stem(&word).is_empty());
    }
}
