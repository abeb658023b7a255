//! How many tokens ranges of a text have, without counting any line twice that is taken whole.

use std::ops::Range;

/// A text of more bytes per allowed token than this is too long without being counted: nobody can read it in a result,
/// and white space without end, which is no token at all, would make a chunk as large as its file.
const SURELY_TOO_LONG: usize = 16;

/// The tokens of each line, added up.
///
/// A line is counted with its end, so that sums hold for every way to count in which the tokens of two texts put
/// together, the first of which ends a line, are at most those of both.
pub(super) struct Sizes<'a> {
    text: &'a str,
    count: &'a dyn Fn(&str) -> usize,
    most: usize,
    /// Where each line ends, its line feed included.
    ends: Vec<usize>,
    /// The tokens of all lines up to and with each.
    sums: Vec<usize>,
}

impl<'a> Sizes<'a> {
    /// Counts the lines of a text. More tokens than `most` need not be told apart.
    pub(super) fn of(text: &'a str, most: usize, count: &'a dyn Fn(&str) -> usize) -> Self {
        let mut sizes = Self { text, count, most, ends: Vec::new(), sums: Vec::new() };
        let (mut end, mut sum) = (0, 0_usize);
        for line in text.split_inclusive('\n') {
            sum = sum.saturating_add(sizes.counted(line));
            end += line.len();
            sizes.ends.push(end);
            sizes.sums.push(sum);
        }
        sizes
    }

    /// The tokens of a range, or a few more; see [`Self::counted`].
    pub(super) fn size(&self, range: &Range<usize>) -> usize {
        if range.is_empty() {
            return 0;
        }
        if self.is_too_long(range.len()) {
            return self.most.saturating_add(1);
        }
        let first = self.line_at(range.start);
        let last = self.line_at(range.end - 1);
        if first == last {
            return self.part(first, range.clone());
        }
        let between = self.sums[last - 1] - self.sums[first];
        let head = self.part(first, range.start..self.ends[first]);
        let tail = self.part(last, self.ends[last - 1]..range.end);
        head.saturating_add(between).saturating_add(tail)
    }

    fn line_at(&self, at: usize) -> usize {
        self.ends.partition_point(|end| *end <= at)
    }

    /// The tokens of a part of a line. White space that is left off changes nothing worth counting again.
    fn part(&self, line: usize, range: Range<usize>) -> usize {
        let (start, before) = match line.checked_sub(1) {
            Some(above) => (self.ends[above], self.sums[above]),
            None => (0, 0),
        };
        let is_blank = |rest: Range<usize>| self.text[rest].trim().is_empty();
        if is_blank(start..range.start) && is_blank(range.end..self.ends[line]) {
            return self.sums[line] - before;
        }
        self.counted(&self.text[range])
    }

    /// The tokens of a text, or more than `most` if it is so long that counting is a waste.
    pub(super) fn counted(&self, text: &str) -> usize {
        if self.is_too_long(text.len()) { self.most.saturating_add(1) } else { (self.count)(text) }
    }

    fn is_too_long(&self, bytes: usize) -> bool {
        bytes > self.most.saturating_mul(SURELY_TOO_LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn lines_are_counted_once_and_parts_exactly() {
        let asked = Cell::new(0);
        let count = |text: &str| {
            asked.set(asked.get() + 1);
            text.split_whitespace().count()
        };
        let text = "one two\n  three\n\nfour five six";
        let sizes = Sizes::of(text, 100, &count);
        assert_eq!(asked.get(), 4);
        for (range, size) in [(0..0, 0), (0..text.len(), 6), (0..7, 2), (10..15, 1), (8..16, 1), (10..30, 4)]
        {
            assert_eq!(sizes.size(&range), size, "{range:?}");
        }
        assert_eq!(asked.get(), 4);
        assert_eq!(sizes.size(&(4..21)), 3);
        assert_eq!(asked.get(), 6);
    }

    #[test]
    fn what_is_surely_too_long_is_not_counted() {
        let text = "x ".repeat(1_000);
        let sizes = Sizes::of(&text, 3, &|_| panic!("counted"));
        assert_eq!(sizes.size(&(0..text.len())), 4);
    }
}
