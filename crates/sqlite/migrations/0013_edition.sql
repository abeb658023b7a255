-- How often the pipeline of a run was changed: workers with an older one claim nothing any more.
ALTER TABLE run ADD COLUMN edition INTEGER NOT NULL DEFAULT 0;
