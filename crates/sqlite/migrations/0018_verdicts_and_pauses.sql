-- What stages found of an item: 0 passed, 1 needs_review, 2 failed. `found` has it by stage, `verdict` is the item's own.
ALTER TABLE item ADD COLUMN verdict INTEGER CHECK (verdict IS NULL OR (state = 3 AND verdict BETWEEN 0 AND 2));
ALTER TABLE item ADD COLUMN found TEXT;
ALTER TABLE attempt ADD COLUMN verdict INTEGER;
ALTER TABLE output ADD COLUMN verdict INTEGER;
ALTER TABLE tombstone ADD COLUMN verdict INTEGER;
CREATE INDEX item_verdict ON item (run, verdict, seq) WHERE verdict IS NOT NULL;

-- Pipelines and stages that somebody paused; an empty stage stands for the whole pipeline. The sequence is the number of the
-- last change: who has not seen it claims nothing.
CREATE TABLE pipeline_pause (
    pipeline TEXT NOT NULL,
    stage    TEXT NOT NULL,
    since    INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    why      TEXT NOT NULL,
    PRIMARY KEY (pipeline, stage)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO sequence (name, last) VALUES ('pause', 0);
