-- Runs that go on, in the order in which they are served, and the runs of one pipeline over one source.
CREATE INDEX run_open ON run (-priority, id) WHERE finished_at IS NULL AND control = 0;
CREATE INDEX run_source ON run (pipeline, source, id);
