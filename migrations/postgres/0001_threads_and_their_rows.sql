-- The same tables as on SQLite. Keys are given by the server. No foreign keys on what is written with every transition:
-- a thread is deleted by one statement per table. Times are Unix milliseconds. Texts sort by their bytes.

CREATE TABLE tenants (
    pk bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    created_at bigint NOT NULL
);

-- The key itself is never stored: `hash` is its SHA-256.
CREATE TABLE api_keys (
    key_id text COLLATE "C" PRIMARY KEY,
    tenant bigint NOT NULL REFERENCES tenants (pk),
    name text NOT NULL,
    hash text COLLATE "C" NOT NULL UNIQUE,
    scopes text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint
);

-- version, commits, last_seq and head change with every transition: no index names them, and half of each page is kept
-- free, so that an update stays on its page and touches no index.
CREATE TABLE threads (
    pk bigint PRIMARY KEY,
    tenant bigint NOT NULL,
    version bigint NOT NULL,
    epoch bigint NOT NULL,
    lease uuid,
    replica uuid,
    wake_at bigint,
    floor bigint NOT NULL,
    last_seq bigint NOT NULL,
    min_seq bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    crash_count integer NOT NULL,
    status text COLLATE "C" NOT NULL,
    core text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    -- The tokens of the last commits, newest first: how a writer that lost its connection finds its own.
    commits uuid[] NOT NULL,
    -- The sheet's title, in lower case, for searching.
    title text NOT NULL,
    sheet text NOT NULL,
    head text NOT NULL,
    UNIQUE (tenant, thread_id)
) WITH (fillfactor = 50);
CREATE INDEX threads_by_activity ON threads (tenant, updated_at, pk);
CREATE INDEX threads_by_wake ON threads (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX threads_running ON threads (pk) WHERE status = 'running';
CREATE INDEX threads_owned ON threads (replica) WHERE replica IS NOT NULL;

-- Runs, messages, items, calls, turns, suspensions, payloads: `kind` and `keep` are the codes of engine::step.
CREATE TABLE thread_rows (
    pk bigint NOT NULL,
    tenant bigint NOT NULL,
    ord bigint NOT NULL,
    kind smallint NOT NULL,
    keep smallint NOT NULL,
    id text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (pk, kind, id)
) WITH (fillfactor = 80);
-- Loaded with their thread.
CREATE INDEX rows_kept ON thread_rows (pk, keep, ord) WHERE keep > 0;
-- Runs and messages are paged.
CREATE INDEX rows_paged ON thread_rows (pk, kind, ord, id) WHERE kind <= 2;
-- Runs, suspensions and tasks are found by their id alone.
CREATE INDEX rows_found ON thread_rows (tenant, id) WHERE kind IN (1, 6, 7);
-- The inbox.
CREATE INDEX rows_open ON thread_rows (tenant, id) WHERE kind = 6 AND keep = 1;

CREATE TABLE observations (
    pk bigint NOT NULL,
    seq bigint NOT NULL,
    -- On the first observation of its commit.
    token uuid,
    type text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (pk, seq)
);

CREATE TABLE idempotency (
    pk bigint NOT NULL,
    tenant bigint NOT NULL,
    created_at bigint NOT NULL,
    status integer NOT NULL,
    scope text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    location text,
    body text NOT NULL,
    PRIMARY KEY (tenant, scope, key)
);
CREATE INDEX idempotency_of_thread ON idempotency (pk);
CREATE INDEX idempotency_by_age ON idempotency (created_at);

CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pk bigint NOT NULL,
    tenant bigint NOT NULL,
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX audit_of_thread ON audit (pk, id);

-- Alive by this database's clock.
CREATE TABLE replicas (
    id uuid PRIMARY KEY,
    alive_until timestamptz NOT NULL
);

-- Written by whoever asks whether the store can be written.
CREATE TABLE pulse (
    id integer PRIMARY KEY,
    beats bigint NOT NULL
);

-- lz4 costs a third of the default compression; servers may be built without it.
DO $$
DECLARE
    place record;
BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        FOR place IN VALUES ('threads', 'head'), ('threads', 'sheet'), ('thread_rows', 'body'), ('observations', 'body'),
            ('idempotency', 'body'), ('audit', 'detail')
        LOOP
            EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET COMPRESSION lz4', place.column1, place.column2);
        END LOOP;
    END IF;
END
$$;
