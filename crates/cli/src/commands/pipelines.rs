//! `redrive pipelines`.

use std::process::ExitCode;

use redrive_engine::report::PauseView;
use redrive_operate::pauses::{self, PipelineStanding, PipelineStandings};

use super::{Answer, Context};
use crate::args::{PipelinesCommand, which};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::summary::paused;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{count, safe};

/// Shows the pipelines, or pauses one or lets one go on.
pub async fn pipelines(context: &Context, command: Option<PipelinesCommand>) -> Answer {
    let floor = if command.is_none() { context.floor_to_read()? } else { context.floor()? };
    match command {
        None => {}
        Some(PipelinesCommand::Pause { name, stage, why }) => {
            pauses::pause(&floor, &which(name, stage), &why, None).await?;
        }
        Some(PipelinesCommand::Resume { name, stage }) => {
            let left = pauses::resume(&floor, &which(name, stage), None).await?;
            for pause in &left {
                context.hint(&format!("{}: `{}` lets it go on", pause.said(), pause.resume));
            }
        }
    }
    let list = pauses::list(&floor).await?;
    if context.global.json {
        json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    if list.pipelines.is_empty() {
        context.tell("no pipeline has an unfinished run, and none is paused")?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&words(&list, &context.screen()))?;
    Ok(ExitCode::SUCCESS)
}

fn words(list: &PipelineStandings, screen: &Screen) -> String {
    let mut table = Table::new([
        Column::text("pipeline").least(12),
        Column::whole("state"),
        Column::number("unfinished runs"),
        Column::text("stages").least(16).rank(1),
    ]);
    for pipeline in &list.pipelines {
        table.row([
            pipeline.name.clone().into(),
            state(pipeline),
            count(pipeline.unfinished).into(),
            pipeline.stages.join(", ").into(),
        ]);
    }
    let lines = list.pipelines.iter().flat_map(|pipeline| &pipeline.paused);
    let lines = lines.map(|pause: &PauseView| format!("\n{}", safe(&paused(pause, screen))));
    let problems = list.pipelines.iter().filter_map(|one| Some((&one.name, one.problem.as_ref()?)));
    let problems = problems.map(|(name, why)| format!("\n{name} takes nothing: {}", safe(why)));
    table.on(screen) + &lines.chain(problems).collect::<String>()
}

/// Whether a pipeline goes on, as a whole or in parts.
fn state(pipeline: &PipelineStanding) -> Cell {
    if pipeline.problem.is_some() {
        return Cell::state("refused");
    }
    match (&pipeline.paused[..], pipeline.paused.iter().any(|pause| pause.stage.is_none())) {
        ([], _) => Cell::state("goes on"),
        (_, true) => Cell::state("paused"),
        (_, false) => Cell::from("paused in part"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::{at_widths, moment};

    fn pause(stage: Option<&str>) -> PauseView {
        PauseView {
            pipeline: "reviews".to_owned(),
            stage: stage.map(str::to_owned),
            since: moment(-125_000).to_string(),
            actor: "ann".to_owned(),
            why: "the model is being replaced; ask before it goes on".to_owned(),
            resume: "redrive pipelines resume reviews".to_owned(),
        }
    }

    #[test]
    fn pipelines_fit_their_screen() {
        let one = |name: &str, paused: Vec<PauseView>| PipelineStanding {
            name: name.to_owned(),
            stages: ["parse", "summarise-with-a-model", "store"].map(str::to_owned).to_vec(),
            unfinished: 12,
            paused,
            problem: None,
        };
        let pipelines = vec![
            one("invoices", Vec::new()),
            one("mail", vec![pause(Some("summarise-with-a-model"))]),
            one("reviews", vec![pause(None), pause(Some("store"))]),
        ];
        let list = PipelineStandings { pipelines };
        at_widths("pipelines", |screen| words(&list, screen));
    }
}
