-- The state of every thread as `GET /threads/{id}/state` answers it, for those who look with SQL. Made from the head and
-- the rows of the core `pes` (src/engine/pes/view.rs says the same in Rust; a test compares them).

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
    (d - 'created' - 'since' - 'edited')
    || jsonb_build_object('status', coalesce(t ->> 'status', 'pending'), 'createdTimestamp', d -> 'created',
        'updatedTimestamp', coalesce(t -> 'updated', '0'))
    || pes_present(jsonb_build_object('reason', t -> 'reason', 'runId', t -> 'run', 'result', t -> 'result',
        'validationStatus', t -> 'validation', 'toolCalls', c.called, 'actualToolCalls', c.ran, 'toolResults', c.results))
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
        'iterationState', (SELECT coalesce(jsonb_agg(m.message ORDER BY m.ord, m.place), '[]')
            FROM pes_iterations m WHERE m.pk = r.pk AND m.item = i.id),
        'partialToolResults', (SELECT coalesce(jsonb_agg(c.result ORDER BY b.place), '[]')
            FROM jsonb_array_elements_text(i.batch) WITH ORDINALITY b (id, place)
            JOIN pes_calls c ON c.pk = r.pk AND c.id = b.id AND c.result IS NOT NULL)) END AS suspension
FROM thread_rows r CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (s)
LEFT JOIN pes_items i ON i.pk = r.pk AND i.id = s ->> 'itemId'
WHERE r.kind = 6 AND r.keep = 1 AND s ->> 'status' = 'pending';

CREATE VIEW pes_agent_state_data (thread_id, state, tenant) AS
SELECT t.thread_id, pes_inline(t.pk, jsonb_build_object(
        'threadId', t.thread_id, 'intent', coalesce(h ->> 'intent', ''), 'title', coalesce(h ->> 'title', ''),
        'plan', coalesce(h -> 'plan', '""'), 'todoList', coalesce(i.list, '[]'), 'currentStepId', i.current,
        'isPaused', s.list IS NOT NULL, 'stepOutputs', coalesce(i.outputs, '{}'),
        'suspensions', coalesce(s.list, '[]'), 'a2aWaits', '[]'::jsonb,
        'planVersion', coalesce(h -> 'planVersion', '0'), 'lastSeq', t.last_seq, 'minSeq', t.min_seq,
        'status', t.status, 'runId', h -> 'active' -> 'run', 'phase', coalesce(h ->> 'phase', 'idle'))
    || CASE WHEN s.list IS NULL THEN '{}' ELSE jsonb_build_object('suspension', s.list -> 0) END),
    n.name
FROM threads t JOIN tenants n ON n.pk = t.tenant
CROSS JOIN LATERAL (SELECT coalesce(pes_json(nullif(t.head, '')), '{}')) head (h)
CROSS JOIN LATERAL (
    SELECT jsonb_agg(item ORDER BY ord) AS list,
        (array_agg(id ORDER BY ord) FILTER (WHERE status IN ('in_progress', 'waiting')))[1] AS current,
        jsonb_object_agg(id, output) FILTER (WHERE status IN ('completed', 'failed', 'cancelled')) AS outputs
    FROM pes_items WHERE pk = t.pk
) i
CROSS JOIN LATERAL (SELECT jsonb_agg(suspension ORDER BY ord) AS list FROM pes_suspensions WHERE pk = t.pk) s;
