-- What the daemons of a store have to remember together, each under a name.
CREATE TABLE memo (
    name       TEXT PRIMARY KEY,
    rev        INTEGER NOT NULL,
    state      TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
