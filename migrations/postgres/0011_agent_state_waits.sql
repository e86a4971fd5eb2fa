-- The state of every thread also names the tasks of other agents that it waits for.
CREATE VIEW pes_waits AS
SELECT r.pk, r.ord, d ->> 'itemId' AS item, d ->> 'taskId' AS task, d -> 'createdAt' AS since,
    jsonb_build_object('taskId', d -> 'taskId', 'agentId', d -> 'agentId', 'taskType', d -> 'taskType',
        'callId', d -> 'callId', 'status', d -> 'status', 'submittedAt', d -> 'createdAt', 'deadline', d -> 'deadline')
    || pes_present(jsonb_build_object('remoteTaskId', d -> 'remoteTaskId', 'remoteContextId', d -> 'remoteContextId',
        'message', d -> 'message', 'reason', d -> 'reason', 'itemId', d -> 'itemId')) AS wait
FROM thread_rows r CROSS JOIN LATERAL (SELECT pes_json(r.body)) j (d)
WHERE r.kind = 7 AND r.keep = 1 AND d ->> 'status' NOT IN ('completed', 'failed', 'rejected', 'canceled', 'lost');

CREATE OR REPLACE VIEW pes_agent_state_data (thread_id, state, tenant) AS
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
