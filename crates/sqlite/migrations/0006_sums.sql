-- Sums of contents that are kept in the row: the first 64 bits of their hash, by which damage is seen. NULL for a large
-- content, which is kept by its hash, and for rows from before there were sums.
ALTER TABLE item ADD COLUMN payload_sum INTEGER;
ALTER TABLE output ADD COLUMN payload_sum INTEGER;
