//! Every kind of limit that is known, played over HTTP with a network that makes calls late: the real `redrive run` beside the
//! loop that people write.

mod case;
mod ideal;
mod list;
pub mod looped;
pub mod play;
pub mod table;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::case::Case;
use self::ideal::ideal;
use self::play::{Played, Round};
use self::table::Row;
use super::Options;
use super::redrive::Redrive;
use crate::measure::verdict::Found;
use crate::report::say;
use crate::{Failure, process};

/// Cases that go on at once, where they wait most of the time.
const AT_ONCE: usize = 6;
/// More calls a second than this keep the processor busy, so that such a case is played alone.
const BUSY: f64 = 120.0;
/// Of the list, a quick round takes each so many-th.
const QUICK: usize = 8;

/// Who plays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Redrive,
    Loop,
}

/// Plays all cases that are wanted and prints the table.
pub async fn run(redrive: &Redrive, options: &Options) -> Result<Found, Failure> {
    let wanted = |(at, case): &(usize, Case)| {
        options.picks(&case.name) && (!options.quick || !options.cases.is_empty() || at % QUICK == 0)
    };
    let cases: Vec<Case> = list::all().into_iter().enumerate().filter(wanted).map(|(_, case)| case).collect();
    let mut rounds = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        for seed in 1..=options.seeds {
            let number = number * 1_000 + usize::try_from(seed)?;
            rounds.push(Round { case: case.clone(), number, seed, jitter: options.jitter });
        }
    }
    let (busy, calm): (Vec<Round>, Vec<Round>) = rounds.into_iter().partition(is_busy);
    say(&format!(
        "{} rounds, {AT_ONCE} at once; then {} alone, load {}",
        calm.len(),
        busy.len(),
        process::load()
    ));
    let mut played = together(redrive, calm, AT_ONCE).await?;
    say(&format!("… alone, load {}", process::load()));
    played.extend(together(redrive, busy, 1).await?);
    let rows: Vec<Row> = cases.iter().enumerate().map(|(at, case)| row(case, at, &played)).collect();
    let mut found = Found::default();
    table::show(&rows);
    table::goals(&rows, &mut found);
    for row in rows {
        found.raw.insert(row.name.clone(), row.json());
    }
    found.show();
    Ok(found)
}

fn is_busy(round: &Round) -> bool {
    let Ok(plan) = round.case.plan(round.seed, round.jitter) else { return true };
    round.case.items as f64 / ideal(&round.case, &plan, round.jitter) > BUSY
}

type Outcome = (usize, Who, Played);

/// Plays these, so many at once, the longest first.
async fn together(
    redrive: &Redrive,
    mut rounds: Vec<Round>,
    at_once: usize,
) -> Result<Vec<Outcome>, Failure> {
    rounds.sort_by_key(|round| std::cmp::Reverse(round.case.items));
    let places = Arc::new(Semaphore::new(at_once));
    let mut playing: JoinSet<Result<Outcome, Failure>> = JoinSet::new();
    for round in rounds {
        // The loop's dice change little, and its calls keep the processor busy: it is played with the first seed.
        let players: &[Who] = if round.seed == 1 { &[Who::Redrive, Who::Loop] } else { &[Who::Redrive] };
        for who in players.iter().copied() {
            let (redrive, round, places) = (redrive.clone(), round.clone(), places.clone());
            playing.spawn(async move {
                let _place = places.acquire().await?;
                let played = match who {
                    Who::Redrive => round.redrive(&redrive).await,
                    Who::Loop => round.looped().await,
                };
                let played = played.map_err(|error| format!("{}: {error}", round.case.name))?;
                Ok((round.number, who, played))
            });
        }
    }
    let mut all = Vec::new();
    while let Some(played) = playing.join_next().await {
        all.push(played??);
    }
    Ok(all)
}

/// What came of a case over all seeds.
fn row(case: &Case, number: usize, played: &[Outcome]) -> Row {
    let of = |who: Who| -> Vec<Played> {
        let mut of: Vec<&Outcome> =
            played.iter().filter(|(at, player, _)| at / 1_000 == number && *player == who).collect();
        of.sort_by_key(|(at, ..)| *at);
        of.into_iter().map(|(_, _, played)| *played).collect()
    };
    Row::new(case, of(Who::Redrive), of(Who::Loop))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    const JITTER: Duration = Duration::from_millis(10);

    #[test]
    fn every_case_is_a_plan_with_a_name_of_its_own() {
        let all = list::all();
        for case in &all {
            case.plan(1, JITTER).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
        let names: BTreeSet<&str> = all.iter().map(|case| case.name.trim()).collect();
        assert!(all.len() >= 40 && names.len() == all.len(), "{} of {}", names.len(), all.len());
        for goal in table::named_in_goals() {
            assert!(names.contains(goal), "a goal for a case that is not there: {goal}");
        }
    }

    #[test]
    fn the_ideal_follows_from_the_plan() {
        let all = list::all();
        let ideal = |name: &str| {
            let case = all.iter().find(|case| case.name == name).unwrap_or_else(|| panic!("{name}"));
            ideal(case, &case.plan(1, JITTER).expect("a plan"), JITTER)
        };
        for (name, seconds) in [
            ("bucket 50/s burst 50 none", 19.06),
            ("bucket 50/s burst 1 secs", 20.04),
            ("window 600 in 60 s secs", 60.06),
            ("sliding 100 in 2 s exact", 18.06),
            ("2 at once 429 none", 25.25),
            ("tokens for 50/s burst 50 secs", 19.06),
            ("no limit, 20 calls of 1 s", 1.1),
        ] {
            assert!((ideal(name) - seconds).abs() < 0.05, "{name}: {}", ideal(name));
        }
        assert!(ideal("random 30 % 1 s") > 5.0, "five times in a row one of 600 is turned away");
        let (others, alone) = (ideal("neighbours 5 s none"), ideal("bucket 50/s burst 50 none"));
        assert!(others > 1.3 * alone && others < 4.0 * alone, "{others}");
        assert!(ideal("heavy tail p99 of 5 s") > 14.0);
    }
}
