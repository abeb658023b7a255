//! What things are called on the bus. Others bind to these names and read these headers: they stay.

/// The exchange that facts are published to: topic, durable.
pub const EXCHANGE: &str = "redrive.events";
/// The queue that answers of services are taken from.
pub const ANSWERS: &str = "redrive.answers";
/// What the name of a queue begins with whose messages are the work of an event.
const WORK: &str = "redrive.work.";
/// What the name of a queue of failed messages ends with.
pub const FAILED: &str = ".failed";
/// The header with the key of an item that is handed in.
pub const KEY: &str = "redrive-key";
/// The header with the category of an item that is handed in.
pub const CATEGORY: &str = "redrive-category";
/// The header of a failed message that says why it is one.
pub const REASON: &str = "redrive-reason";
/// The header of a failed message that says which queue it was taken from.
pub const QUEUE: &str = "redrive-queue";
/// The header of a failed message that says when it was put aside.
pub const FAILED_AT: &str = "redrive-failed-at";
/// The name by which the broker knows the program, as in the list of connections.
pub const CONNECTION: &str = "redrive";

/// The queue of the work of an event.
#[must_use]
pub fn work_of(event: &str) -> String {
    format!("{WORK}{event}")
}

/// The queue of the failed messages of a queue.
#[must_use]
pub fn failed_of(queue: &str) -> String {
    format!("{queue}{FAILED}")
}

/// The queue whose failed messages are in this one.
#[must_use]
pub fn queue_of(failed: &str) -> Option<&str> {
    failed.strip_suffix(FAILED).filter(|queue| !queue.is_empty())
}
