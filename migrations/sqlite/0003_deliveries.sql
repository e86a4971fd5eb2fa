-- The outbox: what somebody outside is to be told. Written with the transition that it tells of.
CREATE TABLE deliveries (
    -- The order in which they were written.
    ord INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    pk INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    target_kind TEXT NOT NULL,
    target TEXT NOT NULL,
    -- Those of one lane are made one after another.
    lane TEXT,
    event TEXT NOT NULL,
    status TEXT NOT NULL,
    -- When it is tried next; while it is being tried, until when nobody else does.
    due_at INTEGER,
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    -- What became of the last attempt.
    said TEXT,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_of_lane ON deliveries (lane, ord) WHERE due_at IS NOT NULL AND lane IS NOT NULL;
CREATE INDEX deliveries_of_target ON deliveries (tenant, target_kind, target, ord);
CREATE INDEX deliveries_of_thread ON deliveries (pk);
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL;
