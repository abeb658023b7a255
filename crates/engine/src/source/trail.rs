//! What was read of a source: a running hash, with points along the way from which reading can start again.

use serde::{Deserialize, Serialize};

/// Most points that are kept. When there are more, one that is closest to another goes, so that they stay spread over all
/// that was read.
const POINTS: usize = 32;

/// A place between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// Which of the files.
    pub(super) file: usize,
    /// Bytes of it before this place, decompressed.
    pub(super) offset: u64,
    /// Lines of all files before this place.
    pub(super) line: u64,
    /// Lines of the files before this one.
    pub(super) before: u64,
}

/// A place, and the hash of everything before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Point {
    pub(super) place: Place,
    pub(super) hash: String,
}

/// What a run keeps of how far its source was read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Mark of how lines become items: another key or format makes other items of the same lines.
    #[serde(default)]
    pub(super) how: String,
    /// The first line of this reading: those before were seen by an earlier one.
    pub(super) agreed: u64,
    /// From the first to the last; reading goes on at the last.
    pub(super) points: Vec<Point>,
    /// The end, where it was reached. The last point is before it when the last line has no end of its own: it may still
    /// be being written.
    pub(super) end: Option<Point>,
}

impl Position {
    pub(super) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(super) fn written(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Adds a point, and thins the others out when there are too many.
    pub(super) fn push(&mut self, point: Point) {
        if self.points.last().is_some_and(|last| last.place == point.place) {
            return;
        }
        if self.points.len() >= POINTS {
            let gap = |at: &usize| self.points[*at].place.line - self.points[*at - 1].place.line;
            if let Some(closest) = (1..self.points.len()).min_by_key(gap) {
                self.points.remove(closest);
            }
        }
        self.points.push(point);
    }
}

/// A running hash.
#[derive(Debug, Clone, Default)]
pub(super) struct Running(blake3::Hasher);

impl Running {
    /// Takes in the name of the file that comes next.
    pub(super) fn begin_file(&mut self, name: &str) {
        self.0.update(&(name.len() as u64).to_le_bytes());
        self.0.update(name.as_bytes());
    }

    /// Takes in what was read.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all that was taken in.
    pub(super) fn told(&self) -> String {
        self.0.finalize().to_hex()[..32].to_owned()
    }

    pub(super) fn point(&self, place: Place) -> Point {
        Point { place, hash: self.told() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_stay_few_and_spread() {
        let mut position = Position::default();
        for line in 1..=10_000 {
            position.push(Point { place: Place { line, ..Place::default() }, hash: String::new() });
        }
        assert!(position.points.len() <= POINTS);
        assert_eq!(position.points.last().map(|point| point.place.line), Some(10_000));
        let early = position.points.iter().filter(|point| point.place.line < 5_000).count();
        assert!((10..=22).contains(&early), "{early} of {} are in the first half", position.points.len());
    }
}
