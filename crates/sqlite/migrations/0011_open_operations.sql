-- Operations that have pages left are few among many that are done.
CREATE INDEX operation_open ON operation (id) WHERE state = 0;
