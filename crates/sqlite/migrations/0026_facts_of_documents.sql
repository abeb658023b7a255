-- What the publication of a document said of it beside its chunks, as JSON.
ALTER TABLE doc ADD COLUMN facts TEXT;
