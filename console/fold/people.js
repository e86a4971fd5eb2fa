// What was asked of people, and given to other agents.

import { callId } from './spans.js';

export function asked(draft, content, told) {
  const { seq, timestamp: at, parentId: itemId = null, runId } = told;
  draft.write('questions').set(content.suspensionId, { ...content, seq, at, itemId, runId, ended: null });
  draft.mark(seq, 'ask');
  const call = content.callId != null ? draft.spans.edit(callId(content.callId)) : null;
  if (call) {
    call.waits = [...call.waits, { suspensionId: content.suspensionId, kind: content.kind, from: at, to: null }];
    call.policy = content.policy ?? call.policy;
    call.digest = content.digest ?? call.digest;
  }
  if (content.kind === 'in_doubt') draft.restarted(told);
}

/** A question is over: answered, withdrawn, or nobody came. */
export function answered(draft, id, how, told) {
  const question = draft.entry('questions', id);
  if (!question) return;
  const { decision, decidedBy = null, reason = null, timedOut } = how;
  question.ended = { seq: told.seq, at: told.timestamp, decision, decidedBy, reason, timedOut };
  if (!timedOut) draft.mark(told.seq, 'person');
  const call = question.callId != null ? draft.spans.edit(callId(question.callId)) : null;
  if (call) call.waits = call.waits.map((wait) => (wait.suspensionId === id ? { ...wait, to: told.timestamp } : wait));
}

const TASK_OVER = new Set(['completed', 'failed', 'rejected', 'canceled', 'lost']);

export function taskTold(draft, content, told) {
  const id = `task ${content.taskId}`;
  let task = draft.spans.edit(id);
  if (!task) {
    const call = draft.spans.get(callId(content.callId));
    const { seq, runId, parentId: itemId = null } = told;
    const parent = call?.parent ?? null;
    task = {
      id, kind: 'task', parent, runId, itemId, seq, start: content.submittedAt ?? told.timestamp, end: null, endSeq: null,
      children: [], taskId: content.taskId, agentId: content.agentId, taskType: content.taskType, callId: content.callId,
    };
    draft.spans.add(id, task);
    if (parent) draft.child(parent, id);
    draft.mark(seq, 'agent');
  }
  Object.assign(task, { status: content.status, message: content.message ?? null, reason: content.reason ?? null, deadline: content.deadline });
  if (!TASK_OVER.has(content.status)) return;
  Object.assign(task, { end: told.timestamp, endSeq: told.seq });
  if (content.status === 'completed') return;
  draft.fail(told, { kind: 'call', code: `task_${content.status}`, message: content.reason ?? content.message ?? null, toolName: content.agentId, became: null });
}
