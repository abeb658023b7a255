//! Standard input and output, as the protocol is spoken over them: every request gets an answer.

use std::io;

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::lines::{self, Look, Read, Refusal};

/// Bytes that are passed on before whoever reads them has to read.
const BUFFER: usize = 64 << 10;
/// Refusals that wait to be sent; an agent that does not read its answers is not read either.
const REFUSALS: usize = 16;

/// The transport of the SDK behind a look at every line.
pub(crate) struct Transport<W: AsyncWrite + Send + Unpin + 'static> {
    inner: AsyncRwTransport<RoleServer, DuplexStream, W>,
    refused: mpsc::Receiver<Refusal>,
    /// Answers to what was refused that are being sent: receiving may be broken off, and they are not.
    sending: JoinSet<io::Result<()>>,
}

impl Transport<tokio::io::Stdout> {
    /// Speaks over standard input and output.
    pub(crate) fn over_stdio() -> Self {
        let (input, output) = rmcp::transport::stdio();
        Self::new(input, output)
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<W> {
    fn new(input: impl AsyncRead + Send + Unpin + 'static, output: W) -> Self {
        let (feed, passed) = tokio::io::duplex(BUFFER);
        let (refuse, refused) = mpsc::channel(REFUSALS);
        tokio::spawn(pass_on(input, feed, refuse));
        Self { inner: AsyncRwTransport::new(passed, output), refused, sending: JoinSet::new() }
    }

    fn answer(&mut self, refusal: Refusal) {
        while self.sending.try_join_next().is_some() {}
        let message = TxJsonRpcMessage::<RoleServer>::error(refusal.error, refusal.id);
        let sent = rmcp::transport::Transport::send(&mut self.inner, message);
        self.sending.spawn(sent);
    }
}

/// Reads lines and passes them on, until there are no more or nobody takes them.
async fn pass_on(
    input: impl AsyncRead + Send + Unpin,
    mut feed: DuplexStream,
    refuse: mpsc::Sender<Refusal>,
) -> Option<()> {
    let (mut input, mut line) = (BufReader::new(input), Vec::new());
    loop {
        let look = match lines::read(&mut input, &mut line).await.ok()? {
            Read::End => return None,
            Read::TooLong => Look::Refuse(lines::too_long()),
            Read::Line => lines::look(&line),
        };
        match look {
            Look::Pass => feed.write_all(&line).await.ok()?,
            Look::Refuse(refusal) => refuse.send(refusal).await.ok()?,
            Look::Drop => {}
        }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> rmcp::transport::Transport<RoleServer> for Transport<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            tokio::select! {
                Some(refusal) = self.refused.recv() => self.answer(refusal),
                message = self.inner.receive() => match message {
                    Some(message) => return Some(message),
                    None => break,
                },
            }
        }
        // Nothing more comes; what was refused before has its answer first.
        while let Some(refusal) = self.refused.recv().await {
            self.answer(refusal);
        }
        while self.sending.join_next().await.is_some() {}
        None
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        while self.sending.join_next().await.is_some() {}
        self.inner.close().await
    }
}
