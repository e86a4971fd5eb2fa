-- Threads that say themselves how long they are kept: rows of the kind 14.
CREATE INDEX rows_retention ON thread_rows (pk) WHERE kind = 14;

-- What the observations up to `seq` had told, of threads whose older observations were deleted: whoever reads what is
-- left begins with it.
CREATE TABLE bases (
    pk bigint PRIMARY KEY,
    seq bigint NOT NULL,
    body text NOT NULL
);

-- Up to where the ends of a tenant's runs were looked at for logs that are too old.
CREATE TABLE compacted (
    tenant bigint PRIMARY KEY,
    ended_at bigint NOT NULL,
    run_id text COLLATE "C" NOT NULL
);
