//! A run as a bar of its states. Each state has a sign of its own, so that colours only help.

use redrive_core::status::Counts;

use super::pen::Ink;

/// A part of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// What it is.
    pub name: &'static str,
    /// Its sign.
    pub sign: char,
    /// How it looks.
    pub ink: Ink,
    /// How many items.
    pub items: u64,
}

/// The parts of a bar, in their order.
pub fn parts(counts: &Counts) -> [Part; 7] {
    let part = |name, sign, ink, items| Part { name, sign, ink, items };
    let taken_out = counts.superseded + counts.cancelled + counts.purged;
    [
        part("done", '█', Ink::Good, counts.succeeded),
        part("filtered", '=', Ink::Left, counts.filtered),
        part("taken out", '-', Ink::Soft, taken_out),
        part("dead", 'X', Ink::Bad, counts.dead),
        part("joining", '+', Ink::Busy, counts.joining),
        part("running", '>', Ink::Busy, counts.running),
        part("waiting", '░', Ink::Waits, counts.waiting),
    ]
}

/// How many cells each part gets of so many: as many as its share, and one at least where it has any.
pub fn cells(counts: &Counts, width: u16) -> [(Part, u16); 7] {
    let parts = parts(counts);
    let all: u64 = parts.iter().map(|part| part.items).sum();
    let share = |items: u64| match all {
        0 => 0,
        _ => u128::from(items) * u128::from(width) / u128::from(all),
    };
    let mut cells = parts.map(|part| {
        let least = u16::from(part.items > 0);
        (part, u16::try_from(share(part.items)).unwrap_or(width).max(least))
    });
    let used = |cells: &[(Part, u16); 7]| cells.iter().map(|(_, cells)| *cells).sum::<u16>();
    // What is missing, or too much, is the largest part's.
    while all > 0 && used(&cells) != width {
        let (more, missing) = (used(&cells) < width, used(&cells).abs_diff(width));
        let Some((_, largest)) = cells.iter_mut().max_by_key(|(_, cells)| *cells) else { break };
        if !more && *largest <= 1 {
            break;
        }
        *largest = if more { *largest + missing } else { *largest - 1 };
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(counts: Counts, width: u16) -> String {
        let cells = cells(&counts, width);
        cells.iter().flat_map(|(part, n)| std::iter::repeat_n(part.sign, usize::from(*n))).collect()
    }

    #[test]
    fn a_bar_is_as_wide_as_asked_and_leaves_no_state_out() {
        let counts = Counts { succeeded: 98_000, dead: 1, running: 16, waiting: 1_983, ..Counts::default() };
        assert_eq!(drawn(counts, 20), "█████████████████X>░");
        let one = Counts { succeeded: 1, dead: 1, ..Counts::default() };
        assert_eq!(drawn(one, 10), ["█".repeat(5), "X".repeat(5)].concat());
        assert_eq!(drawn(Counts::default(), 10), "");
        for width in 7..60 {
            let all = Counts {
                succeeded: 3,
                filtered: 1,
                cancelled: 1,
                dead: 1,
                joining: 1,
                running: 1,
                waiting: 1,
                ..Counts::default()
            };
            assert_eq!(drawn(all, width).chars().count(), usize::from(width));
        }
    }
}
