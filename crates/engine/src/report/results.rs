//! One line for every item that succeeded.

use std::io::{BufWriter, Write};
use std::path::Path;

use redrive_core::id::RunId;
use redrive_core::item::StateKind;
use redrive_store::{ItemFilter, ItemQuery, Store};

use crate::crash;

const PAGE: usize = 500;

/// Writes the results of a run to a file, whole or not at all. Returns the number of lines.
///
/// # Errors
/// When the store or the file fails; an older file of that name is then as it was.
pub async fn write_results(store: &dyn Store, run: RunId, path: &Path) -> std::io::Result<u64> {
    let unfinished = path.with_file_name(format!(
        ".{}.{}.part",
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        std::process::id()
    ));
    let mut out = BufWriter::new(std::fs::File::create(&unfinished)?);
    let written = write_lines(store, run, &mut out).await;
    let done = written.and_then(|lines| {
        out.flush()?;
        out.get_ref().sync_all()?;
        crash::point("results.before_rename");
        std::fs::rename(&unfinished, path)?;
        Ok(lines)
    });
    if done.is_err() {
        // What is left of it is of no use; the error that is reported is the first one.
        let _ = std::fs::remove_file(&unfinished);
    }
    done
}

async fn write_lines(store: &dyn Store, run: RunId, out: &mut impl Write) -> std::io::Result<u64> {
    let mut lines = 0;
    let mut after = None;
    loop {
        let filter = ItemFilter {
            run: Some(run),
            state: Some(StateKind::Succeeded),
            top: true,
            ..ItemFilter::default()
        };
        let page =
            store.items(ItemQuery { filter, after, limit: PAGE }).await.map_err(std::io::Error::other)?;
        let Some(last) = page.last() else { return Ok(lines) };
        after = Some(last.seq);
        for item in &page {
            let payload = store.payload(item.seq).await.map_err(std::io::Error::other)?.unwrap_or_default();
            let (id, key) = (serde_json::to_string(&item.id)?, serde_json::to_string(&*item.key)?);
            write!(out, "{{\"id\":{id},\"key\":{key},\"output\":")?;
            out.write_all(&payload)?;
            out.write_all(b"}\n")?;
            lines += 1;
        }
    }
}
