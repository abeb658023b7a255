-- Failures and crashes of an item at its stage before it was last sent back.
ALTER TABLE item ADD COLUMN earlier INTEGER NOT NULL DEFAULT 0;
UPDATE item SET earlier = (
    SELECT count(*) FROM attempt WHERE attempt.item = item.seq AND attempt.stage = item.stage
        AND attempt.generation < item.generation AND outcome IN (4, 6))
WHERE generation > 0;

-- Attempts by the mark of their stage's configuration, so that two versions of a stage can be compared.
CREATE TABLE config_counter (
    run    INTEGER NOT NULL,
    stage  INTEGER NOT NULL,
    config INTEGER NOT NULL,
    metric INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (run, stage, config, metric)
) STRICT, WITHOUT ROWID;
INSERT INTO config_counter (run, stage, config, metric, n)
    SELECT item.run, attempt.stage, attempt.config, 500000 + outcome, count(*)
    FROM attempt JOIN item ON item.seq = attempt.item GROUP BY 1, 2, 3, 4;

-- Items that were tried (1600000), and that passed at the first try (1600001); then those that failed and are dead (1400000
-- + tries) or not through (1500000 + tries).
CREATE TEMP TABLE first AS
    SELECT run, stage, config, outcome FROM (
        SELECT item.run, attempt.stage, attempt.config, attempt.outcome, row_number() OVER (
            PARTITION BY attempt.item, attempt.stage ORDER BY attempt.generation, attempt.attempt) AS try
        FROM attempt JOIN item ON item.seq = attempt.item WHERE attempt.outcome IN (0, 3, 4, 6))
    WHERE try = 1;
INSERT INTO config_counter (run, stage, config, metric, n)
    SELECT run, stage, config, 1600000, count(*) FROM first GROUP BY 1, 2, 3
    UNION ALL
    SELECT run, stage, config, 1600001, count(*) FROM first WHERE outcome IN (0, 3) GROUP BY 1, 2, 3;
DROP TABLE first;
INSERT INTO counter (run, stage, metric, n)
    SELECT run, stage, metric, sum(n) FROM config_counter WHERE metric >= 1600000 GROUP BY 1, 2, 3
    UNION ALL
    SELECT run, stage, (CASE state WHEN 7 THEN 1400000 ELSE 1500000 END) + min(earlier + failures + crashes, 50), count(*)
    FROM item WHERE state IN (0, 1, 7) AND earlier + failures + crashes > 0 GROUP BY 1, 2, 3;

-- The item that wrote an output last: a purge of the item takes it with it. Those of older stores go with their run.
ALTER TABLE output ADD COLUMN item INTEGER;
CREATE INDEX output_item ON output (item) WHERE item IS NOT NULL;
