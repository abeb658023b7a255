-- What is known of an attempt that is handed over, as JSON, while its answer is awaited. Nearly all items have none.
ALTER TABLE item ADD COLUMN handed TEXT;

-- What waits for an answer stands in no line: it is looked at by itself, so that however many there are, no count of what is
-- due or backs off has to step over them.
DROP INDEX item_ready;
CREATE INDEX item_ready ON item (run, stage, lane, due, seq) WHERE state = 0 AND handed IS NULL;
CREATE INDEX item_awaited ON item (run, stage, due, seq) WHERE state = 0 AND handed IS NOT NULL;

-- The name under which an item is handed over by a fact.
ALTER TABLE fact ADD COLUMN route TEXT;
