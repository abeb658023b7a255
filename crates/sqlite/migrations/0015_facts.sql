-- What the world is told, and whether any of it is kept. Nothing was ever written to the table that was there before.
DROP TABLE fact;
CREATE TABLE fact (
    seq        INTEGER PRIMARY KEY,
    what       TEXT NOT NULL,
    run        INTEGER NOT NULL,
    item       BLOB,
    key        TEXT,
    stage      INTEGER,
    generation INTEGER,
    attempt    INTEGER,
    at         INTEGER NOT NULL,
    due        INTEGER,
    class      INTEGER,
    reason     TEXT
) STRICT;

CREATE TABLE outbox (
    only  INTEGER PRIMARY KEY CHECK (only = 1),
    store INTEGER NOT NULL,
    keeps INTEGER NOT NULL
) STRICT;
