-- Operations whose items are frozen and that nobody has started yet (state 3).
CREATE TABLE act (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind       INTEGER NOT NULL CHECK (kind >= 0),
    state      INTEGER NOT NULL CHECK (state BETWEEN 0 AND 3),
    actor      TEXT NOT NULL,
    request    TEXT NOT NULL,
    after      INTEGER,
    changed    INTEGER NOT NULL,
    skipped    INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
INSERT INTO act SELECT id, kind, state, actor, request, after, changed, skipped, created_at, updated_at FROM operation;
-- Numbers of operations are not given twice, also where the last ones are gone.
INSERT INTO sqlite_sequence (name, seq) SELECT 'act', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'act');
UPDATE sqlite_sequence SET seq = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'operation'), 0) WHERE name = 'act';
DROP TABLE operation;
ALTER TABLE act RENAME TO operation;
CREATE INDEX operation_open ON operation (id) WHERE state = 0;

-- The items of an operation: as they were seen, and with the generation that it made of them.
CREATE TABLE member (
    operation INTEGER NOT NULL,
    item      INTEGER NOT NULL,
    rev       INTEGER NOT NULL,
    sent      INTEGER,
    PRIMARY KEY (operation, item)
) STRICT, WITHOUT ROWID;
