//! Items come as JSON Lines.

use redrive_core::item::NewItem;
use redrive_engine::source::{Format, LineSpec, Lines, Source, without_line};
use redrive_pipeline::Definition;

use super::given::{Given, Sighted};
use crate::error::{Error, Result};
use crate::wiring::Wiring;

/// JSON Lines from a file or from standard input, read in pieces of bounded size.
pub struct Stream {
    source: Option<Box<dyn Source>>,
    /// Whether each line is an envelope and not an item.
    envelope: bool,
    /// Where in an item's content its key is.
    key: Option<String>,
}

impl Stream {
    /// Opens a file, or standard input as `-`. With `envelope` each line is `{"key", "payload", "category"}`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(wiring: &dyn Wiring, path: &str, definition: &Definition, envelope: bool) -> Result<Self> {
        let key = definition.source.key.clone();
        // The key of an item in an envelope is looked for once that is opened.
        let spec = LineSpec {
            paths: vec![path.to_owned()],
            format: Format::Jsonl,
            key: key.clone().filter(|_| !envelope),
        };
        let source: Box<dyn Source> = if path == "-" {
            let input = wiring.standard_input();
            let input = input.ok_or_else(|| Error::wrong("there is no standard input to be read here"))?;
            Box::new(Lines::stream("standard input", input, spec))
        } else {
            let lines = Lines::open(spec, None);
            Box::new(
                lines
                    .map_err(|error| Error::wrong(error.to_string()).hint("say --items FILE or --items -"))?,
            )
        };
        Ok(Self { source: Some(source), envelope, key })
    }

    /// The next items; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Sighted>>> {
        let Some(mut source) = self.source.take() else { return Ok(None) };
        let read = tokio::task::spawn_blocking(move || {
            let piece = source.next_piece();
            (source, piece)
        });
        let (source, piece) = read.await.map_err(|_| Error::internal("reading the items panicked"))?;
        let piece = piece.map_err(|error| {
            Error::internal(error.to_string())
                .hint("what was read before is handed in; the same again admits nothing twice")
        })?;
        self.source = (!piece.done).then_some(source);
        Ok(Some(piece.items.into_iter().map(|item| self.sighted(item)).collect()))
    }

    fn sighted(&self, item: NewItem) -> Sighted {
        let line = item.origin;
        if let Some(refused) = &item.refused {
            return Sighted::refused(line, without_line(&refused.message, line));
        }
        if !self.envelope {
            return Sighted { line, key: None, category: None, item: Ok(item) };
        }
        match Given::from_envelope(&item.payload) {
            Ok(given) => given.sighted(line, self.key.as_deref()),
            Err(why) => Sighted::refused(line, why),
        }
    }
}
