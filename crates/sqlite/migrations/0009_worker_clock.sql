-- When a lease was given or last renewed, by the clock that said until when: a lease is as long as that, wherever the clock
-- is put. Rows from before do not say.
ALTER TABLE worker ADD COLUMN renewed_at INTEGER;
