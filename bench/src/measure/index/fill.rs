//! Puts made-up chunks into a store directly: random unit vectors and texts of common and rare words.

use std::path::Path;

use redrive_core::vector::{Quantised, normalise};
use rusqlite::Connection;

use super::redrive::file;
use super::words::{Dice, Words};
use crate::Failure;

const DIMENSIONS: usize = 256;
/// Chunks of one document.
const IN_ONE: usize = 10;
/// Words of a chunk.
const LENGTH: usize = 30;
/// Documents in a transaction.
const BATCH: usize = 1_000;

/// Adds chunks to the only collection of a place's store, from so many to so many.
pub fn fill(place: &Path, words: &Words, from: usize, to: usize) -> Result<(), Failure> {
    let mut conn = Connection::open(file(place))?;
    // Nothing of it is measured, and a crash means doing it again.
    conn.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; PRAGMA temp_store = MEMORY")?;
    let (collection, model): (i64, i64) =
        conn.query_row("SELECT no, model FROM collection", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut dice = Dice::new(from as u64);
    for first in (from / IN_ONE..to / IN_ONE).step_by(BATCH) {
        let tx = conn.transaction()?;
        {
            let mut doc = tx.prepare_cached(
                "INSERT INTO doc (collection, path, kind, published, rev) VALUES (?1, ?2, 'text', ?3, 1) RETURNING no",
            )?;
            let mut vector = tx.prepare_cached(
                "INSERT INTO vector (model, text, scale, codes) VALUES (?1, ?2, ?3, ?4) RETURNING no",
            )?;
            let mut chunk = tx.prepare_cached(
                "INSERT INTO chunk (doc, key, edition, vector, ordinal, first_line, last_line, first_byte, end_byte,
                     context, text)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5, ?5, ?5, '', ?6)",
            )?;
            for n in first..(first + BATCH).min(to / IN_ONE) {
                let version = (n as u128).to_be_bytes();
                let doc: i64 = doc
                    .query_row((collection, format!("made-up/{n:07}.txt"), &version[..]), |row| row.get(0))?;
                for at in 0..IN_ONE {
                    let text = ((n * IN_ONE + at) as u128 | (1 << 100)).to_be_bytes();
                    let numbers = random(&mut dice);
                    let codes: Vec<u8> = numbers.codes.iter().map(|code| code.cast_unsigned()).collect();
                    let scale = f64::from(numbers.scale);
                    let vector: i64 = vector.query_row((model, &text[..], scale, codes), |row| row.get(0))?;
                    chunk.execute((
                        doc,
                        at.to_string(),
                        &version[..],
                        vector,
                        at as i64,
                        words.text(&mut dice, LENGTH),
                    ))?;
                }
            }
        }
        tx.commit()?;
    }
    conn.execute_batch("INSERT INTO words (words) VALUES ('rebuild'); PRAGMA wal_checkpoint(TRUNCATE)")?;
    Ok(())
}

/// A vector of length 1 in a random direction; sums of two bytes are near enough to a bell.
fn random(dice: &mut Dice) -> Quantised {
    let mut vector = Vec::with_capacity(DIMENSIONS);
    while vector.len() < DIMENSIONS {
        let bytes = dice.roll().to_le_bytes();
        vector.extend(
            bytes.chunks(2).map(|pair| f32::from(pair[0].cast_signed()) + f32::from(pair[1].cast_signed())),
        );
    }
    let _ = normalise(&mut vector);
    Quantised::new(&vector)
}
