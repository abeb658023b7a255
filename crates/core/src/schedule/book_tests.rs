use super::*;

struct Utc;

impl Zone for Utc {
    fn local(&self, at: Timestamp) -> i64 {
        at.0
    }

    fn moment(&self, local: i64) -> Timestamp {
        Timestamp(local)
    }
}

const NONE: [i64; 0] = [];
const HOUR: i64 = 3_600_000;

fn hour(n: i64) -> Timestamp {
    Timestamp(n * HOUR)
}

fn hourly(overlap: Overlap, missed: Missed) -> Book {
    let rule = Rule { cron: "@hourly".to_owned(), time_zone: "UTC".to_owned(), overlap, missed };
    Book::new(rule, Timestamp(HOUR - 1))
}

fn look(book: &mut Book, now: Timestamp, busy: bool) {
    book.look(&Cron::parse("@hourly").expect("an expression"), &Utc, now, busy);
}

/// Everything that is fired at a moment, one after the other, by somebody whose runs end at once.
fn fires(book: &mut Book, now: Timestamp) -> Vec<i64> {
    look(book, now, false);
    let mut due = Vec::new();
    while let Some(time) = book.take("me", now, false) {
        due.push(time.0 / HOUR);
        book.fired(now, Ok(RunId(1)));
    }
    due
}

#[test]
fn each_time_is_fired_once_whatever_the_clock_does() {
    let mut book = hourly(Overlap::Skip, Missed::Once);
    assert_eq!(fires(&mut book, Timestamp(HOUR - 1)), NONE);
    assert_eq!(fires(&mut book, hour(1)), [1]);
    assert_eq!(fires(&mut book, Timestamp(HOUR + 30_000)), NONE);
    assert_eq!(fires(&mut book, hour(2)), [2]);
    assert_eq!(fires(&mut book, Timestamp(HOUR / 2)), NONE, "put back");
    assert_eq!(fires(&mut book, hour(1)), NONE);
    assert_eq!(fires(&mut book, hour(2)), NONE);
    assert_eq!(fires(&mut book, hour(3)), [3]);
    assert_eq!((book.times_fired, book.times_skipped), (3, 0));
}

#[test]
fn missed_times_are_made_up_for_as_the_rule_says() {
    for (missed, late, on_time) in [
        (Missed::Once, vec![5], vec![8]),
        (Missed::Skip, vec![], vec![8]),
        (Missed::All, vec![1, 2, 3, 4, 5], vec![6, 7, 8]),
    ] {
        let mut book = hourly(Overlap::Skip, missed);
        assert_eq!(fires(&mut book, Timestamp(5 * HOUR + HOUR / 2)), late, "{missed:?}");
        assert_eq!(fires(&mut book, Timestamp(8 * HOUR + 1_000)), on_time, "{missed:?}");
        assert_eq!(book.times_fired + book.times_skipped, 8, "{missed:?}");
    }
}

#[test]
fn no_more_than_so_many_are_made_up_for() {
    let mut book = hourly(Overlap::Queue, Missed::All);
    let fired = fires(&mut book, hour(1_000));
    assert_eq!((fired.len(), fired[0], fired[99]), (MOST_MISSED, 901, 1_000));
    assert_eq!(book.skipped.map(|skipped| skipped.why), Some(Skip::Missed));
    let mut book = hourly(Overlap::Queue, Missed::All);
    for n in 1..=60 {
        look(&mut book, Timestamp(n * 4 * HOUR + HOUR / 2), true);
    }
    assert_eq!(book.queue.len(), MOST_MISSED);
}

#[test]
fn a_time_at_which_the_run_before_goes_on_is_skipped_or_waits_or_fires() {
    let mut book = hourly(Overlap::Skip, Missed::Once);
    look(&mut book, hour(1), true);
    assert_eq!(book.take("me", hour(1), true), None);
    let skipped = Skipped { due: hour(1), at: hour(1), why: Skip::Overlap };
    assert_eq!((book.skipped.clone(), book.queue.len()), (Some(skipped), 0));

    let mut book = hourly(Overlap::Queue, Missed::Once);
    look(&mut book, hour(1), true);
    look(&mut book, hour(2), true);
    assert_eq!(book.take("me", hour(2), true), None);
    assert_eq!(
        book.skipped.as_ref().map(|skipped| (skipped.due, skipped.why)),
        Some((hour(2), Skip::Queued))
    );
    assert_eq!(book.take("me", hour(2), false), Some(hour(1)));

    let mut book = hourly(Overlap::Allow, Missed::Once);
    look(&mut book, hour(1), true);
    assert_eq!(book.take("me", hour(1), true), Some(hour(1)));
}

#[test]
fn a_firing_is_one_process_s_until_that_is_taken_for_gone() {
    let mut book = hourly(Overlap::Skip, Missed::Once);
    look(&mut book, hour(1), false);
    assert_eq!(book.take("one", hour(1), false), Some(hour(1)));
    let mut kept = book.clone();
    assert_eq!(kept.take("two", hour(1).after(BEGINS_WITHIN), false), None);
    let later = Timestamp(hour(1).after(BEGINS_WITHIN).0 + 1);
    // The run that the first one began does not keep the second from finding it.
    assert_eq!(kept.take("two", later, true), Some(hour(1)));
    let mut back = book.clone();
    assert_eq!(
        back.take("two", Timestamp(0), true),
        Some(hour(1)),
        "a clock that was put back holds nothing"
    );
    assert_eq!(book.take("one", hour(1), true), Some(hour(1)), "the same one goes on at once");
    book.fired(hour(1), Err("no such file".to_owned()));
    assert_eq!(book.take("one", hour(1), false), None);
    assert_eq!(book.last.as_ref().and_then(|last| last.failed.as_deref()), Some("no such file"));
}

#[test]
fn an_edited_rule_means_no_time_of_the_past() {
    let mut book = hourly(Overlap::Skip, Missed::All);
    let daily = Rule { cron: "@daily".to_owned(), ..book.rule.clone() };
    book.edit(daily, hour(30));
    assert_eq!(book.through, hour(30));
    let queueing = Rule { overlap: Overlap::Queue, ..book.rule.clone() };
    book.edit(queueing.clone(), hour(40));
    assert_eq!((book.through, &book.rule), (hour(30), &queueing), "the times are the same");
}

#[test]
fn what_is_kept_is_read_again() {
    let mut book = hourly(Overlap::Queue, Missed::All);
    look(&mut book, hour(3), true);
    book.take("me", hour(3), false);
    let text = serde_json::to_string(&book).expect("written");
    assert_eq!(serde_json::from_str::<Book>(&text).expect("read"), book);
}
