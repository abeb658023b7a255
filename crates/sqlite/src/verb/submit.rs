//! Admitting items.

use redrive_core::fact::Fact;
use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::{Entry, Item, NewItem, StateKind};
use redrive_core::tally::Deltas;
use redrive_store::rule::submit::{Asked, Known, Version, known_as};
use redrive_store::sql::ItemColumns;
use redrive_store::{Applied, Commit, Error, Submit, Submitted};
use rusqlite::{Connection, params};

use crate::content;
use crate::error::Result;
use crate::sequence::Sequence;
use crate::verb::group::Groups;
use crate::verb::outbox::Outbox;
use crate::verb::{commit, counter, item, run, tombstone};

/// Admits items to a run.
pub(crate) fn submit(tx: &Connection, submit: &Submit) -> Result<Vec<Submitted>> {
    run::require_taking(tx, submit.run, submit.reading.number)?;
    let changes = Commit {
        changes: submit.changes.clone(),
        all_or_nothing: true,
        now: submit.now,
        ..Commit::default()
    };
    if !changes.changes.is_empty() && commit::commit(tx, &changes)?.contains(&Applied::Stale) {
        return Err(Error::Busy("an item changed meanwhile".to_owned()).into());
    }
    let (mut deltas, mut groups) = (Deltas::default(), Groups::default());
    let mut numbers = Sequence::items();
    let mut outbox = Outbox::of(tx)?;
    let mut answers = Vec::with_capacity(submit.items.len());
    let entry = Entry {
        run: submit.run,
        parent: None,
        stage: submit.stage,
        reading: submit.reading.number,
        deadline: submit.deadline,
        now: submit.now,
    };
    let mut back = submit.brought_back();
    let any_purged = tombstone::any(tx, submit.run)?;
    for new in &submit.items {
        let version = new.version();
        let id = ItemId::derive(submit.run, None, &new.key, version);
        if any_purged && tombstone::is_all_that_is_left(tx, id)? {
            answers.push(Submitted::Known(id));
            continue;
        }
        let (reading, new_versions) = (submit.reading, submit.new_versions);
        let back = back.remove(&id);
        answers.push(match known(tx, Asked { id, origin: new.origin, reading, new_versions, back })? {
            Some(Known::Same) => Submitted::Known(id),
            Some(Known::Elsewhere) => Submitted::Duplicate(id),
            Some(Known::Before(seq)) => {
                seen_again(tx, seq, submit.reading.number, new.origin)?;
                Submitted::Known(id)
            }
            Some(Known::Otherwise(seq)) if !submit.new_versions => {
                let gone = || Error::Corrupt(format!("item {} is in an index only", seq.0));
                Submitted::Changed(Box::new(item::one(tx, seq)?.ok_or_else(gone)?))
            }
            Some(Known::Otherwise(_)) | None => {
                let item = entry.item(new, ItemSeq(numbers.next(tx)?), id, version);
                insert(tx, &item, new)?;
                deltas.admitted(&item);
                groups.is_now(&item);
                outbox.tell(tx, Fact::of_admitted(&item))?;
                Submitted::Admitted(id)
            }
        });
    }
    numbers.save(tx)?;
    outbox.finish(tx)?;
    groups.finish(tx)?;
    counter::add(tx, &deltas)?;
    run::goes_on_with_live(tx, submit.run)?;
    let changed = answers.iter().any(|answer| matches!(answer, Submitted::Changed(_)));
    if let Some(cursor) = submit.cursor.as_ref().filter(|_| !changed) {
        let repeated = answers.iter().filter(|answer| matches!(answer, Submitted::Duplicate(_))).count();
        run::advance(tx, submit.run, cursor, repeated as u64)?;
    }
    Ok(answers)
}

/// Looks at all versions of a key at once: they are neighbours in the index of ids.
fn known(tx: &Connection, asked: Asked) -> Result<Option<Known>> {
    let (low, high) = asked.id.versions();
    let mut select = tx.prepare_cached(
        "SELECT id, origin, state, seq, reading FROM item WHERE id BETWEEN ?1 AND ?2 ORDER BY id",
    )?;
    let versions = select.query_map((&low.0, &high.0), |row| {
        Ok(Version {
            seq: ItemSeq(row.get(3)?),
            id: ItemId(row.get(0)?),
            origin: row.get::<_, i64>(1)?.cast_unsigned(),
            reading: row.get(4)?,
            superseded: row.get::<_, u8>(2)? == StateKind::Superseded.code(),
        })
    })?;
    Ok(known_as(asked, versions)?)
}

/// Notes where an item stands in its source now. That is no change of the item: whoever holds it, holds it still.
fn seen_again(tx: &Connection, seq: ItemSeq, reading: u32, origin: u64) -> Result<()> {
    tx.prepare_cached("UPDATE item SET reading = ?2, origin = ?3 WHERE seq = ?1")?.execute((
        seq.0,
        reading,
        origin.cast_signed(),
    ))?;
    Ok(())
}

/// Writes a new item.
pub(crate) fn insert(tx: &Connection, item: &Item, new: &NewItem) -> Result<()> {
    let fields = ItemColumns::from(item);
    let content = content::keep(tx, &new.payload, Some(item.version))?;
    tx.prepare_cached(
        "INSERT INTO item (seq, id, run, parent, key, version, origin, stage, state, lane, due, generation, rev,
                           attempt, failures, throttles, crashes, dead_reason, class, kind, message, grp, shared,
                           created_at, updated_at, deadline, payload, content, payload_sum, reading)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?10, 0, 0, 0, 0, 0, 0, ?11, ?12, ?13, ?14, ?15, ?16,
                 ?17, ?17, ?18, ?19, ?20, ?21, ?22)",
    )?
    .execute(params![
        item.seq.0,
        item.id.0,
        item.run.0,
        item.parent.map(|parent| parent.0),
        &*item.key,
        item.version.0,
        item.origin.cast_signed(),
        item.stage.0,
        fields.state,
        fields.due,
        fields.dead_reason,
        fields.class,
        fields.kind,
        fields.message,
        fields.group,
        fields.shared,
        item.created_at.0,
        item.deadline.map(|deadline| deadline.0),
        content.payload,
        content.hash(),
        content.sum,
        item.reading,
    ])?;
    Ok(())
}
