//! Results and dead items on their way out, no faster than they are read.

use std::collections::BTreeSet;

use axum::body::Bytes;
use redrive_engine::report::ResultOutcome;
use redrive_operate::dead::{Export, Selection, Which};
use redrive_operate::results::{Asked, Results};
use redrive_operate::{Error, Floor, Result};
use tokio::sync::mpsc;

/// So many bytes are put together before they are passed on.
const PIECE: usize = 64 << 10;
/// So many pieces wait for whoever reads.
const PIECES: usize = 4;

/// A piece, or why there are no more: the answer then breaks off, so that nobody takes it for whole.
type Piece = std::result::Result<Bytes, Error>;

/// Gives the results of a run, as JSON Lines.
///
/// # Errors
/// When there is no such run or stage, or the store fails before the first of them.
pub async fn results(
    floor: Floor,
    asked: Asked,
) -> Result<impl futures_util::Stream<Item = Piece> + Send + 'static> {
    // What is wrong with the request is told before the answer begins.
    Results::find(&floor, &asked).await?;
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        if let Err(error) = give(&floor, &asked, &sender).await {
            let _ = sender.send(Err(error)).await;
        }
    });
    Ok(pieces(receiver))
}

/// Gives dead items with their contents and histories, as JSON Lines.
///
/// # Errors
/// When what selects them makes no sense, who asks may not see contents, or the store fails before the first of them.
pub async fn dead(
    floor: Floor,
    which: Which,
) -> Result<impl futures_util::Stream<Item = Piece> + Send + 'static> {
    let selection = Selection::of(&floor, &which).await?;
    // Who may not see contents is told before the answer begins.
    floor.require_payloads()?;
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(async move {
        if let Err(error) = write_out(&floor, selection, &sender).await {
            let _ = sender.send(Err(error)).await;
        }
    });
    Ok(pieces(receiver))
}

fn pieces(receiver: mpsc::Receiver<Piece>) -> impl futures_util::Stream<Item = Piece> + Send + 'static {
    futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|piece| (piece, receiver))
    })
}

/// Gives dead items until there are no more, or nobody wants them.
async fn write_out(floor: &Floor, selection: Selection, sender: &mpsc::Sender<Piece>) -> Result<()> {
    let (mut export, mut piece) = (Export::of(floor, selection).await?, Vec::new());
    while let Some(exported) = export.next().await? {
        serde_json::to_writer(&mut piece, &exported).map_err(|error| Error::internal(error.to_string()))?;
        piece.push(b'\n');
        if piece.len() >= PIECE && sender.send(Ok(std::mem::take(&mut piece).into())).await.is_err() {
            return Ok(());
        }
    }
    let _ = sender.send(Ok(piece.into())).await;
    Ok(())
}

/// Gives results until there are no more, or nobody wants them.
async fn give(floor: &Floor, asked: &Asked, sender: &mpsc::Sender<Piece>) -> Result<()> {
    let found = Results::find(floor, asked).await?;
    let (mut reader, none, mut piece) = (found.read(), BTreeSet::new(), Vec::new());
    while let Some((_, outcome)) = reader.next(&none).await? {
        match outcome {
            ResultOutcome::Line(line) => piece.extend_from_slice(&line),
            ResultOutcome::LeftOut(item) => {
                let line = serde_json::to_vec(&item).map_err(|error| Error::internal(error.to_string()))?;
                piece.extend_from_slice(&line);
            }
            ResultOutcome::NotKept | ResultOutcome::NotYet | ResultOutcome::Never | ResultOutcome::Known => {
                continue;
            }
        }
        piece.push(b'\n');
        if piece.len() >= PIECE && sender.send(Ok(std::mem::take(&mut piece).into())).await.is_err() {
            return Ok(());
        }
    }
    let _ = sender.send(Ok(piece.into())).await;
    Ok(())
}
