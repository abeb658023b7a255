//! Plain text: paragraphs between blank lines.

use crate::document::{BlockKind, Builder, Document};
use crate::outline;

pub(super) fn parse(mut builder: Builder) -> Document {
    for range in outline::paragraphs(builder.text(), 0..builder.text().len()) {
        builder.block(BlockKind::Prose, range);
    }
    builder.finish()
}
