//! Highest resident memory over the number of files.

use serde_json::json;

use super::corpus;
use super::redrive::Redrive;
use super::words::Words;
use crate::Failure;
use crate::measure::verdict::{Found, Goal, Picture};
use crate::report::{round, say};
use crate::svg::Line;

/// Indexes small files, more and more of them.
pub async fn run(redrive: &Redrive, words: &Words, sizes: &[usize]) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut lines =
        [("main process", "#1f7fe0"), ("one parse-worker", "#d4740c"), ("one embed-worker", "#9068e8")]
            .map(|(name, colour)| Line { name: name.to_owned(), colour, dashes: "", points: Vec::new() });
    for &files in sizes {
        let place = redrive.place("memory")?;
        let corpus = corpus::small(&place.join("files"), files, words)?;
        let indexed = redrive.index(&place, &corpus.folder).await?;
        let (ran, who) = (&indexed.ran, format!("{files} files"));
        let peaks = [ran.peak_mb, ran.peak_mb_of("parse-worker"), ran.peak_mb_of("embed-worker")];
        say(&format!("  {who}: {:.1} s, {:.0} MB in the main process", ran.seconds, ran.peak_mb));
        found.add(&who, "MB, main process", peaks[0], Goal::None);
        found.add(&who, "MB, one parse-worker", peaks[1], Goal::None);
        found.add(&who, "MB, one embed-worker", peaks[2], Goal::None);
        found.add(
            &who,
            "MB, all processes, shared pages counted each time",
            ran.peak_mb_of_all(),
            Goal::None,
        );
        found.add(&who, "files per second", files as f64 / ran.seconds, Goal::None);
        let again = redrive.index(&place, &corpus.folder).await?;
        found.add(&who, "files per second, second run", files as f64 / again.ran.seconds, Goal::None);
        found.add(&who, "MB, main process, second run", again.ran.peak_mb, Goal::None);
        for (line, peak) in lines.iter_mut().zip(peaks) {
            line.points.push((files as f64, peak));
        }
        let mut raw = indexed.json();
        raw["corpus"] = corpus.json();
        raw["store_mb"] = json!(round(super::redrive::bytes(&place) as f64 / 1e6));
        raw["second_run"] = again.json();
        found.raw.insert(who, raw);
        std::fs::remove_dir_all(&place)?;
    }
    found.pictures.push(Picture {
        name: "memory",
        title: "Highest resident memory of redrive index over small files".to_owned(),
        lines: lines.into(),
    });
    Ok(found)
}
