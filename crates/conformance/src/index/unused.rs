//! Vectors that no chunk points to any more, and documents that are gone.

use std::sync::Arc;

use redrive_core::index::{Effect, VectorKey};
use redrive_core::status::Control;
use redrive_store::RunChange;

use super::Both;
use super::shelf::{Shelf, doc, keep, key_of, seen};
use crate::world::{START, new_run};

async fn kept(shelf: &Shelf, texts: &[&str]) -> Vec<bool> {
    let keys: Vec<VectorKey> = texts.iter().map(|text| key_of(shelf.model(), text)).collect();
    shelf.both.known(keys).await.expect("known")
}

pub(super) async fn only_unused_vectors_are_dropped(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let other = shelf.other("/there", "n").await;
    for (path, text) in [("a", "used"), ("a", "shared"), ("b", "shared"), ("b", "once used")] {
        shelf.put_text(path, text, "1", text).await;
    }
    // The same text of another model is another vector.
    shelf.write(vec![keep(shelf.model(), "never used", [1; 4]), keep(other.model_no, "used", [1; 4])]).await;
    shelf.write(vec![Effect::Forget(doc(shelf.no(), "b"))]).await;
    shelf.finish(true).await;
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(3));
    assert_eq!(
        kept(&shelf, &["used", "shared", "once used", "never used"]).await,
        [true, true, false, false]
    );
    assert_eq!(shelf.both.known(vec![key_of(other.model_no, "used")]).await, Ok(vec![false]));
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(0));
    assert_eq!(shelf.keys().await.len(), 2);
    shelf.assert_whole().await;
    shelf.both.drop_collection(shelf.no()).await.expect("drop");
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(2));
    shelf.finish(false).await;
    shelf.write(vec![keep(shelf.model(), "used", [1; 4])]).await;
    assert_eq!(kept(&shelf, &["used"]).await, [true], "what went can be kept again");
}

pub(super) async fn unused_vectors_go_in_pages(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    let model = shelf.model();
    shelf.put_text("a", "k", "1", "used").await;
    shelf.write((0..25).map(|n| keep(model, &format!("unused {n}"), [1; 4])).collect()).await;
    shelf.finish(true).await;
    assert_eq!(shelf.both.drop_unused_vectors(0).await, Ok(0));
    for (gone, left) in [(10, 16), (10, 6), (5, 1), (0, 1)] {
        assert_eq!(shelf.both.drop_unused_vectors(10).await, Ok(gone));
        assert_eq!(shelf.both.size(shelf.no()).await.expect("size").vectors, left);
    }
    assert_eq!(kept(&shelf, &["used"]).await, [true]);
}

pub(super) async fn no_vector_goes_while_a_run_is_unfinished(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    shelf.write(vec![keep(shelf.model(), "unused", [1; 4])]).await;
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(0));
    shelf.finish(true).await;
    let second = shelf.both.create_run(new_run("another"), START).await.expect("a run").id;
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(0), "whosever run it is");
    let paused = RunChange::ask(Control::Paused, None, START);
    shelf.both.change_run(second, paused).await.expect("pause");
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(0), "a paused run goes on some day");
    assert_eq!(kept(&shelf, &["unused"]).await, [true]);
    let cancelled = RunChange::ask(Control::Cancelled, None, START);
    shelf.both.change_run(second, cancelled).await.expect("cancel");
    assert_eq!(shelf.both.drop_unused_vectors(99).await, Ok(1), "a cancelled one does not");
}

pub(super) async fn documents_that_are_gone_are_forgotten(both: Arc<dyn Both>) {
    let mut shelf = Shelf::new(both).await;
    for path in ["gone", "gone too", "back", "kept"] {
        shelf.put_text(path, "1", "1", path).await;
        shelf.publish(path, "1", 1).await;
    }
    for path in ["gone", "gone too", "back"] {
        shelf.write(vec![Effect::Forget(doc(shelf.no(), path))]).await;
    }
    shelf.both.observe(shelf.no(), vec![seen("back", 1, None)]).await.expect("observe");
    assert_eq!(shelf.both.drop_gone_docs(99).await, Ok(0), "an unfinished run may be about them");
    shelf.finish(true).await;
    assert_eq!(shelf.both.drop_gone_docs(1).await, Ok(1), "in pages");
    assert_eq!(shelf.both.drop_gone_docs(99).await, Ok(1));
    assert_eq!(shelf.both.drop_gone_docs(99).await, Ok(0));
    let paths: Vec<String> = shelf.docs().await.iter().map(|doc| doc.path.to_string()).collect();
    assert_eq!(paths, ["back", "kept"]);
}
