//! Numbers that are never given twice.

use rusqlite::Connection;

use crate::error::Result;

/// Gives out numbers within one transaction: read at the first, written back once at the end.
pub(crate) struct Sequence {
    name: &'static str,
    last: Option<i64>,
}

impl Sequence {
    /// Numbers of items.
    pub(crate) fn items() -> Self {
        Self { name: "item", last: None }
    }

    /// Numbers of facts.
    pub(crate) fn facts() -> Self {
        Self { name: "fact", last: None }
    }

    /// The next number.
    pub(crate) fn next(&mut self, tx: &Connection) -> Result<i64> {
        let last = match self.last {
            Some(last) => last,
            None => tx
                .prepare_cached("SELECT last FROM sequence WHERE name = ?1")?
                .query_row([self.name], |row| row.get(0))?,
        };
        self.last = Some(last + 1);
        Ok(last + 1)
    }

    /// Writes down how far it got.
    pub(crate) fn save(self, tx: &Connection) -> Result<()> {
        if let Some(last) = self.last {
            tx.prepare_cached("UPDATE sequence SET last = ?2 WHERE name = ?1")?.execute((self.name, last))?;
        }
        Ok(())
    }
}
