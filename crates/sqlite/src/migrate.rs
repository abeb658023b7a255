//! Bringing a file's schema up to date: forward only, each step one transaction.

use redrive_store::Error;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::{Fault, Result};
use crate::look::APPLICATION_ID;
use crate::options::{CrashHook, MID_MIGRATION};

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    /// The schema's number after it.
    pub(crate) number: i64,
    /// What it does.
    pub(crate) sql: &'static str,
}

/// Every step, in order.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, sql: include_str!("../migrations/0001_initial.sql") },
    Migration { number: 2, sql: include_str!("../migrations/0002_gates_and_usage.sql") },
    Migration { number: 3, sql: include_str!("../migrations/0003_index.sql") },
    Migration { number: 4, sql: include_str!("../migrations/0004_words_only.sql") },
    Migration { number: 5, sql: include_str!("../migrations/0005_history.sql") },
    Migration { number: 6, sql: include_str!("../migrations/0006_sums.sql") },
    Migration { number: 7, sql: include_str!("../migrations/0007_readings.sql") },
    Migration { number: 8, sql: include_str!("../migrations/0008_statistics.sql") },
    Migration { number: 9, sql: include_str!("../migrations/0009_worker_clock.sql") },
    Migration { number: 10, sql: include_str!("../migrations/0010_learnt.sql") },
    Migration { number: 11, sql: include_str!("../migrations/0011_open_operations.sql") },
    Migration { number: 12, sql: include_str!("../migrations/0012_worker_runs.sql") },
    Migration { number: 13, sql: include_str!("../migrations/0013_edition.sql") },
    Migration { number: 14, sql: include_str!("../migrations/0014_work_list.sql") },
    Migration { number: 15, sql: include_str!("../migrations/0015_facts.sql") },
    Migration { number: 16, sql: include_str!("../migrations/0016_operators.sql") },
    Migration { number: 17, sql: include_str!("../migrations/0017_groups.sql") },
    Migration { number: 18, sql: include_str!("../migrations/0018_verdicts_and_pauses.sql") },
    Migration { number: 19, sql: include_str!("../migrations/0019_frozen.sql") },
    Migration { number: 20, sql: include_str!("../migrations/0020_memos.sql") },
    Migration { number: 23, sql: include_str!("../migrations/0023_dead.sql") },
    Migration { number: 24, sql: include_str!("../migrations/0024_own_policy.sql") },
    Migration { number: 25, sql: include_str!("../migrations/0025_vitals.sql") },
    Migration { number: 26, sql: include_str!("../migrations/0026_facts_of_documents.sql") },
    Migration { number: 27, sql: include_str!("../migrations/0027_answers.sql") },
    Migration { number: 28, sql: include_str!("../migrations/0028_failing_since.sql") },
];

/// Refuses a file that a newer version has written.
pub(crate) fn refuse_newer(conn: &Connection, migrations: &[Migration]) -> Result<()> {
    let found = version(conn)?;
    let known = migrations.last().map_or(0, |migration| migration.number);
    if found > known {
        return Err(Error::Newer { found, known }.into());
    }
    if found < 0 {
        return Err(Error::Corrupt(format!("its schema has the number {found}, which none has")).into());
    }
    Ok(())
}

/// Refuses a file that would have to be brought forward first.
pub(crate) fn refuse_older(conn: &Connection, migrations: &[Migration]) -> Result<()> {
    let (found, known) = (version(conn)?, migrations.last().map_or(0, |migration| migration.number));
    if found < known {
        let told = format!(
            "it has schema {found} of an older version, and this version reads schema {known}: somebody who may write it \
             has to open it once"
        );
        return Err(Error::ReadOnly(told).into());
    }
    Ok(())
}

/// Runs the steps that the file does not have yet.
pub(crate) fn forward(conn: &Connection, migrations: &[Migration], crash: CrashHook) -> Result<()> {
    for migration in migrations {
        if version(conn)? >= migration.number {
            continue;
        }
        let tx = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
        // Another process may have been faster between the look above and the lock.
        if version(&tx)? >= migration.number {
            continue;
        }
        tx.execute_batch(migration.sql).map_err(|error| not_as_left(error, migration.number))?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", migration.number)?;
        crash(MID_MIGRATION);
        tx.commit()?;
    }
    Ok(())
}

/// A step that SQLite does not understand stands on something else than the step before it left: the number of the schema,
/// or the schema itself, is damaged. SQLite's own words for that repeat the whole step.
fn not_as_left(error: rusqlite::Error, number: i64) -> Fault {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } => not_as_left_says(&msg, number),
        rusqlite::Error::SqliteFailure(code, Some(msg)) if code.code == rusqlite::ErrorCode::Unknown => {
            not_as_left_says(&msg, number)
        }
        error => error.into(),
    }
}

fn not_as_left_says(what: &str, number: i64) -> Fault {
    Error::Corrupt(format!("its schema has the number {}, but is not as that: {what}", number - 1)).into()
}

/// Refuses a file whose tables are not as the steps it has would have made them: a damaged schema still parses, and
/// what was then written would be written wrong. What somebody added is left alone.
pub(crate) fn check_schema(conn: &Connection, migrations: &[Migration]) -> Result<()> {
    // One snapshot: a neighbour may be bringing the file forward between one look and the next.
    let conn = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Deferred)?;
    let found = version(&conn)?;
    let upto = migrations.partition_point(|migration| migration.number <= found);
    let fresh = Connection::open_in_memory()?;
    forward(&fresh, &migrations[..upto], |_| {})?;
    let mut expected = fresh.prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let mut present = conn.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?1 AND sql = ?2")?;
    let mut rows = expected.query([])?;
    while let Some(row) = rows.next()? {
        let (name, sql): (String, String) = (row.get(0)?, row.get(1)?);
        if !present.exists((&name, &sql))? {
            return Err(Error::Corrupt(format!("'{name}' is not as it was made")).into());
        }
    }
    Ok(())
}

fn version(conn: &Connection) -> Result<i64> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use redrive_core::attempt::{AttemptFailure, AttemptRecord, Outcome};
    use redrive_core::failure::{Class, Kind};
    use redrive_core::id::{ItemSeq, RunId, StageNo, WorkerId};
    use redrive_core::item::{DeadReason, StateKind};
    use redrive_core::policy::Cause;
    use redrive_core::tally::{Counter, Metric};
    use redrive_core::time::Timestamp;

    use super::*;
    use crate::open::{self, Missing};
    use crate::options::Options;
    use crate::verb::{counter, gate, history, index, query, tombstone, worker};

    const LAST: i64 = MIGRATIONS[MIGRATIONS.len() - 1].number;
    const NEXT: Migration = Migration {
        number: LAST + 1,
        sql: "ALTER TABLE run ADD COLUMN note TEXT; CREATE TABLE extra (n INTEGER);",
    };
    const BROKEN: Migration =
        Migration { number: LAST + 1, sql: "CREATE TABLE extra (n INTEGER); nonsense;" };

    /// Every step, and one more.
    fn and(next: Migration) -> Vec<Migration> {
        MIGRATIONS.iter().copied().chain([next]).collect()
    }

    fn schema(conn: &Connection) -> (i64, bool) {
        let tables: i64 = conn
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'", [], |row| row.get(0))
            .unwrap();
        (version(conn).unwrap(), tables == 1)
    }

    #[test]
    fn an_older_schema_is_brought_forward_and_keeps_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        let old = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        old.execute(
            "INSERT INTO worker (name, identity, lease_until, started_at) VALUES ('w', 'i', 1, 1)",
            [],
        )
        .unwrap();
        drop(old);
        let new = open::writer(&path, &Options::default(), &and(NEXT), Missing::Create).unwrap();
        assert_eq!(schema(&new), (LAST + 1, true));
        let kept: i64 = new.query_row("SELECT count(*) FROM worker", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, 1);
        drop(new);
        let refused = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create);
        assert!(matches!(refused, Err(Error::Newer { found, known: LAST }) if found == LAST + 1));
    }

    #[test]
    fn a_file_of_schema_1_keeps_its_attempts_and_gets_gates() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.db");
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..1], Missing::Create).unwrap();
        old.execute_batch(
            "INSERT INTO attempt VALUES (7, 0, 1, 1, 10, 20, 4, 0, 3, 503, 'no', 1500, 1, 2, 9);
             INSERT INTO attempt VALUES (7, 0, 1, 2, 30, 40, 0, NULL, NULL, NULL, NULL, NULL, NULL, 2, 9);
             INSERT INTO counter VALUES (1, 1, 500004, 1), (1, 1, 500000, 1);",
        )
        .unwrap();
        assert_eq!(version(&old).unwrap(), 1);
        drop(old);
        // The second time it is opened with the schema it then has.
        for _ in 0..2 {
            let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
            assert_eq!(version(&new).unwrap(), LAST);
            let attempts = history::of(&new, ItemSeq(7), usize::MAX).unwrap().attempts;
            let failed = AttemptRecord {
                generation: 0,
                stage: StageNo(1),
                attempt: 1,
                started_at: Timestamp(10),
                ended_at: Timestamp(20),
                outcome: Outcome::Failed,
                failure: Some(AttemptFailure {
                    class: Class::ALL[0],
                    kind: Kind::ALL[3],
                    status: Some(503),
                    message: "no".into(),
                }),
                wait: Some((Duration::from_millis(1_500), Cause::Backoff)),
                worker: WorkerId(2),
                config: 9,
                usage: None,
                verdict: None,
            };
            let passed = AttemptRecord {
                attempt: 2,
                started_at: Timestamp(30),
                ended_at: Timestamp(40),
                outcome: Outcome::Succeeded,
                failure: None,
                wait: None,
                ..failed.clone()
            };
            assert_eq!(attempts, [failed, passed]);
            assert_eq!(counter::of_run(&new, RunId(1)).unwrap().len(), 2);
            assert_eq!(gate::all(&new).unwrap(), []);
        }
        let refused = open::writer(&path, &Options::default(), &MIGRATIONS[..1], Missing::Create);
        assert!(matches!(refused, Err(Error::Newer { known: 1, .. })));
    }

    #[test]
    fn what_was_purged_in_a_file_of_schema_3_counts_as_dead_and_matches_its_tombstones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("three.db");
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..3], Missing::Create).unwrap();
        // Run 1: two purged at two stages. Run 2: three counted, of which one was submitted again (and so has no tombstone
        // that tells the truth) and one went with a run that was being forgotten.
        old.execute_batch(
            "INSERT INTO counter VALUES (1, 0, 200001, 1), (1, 1, 200001, 1), (1, 0, 200000, 5);
             INSERT INTO counter VALUES (2, 0, 200001, 3);
             INSERT INTO tombstone VALUES (x'01010101010101010101010101010101', 1, 'a', 10, 1), (x'02020202020202020202020202020202', 1, 'b', 11, 1), (x'03030303030303030303030303030303', 2, 'c', 12, 2);
             INSERT INTO operation (kind, state, actor, request, changed, skipped, created_at, updated_at)
             VALUES (1, 1, 'ann', '{}', 2, 0, 10, 10);",
        )
        .unwrap_or_else(|error| panic!("{error}"));
        drop(old);
        let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        let counter = |stage, metric, n| Counter { stage: StageNo(stage), metric, n };
        let purged = |stage, n| counter(stage, Metric::Purged(StateKind::Dead), n);
        let kept = counter::of_run(&new, RunId(1)).unwrap();
        assert_eq!(kept, [counter(0, Metric::Admitted, 5), purged(0, 1), purged(1, 1)]);
        let kept = counter::of_run(&new, RunId(2)).unwrap();
        assert_eq!(kept, [purged(0, 1), counter(0, Metric::Forgotten(StateKind::Dead), 2)]);
        let ids = |run| {
            let query =
                redrive_store::TombstoneQuery { run: Some(RunId(run)), limit: 9, ..Default::default() };
            tombstone::page(&new, &query).unwrap()
        };
        assert_eq!((ids(1).len(), ids(2).len()), (2, 1));
        assert_eq!((ids(1)[0].was, ids(1)[0].actor.as_deref()), (None, Some("ann")));
    }

    #[test]
    fn dead_items_of_a_file_of_schema_15_are_grouped_and_have_no_policy_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifteen.db");
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..15], Missing::Create).unwrap();
        for (seq, group, at) in [(1_u8, "g", 30), (2, "h", 10), (3, "g", 20)] {
            let key = format!("k{seq}");
            old.execute(
                "INSERT INTO item (seq, id, run, key, version, origin, stage, state, lane, generation, rev, attempt, failures,
                                   throttles, crashes, dead_reason, class, kind, message, grp, shared, created_at,
                                   updated_at, payload)
                 VALUES (?1, ?5, 1, ?2, zeroblob(16), 0, 0, 7, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 'no', ?3, 0,
                         0, ?4, x'00')",
                (seq, key, group, at, [seq; 16]),
            )
            .unwrap_or_else(|error| panic!("{error}"));
        }
        drop(old);
        let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        let groups = query::groups(&new, &redrive_store::ItemFilter::default(), 9).unwrap();
        let told = groups.iter().map(|group| (&*group.group, group.items, group.first_at.0, group.last_at.0));
        assert_eq!(told.collect::<Vec<_>>(), [("g", 2, 20, 30), ("h", 1, 10, 10)]);
        let item = crate::verb::item::one(&new, ItemSeq(1)).unwrap().expect("there");
        assert_eq!((&*item.key, item.policy), ("k1", None), "it goes under its stage's policy as ever");
    }

    #[test]
    fn files_that_schema_3_has_seen_are_read_once_more_and_its_chunks_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("three.db");
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..3], Missing::Create).unwrap();
        old.execute_batch(
            "INSERT INTO model VALUES (1, 'm', 1);
             INSERT INTO collection VALUES (1, '/here', 1, '{}', 0);
             INSERT INTO vector VALUES (1, 1, zeroblob(16), 1.0, x'01');
             INSERT INTO doc (no, collection, path, kind, seen_size, seen_time, seen_hash) VALUES (1, 1, 'a', 'text', 5, 7, zeroblob(16));
             INSERT INTO chunk VALUES (1, 1, 'k', zeroblob(16), 1, 0, NULL, 1, 1, 0, 5, '', 'walrus');
             INSERT INTO words (rowid, context, text) VALUES (1, '', 'walrus');",
        )
        .unwrap();
        drop(old);
        let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        let collection = redrive_core::index::CollectionNo(1);
        let docs = index::doc::after(&new, collection, 0, 9).unwrap();
        let seen = docs[0].seen.unwrap();
        assert_eq!((seen.size, seen.stamp), (5, None));
        let scope = redrive_store::index::Scope { collections: vec![collection], ..Default::default() };
        let words = vec!["walrus".to_owned()];
        let query = redrive_store::index::WordsQuery { words, scope, count: 9 };
        assert_eq!(index::search::containing(&new, &query).unwrap().len(), 1);
        assert_eq!(index::faults(&new, 9).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn the_statistics_of_a_file_of_schema_5_are_counted_forward() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("five.db");
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..5], Missing::Create).unwrap();
        // Item 1 passed at once. Item 2 failed, crashed, was sent back and waits. Item 3 was turned away, failed and is dead.
        let item = |seq: i64, state: i64, due: &str, generation: i64, failures: i64, reason: &str| {
            format!(
                "INSERT INTO item VALUES ({seq}, x'{seq:032}', 1, NULL, 'k', x'{seq:032}', 0, 0, {state}, 0, {due}, NULL, NULL,
                 NULL, {generation}, 1, 0, {failures}, 0, 0, NULL, NULL, {reason}, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL,
                 x'00', NULL);"
            )
        };
        let attempt = |item: i64, generation: i64, attempt: i64, outcome: i64| {
            format!(
                "INSERT INTO attempt VALUES ({item}, {generation}, 0, {attempt}, 1, 2, {outcome}, NULL, NULL, NULL, NULL, NULL,
                 NULL, 1, 77, NULL, NULL, NULL);"
            )
        };
        let rows = [
            item(1, 3, "NULL", 0, 0, "NULL"),
            item(2, 0, "5", 1, 0, "NULL"),
            item(3, 7, "NULL", 0, 1, "0"),
            attempt(1, 0, 1, 0),
            attempt(2, 0, 1, 4),
            attempt(2, 0, 2, 6),
            attempt(3, 0, 1, 5),
            attempt(3, 0, 2, 4),
        ];
        old.execute_batch(&rows.concat()).unwrap_or_else(|error| panic!("{error}"));
        drop(old);
        let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        let kept: Vec<_> =
            counter::of_run(&new, RunId(1)).unwrap().into_iter().map(|one| (one.metric, one.n)).collect();
        let expected = [
            (Metric::DeadAfter(1), 1),
            (Metric::OpenAfter(2), 1),
            (Metric::FirstTry, 3),
            (Metric::FirstPass, 1),
        ];
        assert_eq!(kept, expected);
        let by_config: Vec<_> = counter::by_config(&new, RunId(1))
            .unwrap()
            .into_iter()
            .map(|one| (one.config, one.counter.metric, one.counter.n))
            .collect();
        let outcomes = [Outcome::Succeeded, Outcome::Failed, Outcome::Throttled, Outcome::Crashed];
        let mut expected: Vec<_> = outcomes.map(|outcome| (77, Metric::Outcome(outcome), 1)).to_vec();
        expected[1].2 = 2;
        expected.extend([(77, Metric::FirstTry, 3), (77, Metric::FirstPass, 1)]);
        assert_eq!(by_config, expected);
        assert_eq!(crate::verb::item::one(&new, ItemSeq(2)).unwrap().unwrap().tries(), 2);
    }

    #[test]
    fn what_is_dead_in_a_file_of_schema_23_has_died_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        let upto = MIGRATIONS.partition_point(|migration| migration.number <= 23);
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..upto], Missing::Create).unwrap();
        old.execute_batch(
            "INSERT INTO counter VALUES (1, 0, 300001, 4), (1, 2, 300000, 1), (1, 0, 100007, 4);",
        )
        .unwrap();
        drop(old);
        let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        let died = counter::of_run(&new, RunId(1)).unwrap().into_iter().filter_map(|one| match one.metric {
            Metric::Died(reason) => Some((one.stage, reason, one.n)),
            _ => None,
        });
        let expected = [(StageNo(0), DeadReason::Exhausted, 4), (StageNo(2), DeadReason::Final, 1)];
        assert_eq!(died.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn workers_of_schema_10_work_on_the_run_that_their_name_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ten.db");
        let old = open::writer(&path, &Options::default(), &MIGRATIONS[..10], Missing::Create).unwrap();
        for name in ["host:7 on r12", "w", "w on rails", "w on r1x", " on r", "on r3"] {
            let row = "INSERT INTO worker (name, identity, lease_until, started_at) VALUES (?1, 'i', 1, 1)";
            old.execute(row, [name]).unwrap();
        }
        drop(old);
        let new = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        let kept = worker::live(&new).unwrap().into_iter().map(|worker| worker.spec.runs);
        assert_eq!(kept.collect::<Vec<_>>(), [vec![RunId(12)], vec![], vec![], vec![], vec![], vec![]]);
    }

    #[test]
    fn many_may_bring_the_same_file_forward_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = folder.path().join(format!("{round}.db"));
            drop(open::writer(&path, &Options::default(), &MIGRATIONS[..1], Missing::Create).unwrap());
            let open = || {
                open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create)
                    .map(|conn| version(&conn))
            };
            std::thread::scope(|scope| {
                let openers: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
                for opener in openers {
                    assert_eq!(opener.join().unwrap().unwrap().unwrap(), LAST);
                }
            });
        }
    }

    #[test]
    fn a_step_that_breaks_off_leaves_the_old_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        drop(open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap());
        assert!(open::writer(&path, &Options::default(), &and(BROKEN), Missing::Create).is_err());
        let again = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        assert_eq!(schema(&again), (LAST, false));
    }

    #[test]
    fn a_process_that_dies_in_a_step_leaves_the_old_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("old.db");
        drop(open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap());
        let dies = Options { crash_hook: |point| panic!("died at {point}"), ..Options::default() };
        let died =
            std::panic::catch_unwind(|| open::writer(&path, &dies, &and(NEXT), Missing::Create).map(drop));
        assert!(died.is_err(), "the crash point was met");
        let again = open::writer(&path, &Options::default(), MIGRATIONS, Missing::Create).unwrap();
        assert_eq!(schema(&again), (LAST, false));
    }
}
