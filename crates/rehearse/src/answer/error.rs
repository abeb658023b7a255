//! Errors in OpenAI's shape.

/// The body of an error.
pub(crate) fn error(status: u16, code: &str, text: &str) -> Vec<u8> {
    let kind = match (status, code) {
        (_, "insufficient_quota") => "insufficient_quota",
        (429, _) => "requests",
        (500.., _) => "server_error",
        _ => "invalid_request_error",
    };
    serde_json::json!({"error": {"message": text, "type": kind, "param": null, "code": code}})
        .to_string()
        .into_bytes()
}
