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

#[cfg(unix)]
#[test]
fn a_pipe_a_device_and_a_dangling_link_are_told_for_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.db");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink("nowhere.db", &link).unwrap();
    let socket = folder.path().join("socket.db");
    let _listens = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let told = [
        (pipe, "is a named pipe, not a file"),
        (socket, "is a socket, not a file"),
        (Path::new("/dev/null").to_path_buf(), "is a device, not a file"),
        (folder.path().to_path_buf(), "is a directory, not a file"),
        (link.clone(), "is a symbolic link to nowhere.db, which is not there"),
    ];
    for (path, words) in told {
        for error in [refusal(&path), SqliteStore::open_to_read(&path, Options::default()).unwrap_err()] {
            assert!(
                matches!(&error, Error::Open(text) if text.contains(words)),
                "{}: {error}",
                path.display()
            );
        }
    }
    fs::write(folder.path().join("nowhere.db"), "").unwrap();
    drop(SqliteStore::open(&link, Options::default()).unwrap());
    assert!(fs::metadata(folder.path().join("nowhere.db")).unwrap().len() > 0, "a link is followed");
}

#[test]
fn a_path_that_is_too_long_is_told_with_its_length_and_the_longest_works() {
    let folder = tempfile::tempdir().unwrap();
    let name = |n: usize| folder.path().join("n".repeat(n));
    drop(SqliteStore::open(&name(247), Options::default()).unwrap());
    let error = refusal(&name(248));
    assert!(error.to_string().contains("its name has 248 bytes, more than the 247"), "{error}");
    let deep = |n: usize| {
        let mut path = folder.path().to_path_buf();
        while path.as_os_str().len() + 102 < n {
            path.push("d".repeat(100));
        }
        let left = n - path.as_os_str().len() - 1;
        path.join("e".repeat(left))
    };
    let store = SqliteStore::open(&deep(504), Options::default()).unwrap();
    block_on(store.create_run(crate::life::new_run(), crate::life::NOW)).unwrap();
    let error = refusal(&deep(505));
    assert!(error.to_string().contains("its path has 505 bytes, more than the 504"), "{error}");
}

#[test]
fn a_store_that_has_to_be_there_is_not_made_of_an_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    for open in [SqliteStore::open_existing, SqliteStore::open_to_read] {
        let error = open(&empty, Options::default()).unwrap_err();
        assert!(
            matches!(&error, Error::Open(text) if text.contains("empty.db is empty: it has 0 bytes")),
            "{error}"
        );
        assert_eq!(fs::metadata(&empty).unwrap().len(), 0, "it is left as it is");
        let error = open(&folder.path().join("none.db"), Options::default()).unwrap_err();
        assert!(matches!(&error, Error::Open(text) if text.contains("there is no store at")), "{error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn a_damaged_number_of_the_schema_is_damage_and_not_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let whole = grown(folder.path());
    let path = folder.path().join("number.db");
    for number in [0, -1, -7, 1, 2, 3] {
        fs::write(&path, &whole).unwrap();
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(&format!("PRAGMA user_version = {number}; PRAGMA journal_mode = DELETE")).unwrap();
        drop(conn);
        let before = fs::read(&path).unwrap();
        for error in [refusal(&path), SqliteStore::open_to_read(&path, Options::default()).unwrap_err()] {
            let text = error.to_string();
            assert!(matches!(error, Error::Corrupt(_)), "{number}: {text}");
            assert!(text.contains("number.db"), "{text}");
            assert!(number > 0 || text.contains("its schema has the number"), "{text}");
            assert!(text.len() < 300 && !text.contains("CREATE TABLE"), "{text}");
        }
        assert_eq!(fs::read(&path).unwrap().len(), before.len());
    }
}

#[test]
fn a_log_that_grew_is_cut_when_it_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let run = block_on(store.create_run(crate::life::new_run(), crate::life::NOW)).unwrap().id;
    let held = block_on(store.snapshot()).unwrap();
    let log = || redrive_sqlite::log_bytes(&path);
    let mut next = 0;
    while log() < 80 << 20 {
        block_on(store.submit(crate::life::submission(run, next..next + 40, 60_000))).unwrap();
        next += 40;
    }
    drop(held);
    for _ in 0..3 {
        block_on(store.submit(crate::life::submission(run, next..next + 1, 100))).unwrap();
        next += 1;
    }
    assert!(log() <= 64 << 20, "{} bytes", log());
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
            Err(Error::ReadOnly(_)) if at < 100 => {
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
