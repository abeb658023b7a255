-- Times are UTC milliseconds. Codes (state, cause, class, kind, reason, outcome, control) are those of redrive-core.

CREATE TABLE run (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline     TEXT NOT NULL,
    source       TEXT NOT NULL,
    category     TEXT,
    priority     INTEGER NOT NULL,
    definition   TEXT NOT NULL,
    folder       TEXT NOT NULL,
    control      INTEGER NOT NULL CHECK (control BETWEEN 0 AND 5),
    reason       TEXT,
    cursor       TEXT,
    admitted_all INTEGER NOT NULL CHECK (admitted_all IN (0, 1)),
    duplicates   INTEGER NOT NULL,
    budget       TEXT,
    created_at   INTEGER NOT NULL,
    finished_at  INTEGER,
    paused_since INTEGER,
    paused_ms    INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX run_finished ON run (finished_at) WHERE finished_at IS NOT NULL;

-- retired: 0 stopped, 1 lost.
CREATE TABLE worker (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT NOT NULL,
    identity    TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    retired     INTEGER CHECK (retired IN (0, 1))
) STRICT;
CREATE INDEX worker_live ON worker (id) WHERE retired IS NULL;

CREATE TABLE operation (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       INTEGER NOT NULL CHECK (kind BETWEEN 0 AND 2),
    state      INTEGER NOT NULL CHECK (state BETWEEN 0 AND 2),
    actor      TEXT NOT NULL,
    request    TEXT NOT NULL,
    after      INTEGER,
    changed    INTEGER NOT NULL,
    skipped    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;

-- The last number given, per kind of thing. A number is never given twice, not even after its item was purged: the
-- token of a worker that slept through the purge must not fit another item.
CREATE TABLE sequence (
    name TEXT PRIMARY KEY,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO sequence (name, last) VALUES ('item', 0), ('fact', 0);

-- state: 0 waiting, 1 running, 2 joining, 3 succeeded, 4 filtered, 5 superseded, 6 cancelled, 7 dead.
-- Content of up to 2 kB is in the row, larger content in its own table; never both.
CREATE TABLE item (
    seq             INTEGER PRIMARY KEY,
    id              BLOB NOT NULL CHECK (length(id) = 16),
    run             INTEGER NOT NULL,
    parent          INTEGER,
    key             TEXT NOT NULL,
    version         BLOB NOT NULL CHECK (length(version) = 16),
    origin          INTEGER NOT NULL,
    stage           INTEGER NOT NULL,
    state           INTEGER NOT NULL CHECK (state BETWEEN 0 AND 7),
    lane            INTEGER NOT NULL CHECK (lane = (attempt > 0)),
    due             INTEGER CHECK ((due IS NOT NULL) = (state = 0)),
    cause           INTEGER CHECK (cause IS NULL OR state = 0),
    worker          INTEGER CHECK ((worker IS NOT NULL) = (state = 1)),
    since           INTEGER CHECK ((since IS NOT NULL) = (state = 1)),
    generation      INTEGER NOT NULL,
    rev             INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    throttles       INTEGER NOT NULL,
    crashes         INTEGER NOT NULL,
    first_failed_at INTEGER,
    filtered        TEXT CHECK ((filtered IS NOT NULL) = (state = 4)),
    dead_reason     INTEGER CHECK ((dead_reason IS NOT NULL) = (state = 7)),
    class           INTEGER,
    kind            INTEGER CHECK ((kind IS NULL) = (class IS NULL)),
    message         TEXT CHECK ((message IS NULL) = (class IS NULL)),
    grp             TEXT CHECK ((grp IS NULL) = (class IS NULL)),
    shared          INTEGER CHECK ((shared IS NULL) = (class IS NULL)),
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    deadline        INTEGER,
    payload         BLOB,
    content         BLOB CHECK ((content IS NULL) <> (payload IS NULL))
) STRICT;
CREATE UNIQUE INDEX item_id ON item (id);
CREATE INDEX item_run ON item (run);
CREATE INDEX item_child ON item (parent) WHERE parent IS NOT NULL;
CREATE INDEX item_content ON item (content) WHERE content IS NOT NULL;
CREATE INDEX item_ready ON item (run, stage, lane, due, seq) WHERE state = 0;
CREATE INDEX item_held ON item (worker) WHERE state = 1;
CREATE INDEX item_joining ON item (run) WHERE state = 2;
CREATE INDEX item_live_child ON item (parent) WHERE parent IS NOT NULL AND state IN (0, 1, 2);
CREATE INDEX item_dead ON item (run, seq) WHERE state = 7;
CREATE INDEX item_dead_group ON item (grp, seq) WHERE state = 7;
CREATE INDEX item_dead_any ON item (state) WHERE state = 7;

CREATE TABLE content (
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 16),
    body BLOB NOT NULL
) STRICT;

-- Contents that lost a reference. Pruning looks at these only, instead of at all contents. (The triggers do not say
-- INSERT OR IGNORE: an upsert that fires them would turn it into an error.)
CREATE TABLE loose (
    hash BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TRIGGER item_content_replaced AFTER UPDATE OF content ON item
WHEN OLD.content IS NOT NULL AND OLD.content IS NOT NEW.content
BEGIN
    INSERT INTO loose (hash) SELECT OLD.content WHERE NOT EXISTS (SELECT 1 FROM loose WHERE hash = OLD.content);
END;
CREATE TRIGGER item_content_removed AFTER DELETE ON item WHEN OLD.content IS NOT NULL
BEGIN
    INSERT INTO loose (hash) SELECT OLD.content WHERE NOT EXISTS (SELECT 1 FROM loose WHERE hash = OLD.content);
END;

-- Attempts are added, never changed.
CREATE TABLE attempt (
    item       INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    stage      INTEGER NOT NULL,
    attempt    INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    outcome    INTEGER NOT NULL CHECK (outcome BETWEEN 0 AND 9),
    class      INTEGER,
    kind       INTEGER CHECK ((kind IS NULL) = (class IS NULL)),
    status     INTEGER,
    message    TEXT CHECK ((message IS NULL) = (class IS NULL)),
    wait       INTEGER,
    cause      INTEGER CHECK ((cause IS NULL) = (wait IS NULL)),
    worker     INTEGER NOT NULL,
    config     INTEGER NOT NULL,
    PRIMARY KEY (item, generation, stage, attempt)
) STRICT, WITHOUT ROWID;

-- n is the change number of the item that the mark came with, so marks read in the order they were made.
CREATE TABLE mark (
    item   INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    what   TEXT NOT NULL,
    detail TEXT NOT NULL,
    PRIMARY KEY (item, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE counter (
    run    INTEGER NOT NULL,
    stage  INTEGER NOT NULL,
    metric INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (run, stage, metric)
) STRICT, WITHOUT ROWID;

-- An output belongs to the run that wrote it last and is forgotten with it.
CREATE TABLE output (
    config  INTEGER NOT NULL,
    input   BLOB NOT NULL CHECK (length(input) = 16),
    run     INTEGER NOT NULL,
    payload BLOB,
    content BLOB CHECK ((content IS NULL) <> (payload IS NULL)),
    UNIQUE (config, input)
) STRICT;
CREATE INDEX output_run ON output (run);
CREATE INDEX output_content ON output (content) WHERE content IS NOT NULL;

CREATE TRIGGER output_content_replaced AFTER UPDATE OF content ON output
WHEN OLD.content IS NOT NULL AND OLD.content IS NOT NEW.content
BEGIN
    INSERT INTO loose (hash) SELECT OLD.content WHERE NOT EXISTS (SELECT 1 FROM loose WHERE hash = OLD.content);
END;
CREATE TRIGGER output_content_removed AFTER DELETE ON output WHEN OLD.content IS NOT NULL
BEGIN
    INSERT INTO loose (hash) SELECT OLD.content WHERE NOT EXISTS (SELECT 1 FROM loose WHERE hash = OLD.content);
END;

CREATE TABLE fact (
    seq  INTEGER PRIMARY KEY,
    item BLOB NOT NULL,
    what TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

CREATE TABLE tombstone (
    id        BLOB PRIMARY KEY,
    run       INTEGER NOT NULL,
    key       TEXT NOT NULL,
    at        INTEGER NOT NULL,
    operation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
