-- A tombstone has its item's number, of which there is only one: a child that its parent gives again can be purged again.
-- It tells where the item stood: stage, state and, of a dead one, why. Those of older stores do not, and have negative numbers.
CREATE TABLE grave (
    seq         INTEGER PRIMARY KEY,
    id          BLOB NOT NULL CHECK (length(id) = 16),
    run         INTEGER NOT NULL,
    key         TEXT NOT NULL,
    at          INTEGER NOT NULL,
    operation   INTEGER NOT NULL,
    stage       INTEGER,
    state       INTEGER CHECK ((state IS NULL) = (stage IS NULL)),
    dead_reason INTEGER,
    class       INTEGER
) STRICT;
INSERT INTO grave (seq, id, run, key, at, operation)
    SELECT -row_number() OVER (ORDER BY at DESC, id DESC), id, run, key, at, operation FROM tombstone;
DROP TABLE tombstone;
ALTER TABLE grave RENAME TO tombstone;
CREATE INDEX tombstone_id ON tombstone (id);
CREATE INDEX tombstone_run ON tombstone (run);

-- Purged items are counted by the state they were in (1200000 + state) and stay counted as that; until now it was one
-- number (200001), of which tombstones tell how much was purged. What has none (an item that was purged twice, a run that
-- was being forgotten) is told apart (1300000 + state).
UPDATE counter SET metric = 1200007 WHERE metric = 200001;
CREATE TEMP TABLE astray AS
    SELECT run, sum(n) - (SELECT count(*) FROM tombstone WHERE tombstone.run = counter.run) AS off,
           (SELECT stage FROM counter AS most WHERE most.run = counter.run AND most.metric = 1200007
            ORDER BY most.n DESC LIMIT 1) AS stage
    FROM counter WHERE metric = 1200007 GROUP BY run;
DELETE FROM astray WHERE off <= 0;
UPDATE counter SET n = n - (SELECT off FROM astray WHERE astray.run = counter.run)
    WHERE metric = 1200007 AND (run, stage) IN (SELECT run, stage FROM astray);
INSERT INTO counter (run, stage, metric, n) SELECT run, stage, 1300007, off FROM astray;
DROP TABLE astray;

-- Since when nobody is at the run, and how long that was before: it is no part of the time it took.
ALTER TABLE run ADD COLUMN idle_since INTEGER;
ALTER TABLE run ADD COLUMN idle_ms INTEGER NOT NULL DEFAULT 0;
