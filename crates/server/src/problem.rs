//! Errors as problems (RFC 9457).

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use redrive_operate::{Code, Error, Kind};
use serde::Serialize;

use crate::reply::protect;
use crate::words;

/// Why a request was not answered, with the status that says so.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    error: Error,
}

/// As it is written.
#[derive(Serialize)]
struct Document<'a, P: Serialize> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: Code,
    hint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<P>,
}

impl Problem {
    /// An error with another status than its kind has.
    pub fn new(status: StatusCode, error: Error) -> Self {
        Self { status, error }
    }

    /// Nobody says who asks.
    pub fn unauthenticated() -> Self {
        let error = Error::forbidden("a token is needed, as `Authorization: Bearer TOKEN`")
            .code(Code::Unauthenticated)
            .hint("`redrive token create NAME --role viewer` makes one");
        Self::new(StatusCode::UNAUTHORIZED, error)
    }

    /// Whether the store has no room.
    pub fn is_for_want_of_room(&self) -> bool {
        self.error.code == Code::StoreFull
    }

    /// As HTTP.
    pub fn into_response(self) -> Response {
        let Self { status, error } = self;
        let code = serde_json::to_value(error.code).ok().and_then(|code| code.as_str().map(str::to_owned));
        let hint = error.hint.as_deref().map_or_else(|| usual(status).to_owned(), words::of_routes);
        let document = Document {
            r#type: format!("urn:redrive:problem:{}", code.unwrap_or_default()),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: &error.message,
            code: error.code,
            hint: &hint,
            problems: (!error.problems.is_empty()).then_some(&error.problems),
        };
        let mut response = Response::new(Body::from(serde_json::to_vec(&document).unwrap_or_default()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        protect(headers);
        response
    }
}

/// What to do where the error itself does not say.
fn usual(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED => {
            "GET /v1/openapi.json says what a request may have"
        }
        StatusCode::FORBIDDEN => "`redrive token list` says who may do what",
        StatusCode::NOT_FOUND => "look at the list that it should be in",
        StatusCode::REQUEST_TIMEOUT => "send the whole body at once",
        StatusCode::CONFLICT => "look at how it stands, and ask again where it is still wanted",
        StatusCode::PAYLOAD_TOO_LARGE => "send it in parts",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "say `Content-Type: application/json`",
        StatusCode::MISDIRECTED_REQUEST => "`redrive serve --host NAME` has a name that means this server",
        StatusCode::UNPROCESSABLE_ENTITY => "mend what `problems` names, or what the text says",
        StatusCode::SERVICE_UNAVAILABLE => "try again after `Retry-After` seconds",
        StatusCode::INSUFFICIENT_STORAGE => "make room on the disk of the store; nothing was lost",
        _ => "the log of the daemon says more; `redrive doctor` looks at the store",
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status = match (error.kind, error.code) {
            (Kind::NotFound, _) => StatusCode::NOT_FOUND,
            (Kind::Refused | Kind::Paused, _) => StatusCode::CONFLICT,
            (Kind::Wrong, Code::InvalidPipeline | Code::StageNotReady | Code::UnreadableSource) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            (Kind::Wrong, Code::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE,
            (Kind::Wrong, _) => StatusCode::BAD_REQUEST,
            (Kind::Forbidden, Code::Unauthenticated) => StatusCode::UNAUTHORIZED,
            (Kind::Forbidden, _) => StatusCode::FORBIDDEN,
            (Kind::Busy, _) | (Kind::Internal, Code::StoreUnavailable) => StatusCode::SERVICE_UNAVAILABLE,
            (Kind::Internal, Code::StoreFull) => StatusCode::INSUFFICIENT_STORAGE,
            (Kind::Internal, _) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, error }
    }
}
