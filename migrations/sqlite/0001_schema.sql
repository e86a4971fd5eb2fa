-- All tables are rowid tables: WITHOUT ROWID made commits 40 % slower and wrote 2.4 times the bytes. No foreign keys:
-- a thread is deleted by one statement per table. Times are Unix milliseconds.

-- The least schema that a program must know to work with this database. A migration that takes something away, or
-- changes what something means, raises it; one that only adds does not, so that the release before it goes on working.
CREATE TABLE schema_floor (least INTEGER NOT NULL) STRICT;
INSERT INTO schema_floor (least) VALUES (1);

CREATE TABLE tenants (
    pk INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;

-- The key itself is never stored: `hash` is its SHA-256.
CREATE TABLE api_keys (
    key_id TEXT NOT NULL UNIQUE,
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    expires_at INTEGER,
    -- Written once an hour at most.
    used_at INTEGER,
    -- What it was before it was rotated, and until when that counts, too.
    former_hash TEXT UNIQUE,
    former_until INTEGER,
    -- Decisions are told by name: one that was revoked keeps its own.
    UNIQUE (tenant, name)
) STRICT;

-- Browsers that hold a session instead of a key: both are stored by their SHA-256.
CREATE TABLE sessions (
    hash TEXT NOT NULL UNIQUE,
    key_hash TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_age ON sessions (expires_at);

-- version, last_commit, last_seq and head change with every transition: no index names them.
CREATE TABLE threads (
    pk INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    thread_id TEXT NOT NULL,
    core TEXT NOT NULL,
    version INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    lease TEXT,
    replica TEXT,
    -- The token of the commit that wrote this version.
    last_commit TEXT NOT NULL,
    status TEXT NOT NULL,
    wake_at INTEGER,
    floor INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    min_seq INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- The name of the key.
    created_by TEXT NOT NULL,
    -- The sheet's title, in lower case, for searching.
    title TEXT NOT NULL,
    sheet TEXT NOT NULL,
    head TEXT NOT NULL,
    UNIQUE (tenant, thread_id)
) STRICT;
CREATE INDEX threads_by_activity ON threads (tenant, updated_at, pk);
CREATE INDEX threads_by_wake ON threads (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX threads_running ON threads (pk) WHERE status = 'running';
CREATE INDEX threads_owned ON threads (replica) WHERE replica IS NOT NULL;

-- Runs, messages, items, calls, turns, suspensions, payloads: `kind` and `keep` are the codes of engine::step.
CREATE TABLE thread_rows (
    pk INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    id TEXT NOT NULL,
    ord INTEGER NOT NULL,
    keep INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (pk, kind, id)
) STRICT;
-- Loaded with their thread. (A query uses such an index if it names one of these values.)
CREATE INDEX rows_kept ON thread_rows (pk, keep, ord) WHERE keep = 1 OR keep = 2;
-- Runs and messages are paged.
CREATE INDEX rows_paged ON thread_rows (pk, kind, ord, id) WHERE kind = 1 OR kind = 2;
-- Runs, suspensions and tasks are found by their id alone.
CREATE INDEX rows_found ON thread_rows (tenant, id) WHERE kind IN (1, 6, 7);
-- Runs that are not over, counted for those who watch.
CREATE INDEX rows_running ON thread_rows (pk) WHERE kind = 1 AND keep = 1;
-- The inbox.
CREATE INDEX rows_open ON thread_rows (tenant, id) WHERE kind = 6 AND keep = 1;
-- What model calls took: rows of the kind 11, whose `ord` is the time.
CREATE INDEX rows_used ON thread_rows (tenant, ord) WHERE kind = 11;
-- Since when runs stand as they do: rows of the kind 12, whose `ord` is the time.
CREATE INDEX rows_standing ON thread_rows (tenant, ord, id) WHERE kind = 12;
-- Who is told of tasks' changes: their secrets are sealed again when the key changes.
CREATE INDEX rows_push ON thread_rows (pk, id) WHERE kind = 13;

-- What one commit recorded is one entry, under the number of its last observation: `body` holds them all, `types` the
-- types among them.
CREATE TABLE observations (
    pk INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL,
    types TEXT NOT NULL,
    UNIQUE (pk, seq)
) STRICT;

CREATE TABLE idempotency (
    pk INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    status INTEGER NOT NULL,
    location TEXT,
    created_at INTEGER NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (tenant, scope, key)
) STRICT;
CREATE INDEX idempotency_of_thread ON idempotency (pk);
-- Old answers are forgotten every hour, by the connection that writes everything.
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Digests of what clients sent, under which the runs that came of it are found again.
CREATE TABLE lookup_keys (
    pk INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    kind TEXT NOT NULL,
    digest TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    -- Until when somebody listens to the run; 0: nobody said so.
    listening_until INTEGER NOT NULL,
    UNIQUE (tenant, kind, digest, created_at, run_id)
) STRICT;
CREATE INDEX lookup_keys_of_thread ON lookup_keys (pk);
CREATE INDEX lookup_keys_by_age ON lookup_keys (created_at);

-- A line names its thread by id: it stays when the thread is erased.
CREATE TABLE audit (
    -- 0: of the tenant as a whole, though it may tell of a thread.
    pk INTEGER NOT NULL,
    tenant INTEGER NOT NULL,
    thread_id TEXT,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_of_thread ON audit (tenant, thread_id) WHERE thread_id IS NOT NULL;
-- Who configured what, made keys and erased threads.
CREATE INDEX audit_of_tenant ON audit (tenant) WHERE pk = 0;

-- The process that holds the folder, until it stops.
CREATE TABLE replicas (
    id TEXT NOT NULL UNIQUE
) STRICT;

-- Processes that died while they had a thread in hand, since it last got on; `in_hand`: of how many threads it was one.
CREATE TABLE crashes (
    pk INTEGER NOT NULL,
    replica TEXT NOT NULL,
    in_hand INTEGER NOT NULL,
    UNIQUE (pk, replica)
) STRICT;

-- Written by whoever asks whether the store can be written; `ballast` is as long as what could not be.
CREATE TABLE pulse (
    id INTEGER PRIMARY KEY,
    beats INTEGER NOT NULL,
    ballast BLOB NOT NULL
) STRICT;

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

-- What a tenant configures over REST. A deleted document keeps its row, without a body, so that whoever follows the
-- changes hears of it.
CREATE TABLE documents (
    tenant INTEGER NOT NULL,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    -- The revision that wrote it: never the same twice.
    version INTEGER NOT NULL UNIQUE,
    updated_at INTEGER NOT NULL,
    body TEXT,
    UNIQUE (tenant, kind, id)
) STRICT;

-- One row: how many writes there have been.
CREATE TABLE document_revision (
    id INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO document_revision (id, revision) VALUES (1, 0);

-- What the model calls of deleted threads took: as the rows of the kind 11 were, without run and item.
CREATE TABLE usage_kept (
    tenant INTEGER NOT NULL,
    ord INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX usage_kept_used ON usage_kept (tenant, ord);
