//! Cases about the index that a store keeps beside its items.

mod chunk;
mod collection;
mod document;
mod effect;
mod lives;
mod nearest;
mod publish;
mod shelf;
mod unused;
mod words;

use std::sync::Arc;

use redrive_store::{Index, Store};

use crate::{Running, table};

/// A store that keeps an index.
pub trait Both: Store + Index {}

impl<T: Store + Index> Both for T {}

/// A case about an empty store and its index.
pub type IndexCaseFn = fn(Arc<dyn Both>) -> Running;

pub(crate) const CASES: &[(&str, IndexCaseFn)] = table! {
    effect: an_effect_is_written_with_its_outcome, a_stale_change_writes_nothing_into_the_index,
        a_late_worker_writes_nothing_into_the_index, a_failed_all_or_nothing_leaves_the_index,
        a_cancelled_run_writes_nothing_into_the_index, an_unknown_run_fails_the_effects_too,
        effects_come_with_a_submission_or_not_at_all, effects_of_one_commit_are_written_in_order,
        many_may_write_into_one_document_at_once;
    chunk: the_first_vector_stays, models_keep_their_vectors_apart, the_same_key_is_replaced_and_keeps_its_number,
        editions_have_the_same_key_beside_each_other, a_chunk_makes_its_document, chunks_come_back_as_they_were_put, odd_texts_come_back_exactly,
        keys_are_names_within_a_document, numbers_of_chunks_are_not_given_again,
        chunks_come_in_the_order_asked_for, a_document_is_read_in_its_order_and_as_it_was_first;
    publish: publication_prunes_other_versions, publication_leaves_other_documents_alone,
        a_document_without_chunks_is_published, a_forgotten_document_leaves_no_chunks,
        a_forgotten_document_can_come_back, what_was_never_seen_can_be_forgotten,
        a_late_edition_gives_way, of_several_contents_the_greatest_stays,
        of_several_contents_on_their_way_the_greatest_keeps_its_chunks;
    document: files_come_back_as_they_were_seen, odd_paths_are_paths_of_their_own, documents_come_in_pages,
        documents_come_in_the_order_asked_for, a_refusal_does_not_mark_what_is_published,
        the_first_reason_of_a_refusal_stays, a_collection_that_is_gone_takes_no_refusal,
        looking_again_replaces_how_it_looked, nothing_asked_is_nothing_answered;
    collection: a_root_is_opened_once, settings_change_for_one_collection, dimensions_are_learnt_once,
        a_dropped_collection_takes_its_documents, numbers_of_collections_are_not_given_again,
        sizes_are_counted, odd_roots_are_roots_of_their_own,
        what_is_made_anew_is_found_until_it_is, a_snapshot_of_the_index_refuses_to_be_written;
    nearest: nearest_equals_looking_at_every_chunk, equals_go_by_number_of_the_chunk,
        unused_vectors_take_no_places, shared_texts_are_found_in_every_document;
    words: words_are_found_in_text_and_context, operators_are_plain_words, words_are_found_within_the_scope,
        replaced_words_are_gone, no_words_find_nothing, more_words_rank_first, many_words_are_no_trouble,
        what_no_word_search_takes_apart_is_found_by_its_parts, a_chunk_without_a_vector_is_found_by_words,
        a_vector_can_come_later;
    unused: only_unused_vectors_are_dropped, unused_vectors_go_in_pages, no_vector_goes_while_a_run_is_unfinished,
        documents_that_are_gone_are_forgotten;
    lives: random_shelves_0, random_shelves_1, random_shelves_2;
};
