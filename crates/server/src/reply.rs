//! What is answered with.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use redrive_operate::{Error, Result};
use serde::Serialize;

/// The kind of an answer that tells what happens when it happens.
pub const EVENTS: &str = "text/event-stream";

/// An answer that went well.
pub struct Reply {
    status: StatusCode,
    kind: &'static str,
    location: Option<String>,
    body: Body,
}

impl Reply {
    /// One document.
    ///
    /// # Errors
    /// Never but for a mistake in the program.
    pub fn json(document: &impl Serialize) -> Result<Self> {
        let text = serde_json::to_vec(document).map_err(|error| Error::internal(error.to_string()))?;
        Ok(Self { status: StatusCode::OK, kind: "application/json", location: None, body: text.into() })
    }

    /// A text of this kind.
    pub fn text(kind: &'static str, text: String) -> Self {
        Self { status: StatusCode::OK, kind, location: None, body: text.into() }
    }

    /// Something that comes by and by.
    pub fn stream<S, E>(kind: &'static str, stream: S) -> Self
    where
        S: futures_util::Stream<Item = std::result::Result<Bytes, E>> + Send + 'static,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        Self { status: StatusCode::OK, kind, location: None, body: Body::from_stream(stream) }
    }

    /// The same with this status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Something was made, and is there.
    #[must_use]
    pub fn made(self, location: String) -> Self {
        Self { status: StatusCode::CREATED, location: Some(location), ..self }
    }

    /// As HTTP.
    pub fn into_response(self) -> Response {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        let location = self.location.and_then(|location| HeaderValue::try_from(location).ok());
        if let Some(location) = location {
            headers.insert(header::LOCATION, location);
        }
        if self.kind == EVENTS {
            // A gateway that keeps what it gets until it has enough (nginx does) would tell nothing of it.
            headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        }
        protect(headers);
        response
    }
}

/// Adds what keeps a browser from making more of an answer than data.
pub fn protect(headers: &mut HeaderMap) {
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn headers(kind: &'static str) -> HeaderMap {
        let nothing = stream::empty::<std::result::Result<Bytes, Error>>();
        Reply::stream(kind, nothing).into_response().headers().clone()
    }

    #[test]
    fn events_are_neither_kept_back_by_a_gateway_nor_stored() {
        let events = headers(EVENTS);
        assert_eq!(events.get("x-accel-buffering").map(HeaderValue::as_bytes), Some(&b"no"[..]));
        assert_eq!(events.get(header::CACHE_CONTROL).map(HeaderValue::as_bytes), Some(&b"no-store"[..]));
        assert_eq!(headers("application/jsonl").get("x-accel-buffering"), None);
    }
}
