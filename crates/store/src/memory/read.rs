//! The verbs that only look.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::attempt::AttemptRecord;
use redrive_core::event::ChildTally;
use redrive_core::id::{ItemSeq, OperationId, RunId, StageNo, WorkerId};
use redrive_core::item::{Item, Lane, State as ItemState, StateKind};
use redrive_core::status::Control;
use redrive_core::tally::Counter;
use redrive_core::time::Timestamp;

use super::state::State;
use crate::query::{
    AttemptPlace, ChangeQuery, ConfigCounter, Earlier, Group, History, ItemFilter, ItemQuery, NextDue,
    RunCounters, RunSet, Settled, StageDue, Tombstone, TombstoneQuery,
};
use crate::rule;
use crate::run::{Operation, OperationState, RunRow};
use crate::work::{OpenRun, RunState, WorkList, WorkPosition, WorkQuery};

impl State {
    fn each(&self) -> impl Iterator<Item = &Item> {
        self.items.values().map(|kept| &kept.item)
    }

    pub(super) fn history(&self, seq: ItemSeq) -> History {
        self.items.get(&seq).map(|kept| kept.history.clone()).unwrap_or_default()
    }

    pub(super) fn newest(&self, seq: ItemSeq, newest: usize) -> History {
        let mut history = self.history(seq);
        let attempts = history.attempts.len().saturating_sub(newest);
        let marks = history.marks.len().saturating_sub(newest);
        history.attempts.drain(..attempts);
        history.marks.drain(..marks);
        history.earlier = Earlier { attempts: attempts as u64, marks: marks as u64 };
        history
    }

    pub(super) fn attempts(
        &self,
        item: ItemSeq,
        before: Option<AttemptPlace>,
        limit: usize,
    ) -> Vec<AttemptRecord> {
        let mut attempts = self.history(item).attempts;
        attempts.retain(|record| before.is_none_or(|before| AttemptPlace::from(record) < before));
        attempts.sort_by_key(|record| std::cmp::Reverse(AttemptPlace::from(record)));
        attempts.truncate(limit);
        attempts
    }

    pub(super) fn orphans(&self, run: RunId, now: Timestamp, limit: usize) -> Vec<Item> {
        let lost = |item: &&Item| match item.state {
            ItemState::Running { worker, .. } => !self.holds(worker, now),
            _ => false,
        };
        self.each().filter(|item| item.run == run).filter(lost).take(limit).cloned().collect()
    }

    pub(super) fn held(&self, worker: WorkerId, after: Option<ItemSeq>, limit: usize) -> Vec<Item> {
        let its = |item: &&Item| matches!(item.state, ItemState::Running { worker: by, .. } if by == worker);
        let later = |item: &&Item| after.is_none_or(|after| item.seq > after);
        self.each().filter(later).filter(its).take(limit).cloned().collect()
    }

    pub(super) fn settled(&self, run: RunId, limit: usize) -> Vec<Settled> {
        let joining = self.each().filter(|item| item.run == run && item.state == ItemState::Joining);
        let tallied = joining.map(|item| Settled { item: item.clone(), children: self.children(item.seq) });
        tallied.filter(|settled| settled.children.live == 0).take(limit).collect()
    }

    pub(super) fn children(&self, parent: ItemSeq) -> ChildTally {
        let mut tally = ChildTally::default();
        for item in self.each().filter(|item| item.parent == Some(parent)) {
            rule::item::tally(&mut tally, item.state.kind(), 1);
        }
        tally
    }

    pub(super) fn list(&self, query: &ItemQuery) -> Vec<Item> {
        let later = |item: &&Item| query.after.is_none_or(|after| item.seq > after);
        self.each()
            .filter(later)
            .filter(|item| query.filter.matches(item))
            .take(query.limit)
            .cloned()
            .collect()
    }

    pub(super) fn list_by_change(&self, query: &ChangeQuery) -> Vec<Item> {
        let place = |item: &Item| (item.updated_at, item.seq);
        let beyond =
            |item: &&Item| {
                query.after.is_none_or(|after| {
                    if query.newest_first { place(item) < after } else { place(item) > after }
                })
            };
        let mut found: Vec<&Item> =
            self.each().filter(beyond).filter(|item| query.filter.matches(item)).collect();
        found.sort_by_key(|item| place(item));
        if query.newest_first {
            found.reverse();
        }
        found.into_iter().take(query.limit).cloned().collect()
    }

    pub(super) fn tombstones(&self, query: &TombstoneQuery) -> Vec<Tombstone> {
        let later = |tombstone: &&Tombstone| query.after.is_none_or(|after| tombstone.seq > after);
        let all = self.tombstones.values().filter(later).filter(|tombstone| query.matches(tombstone));
        let signed = all.take(query.limit).map(|tombstone| {
            let operation = self.operations.get(&tombstone.operation);
            Tombstone { actor: operation.map(|operation| operation.actor.clone()), ..tombstone.clone() }
        });
        signed.collect()
    }

    pub(super) fn open_operations(&self, after: Option<OperationId>, limit: usize) -> Vec<Operation> {
        let newer =
            self.operations.values().filter(|operation| after.is_none_or(|after| operation.id > after));
        newer.filter(|operation| operation.state == OperationState::Open).take(limit).cloned().collect()
    }

    pub(super) fn counters_of(&self, run: RunId) -> Vec<Counter> {
        let of_run = self.counters.iter().filter(|((of, _, _), _)| *of == run);
        of_run.map(|((_, stage, metric), n)| Counter { stage: *stage, metric: *metric, n: *n }).collect()
    }

    pub(super) fn counters_of_all(&self, runs: &RunSet) -> Vec<RunCounters> {
        let known: BTreeSet<RunId> = self.counters.keys().map(|(run, _, _)| *run).collect();
        let wanted = known.into_iter().filter(|run| match runs {
            RunSet::All => true,
            RunSet::Of(runs) => runs.contains(run),
        });
        wanted.map(|run| RunCounters { run, counters: self.counters_of(run) }).collect()
    }

    pub(super) fn config_counters_of(&self, run: RunId) -> Vec<ConfigCounter> {
        let of_run = self.config_counters.iter().filter(|((of, _, _, _), _)| *of == run);
        let named = of_run.map(|((_, stage, config, metric), n)| ConfigCounter {
            config: *config,
            counter: Counter { stage: *stage, metric: *metric, n: *n },
        });
        named.collect()
    }

    pub(super) fn next_due(&self, run: RunId) -> NextDue {
        let (mut at, mut any_fresh, mut retry) = (None, false, None);
        for item in self.each().filter(|item| item.run == run) {
            if let ItemState::Waiting { due, .. } = item.state {
                at = at.into_iter().chain([due]).min();
                any_fresh |= item.lane() == Lane::Fresh;
                let tried = (item.lane() == Lane::Retry).then_some(due);
                retry = retry.into_iter().chain(tried).min();
            }
        }
        NextDue { at, any_fresh, retry }
    }

    pub(super) fn due_by_stage(&self, run: RunId) -> Vec<StageDue> {
        let mut stages: BTreeMap<StageNo, StageDue> = BTreeMap::new();
        for item in self.each().filter(|item| item.run == run) {
            if let ItemState::Waiting { due, .. } = item.state {
                let (stage, at, last) = (item.stage, due, due);
                let seen = stages.entry(stage).or_insert(StageDue { stage, at, last });
                (seen.at, seen.last) = (due.min(seen.at), due.max(seen.last));
            }
        }
        stages.into_values().collect()
    }

    pub(super) fn work_list(&self, query: &WorkQuery) -> WorkList {
        let goes_on = |row: &&RunRow| row.control == Control::Go && row.finished_at.is_none();
        let mut open: Vec<&RunRow> =
            self.runs.values().filter(goes_on).filter(|row| query.filter.takes(row)).collect();
        open.sort_by_key(|row| WorkPosition::of(row).key());
        let after = query.after.map(WorkPosition::key);
        open.retain(|row| after.is_none_or(|after| WorkPosition::of(row).key() > after));
        let mut list = WorkList::default();
        for (at, row) in open.iter().enumerate() {
            if list.runs.len() == query.limit || at == query.looks {
                list.next = open[..at].last().map(|row| WorkPosition::of(row));
                break;
            }
            let state = self.run_state(row, query.now);
            match state.has(query.now, query.later) {
                Some(has) => {
                    list.runs.push(OpenRun { row: (*row).clone(), has, waiting: state.waiting });
                }
                None => list.next_due = list.next_due.into_iter().chain(state.next_due).min(),
            }
        }
        list
    }

    fn run_state(&self, row: &RunRow, now: Timestamp) -> RunState {
        let of_kind =
            |kind: StateKind| self.each().filter(move |item| item.run == row.id && item.state.kind() == kind);
        RunState {
            next_due: self.next_due(row.id).at,
            waiting: of_kind(StateKind::Waiting).count() as u64,
            running: of_kind(StateKind::Running).next().is_some(),
            orphans: !self.orphans(row.id, now, 1).is_empty(),
            joining: of_kind(StateKind::Joining).next().is_some(),
            read: row.admitted_all,
            takes_items: row.is_open(),
        }
    }

    pub(super) fn ahead(&self, run: RunId, than: Timestamp, limit: usize) -> Vec<Item> {
        let late = |item: &&Item| {
            let waits = matches!(item.state, ItemState::Waiting { due, .. } if due > than);
            item.run == run && waits && item.updated_at > than
        };
        self.each().filter(late).take(limit).cloned().collect()
    }

    pub(super) fn groups(&self, filter: &ItemFilter, limit: usize) -> Vec<Group> {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        let dead = self.each().filter(|item| item.state.kind() == StateKind::Dead && filter.matches(item));
        for item in dead {
            let last = item.last.as_ref();
            let name = last.map(|last| last.group.to_string()).unwrap_or_default();
            let group = groups.entry(name.clone()).or_insert_with(|| Group {
                group: name,
                items: 0,
                run: item.run,
                stage: item.stage,
                class: last.map(|last| last.class),
                message: last.map(|last| last.message.to_string()).unwrap_or_default(),
                example: item.id,
                first_at: item.updated_at,
                last_at: item.updated_at,
            });
            group.items += 1;
            group.first_at = group.first_at.min(item.updated_at);
            group.last_at = group.last_at.max(item.updated_at);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by(|a, b| b.items.cmp(&a.items).then_with(|| a.group.cmp(&b.group)));
        groups.truncate(limit);
        groups
    }
}
