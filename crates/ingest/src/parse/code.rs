//! Source code: its top-level items.

use crate::document::{BlockKind, Builder, Document};
use crate::outline;

pub(super) fn parse(mut builder: Builder) -> Document {
    for range in outline::items_at(builder.text(), 0..builder.text().len(), 0) {
        let label = outline::label(builder.text(), range.clone()).map(str::to_owned);
        builder.labelled(BlockKind::Item, range, label.as_deref());
    }
    builder.finish()
}
