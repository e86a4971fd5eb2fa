// Messages and questions of people, tasks of other agents, and changes of the plan.

import { TASK_OVER } from './core.js';
import { add, callId, phaseEnds } from './spans.js';

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
  if (content.kind === 'in_doubt' && !content.remote) draft.restarted(told);
}

/** A question ends: answered, withdrawn or expired. */
export function answered(draft, id, how, told) {
  const question = draft.entry('questions', id);
  if (!question) return;
  const { decision, decidedBy = null, reason = null, timedOut } = how;
  question.ended = { seq: told.seq, at: told.timestamp, decision, decidedBy, reason, timedOut };
  if (!timedOut) draft.mark(told.seq, 'person');
  const call = question.callId != null ? draft.spans.edit(callId(question.callId)) : null;
  if (call) call.waits = call.waits.map((wait) => (wait.suspensionId === id ? { ...wait, to: told.timestamp } : wait));
}

export function taskTold(draft, content, told) {
  const id = `task ${content.taskId}`;
  let task = draft.spans.edit(id);
  if (!task) {
    const parent = draft.spans.get(callId(content.callId))?.parent ?? null;
    const { taskId, agentId, taskType, callId: call, submittedAt: start = told.timestamp } = content;
    task = add(draft, told, { id, kind: 'task', parent, start, taskId, agentId, taskType, callId: call });
    draft.mark(told.seq, 'agent');
  }
  Object.assign(task, { status: content.status, message: content.message ?? null, reason: content.reason ?? null, deadline: content.deadline });
  if (!TASK_OVER.has(content.status)) return;
  Object.assign(task, { end: told.timestamp, endSeq: told.seq });
  if (content.status === 'completed') return;
  draft.fail(told, { kind: 'call', code: `task_${content.status}`, message: content.reason ?? content.message ?? null, toolName: content.agentId, became: null });
}

/* Changes of the plan, each with author and reason, and the conversation. */

/** A `PLAN` is followed by a `PLAN_UPDATE` with its author, except at the start of a copy. */
export function planCopied(draft, content, told) {
  phaseEnds(draft, told);
  if (told.runId) return;
  const added = (content.todoList ?? []).map((item) => ({ type: 'added', itemId: item.id, item }));
  const source = content.stepOutputs ? 'rewind' : 'copy';
  revise(draft, content, told, { source, by: null, because: null, changes: { changes: added, added, modified: [], removed: [] } });
}

export function planTold(draft, content, told) {
  phaseEnds(draft, told);
  // A refinement without changes also sends one.
  if (!content.changes?.changes?.length) return;
  const { source, changes } = content;
  // A queued message is recorded at once, but its run comes later.
  const asked = draft.read('messages').findLast(({ role, kind }) => role === 'USER' && kind !== 'queued');
  const because = source === 'refinement' || source === 'planner' ? asked ?? null : null;
  revise(draft, content, told, { source, by: told.metadata?.by ?? because?.by ?? null, because: because?.content ?? null, changes });
  if (source !== 'planner') draft.mark(told.seq, 'plan');
}

function revise(draft, content, told, more) {
  const { seq, timestamp: at, parentId: itemId = null, runId } = told;
  const { planVersion: version, todoList } = content;
  draft.write('revisions').push({ seq, at, version, itemId, runId, todoList, ...more });
}

export function messageTold(draft, message, kind, told) {
  if (!message) return;
  if (kind === 'answer') phaseEnds(draft, told);
  const { seq, timestamp, runId } = told;
  const { messageId, role, content, metadata = null } = message;
  const at = kind === 'kept' || kind === 'history' ? message.timestamp : timestamp;
  const by = message.requestedBy ?? metadata?.userId ?? told.metadata?.by ?? null;
  draft.write('messages').push({ seq, at, runId, messageId, role, content, metadata, by, kind });
}

/** The thread was rewound to before these messages. */
export function takeBack(draft, superseded, told) {
  const gone = new Set(superseded);
  draft.own.messages = draft.read('messages').filter((message) => !gone.has(message.messageId));
  draft.mark(told.seq, 'person');
}
