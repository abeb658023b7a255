-- What was counted in runs that are forgotten, as far as it only grows.
CREATE TABLE pruned_counter (
    pipeline TEXT NOT NULL,
    stage    INTEGER NOT NULL,
    metric   INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    PRIMARY KEY (pipeline, stage, metric)
) STRICT, WITHOUT ROWID;

-- Times that items died (2100000 + reason): of those that are dead now it is known. One that was sent back or purged since
-- has left no trace of it.
INSERT INTO counter (run, stage, metric, n)
SELECT run, stage, metric + 1800000, n FROM counter WHERE metric BETWEEN 300000 AND 399999 AND n > 0;
