//! Files that are not ours, not whole or not known are named and left as they are.

use std::fs;
use std::path::Path;

use redrive_sqlite::{Options, SqliteStore};
use redrive_store::{Error, Store};

use crate::life::{block_on, grown, survey};

fn refusal(path: &Path) -> Error {
    match SqliteStore::open(path, Options::default()) {
        Ok(_) => panic!("{} was opened", path.display()),
        Err(error) => error,
    }
}

#[test]
fn a_foreign_file_is_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "my notes, longer than any header could be: ".repeat(9)).unwrap();
    let short = folder.path().join("short");
    fs::write(&short, "x").unwrap();
    let zeros = folder.path().join("zeros");
    fs::write(&zeros, [0; 8_192]).unwrap();
    let other = folder.path().join("other.db");
    let conn = rusqlite::Connection::open(&other).unwrap();
    conn.execute_batch("CREATE TABLE theirs (n INTEGER); INSERT INTO theirs VALUES (1)").unwrap();
    drop(conn);
    let marked = folder.path().join("marked.db");
    let conn = rusqlite::Connection::open(&marked).unwrap();
    conn.execute_batch("PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE run (n INTEGER)")
        .unwrap();
    drop(conn);
    for path in [&text, &short, &zeros, &other, &marked] {
        let before = fs::read(path).unwrap();
        let error = refusal(path);
        assert!(matches!(&error, Error::Foreign(text) if text.contains(&*path.to_string_lossy())), "{error}");
        assert_eq!(fs::read(path).unwrap(), before, "{}", path.display());
    }
}

#[test]
fn a_foreign_database_with_a_log_is_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE theirs (n INTEGER)").unwrap();
    let (file, log) = (fs::read(&path).unwrap(), fs::read(folder.path().join("theirs.db-wal")).unwrap());
    assert!(matches!(refusal(&path), Error::Foreign(_)));
    assert_eq!(fs::read(&path).unwrap(), file);
    assert_eq!(fs::read(folder.path().join("theirs.db-wal")).unwrap(), log);
    conn.execute("INSERT INTO theirs VALUES (1)", []).unwrap();
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA user_version = 99; PRAGMA journal_mode = DELETE").unwrap();
    drop(conn);
    let before = fs::read(&path).unwrap();
    assert!(matches!(refusal(&path), Error::Newer { found: 99, .. }));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn an_empty_file_is_new_and_so_is_a_missing_folder() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    let missing = folder.path().join("a/b/new.db");
    for path in [&empty, &missing] {
        let store = SqliteStore::open(path, Options::default()).unwrap();
        assert_eq!(block_on(store.workers()), Ok(Vec::new()));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&missing), mode(&folder.path().join("a/b"))), (0o600, 0o700));
    }
}

#[test]
fn a_place_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [folder.path().to_path_buf(), file.join("below.db")] {
        let error = refusal(&path);
        assert!(
            matches!(&error, Error::Open(text) if text.contains(&*file.to_string_lossy()) || path.is_dir()),
            "{error}"
        );
    }
}

#[test]
fn a_truncated_store_is_damaged_and_left_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let whole = grown(folder.path());
    let path = folder.path().join("cut.db");
    for length in [1, 50, 99, 100, 4_000, 4_096, 8_192, whole.len() / 2, whole.len() - 4_096, whole.len() - 1]
    {
        fs::write(&path, &whole[..length]).unwrap();
        let error = refusal(&path);
        assert!(
            matches!(&error, Error::Corrupt(text) if text.contains("cut.db"))
                || (length < 16 && matches!(error, Error::Foreign(_))),
            "{length}: {error}"
        );
        assert_eq!(fs::read(&path).unwrap(), whole[..length], "{length}");
    }
}

#[test]
fn a_zeroed_page_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let whole = grown(folder.path());
    let path = folder.path().join("zero.db");
    let expected = survey(&whole, &path).unwrap();
    let mut found = 0;
    for page in 0..whole.len() / 4_096 {
        let mut damaged = whole.clone();
        damaged[page * 4_096..(page + 1) * 4_096].fill(0);
        if damaged == whole {
            continue;
        }
        match survey(&damaged, &path) {
            Err(Error::Corrupt(_) | Error::Foreign(_)) => {
                found += 1;
                assert_eq!(fs::read(&path).unwrap(), damaged, "page {page}");
            }
            Err(error) => panic!("page {page}: {error}"),
            // A page of the free list, or of an index that no answer comes from.
            Ok(seen) => assert_eq!(seen, expected, "page {page}"),
        }
    }
    assert!(found > 10, "most pages matter: {found}");
}

#[test]
fn flipped_bits_are_found_or_change_values_only() {
    let folder = tempfile::tempdir().unwrap();
    let whole = grown(folder.path());
    let path = folder.path().join("flip.db");
    let (mut found, mut harmless) = (0, 0);
    let header = (0..100).map(|at| (at, 1_u8 << (at % 8)));
    let pages = (0..200).map(|n| (100 + (n * 7_919) % (whole.len() - 100), 1_u8 << (n % 8)));
    for (at, bit) in header.chain(pages) {
        let mut damaged = whole.clone();
        damaged[at] ^= bit;
        match survey(&damaged, &path) {
            Err(Error::Corrupt(_) | Error::Foreign(_) | Error::Newer { .. }) => {
                found += 1;
                assert_eq!(fs::read(&path).unwrap(), damaged, "byte {at}");
            }
            Err(Error::Open(_)) if at < 100 => {
                // The header asks for a file format that this library may only read.
                found += 1;
                assert_eq!(fs::read(&path).unwrap(), damaged, "byte {at}");
            }
            Err(error) => panic!("byte {at}: {error}"),
            Ok(_) => harmless += 1,
        }
    }
    assert!(found > 20 && harmless > 20, "{found} found, {harmless} harmless");
}
