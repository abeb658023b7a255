//! The body of an answer, whole or not.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use redrive_engine::env::Clock;

/// The connection is closed here.
#[derive(Debug)]
pub(crate) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut on purpose")
    }
}

impl std::error::Error for Cut {}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// The body of an answer.
pub(crate) enum Outgoing {
    /// As it should be.
    Whole(Option<Bytes>),
    /// The first part of what was announced, then the connection is closed.
    Broken {
        /// The first part, until it was sent.
        part: Option<Bytes>,
        /// What was announced.
        length: u64,
        /// Whether the part had its chance to leave.
        sent: bool,
    },
    /// Byte by byte.
    Trickle(Trickle),
    /// So many bytes more.
    Flood(u64),
}

/// A body that comes byte by byte.
pub(crate) struct Trickle {
    /// What is left; spaces for ever when it was nothing to begin with.
    rest: Option<Bytes>,
    pace: Duration,
    clock: Arc<dyn Clock>,
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Trickle {
    /// This body, or one without an end.
    pub(crate) fn new(body: Option<Bytes>, pace: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { rest: body, pace, clock, pause: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.rest.as_ref().is_some_and(Bytes::is_empty) {
            return Poll::Ready(None);
        }
        let pause = self.pause.get_or_insert_with(|| {
            let (clock, pace) = (self.clock.clone(), self.pace);
            Box::pin(async move { clock.sleep(pace).await })
        });
        if pause.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.pause = None;
        let byte = self.rest.as_mut().map_or(Bytes::from_static(b" "), |rest| rest.split_to(1));
        Poll::Ready(Some(byte))
    }
}

/// What a flood is made of.
static WATER: [u8; 16_384] = [b' '; 16_384];

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let ready = |bytes: Option<Bytes>| bytes.map(|bytes| Ok(Frame::data(bytes)));
        match &mut *self {
            Self::Whole(body) => Poll::Ready(ready(body.take())),
            Self::Broken { part, sent, .. } => match part.take() {
                Some(part) => Poll::Ready(ready(Some(part))),
                None if *sent => Poll::Ready(Some(Err(Cut))),
                None => {
                    // A body that has nothing yet lets the connection send what it has so far.
                    *sent = true;
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            },
            Self::Trickle(trickle) => trickle.poll(context).map(ready),
            Self::Flood(0) => Poll::Ready(None),
            Self::Flood(left) => {
                let now = usize::try_from(*left).unwrap_or(usize::MAX).min(WATER.len());
                *left -= now as u64;
                Poll::Ready(ready(Some(Bytes::from_static(&WATER[..now]))))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Broken { length, .. } => SizeHint::with_exact(*length),
            Self::Trickle(_) | Self::Flood(_) => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }
}
