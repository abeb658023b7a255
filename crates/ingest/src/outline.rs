//! Where lines, sentences and items of source code begin.
//!
//! Source code is taken apart by how it is laid out, not by its grammar: an item begins at a line that is not indented
//! more than its surroundings and comes after a blank line or after the closing line of the item before. That holds for
//! formatted code in nearly every language, costs nothing, and where it is wrong a piece is cut at a worse line.

use std::ops::Range;

/// The lines of a range, each with its end of line.
pub(crate) fn lines(text: &str, range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = range.start;
    text[range].split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        start..at
    })
}

/// The paragraphs of a range: runs of lines that are not blank.
pub(crate) fn paragraphs(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut open = false;
    for line in lines(text, range) {
        let blank = text[line.clone()].trim().is_empty();
        match found.last_mut() {
            Some(last) if open && !blank => last.end = line.end,
            _ if !blank => found.push(line),
            _ => {}
        }
        open = !blank;
    }
    found
}

/// The items of a range of source code, one after the other without gaps; one range if there is only one.
pub(crate) fn items(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut indents: Vec<usize> = lines(text, range.clone()).filter_map(|line| indent(&text[line])).collect();
    indents.sort_unstable();
    indents.dedup();
    for at in indents.into_iter().take(8) {
        let found = items_at(text, range.clone(), at);
        if found.len() > 1 {
            return found;
        }
    }
    vec![range]
}

/// The items that begin at lines indented by `at` or less.
pub(crate) fn items_at(text: &str, range: Range<usize>, at: usize) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut after_end = true;
    for line in lines(text, range) {
        let content = &text[line.clone()];
        let Some(indent) = indent(content) else {
            after_end = true;
            if let Some(last) = found.last_mut() {
                last.end = line.end;
            }
            continue;
        };
        let closing = is_closing(content);
        match found.last_mut() {
            Some(last) if !(after_end && indent <= at && !closing) => last.end = line.end,
            _ => found.push(line),
        }
        after_end = indent <= at && closing;
    }
    found
}

/// How far a line is indented; `None` for a blank one.
fn indent(line: &str) -> Option<usize> {
    let rest = line.trim_start();
    (!rest.is_empty()).then(|| line.len() - rest.len())
}

/// Tells whether a line only closes what was opened above it.
fn is_closing(line: &str) -> bool {
    let line = line.trim();
    line == "end" || line.starts_with(['}', ')', ']']) && !line.ends_with(['{', '(', '[', ':'])
}

/// The line that names an item: its first that is no comment, attribute or decorator.
pub(crate) fn label(text: &str, range: Range<usize>) -> Option<&str> {
    lines(text, range)
        .take(200)
        .map(|line| text[line].trim())
        .find(|line| {
            let remark = ["//", "/*", "*", "#", "@", "--", ";", "\"\"\"", "<!--"];
            !line.is_empty() && !remark.iter().any(|mark| line.starts_with(mark))
        })
        .map(|line| line.trim_end_matches(['{', ':', ' ']))
}

/// The sentences of a range, one after the other without gaps.
pub(crate) fn sentences(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = range.start;
    let mut characters = text[range.clone()].char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let after = range.start + at + character.len_utf8();
        let ends = match character {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' | '…' => {
                characters.peek().is_some_and(|(_, next)| next.is_whitespace())
                    && !goes_on(&text[after..range.end])
            }
            _ => false,
        };
        if ends && after < range.end {
            found.push(start..after);
            start = after;
        }
    }
    if start < range.end {
        found.push(start..range.end);
    }
    found
}

/// Tells whether what follows a full stop is in small letters: it was an abbreviation.
fn goes_on(rest: &str) -> bool {
    rest.trim_start().chars().next().is_some_and(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, ranges: Vec<Range<usize>>) -> Vec<&str> {
        ranges.into_iter().map(|range| text[range].trim()).collect()
    }

    #[test]
    fn items_keep_their_comments_and_bodies() {
        let rust = "use a;\nuse b;\n\n/// Doc.\n#[test]\nfn one() {\n    x();\n\n    y();\n}\nfn two() {}\n\nstruct S {\n    a: u8,\n}\n";
        assert_eq!(
            pieces(rust, items(rust, 0..rust.len())),
            [
                "use a;\nuse b;",
                "/// Doc.\n#[test]\nfn one() {\n    x();\n\n    y();\n}\nfn two() {}",
                "struct S {\n    a: u8,\n}"
            ]
            .iter()
            .flat_map(|piece| match piece.split_once("\nfn two() {}") {
                Some((one, _)) => vec![one, "fn two() {}"],
                None => vec![*piece],
            })
            .collect::<Vec<_>>()
        );
    }

    #[test]
    fn python_items_are_told_by_indentation() {
        let python = "import os\n\n@decorated\ndef one():\n    a = 1\n\n    return a\n\nclass Two:\n    def x(self):\n        pass\n";
        let found = pieces(python, items(python, 0..python.len()));
        assert_eq!(found.len(), 3);
        assert!(found[1].starts_with("@decorated") && found[1].ends_with("return a"));
        assert_eq!(label(python, 11..python.len()), Some("def one()"));
    }

    #[test]
    fn one_large_class_falls_apart_into_methods() {
        let java =
            "class A {\n    int a;\n\n    void one() {\n        x();\n    }\n\n    void two() {\n    }\n}\n";
        let found = pieces(java, items(java, 0..java.len()));
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], "class A {\n    int a;");
        assert_eq!(found[2], "void two() {\n    }\n}");
    }

    #[test]
    fn sentences_end_where_people_end_them() {
        for (text, expected) in [
            ("One. Two! Three? Four", vec!["One.", "Two!", "Three?", "Four"]),
            ("See e.g. this. Or 3.14 that.", vec!["See e.g. this.", "Or 3.14 that."]),
            ("你好。世界。", vec!["你好。", "世界。"]),
            ("", vec![]),
        ] {
            assert_eq!(pieces(text, sentences(text, 0..text.len())), expected);
        }
    }
}
