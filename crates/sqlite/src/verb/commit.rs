//! Writing transitions.

use redrive_core::answer::Handed;
use redrive_core::event::Transition;
use redrive_core::fact::Fact;
use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::{Item, StateKind};
use redrive_core::policy::OwnPolicy;
use redrive_core::tally::Deltas;
use redrive_core::time::Timestamp;
use redrive_core::verdict::Verdict;
use redrive_store::rule::item::entry_of_children;
use redrive_store::rule::operation::member;
use redrive_store::sql::ItemColumns;
use redrive_store::{Applied, Change, Commit, Member};
use rusqlite::{CachedStatement, Connection, params};

use crate::content;
use crate::error::Result;
use crate::sequence::Sequence;
use crate::verb::group::Groups;
use crate::verb::outbox::Outbox;
use crate::verb::submit::insert;
use crate::verb::{counter, history, index, item, operation, output, run};

/// The columns that a transition can change. Key, origin, parent and the like stay for ever.
macro_rules! moved_columns {
    () => {
        "stage = ?3, state = ?4, lane = ?5, due = ?6, cause = ?7, worker = ?8, since = ?9, \
         generation = ?10, rev = ?11, attempt = ?12, failures = ?13, throttles = ?14, \
         crashes = ?15, first_failed_at = ?16, filtered = ?17, dead_reason = ?18, class = ?19, \
         kind = ?20, message = ?21, grp = ?22, shared = ?23, updated_at = ?24, deadline = ?25, was = ?26, earlier = ?27, \
         verdict = ?28, found = ?29, policy = ?30, handed = ?31, failing_since = ?32"
    };
}

const MOVE: &str = concat!("UPDATE item SET ", moved_columns!(), " WHERE seq = ?1 AND rev = ?2");
const MOVE_WITH_PAYLOAD: &str = concat!(
    "UPDATE item SET ",
    moved_columns!(),
    ", payload = ?33, content = ?34, payload_sum = ?35 WHERE seq = ?1 AND rev = ?2"
);

/// The parameters of [`MOVE`], in the order of [`moved_columns`].
macro_rules! moved {
    ($item:ident, $guard:ident, $fields:ident $(, $more:expr)*) => {
        params![
            $item.seq.0,
            $guard.0,
            $item.stage.0,
            $fields.state,
            $fields.lane,
            $fields.due,
            $fields.cause,
            $fields.worker,
            $fields.since,
            $item.generation,
            $item.rev.0,
            $item.attempt,
            $item.failures,
            $item.throttles,
            $item.crashes,
            $item.first_failed_at.map(|at| at.0),
            $fields.filtered,
            $fields.dead_reason,
            $fields.class,
            $fields.kind,
            $fields.message,
            $fields.group,
            $fields.shared,
            $item.updated_at.0,
            $item.deadline.map(|at| at.0),
            $fields.was,
            $item.earlier,
            $item.verdict().map(Verdict::code),
            $item.verdicts.to_text(),
            $item.policy.as_ref().map(OwnPolicy::to_text),
            $item.handed.as_ref().map(Handed::to_text),
            $item.failing_since.map(|at| at.0)
            $(, $more)*
        ]
    };
}

/// Writes transitions, each only if its item still has the change number it was decided for.
pub(crate) fn commit(tx: &Connection, commit: &Commit) -> Result<Vec<Applied>> {
    if let Some((run, _)) = &commit.run {
        run::require(tx, *run)?;
    }
    if let Some(run) = commit.unless_cancelled
        && run::is_cancelled(tx, run)?
    {
        return Ok(vec![Applied::Stale; commit.changes.len()]);
    }
    if commit.all_or_nothing {
        let stale = vec![Applied::Stale; commit.changes.len()];
        if any_stale(tx, &commit.changes)? {
            return Ok(stale);
        }
        // Stale now is only the second change of an item that is there twice.
        tx.execute_batch("SAVEPOINT changes")?;
        let answers = apply_all(tx, commit)?;
        let broken = answers.contains(&Applied::Stale);
        tx.execute_batch(if broken { "ROLLBACK TO changes; RELEASE changes" } else { "RELEASE changes" })?;
        if broken {
            return Ok(stale);
        }
        around(tx, commit, &answers)?;
        return Ok(answers);
    }
    let answers = apply_all(tx, commit)?;
    around(tx, commit, &answers)?;
    Ok(answers)
}

/// Writes what a commit carries beside its changes.
fn around(tx: &Connection, commit: &Commit, answers: &[Applied]) -> Result<()> {
    if let Some((run, change)) = &commit.run {
        run::change(tx, *run, change)?;
    }
    if let Some(operation) = &commit.operation {
        let operation = operation::save(tx, operation)?;
        let done = commit.changes.iter().zip(answers).filter(|(_, answer)| **answer == Applied::Done);
        let members: Vec<Member> = done.filter_map(|(change, _)| member(&change.transition)).collect();
        operation::add_members(tx, operation, &members)?;
    }
    Ok(())
}

fn any_stale(tx: &Connection, changes: &[Change]) -> Result<bool> {
    let mut select = tx.prepare_cached("SELECT 1 FROM item WHERE seq = ?1 AND rev = ?2")?;
    for Change { transition, .. } in changes {
        if !select.exists((transition.after.seq.0, transition.guard.0))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn apply_all(tx: &Connection, commit: &Commit) -> Result<Vec<Applied>> {
    let mut desk = Desk::new(tx)?;
    let mut answers = Vec::with_capacity(commit.changes.len());
    for change in &commit.changes {
        answers.push(desk.apply(change, commit.now)?);
    }
    desk.finish()?;
    Ok(answers)
}

/// What is shared by the changes of one commit: statements, numbers, and the counters' changes.
struct Desk<'tx> {
    tx: &'tx Connection,
    move_item: CachedStatement<'tx>,
    record: CachedStatement<'tx>,
    deltas: Deltas,
    groups: Groups,
    items: Sequence,
    outbox: Outbox,
    effects: index::Effects,
}

impl<'tx> Desk<'tx> {
    fn new(tx: &'tx Connection) -> Result<Self> {
        Ok(Self {
            tx,
            move_item: tx.prepare_cached(MOVE)?,
            record: tx.prepare_cached(history::INSERT_ATTEMPT)?,
            deltas: Deltas::default(),
            groups: Groups::default(),
            items: Sequence::items(),
            outbox: Outbox::of(tx)?,
            effects: index::Effects::default(),
        })
    }

    fn apply(&mut self, change: &Change, now: Timestamp) -> Result<Applied> {
        let Change { transition, output, forgets } = change;
        let after = &transition.after;
        // What it is counted by is in the row only, and gone with the move.
        let was = match transition.from.kind {
            StateKind::Dead => item::one(self.tx, after.seq)?,
            _ => None,
        };
        if !self.move_item(transition)? {
            return Ok(Applied::Stale);
        }
        self.deltas.transition(transition);
        was.iter().for_each(|was| self.groups.was(was));
        self.groups.is_now(after);
        self.outbox.tell(self.tx, Fact::of_transition(transition))?;
        if let Some(record) = &transition.record {
            history::add_attempt(&mut self.record, after.seq, record)?;
        }
        if let Some(mark) = &transition.mark {
            history::add_mark(self.tx, after, mark)?;
        }
        if transition.children.is_some() {
            self.admit_children(transition, now)?;
        }
        if let Some(effect) = &transition.effect {
            self.effects.apply(self.tx, effect)?;
        }
        output::forget_of(self.tx, after.seq, forgets)?;
        if let (Some(key), Some(payload)) = (output, &transition.payload) {
            let verdict = transition.record.as_ref().and_then(|record| record.verdict);
            output::keep(self.tx, key, after, payload, verdict)?;
        }
        Ok(Applied::Done)
    }

    /// Writes the item as it is to be; `false` when it has changed since.
    fn move_item(&mut self, transition: &Transition) -> Result<bool> {
        let (item, guard) = (&transition.after, transition.guard);
        let Some(payload) = &transition.payload else {
            let fields = ItemColumns::from(item);
            return Ok(self.move_item.execute(moved!(item, guard, fields))? == 1);
        };
        // Guarded as well, or a stale worker's large content would be kept for nobody.
        if payload.len() > content::INLINE && !self.has_rev(item, guard.0)? {
            return Ok(false);
        }
        let columns = content::keep(self.tx, payload, None)?;
        let fields = ItemColumns::from(item);
        let mut update = self.tx.prepare_cached(MOVE_WITH_PAYLOAD)?;
        Ok(update.execute(moved!(item, guard, fields, columns.payload, columns.hash(), columns.sum))? == 1)
    }

    fn has_rev(&self, item: &Item, rev: i64) -> Result<bool> {
        let mut select = self.tx.prepare_cached("SELECT 1 FROM item WHERE seq = ?1 AND rev = ?2")?;
        Ok(select.exists((item.seq.0, rev))?)
    }

    fn admit_children(&mut self, transition: &Transition, now: Timestamp) -> Result<()> {
        let Some(children) = &transition.children else { return Ok(()) };
        let parent = &transition.after;
        let entry = entry_of_children(parent, children, now);
        let mut there = self.tx.prepare_cached("SELECT 1 FROM item WHERE id = ?1")?;
        for new in &children.items {
            let version = new.version();
            let id = ItemId::derive(parent.run, Some(parent.id), &new.key, version);
            // A stage that runs again gives the same children; those that are there stay as they are.
            if there.exists([&id.0])? {
                continue;
            }
            let item = entry.item(new, ItemSeq(self.items.next(self.tx)?), id, version);
            insert(self.tx, &item, new)?;
            self.deltas.admitted(&item);
            self.groups.is_now(&item);
            self.outbox.tell(self.tx, Fact::of_admitted(&item))?;
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        self.effects.finish(self.tx)?;
        self.items.save(self.tx)?;
        self.outbox.finish(self.tx)?;
        self.groups.finish(self.tx)?;
        counter::add(self.tx, &self.deltas)
    }
}
