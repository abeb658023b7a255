//! `redrive policy simulate --plot`.

use std::time::Duration;

use redrive_operate::Error;
use redrive_operate::policies::{Forecast, View};

use super::words;
use crate::output::plot::{Plot, Point, figure, percent};
use crate::output::target::Target;
use crate::output::text::{count, short};

/// Letters of a title that fit on the page.
const TITLE: usize = 72;

/// Draws the one policy there is.
pub async fn draw(views: &[View], target: &Target) -> Result<(), Error> {
    let [view] = views else {
        let names: Vec<&str> = views.iter().filter_map(|view| view.subject.stage.as_deref()).collect();
        let message = format!("a picture shows one policy, and the file has {} stages", views.len());
        return Err(Error::wrong(message).hint(format!("choose with --stage: {}", names.join(", "))));
    };
    let Some(outlook) = &view.outlook else { return Ok(()) };
    let whole = view.is_whole();
    let plot = Plot {
        title: short(&format!("Retry policy {}", view.subject.title()), TITLE),
        subtitle: subtitle(view, outlook),
        points: points(view, outlook.failure_rate),
        ends_dead: whole,
        deadline: view.subject.deadline.filter(|_| whole && view.cut.is_some()),
    };
    let mut sink = target.open().await?;
    sink.put(plot.svg().as_bytes())?;
    sink.finish()
}

fn subtitle(view: &View, outlook: &Forecast) -> String {
    let attempts = match view.subject.policy.max_attempts().map(std::num::NonZero::get) {
        None => "endless".to_owned(),
        Some(1) => "1 attempt".to_owned(),
        Some(max) => format!("{} attempts", count(max.into())),
    };
    format!(
        "{} · each fails with a chance of {}, {} items: {} calls, {} dead · time until dead: {}",
        attempts,
        percent(outlook.failure_rate),
        count(outlook.items),
        figure(outlook.expected_calls),
        figure(outlook.expected_dead),
        words::time_to_dead(outlook),
    )
}

fn points(view: &View, failure_rate: f64) -> Vec<Point> {
    let (mut earliest, mut latest) = (Duration::ZERO, Duration::ZERO);
    let mut still_failing = 1.0;
    let steps = view.steps.iter();
    steps
        .map(|step| {
            earliest = earliest.saturating_add(step.wait_min);
            // What would start after the deadline does not start.
            latest = latest.saturating_add(step.wait_max).min(view.subject.deadline.unwrap_or(Duration::MAX));
            still_failing *= failure_rate;
            Point { attempt: step.attempt, earliest, nominal: step.starts_at_nominal, latest, still_failing }
        })
        .collect()
}
