-- Readings of a source. A run counts them; an item says which one saw it last. What an older version read is reading 0.
ALTER TABLE run ADD COLUMN reading INTEGER NOT NULL DEFAULT 0;
ALTER TABLE item ADD COLUMN reading INTEGER NOT NULL DEFAULT 0;
-- The state an item had before it was superseded; NULL where an older version did not write it down.
ALTER TABLE item ADD COLUMN was INTEGER CHECK (was IS NULL OR state = 5);
