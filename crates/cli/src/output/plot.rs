//! The picture of a policy: an SVG that needs nothing but itself.
//!
//! It has a background of its own, so that it is readable on any page, and a dark form for viewers that ask for one.

mod axis;
mod figures;

use std::fmt::{Display, Write as _};
use std::time::Duration;

use axis::{ShareAxis, TimeAxis};
pub use figures::{exact, figure, percent};

const WIDTH: f64 = 860.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 720.0;
/// Above the first panel: title, explanation and legend.
const HEAD: f64 = 104.0;
const ROW: f64 = 26.0;
const ROWS_MAX: f64 = 520.0;
const SHARES: f64 = 110.0;
const GAP: f64 = 44.0;
/// The least height of a row with a text.
const TEXT_ROW: f64 = 15.0;
/// The width of a letter, more or less: texts cannot be measured here.
const LETTER: f64 = 7.0;

const STYLE: &str = "\
.page{fill:#fff;stroke:#d1d9e0}.grid{stroke:#d8dee4}.edge{stroke:#818b98}\
text{fill:#1f2328;font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:12px}\
.title{font-size:18px;font-weight:600}.soft{fill:#59636e}.dot{fill:#0969da}.range{fill:#0969da;fill-opacity:.28}\
.fall{fill:none;stroke:#bc4c00;stroke-width:2}.under{fill:#bc4c00;fill-opacity:.12}\
.dead{stroke:#cf222e;stroke-width:2}.end{fill:#cf222e}\
@media(prefers-color-scheme:dark){.page{fill:#0d1117;stroke:#3d444d}.grid{stroke:#2a313c}.edge{stroke:#9198a1}\
text{fill:#f0f6fc}.soft{fill:#9198a1}.dot{fill:#4493f8}.range{fill:#4493f8;fill-opacity:.35}\
.fall{stroke:#db6d28}.under{fill:#db6d28;fill-opacity:.16}.dead{stroke:#f85149}.end{fill:#f85149}}";

/// One attempt.
pub struct Point {
    /// Its number.
    pub attempt: u32,
    /// When it starts if every wait is as short as jitter makes it.
    pub earliest: Duration,
    /// When it starts without jitter.
    pub nominal: Duration,
    /// When it starts if every wait is as long as jitter makes it.
    pub latest: Duration,
    /// The share of items that have not succeeded after it.
    pub still_failing: f64,
}

/// What is drawn.
pub struct Plot {
    /// What it is about.
    pub title: String,
    /// The figures behind it, in one line.
    pub subtitle: String,
    /// The attempts in order, at least one.
    pub points: Vec<Point>,
    /// Whether an item that fails at the last point is given up there.
    pub ends_dead: bool,
    /// The deadline, where it is what ends the attempts.
    pub deadline: Option<Duration>,
}

impl Plot {
    /// Draws it.
    pub fn svg(&self) -> String {
        let count = self.points.iter().fold(0.0, |count, _| count + 1.0);
        let row = (ROWS_MAX / f64::max(count, 1.0)).min(ROW);
        let rows = row * count;
        let shares_top = HEAD + rows + GAP;
        let height = shares_top + SHARES + 62.0;
        let last = self.points.iter().map(|point| point.latest).max().unwrap_or_default();
        let first = self.points.iter().map(|point| point.nominal).find(|start| !start.is_zero());
        let time = TimeAxis::new(last.max(self.deadline.unwrap_or_default()), first, LEFT, RIGHT - LEFT);
        let least = self.points.last().map_or(1.0, |point| point.still_failing);
        let share = ShareAxis::new(least, shares_top, SHARES);

        let mut page = Page::new(height, &self.title, &self.subtitle);
        self.head(&mut page);
        page.time(&time, HEAD, HEAD + rows, shares_top, shares_top + SHARES);
        if let Some(deadline) = self.deadline {
            page.deadline(time.at(deadline), deadline, shares_top + SHARES);
        }
        self.attempts(&mut page, &time, row);
        self.shares(&mut page, &time, &share, shares_top);
        page.finish()
    }

    fn head(&self, page: &mut Page) {
        page.text(20.0, 32.0, "title", Side::Start, &self.title);
        page.text(20.0, 54.0, "soft", Side::Start, &self.subtitle);
        page.text(LEFT - 12.0, HEAD - 12.0, "soft", Side::End, "attempt");
        page.text(RIGHT + 16.0, HEAD - 12.0, "soft", Side::Start, "still failing after it");
        page.dot(LEFT + 12.0, HEAD - 16.0, 4.5);
        if self.points.iter().any(|point| point.earliest != point.latest) {
            page.text(LEFT + 24.0, HEAD - 12.0, "soft", Side::Start, "start without jitter");
            page.range(LEFT + 160.0, LEFT + 186.0, HEAD - 21.0, 10.0);
            page.text(LEFT + 194.0, HEAD - 12.0, "soft", Side::Start, "earliest to latest start");
        } else {
            page.text(LEFT + 24.0, HEAD - 12.0, "soft", Side::Start, "start");
        }
    }

    fn attempts(&self, page: &mut Page, time: &TimeAxis, row: f64) {
        let mut middle = HEAD + row / 2.0;
        let mut free = HEAD;
        for (index, point) in self.points.iter().enumerate() {
            let (x, from, to) = (time.at(point.nominal), time.at(point.earliest), time.at(point.latest));
            if point.earliest != point.latest {
                page.range(from, to, middle - row * 0.32, row * 0.64);
            }
            let is_last = index + 1 == self.points.len();
            if is_last && self.ends_dead {
                page.cross(x, middle);
            } else {
                page.dot(x, middle, (row * 0.3).clamp(1.0, 4.5));
            }
            if middle + TEXT_ROW / 2.0 - 1.0 >= free + TEXT_ROW || index == 0 {
                page.text(LEFT - 12.0, middle + 4.0, "", Side::End, point.attempt);
                page.text(RIGHT + 16.0, middle + 4.0, "", Side::Start, percent(point.still_failing));
                self.start(page, point, (x, from, to), middle, is_last);
                free = middle + TEXT_ROW / 2.0 - 1.0;
            }
            middle += row;
        }
    }

    /// Says beside a point when it is.
    fn start(
        &self,
        page: &mut Page,
        point: &Point,
        (x, from, to): (f64, f64, f64),
        middle: f64,
        is_last: bool,
    ) {
        let mut label = exact(point.nominal);
        if point.earliest != point.latest {
            let _ = write!(label, " ({}–{})", exact(point.earliest), exact(point.latest));
        }
        if is_last && self.ends_dead {
            label.push_str(", then dead");
        }
        let (width, room) = (label.chars().fold(10.0, |width, _| width + LETTER), 10.0);
        let places = [
            (to.max(x) + room, Side::Start, to.max(x) + width < RIGHT),
            (from.min(x) - room, Side::End, from.min(x) - width > LEFT),
            // Within its own bar, which is light enough to be written on.
            (x - room, Side::End, x - width > LEFT),
            (x + room, Side::Start, true),
        ];
        if let Some((at, side, _)) = places.into_iter().find(|(.., fits)| *fits) {
            page.text(at, middle + 4.0, "", side, &label);
        }
    }

    fn shares(&self, page: &mut Page, time: &TimeAxis, share: &ShareAxis, top: f64) {
        for tick in share.ticks() {
            let y = share.at(tick);
            page.line("grid", (LEFT, y), (RIGHT, y));
            page.text(LEFT - 12.0, y + 4.0, "soft", Side::End, percent(tick));
        }
        let heading = format!("items that have not succeeded yet{}", share.kind());
        page.text(LEFT, top - 14.0, "soft", Side::Start, &heading);
        let mut path = format!("M{LEFT:.1} {:.1}", share.at(1.0));
        for point in &self.points {
            let _ = write!(path, "H{:.1}V{:.1}", time.at(point.nominal), share.at(point.still_failing));
        }
        let _ = write!(path, "H{RIGHT:.1}");
        page.shape("under", &format!("{path}V{:.1}H{LEFT:.1}Z", top + SHARES));
        page.shape("fall", &path);
    }
}

/// To which side of its place a text goes.
enum Side {
    Start,
    Middle,
    End,
}

/// SVG being written. Writing to a string cannot fail.
struct Page {
    svg: String,
}

impl Page {
    fn new(height: f64, title: &str, description: &str) -> Self {
        let (title, description) = (escaped(title), escaped(description));
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\">\n<title>{title}</title>\n<desc>{description}</desc>\n\
             <style>{STYLE}</style>\n<rect class=\"page\" x=\".5\" y=\".5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n",
            WIDTH - 1.0,
            height - 1.0,
        );
        Self { svg }
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }

    fn text(&mut self, x: f64, y: f64, class: &str, side: Side, text: impl Display) {
        let anchor = match side {
            Side::Start => "start",
            Side::Middle => "middle",
            Side::End => "end",
        };
        let text = escaped(&text.to_string());
        let _ = writeln!(
            self.svg,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.svg,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    fn dot(&mut self, x: f64, y: f64, radius: f64) {
        let _ = writeln!(self.svg, "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"/>");
    }

    fn cross(&mut self, x: f64, y: f64) {
        self.line("dead", (x - 5.0, y - 5.0), (x + 5.0, y + 5.0));
        self.line("dead", (x - 5.0, y + 5.0), (x + 5.0, y - 5.0));
    }

    fn range(&mut self, from: f64, to: f64, top: f64, height: f64) {
        let width = (to - from).max(1.0);
        let _ = writeln!(
            self.svg,
            "<rect class=\"range\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"3\"/>"
        );
    }

    fn shape(&mut self, class: &str, path: &str) {
        let _ = writeln!(self.svg, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// The time axis below two panels, and its lines through both.
    fn time(&mut self, time: &TimeAxis, top: f64, upper: f64, lower: f64, bottom: f64) {
        for (x, label) in time.ticks() {
            self.line("grid", (x, top), (x, upper));
            self.line("grid", (x, lower), (x, bottom));
            self.text(x, bottom + 18.0, "soft", Side::Middle, &label);
        }
        self.line("edge", (LEFT, upper), (RIGHT, upper));
        self.line("edge", (LEFT, bottom), (RIGHT, bottom));
        self.text((LEFT + RIGHT) / 2.0, bottom + 42.0, "soft", Side::Middle, time.title());
    }

    fn deadline(&mut self, x: f64, deadline: Duration, bottom: f64) {
        let _ = writeln!(
            self.svg,
            "<line class=\"dead\" stroke-dasharray=\"5 4\" x1=\"{x:.1}\" y1=\"{HEAD:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>"
        );
        self.text(x, HEAD - 12.0, "end", Side::End, format!("deadline {}", exact(deadline)));
    }
}

/// Text that is only text, whatever is in it.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            // XML has no way to write these at all.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<Point>) -> Plot {
        Plot { title: "t".to_owned(), subtitle: "s".to_owned(), points, ends_dead: true, deadline: None }
    }

    fn point(attempt: u32) -> Point {
        let start = Duration::from_secs(u64::from(attempt) - 1);
        Point { attempt, earliest: start, nominal: start, latest: start, still_failing: 0.5 }
    }

    #[test]
    fn a_title_cannot_become_markup() {
        let svg = Plot { title: "<script>&\"\u{1b}".to_owned(), ..plot(vec![point(1)]) }.svg();
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'));
        assert!(svg.contains("&lt;script&gt;&amp;&quot;"));
    }

    #[test]
    fn every_attempt_is_drawn_and_the_last_one_is_a_cross() {
        let svg = plot((1..=4).map(point).collect()).svg();
        // Three, and the one in the legend.
        assert_eq!(svg.matches("<circle").count(), 4);
        assert_eq!(svg.matches("class=\"dead\"").count(), 2);
        assert!(svg.contains("3s, then dead") && !svg.contains("earliest to latest"));
    }

    #[test]
    fn many_attempts_stay_on_a_page() {
        let svg = plot((1..=10_000).map(point).collect()).svg();
        assert!(svg.contains("height=\"840\""), "{}", &svg[..200]);
        assert!(svg.matches("<text").count() < 200);
    }
}
