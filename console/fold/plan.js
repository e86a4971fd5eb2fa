// The changes of the plan, each with who made it and why, and the conversation.

import { phaseEnds } from './spans.js';

/** A `PLAN` is followed by a `PLAN_UPDATE` that says who made it, but where a history begins as a copy. */
export function planCopied(draft, content, told) {
  phaseEnds(draft, told);
  if (told.runId) return;
  const added = (content.todoList ?? []).map((item) => ({ type: 'added', itemId: item.id, item }));
  revise(draft, content, told, { source: 'copy', by: null, because: null, changes: { changes: added, added, modified: [], removed: [] } });
}

export function planTold(draft, content, told) {
  phaseEnds(draft, told);
  // A refinement that changes nothing sends one, too.
  if (!content.changes?.changes?.length) return;
  const { source, changes } = content;
  const asked = draft.read('messages').findLast((message) => message.role === 'USER');
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
  const at = kind === 'kept' ? message.timestamp : timestamp;
  const by = message.requestedBy ?? metadata?.userId ?? told.metadata?.by ?? null;
  draft.write('messages').push({ seq, at, runId, messageId, role, content, metadata, by, kind });
}
