-- The index: what `redrive index` makes of a directory and `redrive search` looks at. Numbers are not given again: a
-- late outcome must not write into another collection, nor a search read another chunk.
CREATE TABLE model (
    no         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL CHECK (dimensions >= 0)
) STRICT;

CREATE TABLE collection (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    root       TEXT NOT NULL UNIQUE,
    model      INTEGER NOT NULL,
    settings   TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Vectors by what they were made of. codes are one signed byte a dimension; a number is its code times scale.
CREATE TABLE vector (
    no    INTEGER PRIMARY KEY AUTOINCREMENT,
    model INTEGER NOT NULL,
    text  BLOB NOT NULL CHECK (length(text) = 16),
    scale REAL NOT NULL,
    codes BLOB NOT NULL,
    UNIQUE (text, model)
) STRICT;

-- A file as it is known. seen_* is how it looked when its content was read; modified is NULL when that cannot tell
-- whether it was written again. A document that is gone keeps its row, and with it its change number.
CREATE TABLE doc (
    no           INTEGER PRIMARY KEY AUTOINCREMENT,
    collection   INTEGER NOT NULL,
    path         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    seen_size    INTEGER,
    seen_time    INTEGER,
    seen_hash    BLOB,
    published    BLOB,
    mark         INTEGER NOT NULL DEFAULT 0,
    rev          INTEGER NOT NULL DEFAULT 0,
    looks        INTEGER NOT NULL DEFAULT 0,
    refused      BLOB,
    refused_why  TEXT CHECK ((refused_why IS NULL) = (refused IS NULL)),
    UNIQUE (collection, path)
) STRICT;

CREATE TABLE chunk (
    no         INTEGER PRIMARY KEY AUTOINCREMENT,
    doc        INTEGER NOT NULL,
    key        TEXT NOT NULL,
    edition    BLOB NOT NULL CHECK (length(edition) = 16),
    vector     INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    page       INTEGER,
    first_line INTEGER NOT NULL,
    last_line  INTEGER NOT NULL,
    first_byte INTEGER NOT NULL,
    end_byte   INTEGER NOT NULL,
    context    TEXT NOT NULL,
    text       TEXT NOT NULL,
    UNIQUE (doc, key, edition)
) STRICT;
CREATE INDEX chunk_vector ON chunk (vector);

-- The words of chunks. It keeps no copy of the text: it reads the chunk's. What writes chunks writes here as well, many at
-- a time; triggers would do it row by row, at more than twice the cost.
CREATE VIRTUAL TABLE words USING fts5 (
    context, text, content = 'chunk', content_rowid = 'no', tokenize = 'porter unicode61 remove_diacritics 2'
);
