-- A passage that the model could make no vector of is kept all the same: its chunk has vector 0, a number that no vector
-- gets, and is found by words. Pieces of what no word search takes apart (core/grams) are words of a table of their own:
-- only passages that have such pieces have a row in it, and it keeps no text.
CREATE VIRTUAL TABLE gram USING fts5 (grams, content = '', contentless_delete = 1, tokenize = 'ascii');

-- A file is known by its number and the time of its last change as well: one of equal size and time of writing may have
-- taken its place. Files that were seen without them are read once more.
ALTER TABLE doc ADD COLUMN seen_changed INTEGER;
ALTER TABLE doc ADD COLUMN seen_inode INTEGER;
