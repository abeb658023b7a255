//! Text in lines of a width. No word is broken, and no command within backticks where there is room for it.

use unicode_width::UnicodeWidthStr;

/// Columns that a text takes. The signs for colours take none.
pub fn columns(text: &str) -> usize {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().map_or(0, UnicodeWidthStr::width);
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.width())).sum::<usize>()
}

/// Puts a text into lines of at most `width` columns. What follows the first line of each of its lines is set in a little, or
/// below what follows `hint:`.
pub fn wrap(text: &str, width: usize) -> String {
    text.split('\n').map(|line| wrap_at(line, width, hanging(line))).collect::<Vec<_>>().join("\n")
}

/// Puts one line into lines of at most `width` columns; all but the first are set in by `indent`.
pub fn wrap_at(line: &str, width: usize, indent: usize) -> String {
    paragraph(line, width, indent)
}

fn hanging(line: &str) -> usize {
    let begin = line.len() - line.trim_start_matches(' ').len();
    let rest = &line[begin..];
    let name = ["hint: ", "error: ", "warning: "].into_iter().find(|name| rest.starts_with(name));
    begin + name.map_or(2, str::len)
}

fn paragraph(line: &str, width: usize, indent: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let room = width.saturating_sub(indent);
    let begin = line.len() - line.trim_start_matches(' ').len();
    let mut lines = vec![line[..begin].to_owned()];
    let mut empty = true;
    for (gap, piece) in pieces(&line[begin..], room) {
        let last = lines.last().map_or(0, |line| columns(line));
        if !empty && last + gap + columns(piece) > width {
            lines.push(" ".repeat(indent));
            empty = true;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(&" ".repeat(if empty { 0 } else { gap }));
            line.push_str(piece);
        }
        empty = false;
    }
    lines.join("\n")
}

/// Words with the spaces before each; what stands within backticks is one where it fits into a line.
fn pieces(line: &str, room: usize) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.trim_start_matches(' ').is_empty() {
        let gap = rest.len() - rest.trim_start_matches(' ').len();
        rest = &rest[gap..];
        let mut quoted = false;
        let whole = rest.find(|c: char| {
            quoted ^= c == '`';
            !quoted && c == ' '
        });
        let whole = whole.unwrap_or(rest.len());
        let end = if columns(&rest[..whole]) <= room { whole } else { rest.find(' ').unwrap_or(rest.len()) };
        pieces.push((gap, &rest[..end]));
        rest = &rest[end..];
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_to_the_width_and_commands_stay_whole() {
        let text = "hint: one two three four; `redrive resume r1` goes on where it stopped";
        let wrapped = wrap(text, 30);
        assert_eq!(
            wrapped,
            "hint: one two three four;\n      `redrive resume r1` goes\n      on where it stopped"
        );
        assert_eq!(wrap_at("ok   name      of a thing", 20, 15), "ok   name      of a\n               thing");
        assert_eq!(wrap("short", 30), "short");
        assert_eq!(wrap("a\n\nb", 30), "a\n\nb");
    }

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(columns("a \u{1b}[31mdead\u{1b}[0m b"), 8);
    }

    #[test]
    fn what_cannot_fit_is_broken_between_words_and_never_within_one() {
        let text = "say `redrive dead redrive --run r1 --all --work` now";
        for width in 8..60 {
            let wrapped = wrap_at(text, width, 2);
            assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>().join(" "), text);
        }
        assert_eq!(wrap_at("  averyveryverylongword b", 8, 2), "  averyveryverylongword\n  b");
    }
}
