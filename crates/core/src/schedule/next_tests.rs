use proptest::prelude::*;

use super::*;

/// Clocks that are put once, by so many minutes, when they show a time.
struct Put {
    /// Minutes east of UTC before.
    offset: i64,
    /// When, in minutes.
    at: i64,
    /// By how much, in minutes; forward or back.
    by: i64,
}

impl Zone for Put {
    fn local(&self, at: Timestamp) -> i64 {
        let moved = if at.0 >= self.at * MINUTE { self.by } else { 0 };
        at.0 + (self.offset + moved) * MINUTE
    }

    fn moment(&self, local: i64) -> Timestamp {
        let before = local - self.offset * MINUTE;
        let after = before - self.by * MINUTE;
        match (before < self.at * MINUTE, after >= self.at * MINUTE) {
            (true, _) => Timestamp(before),
            (false, true) => Timestamp(after),
            (false, false) => Timestamp(self.at * MINUTE),
        }
    }
}

/// The fields of an expression, read once more in the plainest way.
fn means(expression: &str, local: i64) -> bool {
    let day = local.div_euclid(DAY);
    let Date { month, day_of_month, weekday } = Date::of(day);
    let minute = local.rem_euclid(DAY) / MINUTE;
    let parts: Vec<&str> = expression.split(' ').collect();
    let holds = |part: &str, low: i64, value: i64| {
        part.split(',').any(|piece| {
            let (range, step) = piece.split_once('/').unwrap_or((piece, "1"));
            let (first, last) = match range.split_once('-') {
                Some((first, last)) => (first.parse().unwrap(), last.parse().unwrap()),
                None if range == "*" => (low, 99),
                None => (range.parse().unwrap(), range.parse().unwrap()),
            };
            let step: i64 = step.parse().unwrap();
            value >= first && value <= last && (value - first) % step == 0
        })
    };
    let of_month = holds(parts[2], 1, day_of_month.into());
    let of_week = holds(parts[4], 0, weekday.into());
    let either = !parts[2].starts_with('*') && !parts[4].starts_with('*');
    holds(parts[0], 0, minute % 60)
        && holds(parts[1], 0, minute / 60)
        && holds(parts[3], 1, month.into())
        && if either { of_month || of_week } else { of_month && of_week }
}

/// Walks over every local minute, and notes the moments of those that are meant.
fn walked(expression: &str, zone: &Put, after: Timestamp, upto: Timestamp) -> Vec<Timestamp> {
    let mut found = Vec::new();
    let first = zone.local(after).div_euclid(MINUTE) - 3 * 60;
    for minute in first..zone.local(upto) / MINUTE + 3 * 60 {
        let at = zone.moment(minute * MINUTE);
        if at > after && at <= upto && means(expression, minute * MINUTE) && found.last() != Some(&at) {
            found.push(at);
        }
    }
    found
}

fn field(low: u8, high: u8) -> impl Strategy<Value = String> {
    let value = low..=high;
    prop_oneof![
        3 => Just("*".to_owned()),
        2 => value.clone().prop_map(|value| value.to_string()),
        1 => (2..=20u8.min(high)).prop_map(|step| format!("*/{step}")),
        1 => (value.clone(), value.clone()).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b))),
        1 => (value.clone(), value).prop_map(|(a, b)| format!("{a},{b}")),
    ]
}

proptest! {
    #[test]
    fn times_are_those_that_a_walk_over_every_minute_finds(
        fields in (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)),
        offset in -720i64..840,
        by in prop_oneof![Just(60i64), Just(-60), Just(0), Just(30), Just(-30), Just(-120)],
        day in 0i64..30_000,
        put in 0i64..4_320,
        begin in 0i64..1_440,
    ) {
        let expression = format!("{} {} {} {} {}", fields.0, fields.1, fields.2, fields.3, fields.4);
        let Ok(cron) = Cron::parse(&expression) else { return Ok(()) };
        let zone = Put { offset, at: day * 1_440 + put, by };
        let after = Timestamp((day * 1_440 + begin) * MINUTE + 17);
        let upto = Timestamp(after.0 + 3 * DAY);
        let expected = walked(&expression, &zone, after, upto);
        let mut found = Vec::new();
        let mut at = after;
        while let Some(next) = next_after(&cron, &zone, at).filter(|next| *next <= upto) {
            found.push(next);
            at = next;
        }
        prop_assert_eq!(&found, &expected, "{}", expression);
        let last = recent(&cron, &zone, after, upto, 5);
        prop_assert_eq!(last.more, expected.len() > 5);
        prop_assert_eq!(&last.times[..], &expected[expected.len().saturating_sub(5)..]);
    }
}

const UTC: Put = Put { offset: 0, at: 0, by: 0 };

fn next(expression: &str, after: Timestamp) -> String {
    let cron = Cron::parse(expression).expect("an expression");
    next_after(&cron, &UTC, after).map_or_else(|| "never".to_owned(), |at| at.to_string())
}

#[test]
fn a_leap_day_is_found_over_a_century_without_one() {
    // 2100 is none.
    let after = Timestamp(3_981_484_800_000);
    assert_eq!(after.to_string(), "2096-03-02T00:00:00.000Z");
    assert_eq!(next("0 12 29 2 *", after), "2104-02-29T12:00:00.000Z");
}

#[test]
fn a_moment_that_is_meant_is_not_after_itself() {
    let monday = Timestamp(1_700_438_400_000);
    assert_eq!(monday.to_string(), "2023-11-20T00:00:00.000Z");
    assert_eq!(next("@daily", monday), "2023-11-21T00:00:00.000Z");
    assert_eq!(next("@daily", Timestamp(monday.0 - 1)), "2023-11-20T00:00:00.000Z");
    assert_eq!(next("0 9 * * fri", monday), "2023-11-24T09:00:00.000Z");
}

#[test]
fn the_last_times_of_a_long_span_are_found_quickly() {
    let cron = Cron::parse("* * * * *").expect("an expression");
    let found = recent(&cron, &UTC, Timestamp(0), Timestamp(4_000_000_000_000), 3);
    let minute = |n: i64| Timestamp((4_000_000_000_000 / MINUTE - n) * MINUTE);
    assert_eq!(found, Recent { times: vec![minute(2), minute(1), minute(0)], more: true });
    let yearly = Cron::parse("@yearly").expect("an expression");
    let found = recent(&yearly, &UTC, Timestamp(0), Timestamp(4_000_000_000_000), 1_000);
    assert_eq!((found.times.len(), found.more), (126, false));
}
