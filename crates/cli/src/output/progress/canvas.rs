//! Standard error as bars are drawn on it: the cursor stays behind the last word.
//!
//! A terminal writes `^C` where the cursor is. Behind a line that is filled up with blanks that would be the next row, and
//! one row of what is drawn would stay when it is taken away.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::TermLike;
use terminal_size::{Height, Width, terminal_size_of};

/// Columns at the end of a row that are left for what a terminal writes there itself.
pub const ECHO: usize = 3;

/// What is drawn at a time, written at once.
#[derive(Debug, Default)]
pub struct Canvas(Mutex<String>);

impl Canvas {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, text: &str) -> io::Result<()> {
        self.lock().push_str(text);
        Ok(())
    }

    fn go(&self, n: usize, way: char) -> io::Result<()> {
        if n == 0 { Ok(()) } else { self.put(&format!("\u{1b}[{n}{way}")) }
    }

    /// What is to be written, without the blanks behind the last word.
    fn drawn(&self) -> String {
        let drawn = std::mem::take(&mut *self.lock());
        drawn.trim_end_matches(' ').to_owned()
    }
}

impl TermLike for Canvas {
    fn width(&self) -> u16 {
        terminal_size_of(io::stderr()).map_or(80, |(Width(columns), _)| columns)
    }

    fn height(&self) -> u16 {
        terminal_size_of(io::stderr()).map_or(24, |(_, Height(rows))| rows)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.go(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.go(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.go(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.go(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.put(text)?;
        self.put("\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.put(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.put("\r\u{1b}[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let mut err = io::stderr().lock();
        err.write_all(self.drawn().as_bytes())?;
        err.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_stays_behind_the_last_word() {
        let canvas = Canvas::default();
        canvas.clear_line().unwrap();
        for text in ["r1 reviews", &" ".repeat(70), "  parse 3/9", &" ".repeat(69)] {
            canvas.write_str(text).unwrap();
        }
        let drawn = canvas.drawn();
        assert!(drawn.starts_with("\r\u{1b}[2Kr1 reviews   ") && drawn.ends_with("  parse 3/9"), "{drawn:?}");
        assert_eq!(canvas.drawn(), "", "it is written once");
    }
}
