-- The outbox: what somebody outside is to be told. Written with the transition that it tells of.
CREATE TABLE deliveries (
    -- The order in which they were written.
    ord bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pk bigint NOT NULL,
    tenant bigint NOT NULL,
    -- When it is tried next; while it is being tried, until when nobody else does.
    due_at bigint,
    created_at bigint NOT NULL,
    finished_at bigint,
    attempts integer NOT NULL,
    id text COLLATE "C" NOT NULL UNIQUE,
    target_kind text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    -- Those of one lane are made one after another.
    lane text COLLATE "C",
    event text NOT NULL,
    status text NOT NULL,
    -- What became of the last attempt.
    said text,
    body text NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_of_lane ON deliveries (lane, ord) WHERE due_at IS NOT NULL AND lane IS NOT NULL;
CREATE INDEX deliveries_of_target ON deliveries (tenant, target_kind, target, ord);
CREATE INDEX deliveries_of_thread ON deliveries (pk);
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL;
