//! One warning for many: the first of its kind is told, those that follow are counted and summed up at the end.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tracing_subscriber::layer::{Context, Filter};

use super::note;
use super::text::{count, short};

/// How much of a warning is told again at the end.
const AGAIN: usize = 120;

static HEARD: LazyLock<Mutex<HashMap<String, u64>>> = LazyLock::new(Mutex::default);

/// Lets the first warning of each kind through. What is one kind is told by the place in the code and its words.
#[derive(Debug, Clone, Copy)]
pub struct FirstOfAKind;

impl<S: tracing::Subscriber> Filter<S> for FirstOfAKind {
    fn enabled(&self, _: &tracing::Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &tracing::Event<'_>, _: &Context<'_, S>) -> bool {
        if *event.metadata().level() != tracing::Level::WARN {
            return true;
        }
        let mut words = Words(String::new());
        event.record(&mut words);
        hear(words.0) == 1
    }
}

/// The message of an event.
struct Words(String);

impl tracing::field::Visit for Words {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Counts a warning; says how often it has come.
fn hear(words: String) -> u64 {
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    let times = heard.entry(words).or_default();
    *times += 1;
    *times
}

/// Tells how often warnings came again that were told once.
pub fn sum_up() {
    let mut heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut again: Vec<(String, u64)> = heard.drain().filter(|(_, times)| *times > 1).collect();
    drop(heard);
    again.sort();
    for (words, times) in again {
        note(&sum(&words, times - 1));
    }
}

fn sum(words: &str, more: u64) -> String {
    let times = if more == 1 { "once more".to_owned() } else { format!("{} more times", count(more)) };
    format!("warning: {times}: {}", short(words, AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_again_is_counted() {
        assert_eq!(hear("a child died".to_owned()), 1);
        assert_eq!(hear("a child died".to_owned()), 2);
        assert_eq!(hear("another".to_owned()), 1);
        assert_eq!(sum("a child died", 1), "warning: once more: a child died");
        assert_eq!(sum("a child died", 1_092), "warning: 1,092 more times: a child died");
    }
}
