//! Tables for people, in the width there is.
//!
//! Every column has a rank and knows whether it may be cut. When there is too little room, text gives way down to its least
//! width, then the columns of the highest rank go; a number, an id or a state is shown whole or not at all. What is left is
//! shared by the text columns. Where lines may have any length, nothing is cut and nothing goes.

use redrive_core::time::Timestamp;

use super::screen::Screen;
use super::text::safe;
use super::tone::Tone;
use super::wrap::columns as width_of;

/// Columns of spaces between two cells.
const GAP: usize = 2;
/// A text column is not cut to less, unless it says so.
const LEAST: usize = 12;

/// How a column is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// Words, which may be cut at their end.
    Text { least: usize },
    /// A path, which may be cut at its beginning.
    Path { least: usize },
    /// An id, a moment or a state: whole or not at all.
    Whole,
    /// The same, for numbers, which lean to the right.
    Number,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    name: &'a str,
    fit: Fit,
    rank: u8,
    weight: usize,
}

impl<'a> Column<'a> {
    /// Words, which may be cut.
    pub fn text(name: &'a str) -> Self {
        Self { name, fit: Fit::Text { least: LEAST }, rank: 0, weight: 1 }
    }

    /// Paths, which may be cut at their beginning.
    pub fn path(name: &'a str) -> Self {
        Self { name, fit: Fit::Path { least: LEAST }, rank: 0, weight: 1 }
    }

    /// Ids, moments, states.
    pub fn whole(name: &'a str) -> Self {
        Self { name, fit: Fit::Whole, rank: 0, weight: 1 }
    }

    /// Numbers.
    pub fn number(name: &'a str) -> Self {
        Self { name, fit: Fit::Number, rank: 0, weight: 1 }
    }

    /// Text is cut to no less than this.
    pub fn least(mut self, columns: usize) -> Self {
        if let Fit::Text { least } | Fit::Path { least } = &mut self.fit {
            *least = columns;
        }
        self
    }

    /// Text gets three times as much of the room as others do.
    pub fn wide(mut self) -> Self {
        self.weight = 3;
        self
    }

    /// The column goes before those of a lower rank; one of rank 0 stays.
    pub fn rank(mut self, rank: u8) -> Self {
        self.rank = rank;
        self
    }
}

/// What is in a cell.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    tone: Option<Tone>,
}

impl Cell {
    /// A state, a status or a class, in its colour.
    pub fn state(word: impl Into<String>) -> Self {
        let text = word.into();
        Self { tone: Tone::of(&text), text }
    }

    /// A text in a colour.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone: Some(tone) }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, tone: None }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Rows under headings.
#[derive(Debug, Clone)]
pub struct Table<'a> {
    columns: Vec<Column<'a>>,
    rows: Vec<Vec<Cell>>,
}

impl<'a> Table<'a> {
    /// Headings without rows.
    pub fn new(columns: impl IntoIterator<Item = Column<'a>>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row, which has a cell for every column.
    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let clean = |cell: C| {
            let Cell { text, tone } = cell.into();
            Cell { text: safe(&text).replace(['\n', '\t'], " "), tone }
        };
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// Puts it on a screen.
    pub fn on(&self, screen: &Screen) -> String {
        let shown = self.layout(screen.width);
        let headings = self
            .columns
            .iter()
            .map(|column| Cell { text: column.name.to_uppercase(), tone: Some(Tone::Strong) });
        let headings: Vec<Cell> = headings.collect();
        let lines = std::iter::once(&headings).chain(&self.rows);
        lines.map(|cells| self.line(cells, &shown, screen)).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, cells: &[Cell], shown: &[(usize, usize)], screen: &Screen) -> String {
        let mut line = String::new();
        for (place, (at, room)) in shown.iter().enumerate() {
            let (Some(column), Some(cell)) = (self.columns.get(*at), cells.get(*at)) else { continue };
            let text = match column.fit {
                Fit::Path { .. } => cut_start(&cell.text, *room),
                Fit::Text { .. } => cut_end(&cell.text, *room),
                Fit::Whole | Fit::Number => cell.text.clone(),
            };
            let space = " ".repeat(room.saturating_sub(width_of(&text)));
            let text = cell.tone.map_or_else(|| text.clone(), |tone| screen.paint(tone, &text));
            if place > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            match column.fit {
                Fit::Number => line.push_str(&(space + &text)),
                _ if place + 1 == shown.len() => line.push_str(&text),
                _ => line.push_str(&(text + &space)),
            }
        }
        line.trim_end().to_owned()
    }

    /// Whether all columns up to a rank are shown on a screen.
    pub fn shows(&self, rank: u8, screen: &Screen) -> bool {
        let shown = self.layout(screen.width);
        let wanted = self.columns.iter().enumerate().filter(|(_, column)| column.rank <= rank);
        wanted.into_iter().all(|(wanted, _)| shown.iter().any(|(at, _)| *at == wanted))
    }

    /// The columns that are shown, with their widths.
    fn layout(&self, width: Option<usize>) -> Vec<(usize, usize)> {
        let natural = |at: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| width_of(&cell.text));
            cells.max().unwrap_or(0).max(width_of(self.columns[at].name))
        };
        let natural: Vec<usize> = (0..self.columns.len()).map(natural).collect();
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = width else {
            return shown.into_iter().map(|at| (at, natural[at])).collect();
        };
        let needed = |at: usize| match self.columns[at].fit {
            Fit::Whole | Fit::Number => natural[at],
            Fit::Text { least } | Fit::Path { least } => {
                natural[at].min(least.max(width_of(self.columns[at].name)))
            }
        };
        let sum = |shown: &[usize]| {
            shown.iter().map(|at| needed(*at)).sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        while sum(&shown) > width {
            // Of those of one rank the last one goes.
            let goes = shown.iter().copied().filter(|at| self.columns[*at].rank > 0);
            let Some(goes) = goes.max_by_key(|at| (self.columns[*at].rank, *at)) else { break };
            shown.retain(|at| *at != goes);
        }
        let mut spare = width.saturating_sub(sum(&shown));
        let mut widths: Vec<usize> = shown.iter().map(|at| needed(*at)).collect();
        // What is left is handed out a column at a time, to the narrowest of those that want more.
        while spare > 0 {
            let wants = shown.iter().zip(&mut widths).filter(|(at, given)| natural[**at] > **given);
            let weighed = wants.min_by_key(|(at, given)| **given / self.columns[**at].weight);
            let Some((_, given)) = weighed else { break };
            *given += 1;
            spare -= 1;
        }
        shown.into_iter().zip(widths).collect()
    }
}

/// Which side a column leans to, and what may be cut in it.
#[derive(Clone, Copy)]
pub enum Side {
    /// Words.
    Left,
    /// Words that are shown whole: ids, times, names of states.
    Whole,
    /// Numbers.
    Right,
}

/// Puts rows under headings that are all of one rank, on standard output.
pub fn table<const N: usize>(
    headings: [(&str, Side); N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let column = |(name, side)| match side {
        Side::Left => Column::text(name),
        Side::Whole => Column::whole(name),
        Side::Right => Column::number(name),
    };
    let mut table = Table::new(headings.map(column));
    rows.into_iter().for_each(|row| table.row(row));
    table.on(&Screen::out(Timestamp(0)))
}

fn cut_end(text: &str, most: usize) -> String {
    if width_of(text) <= most {
        return text.to_owned();
    }
    let mut cut = String::new();
    for sign in text.chars() {
        if width_of(&cut) + width_of(sign.encode_utf8(&mut [0; 4])) + 1 > most {
            break;
        }
        cut.push(sign);
    }
    cut.truncate(cut.trim_end().len());
    cut + "…"
}

fn cut_start(text: &str, most: usize) -> String {
    if width_of(text) <= most {
        return text.to_owned();
    }
    let backwards: String = text.chars().rev().collect();
    cut_end(&backwards, most).chars().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table<'static> {
        let mut table = Table::new([
            Column::whole("item"),
            Column::text("key"),
            Column::number("attempts").rank(2),
            Column::whole("failed at").rank(1),
            Column::text("message").least(20),
        ]);
        table.row([
            "0123456789ab".into(),
            Cell::from("a-key-of-some-length"),
            "5".into(),
            Cell::state("dead"),
            "long words ".repeat(20).into(),
        ]);
        table
    }

    fn on(width: Option<usize>) -> String {
        sample().on(&Screen::sample(width))
    }

    #[test]
    fn lines_keep_to_the_width_and_use_it() {
        for width in [60, 80, 120, 200] {
            let text = on(Some(width));
            let longest = text.lines().map(width_of).max();
            assert!(longest.is_some_and(|longest| longest <= width && longest + 3 > width), "{text}");
            assert!(text.contains("0123456789ab") && text.contains('…'), "{text}");
        }
    }

    #[test]
    fn the_least_important_column_goes_first_and_nothing_goes_from_a_pipe() {
        assert!(on(Some(80)).contains("ATTEMPTS"));
        let narrow = on(Some(62));
        assert!(!narrow.contains("ATTEMPTS") && narrow.contains("FAILED AT"), "{narrow}");
        assert!(!on(Some(44)).contains("FAILED AT"));
        let whole = on(None);
        assert!(whole.contains(&"long words ".repeat(19)) && !whole.contains('…'), "{whole}");
    }

    #[test]
    fn a_path_keeps_its_end_and_wide_letters_count_twice() {
        assert_eq!(cut_start("/a/very/long/way/in.jsonl", 10), "…/in.jsonl");
        assert_eq!(cut_end("漢字漢字", 5), "漢字…");
        assert_eq!(cut_end("whole", 5), "whole");
    }

    #[test]
    fn colours_do_not_count_as_columns() {
        let mut screen = Screen::sample(Some(80));
        let plain = sample().on(&screen);
        screen.colour = true;
        let coloured = sample().on(&screen);
        assert!(coloured.contains("\u{1b}[31mdead\u{1b}[0m"), "{coloured:?}");
        let mut bare = coloured.clone();
        for sign in ["\u{1b}[31m", "\u{1b}[1m", "\u{1b}[0m"] {
            bare = bare.replace(sign, "");
        }
        assert_eq!(bare, plain);
    }
}
