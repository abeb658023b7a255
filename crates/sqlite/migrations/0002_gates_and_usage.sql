-- What workers and processes share about one dependency. state is JSON that redrive-core writes and reads.
CREATE TABLE gate (
    name       TEXT PRIMARY KEY,
    rev        INTEGER NOT NULL CHECK (rev > 0),
    state      TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What an attempt consumed; all NULL where the stage did not say, nano_usd alone where no price is known.
ALTER TABLE attempt ADD COLUMN tokens_in INTEGER;
ALTER TABLE attempt ADD COLUMN tokens_out INTEGER;
ALTER TABLE attempt ADD COLUMN nano_usd INTEGER
    CHECK ((tokens_out IS NULL) = (tokens_in IS NULL) AND (nano_usd IS NULL OR tokens_in IS NOT NULL));
