//! The source of files over directories that change.

use std::fs::{File, FileTimes};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use redrive_core::time::Timestamp;
use redrive_engine::source::Source;
use redrive_index::{Files, FilesSpec};
use redrive_ingest::payload::FilePayload;
use redrive_ingest::walk::WalkOptions;
use redrive_store::index::{Collection, NewCollection};
use redrive_store::{Index, MemoryStore};

/// Long after anything was written, so that no time is too fresh to be trusted.
fn much_later() -> Timestamp {
    Timestamp(i64::MAX / 2)
}

struct Place {
    folder: tempfile::TempDir,
    index: Arc<dyn Index>,
    collection: Collection,
}

impl Place {
    async fn new() -> Self {
        let index: Arc<dyn Index> = Arc::new(MemoryStore::new());
        let new = NewCollection {
            root: "/".to_owned(),
            model: "m".to_owned(),
            dimensions: 1,
            settings: String::new(),
        };
        let collection = index.open_collection(new, Timestamp(0)).await.expect("opened");
        Self { folder: tempfile::tempdir().expect("made"), index, collection }
    }

    /// Writes a file that was last written at the beginning of time.
    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).expect("written");
        let times = FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(1));
        File::options().write(true).open(self.path(name)).expect("opened").set_times(times).expect("set");
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Walks over all files; returns how often each was admitted and how its content had been seen to change.
    async fn walk(&self) -> Vec<(String, u64)> {
        let spec = FilesSpec {
            root: self.folder.path().to_owned(),
            options: WalkOptions::default(),
            index: self.index.clone(),
            collection: self.collection.no,
            mark: 1,
            again: None,
            now: much_later,
        };
        let mut files = Files::open(spec).expect("opened");
        let walked = tokio::task::spawn_blocking(move || {
            let mut admitted = Vec::new();
            loop {
                let piece = files.next_piece().expect("read");
                admitted.extend(piece.items.iter().map(|item| {
                    let file: FilePayload = serde_json::from_slice(&item.payload).expect("a file");
                    (file.path.to_string(), file.looks)
                }));
                if piece.done {
                    return admitted;
                }
            }
        });
        walked.await.expect("walked")
    }

    async fn looks(&self, name: &str) -> i64 {
        let docs = self.index.docs(self.collection.no, vec![name.into()]).await.expect("docs");
        docs[0].as_ref().expect("it was seen").looks
    }
}

fn replace(place: &Place, name: &str, how: impl FnOnce(&Path)) {
    how(&place.path(name));
    let metadata = std::fs::metadata(place.path(name)).expect("it is there");
    assert_eq!(metadata.modified().expect("known"), UNIX_EPOCH + Duration::from_secs(1));
    assert_eq!(metadata.len(), "alpha walrus one".len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_replaced_by_one_of_equal_size_and_time_is_noticed() {
    let place = Place::new().await;
    for name in ["moved", "rewritten", "same"] {
        place.write(name, "alpha walrus one");
    }
    assert_eq!(place.walk().await.len(), 3);
    assert_eq!(place.walk().await.len(), 3, "nothing is published, so all are admitted again");
    place.write("other", "gamma ocelot two");
    replace(&place, "moved", |path| std::fs::rename(place.path("other"), path).expect("moved"));
    let changed = |name: &str| {
        let metadata = std::fs::metadata(place.path(name)).expect("it is there");
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = changed("rewritten");
    replace(&place, "rewritten", |_| {
        // The clock of a file system goes in steps; a walk that runs so soon after a write does not trust its time.
        while changed("rewritten") == before {
            place.write("rewritten", "gamma ocelot two");
        }
    });
    place.walk().await;
    for (name, looks) in [("moved", 1), ("rewritten", 1), ("same", 0)] {
        assert_eq!(place.looks(name).await, looks, "{name}");
    }
}
