//! Tests only: one suite that every store must pass.
//!
//! Cases are grouped by what they are about and are private; a store's own tests call [`run`], and [`run_index`] when it
//! keeps an index, with a way to make an empty store. Times are made up, nothing sleeps, and no case depends on another.

mod answer;
mod children;
mod claim;
mod commit;
mod concurrency;
mod dead_letter;
mod gate;
mod index;
mod lease;
mod members;
mod memo;
mod operations;
mod oracle;
mod outbox;
mod paging;
mod pause;
mod retention;
mod snapshot;
mod submit;
mod turn;
mod usage;
mod verdict;
mod vitals;
mod work;
mod world;

use std::pin::Pin;
use std::sync::Arc;

use redrive_store::Store;

/// A case: a claim about an empty store that panics when it does not hold.
pub type CaseFn = fn(Arc<dyn Store>) -> Running;

pub use index::{Both, IndexCaseFn};

/// Cases that run at the same time; each may have threads of its own.
const AT_ONCE: usize = 8;

macro_rules! table {
    ($($file:ident: $($case:ident),+;)+) => {
        &[$($((
            concat!(stringify!($file), "::", stringify!($case)),
            |store| Box::pin($file::$case(store)),
        )),+),+]
    };
}

use table;

const CASES: &[(&str, CaseFn)] = table! {
    commit: stale_token_cannot_commit, all_or_nothing_writes_nothing_when_one_is_stale, others_commit_beside_a_stale_one,
        run_and_operation_change_with_the_items, unknown_run_fails_the_whole_commit, a_purged_item_is_stale,
        attempts_are_kept_in_order, contents_of_every_size_come_back, contents_come_with_their_items_until_they_are_too_many, outputs_are_found_by_what_was_done_to_what,
        outputs_that_are_to_be_made_anew_are_forgotten_of_their_item_alone,
        counters_equal_a_recount_after_every_step;
    lease: a_retired_worker_gets_nothing, a_lost_worker_is_not_renewed_back, an_expired_worker_gets_nothing,
        a_renewed_worker_goes_on, orphans_are_those_without_a_living_holder, the_clock_may_step_back,
        what_a_clock_ahead_wrote_is_found_and_mended, leases_say_by_which_clock_they_were_given,
        retired_workers_are_not_listed, a_worker_says_which_runs_it_works_on, held_items_come_in_pages;
    claim: claim_equals_decide, a_paused_run_gives_nothing,
        who_has_another_edition_of_a_pipeline_gets_nothing_and_is_told, only_due_items_are_given, next_due_is_the_earliest_later_one,
        fresh_first_keeps_a_share_for_retries, retry_first_keeps_a_share_for_new_items,
        oldest_lets_both_lanes_compete, items_come_by_slot_and_order_of_submission, a_stage_gives_only_its_own,
        a_claim_is_counted;
    turn: an_empty_turn_does_nothing, all_parts_are_written_and_answered, a_claim_finds_what_the_commit_made_due,
        a_refused_commit_takes_nothing_else_back, a_stale_change_keeps_nobody_from_claiming,
        a_retired_worker_records_and_gets_nothing, a_snapshot_refuses_a_turn, many_workers_take_turns_without_overlap;
    concurrency: two_hundred_claimers_share_without_overlap, rivals_for_one_token_have_one_winner,
        concurrent_submissions_admit_once;
    submit: the_same_item_is_admitted_once, another_place_is_a_duplicate, other_content_is_changed,
        new_versions_are_admitted_beside, a_superseded_version_is_no_obstacle, the_cursor_waits_for_a_changed_item,
        a_later_reading_finds_an_item_again_wherever_it_stands, what_an_older_reading_still_says_is_refused,
        a_reading_opens_a_finished_run_and_counts_repeated_lines_anew, what_a_superseded_item_was_is_kept,
        repeated_lines_are_counted_with_the_cursor, a_refused_item_is_dead_at_once, unknown_run_is_refused,
        keys_within_one_call_are_compared, content_that_was_superseded_is_not_simply_known,
        a_stale_change_takes_the_whole_submission_back, a_source_that_was_read_to_its_end_stays_so,
        what_is_handed_in_is_seen_by_no_reading;
    children: children_come_with_their_parent, a_stale_parent_has_no_children, the_same_children_come_once,
        settled_are_those_without_live_children, a_tally_counts_how_children_ended,
        grandchildren_do_not_count_for_the_grandparent;
    dead_letter: groups_are_counted_largest_first, groups_are_those_of_the_items_that_match, filters_mean_what_matches_means, redriven_items_keep_their_history, a_policy_of_its_own_is_kept_until_the_stage_is_passed,
        tries_are_counted_over_all_generations, text_is_searched_literally;
    outbox: nothing_is_kept_unless_facts_are_wanted, what_waits_is_counted_as_far_as_is_asked, a_store_keeps_its_first_name, a_whole_life_is_told,
        every_other_end_and_beginning_is_told, a_refused_item_is_told_as_admitted_and_dead, a_run_tells_what_becomes_of_it,
        facts_come_in_order_until_passed_on, only_listed_facts_are_passed_on, a_stale_change_has_no_fact,
        a_commit_that_is_not_written_has_no_fact, numbers_of_facts_are_not_given_again;
    paging: pages_show_every_item_once_while_items_change, items_come_by_when_they_changed_last, runs_come_newest_first, runs_with_dead_items_are_found, the_newest_of_a_history_comes_in_pages, next_due_of_a_run_is_its_earliest,
        counters_of_many_runs_are_those_of_each, many_items_and_histories_come_as_one_by_one;
    pause: what_is_paused_is_kept_with_who_said_so_until_it_goes_on,
        every_pause_leaves_a_record_and_what_changes_nothing_leaves_none,
        who_does_not_know_of_a_pause_gets_nothing_and_is_told, a_paused_pipeline_can_be_left_out_of_the_list_of_work;
    retention: purge_takes_descendants_and_is_counted, purge_leaves_what_changed_or_is_not_finished,
        tombstones_tell_what_was_purged, a_purged_item_is_known_and_not_admitted_again,
        a_purged_child_that_is_given_again_is_admitted_and_purged_anew, a_purge_takes_kept_outputs_with_it,
        giving_room_back_changes_nothing_that_is_kept,
        prune_goes_in_pages, prune_pages_are_counted_by_their_operation, prune_leaves_young_and_unfinished_runs, prune_takes_one_run_when_it_is_named,
        prune_spares_runs_with_dead_items_unless_told, numbers_of_items_are_not_given_again,
        outputs_are_forgotten_with_the_run_that_wrote_them_last;
    operations: a_saved_operation_gets_a_number, an_operation_is_found_by_its_number,
        open_operations_come_oldest_first_in_pages,
        a_note_about_a_group_is_the_last_one_written, progress_replaces_the_operation, runs_change_as_told,
        a_budget_is_kept_only_over_the_one_it_was_made_from, rivals_for_one_budget_have_one_winner,
        the_first_fact_of_a_name_is_kept,
        unknown_runs_do_not_change, a_stopped_operation_stays_stopped, an_operation_that_is_done_stays_done,
        nobody_is_at_a_run_that_has_ended, a_run_that_goes_on_was_left_alone_since_its_end_at_the_latest,
        a_cancelled_run_stays_cancelled_and_takes_nothing, a_run_with_unfinished_items_is_not_finished,
        a_run_is_done_when_its_source_was_read_and_nothing_is_left,
        an_unfinished_run_is_begun_once, a_standing_run_that_was_closed_is_not_gone_on_with;
    members: a_frozen_operation_has_its_items, what_an_operation_sent_back_is_written_with_it,
        rivals_for_one_turn_of_an_actor_have_one_winner, items_of_operations_that_ended_long_ago_are_forgotten;
    gate: a_new_gate_is_written_once, a_gate_changes_under_its_change_number, a_gate_that_is_not_there_is_not_changed,
        gates_are_judged_one_after_the_other, answers_come_in_the_order_given_and_gates_by_name,
        odd_names_are_names_of_their_own, many_gates_and_large_states_come_back, rivals_for_one_gate_have_one_winner,
        gates_outlive_the_runs_that_used_them;
    memo: a_memo_changes_under_its_change_number, a_memo_that_says_nothing_is_forgotten, memos_are_found_by_the_beginning_of_their_names,
        rivals_for_one_memo_have_one_winner;
    usage: usage_comes_back_with_the_attempt, a_turned_away_item_is_kept_as_decided, usage_is_counted_per_stage,
        a_stale_attempt_consumes_nothing, sums_of_usage_stop_at_the_largest_number, a_purge_leaves_what_was_consumed,
        a_pruned_run_leaves_no_counters_of_usage;
    verdict: a_verdict_comes_back_with_its_item_and_its_attempts, verdicts_are_counted_while_their_items_stand,
        items_are_found_by_their_verdict;
    answer: what_is_handed_over_is_kept_and_counted_apart, whoever_looks_after_an_answer_begins_no_attempt,
        what_is_due_and_what_is_to_be_looked_after_stand_in_one_line, a_second_answer_changes_nothing,
        what_waits_for_an_answer_is_never_overdue, an_item_that_is_handed_over_by_an_event_is_told_whoever_listens;
    vitals: what_waits_and_what_nobody_holds_is_told_by_stage, a_retired_worker_holds_nothing,
        counts_stop_at_the_most_that_is_asked_for, a_death_is_counted_each_time,
        what_only_grows_outlives_a_run_that_is_forgotten, operations_are_counted_by_kind_and_state;
    work: a_run_is_listed_for_what_it_has, a_run_of_a_lost_worker_is_listed, a_listed_run_says_how_many_items_wait,
        a_stamp_changes_when_somebody_writes,
        a_run_without_work_is_listed_until_it_is_called_finished, a_standing_run_is_listed_for_its_items_only,
        runs_are_listed_by_priority_and_number_in_pages, a_filter_takes_categories_and_pipelines,
        parents_whose_children_ended_elsewhere_are_listed, a_worker_says_anew_which_runs_it_works_on;
    snapshot: a_snapshot_stays_as_it_was, a_snapshot_refuses_to_be_written, what_was_just_written_is_whole;
    oracle: random_lives_0, random_lives_1, random_lives_2, random_lives_3, random_lives_4, random_lives_5;
};

/// Every case with its name.
#[must_use]
pub fn cases() -> &'static [(&'static str, CaseFn)] {
    CASES
}

/// Runs every case, each on an empty store of its own.
///
/// # Panics
/// When cases fail: all of them have run by then, and every one that failed is named with its reason.
pub fn run(make: impl Fn() -> Arc<dyn Store>) {
    run_all(CASES, |case| case(make()));
}

/// Every case about the index with its name.
#[must_use]
pub fn index_cases() -> &'static [(&'static str, IndexCaseFn)] {
    index::CASES
}

/// Runs every case about the index, each on an empty store of its own.
///
/// # Panics
/// As [`run`].
pub fn run_index(make: impl Fn() -> Arc<dyn Both>) {
    run_all(index::CASES, |case| case(make()));
}

type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

fn run_all<C>(cases: &[(&str, C)], begin: impl Fn(&C) -> Running) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    let mut failed = Vec::new();
    for some in cases.chunks(AT_ONCE) {
        let running: Vec<_> = some.iter().map(|(name, case)| (*name, runtime.spawn(begin(case)))).collect();
        for (name, case) in running {
            if let Err(error) = runtime.block_on(case) {
                failed.push(format!("{name}: {}", reason(error)));
            }
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

fn reason(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "it was cancelled".to_owned() };
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic".to_owned())
}
