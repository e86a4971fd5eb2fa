-- When each schedule is due: what its document does not say.
CREATE TABLE schedule_state (
    tenant bigint NOT NULL,
    -- Of the document that it was made from.
    version bigint NOT NULL,
    -- The first time that brought no run yet; NULL: none will.
    next_due bigint,
    -- When it is looked at.
    look_at bigint,
    last_due bigint,
    -- How many times brought no run because they came too late.
    missed bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- What that document says of times: where it changes, what is due is worked out anew.
    timing text NOT NULL,
    -- Why the last time brought no run.
    said text,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX schedule_state_due ON schedule_state (look_at) WHERE look_at IS NOT NULL;
