-- Facts that a run's stages found out and have to know again after a restart, as JSON: name to number.
ALTER TABLE run ADD COLUMN learnt TEXT NOT NULL DEFAULT '{}';
