//! The recording in the documents: frames of the screen, as an SVG that needs nothing but itself.
//!
//! It is drawn by the renderer that the terminal gets, from the rehearsed evening. `REDRIVE_WRITE=1` writes it and the
//! snapshots anew; without it they are compared.

use std::fmt::Write as _;
use std::path::PathBuf;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier};
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent};

use super::draw::draw;
use super::keys::press;
use super::model::{Model, Question};
use super::sample;

/// The size of a cell.
const CELL: (f64, f64) = (7.8, 17.0);
/// How long each frame is shown, in seconds.
const FRAME: f64 = 2.5;

/// What is drawn of a model at a size.
pub fn drawn(model: &Model, width: u16, height: u16) -> Buffer {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    draw(model, area, &mut buffer);
    buffer
}

/// Compares a file of the repository with what it should hold, or writes it where that is asked for.
pub fn is_kept_as(path: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("REDRIVE_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, text).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == text, "{} is not what is drawn now; REDRIVE_WRITE=1 writes it:\n{text}", path.display());
}

fn typed(model: &mut Model, keys: &[KeyCode]) {
    for key in keys {
        press(model, KeyEvent::from(*key));
    }
}

#[test]
fn the_recording_in_the_documents_is_what_is_drawn() {
    let mut frames: Vec<Buffer> = [4, 8, 12].map(|at| drawn(&sample::after(at), 100, 24)).into();
    let mut model = sample::after(16);
    typed(&mut model, &[KeyCode::Tab, KeyCode::Tab, KeyCode::Down]);
    frames.push(drawn(&model, 100, 24));
    let first = ["m-00412", "m-00977", "m-01203"].map(str::to_owned).into();
    let group = model.chosen_group().expect("a group").group.clone();
    model.previewed(Ok(Question { group, run: None, items: 44, skipped: 0, first }));
    frames.push(drawn(&model, 100, 24));
    typed(&mut model, &[KeyCode::Char('y')]);
    model.did(Ok(super::model::sent_back(44, 0, None)));
    frames.push(drawn(&model, 100, 24));
    is_kept_as("../../docs/img/top.svg", &svg(&frames));
}

fn svg(frames: &[Buffer]) -> String {
    let (columns, rows) = (f64::from(frames[0].area.width), f64::from(frames[0].area.height));
    let (width, height) = (columns * CELL.0 + 24.0, rows * CELL.1 + 24.0);
    #[expect(clippy::cast_precision_loss, reason = "a few frames")]
    let (whole, share) = (FRAME * frames.len() as f64, 100.0 / frames.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n\
         <title>redrive top: runs, stages, gates and dead groups, live</title>\n<style>\
         text{{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre;fill:#d4dae1}}\
         .page{{fill:#10151c}}.on{{fill:#33404f}}.dim{{fill:#8b98a7}}.b{{font-weight:600}}.u{{text-decoration:underline}}\
         .cyan{{fill:#6cc7d9}}.green{{fill:#6fc276}}.red{{fill:#f27878}}.yellow{{fill:#e0b860}}.blue{{fill:#7aa7f0}}\
         .magenta{{fill:#c792ea}}\
         .f{{opacity:0;animation:f {whole}s steps(1) infinite}}\
         @keyframes f{{0%{{opacity:1}}{share:.2}%{{opacity:0}}}}\
         @media(prefers-reduced-motion:reduce){{.f{{animation:none}}.f:first-of-type{{opacity:1}}}}\
         </style>\n<rect class=\"page\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n"
    );
    for (at, frame) in frames.iter().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "a few frames")]
        let delay = FRAME * at as f64;
        let _ = writeln!(svg, "<g class=\"f\" style=\"animation-delay:{delay}s\">");
        for y in 0..frame.area.height {
            row(&mut svg, frame, y);
        }
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// A row: what looks alike is one text, in as many columns as it has.
fn row(svg: &mut String, frame: &Buffer, y: u16) {
    let cells: Vec<&Cell> = (0..frame.area.width).filter_map(|x| frame.cell((x, y))).collect();
    let top = f64::from(y) * CELL.1 + 12.0;
    let mut x = 0.0;
    for part in cells.chunk_by(|a, b| a.style() == b.style()) {
        let text: String = part.iter().map(|cell| cell.symbol()).collect();
        #[expect(clippy::cast_precision_loss, reason = "a row of a screen")]
        let width = part.len() as f64 * CELL.0;
        let left = x * CELL.0 + 12.0;
        if part[0].modifier.contains(Modifier::REVERSED) {
            let _ = writeln!(
                svg,
                "<rect class=\"on\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{}\"/>",
                CELL.1
            );
        }
        if !text.trim().is_empty() {
            let (class, base) = (class(part[0]), top + 13.0);
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let _ = writeln!(
                svg,
                "<text x=\"{left:.1}\" y=\"{base:.1}\" textLength=\"{width:.1}\"{class} xml:space=\"preserve\">{text}</text>"
            );
        }
        #[expect(clippy::cast_precision_loss, reason = "a row of a screen")]
        let taken = part.len() as f64;
        x += taken;
    }
}

fn class(cell: &Cell) -> String {
    let colour = match cell.fg {
        Color::Cyan => "cyan",
        Color::Green => "green",
        Color::Red => "red",
        Color::Yellow => "yellow",
        Color::Blue => "blue",
        Color::Magenta => "magenta",
        _ => "",
    };
    let modifiers = [(Modifier::DIM, "dim"), (Modifier::BOLD, "b"), (Modifier::UNDERLINED, "u")].into_iter();
    let mut names: Vec<&str> =
        modifiers.filter(|(modifier, _)| cell.modifier.contains(*modifier)).map(|(_, name)| name).collect();
    names.extend((!colour.is_empty()).then_some(colour));
    if names.is_empty() { String::new() } else { format!(" class=\"{}\"", names.join(" ")) }
}
