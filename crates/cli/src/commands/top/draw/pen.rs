//! Text in cells, and columns of it.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

use crate::output::text::safe;

/// What a text is, which decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// Like any other.
    Plain,
    /// Less important.
    Soft,
    /// A heading.
    Heading,
    /// The heading of the panel that the cursor is in.
    Here,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Waits.
    Waits,
    /// Is worked on.
    Busy,
    /// Was left out.
    Left,
}

impl Ink {
    /// How it looks; without colours, headings and what went wrong still stand out.
    fn style(self, colour: bool) -> Style {
        let style = Style::new();
        let of = |style: Style, colours: Color| if colour { style.fg(colours) } else { style };
        match self {
            Self::Plain => style,
            Self::Soft => style.add_modifier(Modifier::DIM),
            Self::Heading => of(style, Color::Cyan).add_modifier(Modifier::BOLD),
            Self::Here => of(style, Color::Cyan).add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Self::Good => of(style, Color::Green),
            Self::Bad => of(style, Color::Red).add_modifier(Modifier::BOLD),
            Self::Waits => of(style, Color::Yellow),
            Self::Busy => of(style, Color::Blue),
            Self::Left => of(style, Color::Magenta),
        }
    }
}

/// Which side a column leans to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    name: &'static str,
    narrow: u16,
    wide: u16,
    side: Side,
}

/// The screen is wide from so many columns on.
pub const WIDE: u16 = 110;
/// A column that takes what the others leave.
pub const REST: u16 = u16::MAX;
/// A column that does so, and is no wider than a name needs.
pub const NAME: u16 = u16::MAX - 1;
const LONGEST_NAME: u16 = 36;

impl Column {
    /// A column that is so wide on a narrow screen and on a wide one; 0: not at all.
    pub const fn new(name: &'static str, narrow: u16, wide: u16, side: Side) -> Self {
        Self { name, narrow, wide, side }
    }

    fn width(&self, area: Rect) -> u16 {
        if area.width >= WIDE { self.wide } else { self.narrow }
    }
}

/// Puts text into a buffer.
pub struct Pen<'a> {
    buffer: &'a mut Buffer,
    colour: bool,
}

impl<'a> Pen<'a> {
    /// A pen for a buffer.
    pub fn new(buffer: &'a mut Buffer, colour: bool) -> Self {
        Self { buffer, colour }
    }

    /// Writes a text that is cut at so many columns, and says how many it took.
    pub fn write(&mut self, x: u16, y: u16, width: u16, text: &str, ink: Ink) -> u16 {
        let text = cut(&safe(text), width);
        if !self.buffer.area.contains((x, y).into()) {
            return 0;
        }
        let (end, _) = self.buffer.set_stringn(x, y, text, usize::from(width), ink.style(self.colour));
        end.saturating_sub(x)
    }

    /// Writes a text into a column.
    pub fn cell(&mut self, place: Place, y: u16, text: &str, ink: Ink) {
        let wide = u16::try_from(text.chars().count()).unwrap_or(u16::MAX).min(place.width);
        let x = match place.side {
            Side::Left => place.x,
            Side::Right => place.x + place.width - wide,
        };
        self.write(x, y, place.width, text, ink);
    }

    /// Has a row stand out: the cursor is on it.
    pub fn choose(&mut self, area: Rect, y: u16, here: bool) {
        let row = Rect { y, height: 1, ..area };
        if here {
            self.buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
        self.write(area.x, y, 1, if here { ">" } else { "·" }, Ink::Plain);
    }

    /// Empties an area and draws a frame around it.
    pub fn frame(&mut self, area: Rect, title: &str) {
        let across = "─".repeat(usize::from(area.width.saturating_sub(2)));
        for y in area.top()..area.bottom() {
            let line = match y {
                y if y == area.top() => format!("┌{across}┐"),
                y if y + 1 == area.bottom() => format!("└{across}┘"),
                _ => format!("│{}│", " ".repeat(usize::from(area.width.saturating_sub(2)))),
            };
            self.buffer.set_style(Rect { y, height: 1, ..area }, Style::reset());
            self.write(area.x, y, area.width, &line, Ink::Plain);
        }
        self.write(area.x + 2, area.y, area.width.saturating_sub(4), title, Ink::Heading);
    }
}

/// Where a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its first column on the screen.
    pub x: u16,
    /// Its width; 0 when it is not shown.
    pub width: u16,
    side: Side,
}

/// Gives each column its place, after the two that the cursor's mark takes, with one free between each two.
pub fn places<const N: usize>(columns: &[Column; N], area: Rect) -> [Place; N] {
    let widths = columns.map(|column| column.width(area));
    let shown = widths.iter().filter(|width| **width > 0);
    let gaps = u16::try_from(shown.count()).unwrap_or(0).saturating_sub(1);
    let fixed: u16 = widths.iter().filter(|width| **width < NAME).sum();
    let rest = area.width.saturating_sub(2 + gaps + fixed);
    let mut x = area.x + 2;
    let mut at = 0;
    columns.map(|column| {
        let width = match widths[at] {
            REST => rest,
            NAME => rest.min(LONGEST_NAME),
            width => width,
        };
        at += 1;
        let place = Place { x, width, side: column.side };
        x += if width > 0 { width + 1 } else { 0 };
        place
    })
}

/// Writes the headings of a panel; the first one says what it is.
pub fn headings<const N: usize>(
    pen: &mut Pen<'_>,
    columns: &[Column; N],
    area: Rect,
    title: &str,
    here: bool,
) -> [Place; N] {
    let places = places(columns, area);
    for (at, (column, place)) in columns.iter().zip(places).enumerate() {
        let (name, ink) = match at {
            0 => (title, if here { Ink::Here } else { Ink::Heading }),
            _ => (column.name, Ink::Soft),
        };
        if place.width > 0 {
            pen.cell(place, area.y, name, ink);
        }
    }
    places
}

/// A text that is cut at so many columns, with a sign that it was.
fn cut(text: &str, width: u16) -> String {
    let line = text.lines().next().unwrap_or_default();
    let width = usize::from(width);
    match line.chars().count() <= width {
        true => line.to_owned(),
        false => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}
