-- The same tables as on SQLite. Keys are given by the server. No foreign keys on what is written with every transition:
-- a thread is deleted by one statement per table. Times are Unix milliseconds. Texts sort by their bytes.

-- The least schema that a program must know to work with this database. A migration that takes something away, or
-- changes what something means, raises it; one that only adds does not, so that the release before it goes on working.
CREATE TABLE schema_floor (least bigint NOT NULL);
INSERT INTO schema_floor (least) VALUES (1);

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
    revoked_at bigint,
    expires_at bigint,
    -- Written once an hour at most.
    used_at bigint,
    -- What it was before it was rotated, and until when that counts, too.
    former_hash text COLLATE "C" UNIQUE,
    former_until bigint,
    -- Decisions are told by name: one that was revoked keeps its own.
    UNIQUE (tenant, name)
);

-- Browsers that hold a session instead of a key: both are stored by their SHA-256.
CREATE TABLE sessions (
    hash text COLLATE "C" PRIMARY KEY,
    key_hash text COLLATE "C" NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX sessions_by_age ON sessions (expires_at);

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
    -- The name of the key.
    created_by text NOT NULL,
    status text COLLATE "C" NOT NULL,
    core text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    -- The tokens of the last commits, newest first: how a writer that lost its connection finds its own.
    commits uuid[] NOT NULL,
    -- The sheet's title, in lower case, for searching.
    title text NOT NULL,
    sheet text NOT NULL,
    head text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX threads_by_activity ON threads (tenant, updated_at, pk);
CREATE INDEX threads_by_wake ON threads (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX threads_running ON threads (pk) WHERE status = 'running';
CREATE INDEX threads_owned ON threads (replica) WHERE replica IS NOT NULL;
-- Of indexes that look alike to the planner while nothing is known of a table, it takes the youngest: made before
-- threads_by_activity, this one lost to it, and all of a tenant's threads were read to find one.
CREATE UNIQUE INDEX threads_by_id ON threads (tenant, thread_id);

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
    pk bigint NOT NULL,
    seq bigint NOT NULL,
    -- On the first observation of its commit.
    token uuid,
    body text NOT NULL,
    types text COLLATE "C" NOT NULL,
    PRIMARY KEY (pk, seq)
);
-- Compressed in its row: what goes out of line is written, and indexed, a second time.
ALTER TABLE observations ALTER COLUMN body SET STORAGE MAIN;

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

-- Digests of what clients sent, under which the runs that came of it are found again.
CREATE TABLE lookup_keys (
    pk bigint NOT NULL,
    tenant bigint NOT NULL,
    created_at bigint NOT NULL,
    -- Until when somebody listens to the run; 0: nobody said so.
    listening_until bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    digest text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, kind, digest, created_at, run_id)
);
CREATE INDEX lookup_keys_of_thread ON lookup_keys (pk);
CREATE INDEX lookup_keys_by_age ON lookup_keys (created_at);

-- A line names its thread by id: it stays when the thread is erased.
CREATE TABLE audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- 0: of the tenant as a whole, though it may tell of a thread.
    pk bigint NOT NULL,
    tenant bigint NOT NULL,
    thread_id text COLLATE "C",
    at bigint NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    detail text NOT NULL
);
CREATE INDEX audit_of_thread ON audit (tenant, thread_id, id) WHERE thread_id IS NOT NULL;
-- Who configured what, made keys and erased threads.
CREATE INDEX audit_of_tenant ON audit (tenant, id) WHERE pk = 0;

-- Alive by this database's clock.
CREATE TABLE replicas (
    id uuid PRIMARY KEY,
    -- At most one process of a name is alive.
    name text COLLATE "C",
    alive_until timestamptz NOT NULL
);

-- Processes that died while they had a thread in hand, since it last got on; `in_hand`: of how many threads it was one.
CREATE TABLE crashes (
    pk bigint NOT NULL,
    replica uuid NOT NULL,
    in_hand bigint NOT NULL,
    PRIMARY KEY (pk, replica)
);
CREATE INDEX crashes_of_replica ON crashes (replica);

-- Written by whoever asks whether the store can be written; `ballast` is as long as what could not be.
CREATE TABLE pulse (
    id integer PRIMARY KEY,
    beats bigint NOT NULL,
    ballast bytea NOT NULL
);
ALTER TABLE pulse ALTER COLUMN ballast SET STORAGE EXTERNAL;

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

-- What a tenant configures over REST. A deleted document keeps its row, without a body, so that whoever follows the
-- changes hears of it.
CREATE TABLE documents (
    tenant bigint NOT NULL,
    -- The revision that wrote it: never the same twice.
    version bigint NOT NULL UNIQUE,
    updated_at bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    body text,
    PRIMARY KEY (tenant, kind, id)
);

-- One row: how many writes there have been. Locked until its write is committed, so versions are seen in their order.
CREATE TABLE document_revision (
    id integer PRIMARY KEY,
    revision bigint NOT NULL
);
INSERT INTO document_revision (id, revision) VALUES (1, 0);

-- What the model calls of deleted threads took: as the rows of the kind 11 were, without run and item.
CREATE TABLE usage_kept (
    tenant bigint NOT NULL,
    ord bigint NOT NULL,
    body text NOT NULL
);
CREATE INDEX usage_kept_used ON usage_kept (tenant, ord);

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

-- The state of every thread as `GET /threads/{id}/state` answers it, for those who look with SQL. Made from the head and
-- the rows of the core `pes` (crates/engine/src/pes/view.rs says the same in Rust; a test compares them).

-- Text that is stored as JSON; NUL, which jsonb refuses, becomes the replacement character.
CREATE FUNCTION pes_json(body text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    -- Only after an even number of backslashes is it one.
    RETURN regexp_replace(body, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::jsonb;
EXCEPTION WHEN invalid_text_representation OR untranslatable_character THEN
    RETURN NULL;
END
$$;

-- A value with every payload reference replaced by what it refers to. Payloads themselves are not searched.
CREATE FUNCTION pes_inline(thread bigint, value jsonb) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF jsonb_typeof(value) = 'object' THEN
        IF jsonb_typeof(value -> '$payload') = 'string' AND value - '$payload' = '{}' THEN
            RETURN coalesce((SELECT pes_json(body) FROM thread_rows
                WHERE pk = thread AND kind = 8 AND id = value ->> '$payload'), value);
        END IF;
        RETURN (SELECT coalesce(jsonb_object_agg(e.key, pes_inline(thread, e.value)), '{}') FROM jsonb_each(value) e);
    ELSIF jsonb_typeof(value) = 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(pes_inline(thread, e.value) ORDER BY e.place), '[]')
            FROM jsonb_array_elements(value) WITH ORDINALITY e (value, place));
    END IF;
    RETURN value;
END
$$;

-- The members of an object that are neither null nor empty arrays; deeper ones stay as they are.
CREATE FUNCTION pes_present(value jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(jsonb_object_agg(e.key, e.value), '{}') FROM jsonb_each(value) e WHERE e.value NOT IN ('null', '[]')
$$;

-- Every loaded call of a thread with the three ways in which it is shown.
CREATE VIEW pes_calls AS
SELECT r.pk, r.id, r.ord, c ->> 'itemId' AS item, c -> 'result' AS result, c -> 'epoch' IS NOT NULL AS started,
    jsonb_build_object('callId', c -> 'callId', 'toolName', c -> 'toolName', 'arguments', c -> 'arguments') AS called,
    jsonb_build_object('callId', c -> 'callId', 'toolName', c -> 'toolName',
        'arguments', coalesce(c -> 'modifiedArguments', c -> 'arguments')) AS ran,
    jsonb_build_object('role', 'tool', 'name', c -> 'toolName', 'toolCallId', c -> 'callId',
        'content', coalesce(c -> 'result' -> 'output', c -> 'result' -> 'error', 'null')) AS told
FROM thread_rows r CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (c)
WHERE r.kind = 4 AND r.keep = 1;

CREATE VIEW pes_items AS
SELECT r.pk, r.id, r.ord, coalesce(t ->> 'status', 'pending') AS status, t -> 'work' -> 'batch' AS batch,
    t -> 'work' -> 'system' AS system, t -> 'work' -> 'task' AS task,
    (d - 'created' - 'since' - 'edited')
    || jsonb_build_object('status', coalesce(t ->> 'status', 'pending'), 'createdTimestamp', d -> 'created',
        'updatedTimestamp', coalesce(t -> 'updated', '0'))
    || pes_present(jsonb_build_object('reason', t -> 'reason', 'runId', t -> 'run', 'result', t -> 'result',
        'redone', t -> 'redone', 'validationStatus', t -> 'validation', 'toolCalls', c.called, 'actualToolCalls', c.ran, 'toolResults', c.results))
    AS item,
    jsonb_build_object('stepId', r.id, 'description', d -> 'description',
        'stepType', coalesce(d -> 'stepType', '"reasoning"'), 'status', t -> 'status')
    || pes_present(jsonb_build_object(
        'completedAt', CASE WHEN t ->> 'status' = 'completed' THEN t -> 'updated' END,
        'rawResult', t -> 'result', 'toolResults', c.results))
    AS output
FROM thread_rows r CROSS JOIN LATERAL (SELECT pes_json(r.body)) i (d)
LEFT JOIN LATERAL (SELECT pes_json(k.body) FROM thread_rows k
    WHERE k.pk = r.pk AND k.kind = 10 AND k.id = r.id AND k.keep = 1) k (t) ON true
CROSS JOIN LATERAL (
    SELECT jsonb_agg(called ORDER BY ord) AS called, jsonb_agg(ran ORDER BY ord) FILTER (WHERE started) AS ran,
        jsonb_agg(result ORDER BY ord) FILTER (WHERE result IS NOT NULL) AS results
    FROM pes_calls WHERE pk = r.pk AND item = r.id
) c
WHERE r.kind = 3 AND r.keep = 1 AND NOT d ? 'removed';

-- What was said in the loops of a thread's items: one line per message.
CREATE VIEW pes_iterations AS
SELECT r.pk, u ->> 'item' AS item, r.ord, m.place, m.message
FROM threads t JOIN thread_rows r ON r.pk = t.pk AND r.kind = 5 AND (r.keep = 1 OR (r.keep = 2 AND r.ord >= t.floor))
CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (u)
CROSS JOIN LATERAL (
    SELECT 0 AS place, jsonb_build_object('role', 'user', 'content', u -> 'text') AS message WHERE u ->> 'by' = 'engine'
    UNION ALL
    SELECT 0, jsonb_build_object('role', 'assistant', 'content', u -> 'text', 'toolCalls',
        (SELECT coalesce(jsonb_agg(c.called ORDER BY n.place), '[]')
        FROM jsonb_array_elements_text(u -> 'calls') WITH ORDINALITY n (id, place)
        JOIN pes_calls c ON c.pk = r.pk AND c.id = n.id))
    WHERE u ->> 'by' = 'model'
    UNION ALL
    SELECT n.place, c.told FROM jsonb_array_elements_text(u -> 'calls') WITH ORDINALITY n (id, place)
    JOIN pes_calls c ON c.pk = r.pk AND c.id = n.id
    WHERE u ->> 'by' = 'model' AND c.result IS NOT NULL
) m;

CREATE VIEW pes_suspensions AS
SELECT r.pk, r.ord, s
    || CASE WHEN s ? 'callId' AND s ? 'toolName' THEN jsonb_build_object('toolCall', jsonb_build_object(
        'callId', s -> 'callId', 'toolName', s -> 'toolName', 'arguments', coalesce(s -> 'toolInput', 'null')))
        ELSE '{}' END
    || CASE WHEN i.id IS NULL THEN '{}' ELSE jsonb_build_object(
        'iterationState', CASE WHEN i.system IS NULL THEN '[]' ELSE
            jsonb_build_array(jsonb_build_object('role', 'system', 'content', i.system))
            || (SELECT coalesce(jsonb_agg(
                    jsonb_build_object('role', 'user', 'name', 'context', 'content', o.output) ORDER BY n.place), '[]')
                FROM jsonb_array_elements_text(i.item -> 'dependencies') WITH ORDINALITY n (id, place)
                JOIN pes_items o ON o.pk = r.pk AND o.id = n.id
                WHERE o.status IN ('completed', 'failed', 'cancelled'))
            || jsonb_build_array(jsonb_build_object('role', 'user', 'content', i.task)) END
            || (SELECT coalesce(jsonb_agg(m.message ORDER BY m.ord, m.place), '[]')
            FROM pes_iterations m WHERE m.pk = r.pk AND m.item = i.id),
        'partialToolResults', (SELECT coalesce(jsonb_agg(c.result ORDER BY b.place), '[]')
            FROM jsonb_array_elements_text(i.batch) WITH ORDINALITY b (id, place)
            JOIN pes_calls c ON c.pk = r.pk AND c.id = b.id AND c.result IS NOT NULL)) END AS suspension
FROM thread_rows r CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (s)
LEFT JOIN pes_items i ON i.pk = r.pk AND i.id = s ->> 'itemId'
WHERE r.kind = 6 AND r.keep = 1 AND s ->> 'status' = 'pending';

-- The tasks of other agents that a thread waits for.
CREATE VIEW pes_waits AS
SELECT r.pk, r.ord, d ->> 'itemId' AS item, d ->> 'taskId' AS task, d -> 'createdAt' AS since,
    jsonb_build_object('taskId', d -> 'taskId', 'agentId', d -> 'agentId', 'taskType', d -> 'taskType',
        'callId', d -> 'callId', 'status', d -> 'status', 'submittedAt', d -> 'createdAt', 'deadline', d -> 'deadline')
    || pes_present(jsonb_build_object('remoteTaskId', d -> 'remoteTaskId', 'remoteContextId', d -> 'remoteContextId',
        'message', d -> 'message', 'reason', d -> 'reason', 'itemId', d -> 'itemId')) AS wait
FROM thread_rows r CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (d)
WHERE r.kind = 7 AND r.keep = 1 AND d ->> 'status' NOT IN ('completed', 'failed', 'rejected', 'canceled', 'lost');

CREATE VIEW pes_agent_state_data (thread_id, state, tenant) AS
SELECT t.thread_id, pes_inline(t.pk, jsonb_build_object(
        'threadId', t.thread_id, 'intent', coalesce(h ->> 'intent', ''), 'title', coalesce(h ->> 'title', ''),
        'plan', coalesce(h -> 'plan', '""'), 'todoList', coalesce(i.list, '[]'), 'currentStepId', i.current,
        'isPaused', s.list IS NOT NULL, 'stepOutputs', coalesce(i.outputs, '{}'),
        'suspensions', coalesce(s.list, '[]'), 'a2aWaits', coalesce(w.list, '[]'),
        'planVersion', coalesce(h -> 'planVersion', '0'), 'lastSeq', t.last_seq, 'minSeq', t.min_seq,
        'status', t.status, 'runId', h -> 'active' -> 'run', 'phase', coalesce(h ->> 'phase', 'idle'))
    || CASE WHEN s.list IS NULL THEN '{}' ELSE jsonb_build_object('suspension', s.list -> 0) END
    || CASE WHEN w.list IS NULL THEN '{}' ELSE jsonb_build_object('pendingA2ATasks', (
        SELECT jsonb_build_object('taskIds', jsonb_agg(p.task ORDER BY p.ord), 'submittedAt', w.list -> 0 -> 'submittedAt',
            'itemId', w.list -> 0 -> 'itemId')
        FROM pes_waits p WHERE p.pk = t.pk AND p.item IS NOT DISTINCT FROM w.list -> 0 ->> 'itemId')) END),
    n.name
FROM threads t JOIN tenants n ON n.pk = t.tenant
CROSS JOIN LATERAL (SELECT coalesce(pes_json(nullif(t.head, '')), '{}')) head (h)
CROSS JOIN LATERAL (
    SELECT jsonb_agg(item ORDER BY ord) AS list,
        (array_agg(id ORDER BY ord) FILTER (WHERE status IN ('in_progress', 'waiting')))[1] AS current,
        jsonb_object_agg(id, output) FILTER (WHERE status IN ('completed', 'failed', 'cancelled')) AS outputs
    FROM pes_items WHERE pk = t.pk
) i
CROSS JOIN LATERAL (SELECT jsonb_agg(suspension ORDER BY ord) AS list FROM pes_suspensions WHERE pk = t.pk) s
CROSS JOIN LATERAL (SELECT jsonb_agg(wait ORDER BY ord) AS list FROM pes_waits WHERE pk = t.pk) w;
