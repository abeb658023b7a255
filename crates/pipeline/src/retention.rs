//! `[retention]`: what a daemon forgets by itself, and when.

use std::time::Duration;

use crate::definition::RetentionDef;
use crate::problem::Report;
use crate::reader::Node;

/// Less than this is not kept: who asks for a run or an item that has just ended would not find it.
const LEAST: Duration = Duration::from_secs(60);

/// Reads the table; what it does not name is kept for ever.
pub(crate) fn read(node: &Node<'_, '_>, report: &mut Report<'_>) -> RetentionDef {
    let Some(mut table) = node.table(report) else { return RetentionDef::default() };
    let mut span = |key| {
        let node = table.take(key)?;
        let span = node.duration(report)?;
        if span < LEAST {
            node.fail_with(report, "must be a minute or more", "write how long it is kept, such as \"30d\"");
            return None;
        }
        Some(span)
    };
    let retention = RetentionDef {
        runs: span("runs"),
        runs_with_dead: span("runs_with_dead"),
        dead: span("dead"),
        succeeded: span("succeeded"),
    };
    if let (Some(runs), Some(with_dead)) = (retention.runs, retention.runs_with_dead)
        && with_dead < runs
    {
        let message = "shorter than runs: a run with dead items would go before one without";
        table.take("runs_with_dead").iter().for_each(|node| node.fail(report, message));
    }
    table.finish(report);
    retention
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "name = \"p\"\n[[stage]]\nname = \"s\"\nkind = \"pass\"\n";

    fn read(rest: &str) -> Result<RetentionDef, Vec<String>> {
        let parsed = crate::parse(&format!("{HEAD}{rest}"), "p.toml");
        let told = |problems: Vec<crate::Problem>| problems.iter().map(ToString::to_string).collect();
        parsed.map(|definition| definition.retention).map_err(told)
    }

    #[test]
    fn what_is_not_named_is_kept_for_ever() {
        assert_eq!(read(""), Ok(RetentionDef::default()));
        let all =
            "[retention]\nruns = \"30d\"\nruns_with_dead = \"90days\"\ndead = \"14d\"\nsucceeded = \"7d\"\n";
        let day = |n: u64| Some(Duration::from_secs(n * 86_400));
        let expected =
            RetentionDef { runs: day(30), runs_with_dead: day(90), dead: day(14), succeeded: day(7) };
        assert_eq!(read(all), Ok(expected));
    }

    #[test]
    fn what_is_wrong_with_a_retention_is_told_with_its_line_and_key() {
        for (rest, problem) in [
            ("[retention]\nruns = 30\n", "p.toml:6: retention.runs: expected a duration, found an integer"),
            ("[retention]\ndead = \"5s\"\n", "p.toml:6: retention.dead: must be a minute or more"),
            ("[retention]\nresults = \"5d\"\n", "p.toml:6: retention.results: unknown key"),
            (
                "[retention]\nruns = \"5d\"\nruns_with_dead = \"4d\"\n",
                "p.toml:7: retention.runs_with_dead: shorter than runs: a run with dead items would go before one without",
            ),
        ] {
            assert_eq!(read(rest), Err(vec![problem.to_owned()]), "{rest}");
        }
    }
}
