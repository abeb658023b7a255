//! Plots with two logarithmic axes or over time, in colours that can be read on light and on dark ground.

use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 52.0;
const INK: &str = "#7d8590";
/// Labels closer than this would overlap.
const LINE_HEIGHT: f64 = 15.0;

/// One line of the plot.
pub struct Line {
    /// Its name, written at its end.
    pub name: String,
    /// Its colour.
    pub colour: &'static str,
    /// Its dashes, as SVG has them; empty for none.
    pub dashes: &'static str,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// What is written around the lines.
pub struct Words<'a> {
    /// Above.
    pub title: &'a str,
    /// Below the axis.
    pub x: &'a str,
    /// Beside the axis.
    pub y: &'a str,
}

/// Where figures stand on the paper.
struct Axes<'a> {
    x: &'a dyn Fn(f64) -> f64,
    y: &'a dyn Fn(f64) -> f64,
    ticks: Vec<f64>,
    marks: Vec<f64>,
    dots: bool,
}

/// Draws the lines with two logarithmic axes.
pub fn plot(words: &Words<'_>, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (x0, x1) = bounds(all().map(|point| point.0));
    let (y0, y1) = bounds(all().map(|point| point.1));
    let (y0, y1) = (10_f64.powf(y0.log10().floor()), y1 * 1.15);
    let x = |x: f64| LEFT + (x / x0).ln() / (x1 / x0).ln() * (WIDTH - LEFT - RIGHT);
    let y = |y: f64| HEIGHT - BOTTOM - (y / y0).ln() / (y1 / y0).ln() * (HEIGHT - TOP - BOTTOM);
    let mut marks: Vec<f64> = all().map(|point| point.0).collect();
    marks.sort_by(f64::total_cmp);
    marks.dedup();
    draw(words, lines, &Axes { x: &x, y: &y, ticks: ticks(y0, y1), marks, dots: true })
}

/// Draws the lines with axes that begin at 0.
pub fn plot_over_time(words: &Words<'_>, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let (_, x1) = bounds(all().map(|point| point.0));
    let (_, y1) = bounds(all().map(|point| point.1));
    let y1 = y1 * 1.1;
    let x = |x: f64| LEFT + x / x1 * (WIDTH - LEFT - RIGHT);
    let y = |y: f64| HEIGHT - BOTTOM - y / y1 * (HEIGHT - TOP - BOTTOM);
    draw(words, lines, &Axes { x: &x, y: &y, ticks: even(y1), marks: even(x1), dots: false })
}

fn draw(words: &Words<'_>, lines: &[Line], axes: &Axes<'_>) -> String {
    let (place_x, place_y) = (axes.x, axes.y);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"{INK}\">\n"
    );
    text(&mut svg, (LEFT, 20.0), "start", words.title, " font-size=\"14\" font-weight=\"600\"");
    text(&mut svg, (LEFT, 38.0), "start", words.y, "");
    text(&mut svg, ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 12.0), "middle", words.x, "");
    for &tick in &axes.ticks {
        let y = place_y(tick);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"{INK}\" stroke-opacity=\"0.25\"/>",
            WIDTH - RIGHT
        );
        text(&mut svg, (LEFT - 8.0, y + 4.0), "end", &short(tick), "");
    }
    for &mark in &axes.marks {
        text(&mut svg, (place_x(mark), HEIGHT - BOTTOM + 18.0), "middle", &format!("{mark}"), "");
    }
    let mut labels = Vec::new();
    for line in lines {
        let at = |&(x, y): &(f64, f64)| format!("{:.1},{:.1}", place_x(x), place_y(y));
        let points: Vec<String> = line.points.iter().map(at).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.2\" stroke-dasharray=\"{}\"/>",
            points.join(" "),
            line.colour,
            line.dashes
        );
        for &(x, y) in line.points.iter().filter(|_| axes.dots) {
            let (x, y) = (place_x(x), place_y(y));
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{}\"/>", line.colour);
        }
        if let Some(&(_, last)) = line.points.last() {
            labels.push((place_y(last) + 4.0, line));
        }
    }
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::MIN;
    for (y, line) in labels {
        lowest = y.max(lowest + LINE_HEIGHT);
        let style = format!(" fill=\"{}\" font-weight=\"600\"", line.colour);
        text(&mut svg, (WIDTH - RIGHT + 10.0, lowest), "start", &line.name, &style);
    }
    svg.push_str("</svg>\n");
    svg
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, words: &str, style: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{style}>{words}</text>");
}

fn bounds(figures: impl Iterator<Item = f64>) -> (f64, f64) {
    figures.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), figure| (low.min(figure), high.max(figure)))
}

fn ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = std::iter::successors(Some(low), |tick| Some(tick * 10.0)).take_while(|tick| *tick <= high);
    decades.flat_map(|tick| [tick, tick * 2.0, tick * 5.0]).filter(|tick| *tick <= high).collect()
}

/// Some five to ten ticks from 0 on.
fn even(high: f64) -> Vec<f64> {
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0];
    let step = steps.into_iter().find(|step| high / step <= 10.0).unwrap_or(high);
    (0_u32..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= high).collect()
}

fn short(figure: f64) -> String {
    if figure >= 1_000.0 { format!("{} k", figure / 1_000.0) } else { format!("{figure}") }
}
