-- Groups are counted along this index alone, without a look at the items themselves.
DROP INDEX item_dead_group;
CREATE INDEX item_dead_group ON item (grp, seq, run, stage, class, dead_reason, updated_at) WHERE state = 7;
