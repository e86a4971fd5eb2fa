-- When each schedule is due: what its document does not say.
CREATE TABLE schedule_state (
    tenant INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- Of the document that it was made from.
    version INTEGER NOT NULL,
    -- What that document says of times: where it changes, what is due is worked out anew.
    timing TEXT NOT NULL,
    -- The first time that brought no run yet; NULL: none will.
    next_due INTEGER,
    -- When it is looked at.
    look_at INTEGER,
    last_due INTEGER,
    -- How many times brought no run because they came too late.
    missed INTEGER NOT NULL,
    -- Why the last time brought no run.
    said TEXT,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX schedule_state_due ON schedule_state (look_at) WHERE look_at IS NOT NULL;
