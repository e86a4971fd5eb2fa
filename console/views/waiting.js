// In words, what an item waits for, and which rule stands behind a call.

import { spansOf } from '../fold/view.js';
import { age, ruleName } from '../format.js';
import { WORD } from '../shapes.js';

const OVER = ['completed', 'failed', 'cancelled'];

/** `{text, since?}` of an item that is not over. */
export function waitText(ctx, thread, item) {
  const shown = thread.shown(item);
  if (OVER.includes(item.status)) return { text: WORD[shown] };
  if (shown === 'ask' || shown === 'doubt') return { text: WORD[shown] };
  if (item.status === 'waiting') {
    const wait = thread.core.a2aWaits.find((one) => one.itemId === item.id);
    return { text: wait ? `at ${wait.agentId}, asked ${age(wait.submittedAt, thread.now)} ago` : WORD.waiting, since: wait?.submittedAt };
  }
  if (item.status === 'in_progress') return { text: pauseOf(thread, item) ?? WORD.in_progress };
  const status = new Map(thread.core.todoList.map((one) => [one.id, one.status]));
  const open = (item.dependencies ?? []).filter((id) => !OVER.includes(status.get(id)));
  if (open.length) return { text: `waits for ${open.join(', ')}` };
  if (thread.core.runId == null) return { text: 'pending' };
  if (thread.core.suspensions.some((one) => one.kind === 'plan_review')) return { text: 'waits for the plan to be reviewed' };
  const most = thread.newestRun?.options?.executionConfig?.maxParallelItems;
  return { text: `waits for a free place${most ? ` (of ${most})` : ''}` };
}

/** An attempt failed, and the next begins after a pause. */
function pauseOf(thread, item) {
  const span = spansOf(thread.view, item.id).at(-1);
  const last = span && thread.view.spans.get(span.children.at(-1));
  if (last?.kind !== 'stream' || !last.error?.retryInMs || last.end == null) return null;
  const left = last.end + last.error.retryInMs - thread.now;
  if (left <= 0) return null;
  return `again in ${Math.ceil(left / 1000)} s (${last.error.httpStatus ?? last.error.code})`;
}

export const ruleText = (policy) => `${policy.action} · ${ruleName(policy)}`;
