-- When an item first failed at its stage before it was last sent back: until it passes, the time from there counts. Items that
-- were sent back before have none, and count from their first failure since then.
ALTER TABLE item ADD COLUMN failing_since INTEGER;
