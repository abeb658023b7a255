//! Reading a body, and no more of it than may be kept.

use reqwest::Response;

/// Why a body was not read to its end.
pub(super) enum Stop {
    /// It is larger than it may be.
    TooLarge,
    /// It broke off after so many bytes.
    Broke(reqwest::Error, usize),
}

/// Reads a body of at most `max` bytes. A larger one is given up as soon as that is known, and its connection closed.
pub(super) async fn read(mut response: Response, max: usize) -> Result<Vec<u8>, Stop> {
    let announced = response.content_length().unwrap_or(0);
    if announced > max as u64 {
        return Err(Stop::TooLarge);
    }
    // What is announced need not come: no memory is taken on its word.
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > max => return Err(Stop::TooLarge),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(Stop::Broke(error, body.len())),
        }
    }
}

/// Reads the beginning of a body; whatever ends it, what has come is returned.
pub(super) async fn beginning(mut response: Response, max: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == max {
            break;
        }
    }
    body
}
