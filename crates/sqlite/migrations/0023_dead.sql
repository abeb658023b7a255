-- Dead items are listed by when they died, along this index alone.
CREATE INDEX item_dead_when ON item (updated_at, seq, run, stage, class, dead_reason, grp) WHERE state = 7;

-- How many dead items have alike errors, kept in the transaction of what it counts. Where the first or the last of them
-- has left, `stale` says that the times are to be looked up.
CREATE TABLE dead_group (
    grp      TEXT NOT NULL,
    run      INTEGER NOT NULL,
    stage    INTEGER NOT NULL,
    class    INTEGER NOT NULL,
    reason   INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at  INTEGER NOT NULL,
    stale    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (grp, run, stage, class, reason)
) STRICT, WITHOUT ROWID;

INSERT INTO dead_group (grp, run, stage, class, reason, n, first_at, last_at)
SELECT coalesce(grp, ''), run, stage, coalesce(class, -1), dead_reason, count(*), min(updated_at), max(updated_at)
FROM item INDEXED BY item_dead_group WHERE state = 7
GROUP BY coalesce(grp, ''), run, stage, coalesce(class, -1), dead_reason;
