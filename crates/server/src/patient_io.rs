//! A connection whose other end has to read what is written to it within a time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redrive_engine::env::Clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that breaks off when what is written to it is not read for so long.
pub struct PatientIo<T> {
    inner: T,
    clock: Arc<dyn Clock>,
    within: Duration,
    waits: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T> PatientIo<T> {
    /// Bears so much silence.
    pub fn new(inner: T, clock: Arc<dyn Clock>, within: Duration) -> Self {
        Self { inner, clock, within, waits: None }
    }

    /// Passes on what came of a write, and counts how long nothing did.
    fn bear<R>(&mut self, context: &mut Context<'_>, came: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if came.is_ready() {
            self.waits = None;
            return came;
        }
        let (clock, within) = (self.clock.clone(), self.within);
        let waits = self.waits.get_or_insert_with(|| Box::pin(async move { clock.sleep(within).await }));
        match waits.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for PatientIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for PatientIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let came = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.bear(context, came)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.inner).poll_flush(context);
        self.bear(context, came)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let came = Pin::new(&mut self.inner).poll_shutdown(context);
        self.bear(context, came)
    }
}

#[cfg(test)]
mod tests {
    use redrive_engine::env::SystemClock;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn whoever_does_not_read_is_left() {
        let (mine, _theirs) = tokio::io::duplex(16);
        let mut patient = PatientIo::new(mine, Arc::new(SystemClock), Duration::from_millis(20));
        let told = patient.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(told.kind(), io::ErrorKind::TimedOut);
    }
}
