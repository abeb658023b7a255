//! The store that specifies all others passes its own suite.

use std::sync::Arc;

use redrive_store::MemoryStore;

#[test]
fn memory_store_conforms() {
    redrive_conformance::run(|| Arc::new(MemoryStore::new()));
}

#[test]
fn memory_index_conforms() {
    redrive_conformance::run_index(|| Arc::new(MemoryStore::new()));
}
