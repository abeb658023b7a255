//! The expression: five fields, or a word such as `@daily`.

/// The fields, in order: name, smallest and largest value, and names that mean values.
const FIELDS: [Field; 5] = [
    Field { name: "minute", low: 0, high: 59, names: &[] },
    Field { name: "hour", low: 0, high: 23, names: &[] },
    Field { name: "day of month", low: 1, high: 31, names: &[] },
    Field { name: "month", low: 1, high: 12, names: &MONTHS },
    // 7 is Sunday, too.
    Field { name: "day of week", low: 0, high: 7, names: &DAYS },
];
const MONTHS: [(&str, u8); 12] = [
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const DAYS: [(&str, u8); 7] =
    [("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];
const WORDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];
/// Longer is no expression.
const LONGEST: usize = 1_000;

struct Field {
    name: &'static str,
    low: u8,
    high: u8,
    names: &'static [(&'static str, u8)],
}

/// When something happens, in local time: a set of values for each field.
///
/// Where both the day of the month and the day of the week are limited, one of them is enough, as with every `cron`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether one of the two kinds of day is enough.
    either: bool,
}

impl Cron {
    /// Reads an expression.
    ///
    /// # Errors
    /// Says which field is wrong, and what it may be.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("an expression has at most {LONGEST} bytes"));
        }
        let text = text.trim();
        let fields = match WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
            Some((_, fields)) => fields,
            None if text.starts_with('@') => {
                let known: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
                return Err(format!("unknown word {text:?}; known are {}", known.join(", ")));
            }
            None => text,
        };
        let parts: Vec<&str> = fields.split_ascii_whitespace().collect();
        let parts: [&str; 5] = parts.try_into().map_err(|parts: Vec<&str>| {
            let n = parts.len();
            format!("expected five fields (minute, hour, day of month, month, day of week), found {n}")
        })?;
        let mut sets = [0; 5];
        for ((set, field), part) in sets.iter_mut().zip(&FIELDS).zip(parts) {
            *set = field.read(part).map_err(|why| format!("in the {}, {why}", field.name))?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        let weekdays = (weekdays | weekdays >> 7) & 0b111_1111;
        let either = !parts[2].starts_with('*') && !parts[4].starts_with('*');
        let cron = Self { minutes, hours, days, months, weekdays, either };
        if cron.never() {
            return Err("none of these months has such a day".to_owned());
        }
        Ok(cron)
    }

    /// Whether no day of any year is meant.
    fn never(&self) -> bool {
        let last = |month: u8| match month {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let some = (1..=12).filter(|month| has(self.months, *month));
        let some_day = some.into_iter().any(|month| (1..=last(month)).any(|day| has(self.days, day)));
        !some_day && !self.either
    }

    /// Whether a day is meant; Sunday is 0.
    pub(super) fn has_day(&self, month: u8, day: u8, weekday: u8) -> bool {
        let (day, weekday) = (has(self.days, day), has(self.weekdays, weekday));
        has(self.months, month) && if self.either { day || weekday } else { day && weekday }
    }

    /// The first minute of a day that is meant, from this one on.
    pub(super) fn minute_from(&self, minute: u32) -> Option<u32> {
        (minute..24 * 60).find(|at| {
            let (hour, minute) = (at / 60, at % 60);
            self.hours >> hour & 1 == 1 && self.minutes >> minute & 1 == 1
        })
    }
}

fn has(set: u64, value: u8) -> bool {
    set >> value & 1 == 1
}

impl Field {
    fn read(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, part| Ok(set | self.part(part)?))
    }

    fn part(&self, text: &str) -> Result<u64, String> {
        let (range, step) = match text.split_once('/') {
            None => (text, None),
            Some((range, step)) => {
                let wrong = || format!("{step:?} is no step; write a number from 1 to {}", self.high);
                let step = number(step).filter(|step| (1..=self.high).contains(step)).ok_or_else(wrong)?;
                (range, Some(step))
            }
        };
        let (low, high) = if range == "*" {
            (self.low, self.high.min(if self.high == 7 { 6 } else { self.high }))
        } else if let Some((low, high)) = range.split_once('-') {
            (self.value(low)?, self.value(high)?)
        } else {
            let value = self.value(range)?;
            // As with every cron, a step from one value on goes to the last.
            (value, if step.is_some() { self.high } else { value })
        };
        if low > high {
            return Err(format!("{range:?} begins after it ends"));
        }
        Ok((low..=high).step_by(step.unwrap_or(1).into()).fold(0, |set, value| set | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u8, String> {
        if let Some((_, value)) = self.names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            return Ok(*value);
        }
        number(text).filter(|value| (self.low..=self.high).contains(value)).ok_or_else(|| {
            let names = match self.names {
                [(first, _), .., (last, _)] => format!(", or {first} to {last}"),
                _ => String::new(),
            };
            format!("{text:?} is no value; write {} to {}{names}", self.low, self.high)
        })
    }
}

fn number(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_that_mean_the_same_are_the_same() {
        for (one, other) in [
            ("@daily", "0 0 * * *"),
            ("@Midnight", "00 0 * * *"),
            ("@hourly", "0 */1 * * *"),
            ("@weekly", "0 0 * * sun"),
            ("@yearly", "0 0 1 Jan *"),
            ("*/15 * * * *", "0,15,30,45 * * * *"),
            ("5/20 * * * *", "5,25,45 * * * *"),
            ("0 9-17/4 * * mon-fri", "0 9,13,17 * * 1-5"),
            ("0 0 * * 7", "0 0 * * 0"),
            ("0 0 * * 5-7", "0 0 * * 0,5,6"),
            ("  0   0\t* * *  ", "0 0 * * *"),
        ] {
            assert_eq!(Cron::parse(one), Cron::parse(other), "{one}");
            assert!(Cron::parse(one).is_ok(), "{one}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        for (text, words) in [
            ("", "found 0"),
            ("* * * *", "found 4"),
            ("* * * * * *", "found 6"),
            ("60 * * * *", "in the minute, \"60\" is no value; write 0 to 59"),
            ("* 24 * * *", "in the hour"),
            ("* * 0 * *", "in the day of month, \"0\" is no value; write 1 to 31"),
            ("* * * 13 *", "in the month, \"13\" is no value; write 1 to 12, or jan to dec"),
            ("* * * * 8", "in the day of week"),
            ("*/0 * * * *", "in the minute, \"0\" is no step"),
            ("*/60 * * * *", "is no step"),
            ("5-1 * * * *", "\"5-1\" begins after it ends"),
            ("1,,2 * * * *", "\"\" is no value"),
            ("+1 * * * *", "\"+1\" is no value"),
            ("1- * * * *", "\"\" is no value"),
            ("@reboot", "unknown word \"@reboot\"; known are @hourly"),
            ("0 0 31 2 *", "none of these months has such a day"),
            ("0 0 31 apr,jun *", "none of these months has such a day"),
            ("0 0 L * *", "\"L\" is no value"),
        ] {
            let error = Cron::parse(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn one_of_two_kinds_of_day_is_enough_where_both_are_limited() {
        let cron = Cron::parse("0 0 31 2 mon").expect("an expression");
        assert!(cron.has_day(2, 5, 1) && !cron.has_day(2, 6, 2) && !cron.has_day(3, 31, 1));
        let cron = Cron::parse("0 0 */2 * mon").expect("an expression");
        assert!(cron.has_day(2, 5, 1) && !cron.has_day(2, 6, 1) && !cron.has_day(2, 5, 2));
    }
}
