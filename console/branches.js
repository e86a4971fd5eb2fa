// Compares two threads: items matched by id, and events since they parted. Pure.

import { same } from './diff.js';
import { endText } from './words.js';

const result = (core, item) => core.stepOutputs?.[item.id]?.rawResult ?? item.result ?? null;

/**
 * Items of both by id, in the order of the first, then those only in the second: `{id, a, b, differs}`; `a` and `b` are
 * `{item, costUsd, result}` or null.
 */
export function matched(one, other) {
  const side = (thread, id) => {
    const item = thread.core.todoList.find((each) => each.id === id);
    const costs = thread.view.costs.get(id);
    return item ? { item, costUsd: costs?.priced && !costs.unpriced ? costs.costUsd : null, result: result(thread.core, item) } : null;
  };
  const ids = [...new Set([...one.core.todoList, ...other.core.todoList].map((item) => item.id))];
  return ids.map((id) => {
    const [a, b] = [side(one, id), side(other, id)];
    return { id, a, b, differs: differ(a, b) };
  });
}

function differ(a, b) {
  if (a === null || b === null) return true;
  return a.item.status !== b.item.status || a.item.description !== b.item.description || !same(a.result, b.result);
}

/** The last common observation if one thread is a fork of the other; else null. */
export function partedAt(one, other) {
  if (other.view.forkedFrom?.threadId === one.id) return { a: other.view.forkedFrom.seq, b: firstOwn(other) };
  if (one.view.forkedFrom?.threadId === other.id) return { a: firstOwn(one), b: one.view.forkedFrom.seq };
  return null;
}

/** A fork begins with a copy, without a run id. */
function firstOwn(thread) {
  const first = thread.view.runs.get(thread.view.runOrder[0]);
  return first ? first.seq - 1 : thread.view.seq;
}

/** Events after an observation: `{seq, where, text}`; `text` is of people and models. */
export function happenings({ view }, after = 0) {
  const found = [
    ...view.messages.filter((one) => one.kind !== 'kept').map((one) => ({ seq: one.seq, where: one.role === 'USER' ? one.by ?? 'asked' : 'answer', text: one.content })),
    ...view.revisions.filter((one) => one.source !== 'copy' && one.source !== 'rewind').map((one) => ({ seq: one.seq, where: 'plan', text: planText(one) })),
    ...[...view.questions.values()].flatMap(questionTexts),
    ...view.restarts.map((one) => ({ seq: one.seq, where: '', text: 'The server was restarted here; the run went on.' })),
    ...itemTexts(view),
    ...[...view.runs.values()].filter((run) => run.end !== null)
      .map((run) => ({ seq: run.endSeq, where: '', text: `run ${run.resultStatus === 'success' ? 'done' : run.resultStatus ?? run.status}` })),
  ];
  return found.filter((one) => one.seq > after).sort((a, b) => a.seq - b.seq);
}

function planText({ version, changes: { added, modified, removed } }) {
  const ids = (sign, changes) => changes.map((change) => `${sign} ${change.itemId}`);
  return `v${version}: ${[...ids('+', added), ...ids('~', modified), ...ids('−', removed)].join(', ')}`;
}

function questionTexts(one) {
  const where = one.itemId ?? '';
  const rule = one.policy ? `: ${one.policy.rule}` : '';
  const asks = { seq: one.seq, where, text: `${one.toolName ?? one.kind} asks${rule}` };
  const over = one.ended && { seq: one.ended.seq, where, text: endText(one.ended) };
  return over ? [asks, over] : [asks];
}

function itemTexts(view) {
  const spans = view.spans.all([...view.itemSpans.values()].flat());
  const words = { completed: 'done', failed: 'failed', cancelled: 'cancelled' };
  return spans.flatMap((span) => span.moves.filter((move) => words[move.status])
    .map((move) => ({ seq: move.seq, where: span.itemId, text: words[move.status] })));
}
