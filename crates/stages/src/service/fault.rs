//! What it means when no whole answer came.

use std::error::Error;
use std::io;

use redrive_core::failure::{Class, Failure, Kind};

use super::answer::Stop;
use crate::outbound::Refused;
use crate::protocol::Decoder;
use crate::shortage::is_shortage;

/// No answer began.
pub(super) fn of_sending(error: reqwest::Error, target: &str, decoder: &Decoder) -> Failure {
    let error = error.without_url();
    if let Some(why) = causes(&error).find_map(|cause| cause.downcast_ref::<Refused>()) {
        return of_reach(why, target, decoder);
    }
    if causes(&error).any(|cause| cause.downcast_ref::<io::Error>().is_some_and(is_shortage)) {
        let text = format!(
            "no connection to {target}: {}; the machine is short of something, and nothing is spent by that",
            root(&error)
        );
        return decoder.failure(Class::RateLimited, Kind::Connection, text);
    }
    let (kind, what) = if error.is_connect() && error.is_timeout() {
        (Kind::Connection, "no connection in time to")
    } else if error.is_connect() {
        (Kind::Connection, "no connection to")
    } else if is_not_http(&error) {
        (Kind::Answer, "not an HTTP answer from")
    } else {
        (Kind::Connection, "connection broken to")
    };
    decoder.failure(Class::Retryable, kind, format!("{what} {target}: {}", root(&error)))
}

/// It may not be called from here.
pub(super) fn of_reach(why: &Refused, target: &str, decoder: &Decoder) -> Failure {
    decoder.failure(Class::Final, Kind::Access, format!("{target} is not called: {why}"))
}

/// An answer began and did not end.
pub(super) fn of_reading(stop: Stop, target: &str, max: usize, decoder: &Decoder) -> Failure {
    match stop {
        Stop::TooLarge => {
            let text = format!("answer larger than {max} bytes from {target}; it was refused");
            decoder.failure(Class::Retryable, Kind::Answer, text)
        }
        Stop::Broke(error, read) => {
            let error = error.without_url();
            let kind = if is_not_http(&error) { Kind::Answer } else { Kind::Connection };
            let text = format!("answer broken off after {read} bytes from {target}: {}", root(&error));
            decoder.failure(Class::Retryable, kind, text)
        }
    }
}

/// Whether bytes came that are no HTTP, as opposed to too few bytes.
fn is_not_http(error: &reqwest::Error) -> bool {
    causes(error).any(|cause| {
        let parse = cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse);
        let data = cause.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput)
        });
        parse || data
    })
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The innermost cause, which is the one that says something.
fn root(error: &reqwest::Error) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Every cause, outermost first.
pub(super) fn chain(error: &reqwest::Error) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
