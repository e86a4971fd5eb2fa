// What an item waited for, in order: dependencies, a free place, the model, pauses, tools, people, agents.
// The parts sum to the time from the run's beginning (or the item's, if nothing delayed it) to its end.

import { spansOf } from './view.js';

/** `[{what, ms, detail}]` of the item's last run, or of `run`. */
export function waited(thread, id, run = null) {
  const view = thread.view;
  const item = spansOf(view, id).findLast((one) => run == null || one.runId === run);
  if (!item) return [];
  const to = item.end ?? thread.now;
  const parts = new Map();
  const put = (what, ms, detail) => {
    if (ms <= 0) return;
    const before = parts.get(what);
    parts.set(what, { what, ms: (before?.ms ?? 0) + ms, detail: before?.detail ?? detail });
  };
  beforeStart(thread, view, item, put);
  const covered = cover(view, item, to);
  for (const { what, from, until, detail } of covered) put(what, until - from, detail);
  return [...parts.values()];
}

/** From the run's beginning to the item's: its dependencies, then a free place. */
function beforeStart(thread, view, item, put) {
  const listed = thread.core.todoList.find((one) => one.id === item.itemId);
  const run = view.runs.get(item.runId);
  if (!listed || !run) return;
  const planned = Math.max(run.start, listed.createdTimestamp ?? run.start);
  const needs = listed.dependencies ?? [];
  const met = needs.map((need) => lastEnd(view, need)).filter((end) => end != null);
  const ready = Math.min(item.start, Math.max(planned, ...met));
  if (needs.length) put('dependencies', ready - planned, needs.join(', '));
  put('place', item.start - ready, null);
}

const lastEnd = (view, id) => spansOf(view, id).at(-1)?.end ?? null;

const FIRST = ['person', 'agent', 'tools', 'queue', 'model', 'pause'];

/** The item's time, cut at every begin and end; of concurrent spans the first in FIRST counts. */
function cover(view, item, to) {
  const pieces = item.children.flatMap((id) => piecesOf(view, view.spans.get(id), to)).filter((one) => one && one.until > one.from);
  const cuts = [...new Set([item.start, to, ...pieces.flatMap((one) => [one.from, one.until])])]
    .filter((time) => time >= item.start && time <= to).sort((a, b) => a - b);
  const out = [];
  for (let i = 1; i < cuts.length; i++) {
    const [from, until] = [cuts[i - 1], cuts[i]];
    const going = pieces.filter((one) => one.from <= from && one.until >= until);
    const first = FIRST.map((what) => going.find((one) => one.what === what)).find(Boolean);
    out.push({ from, until, what: first?.what ?? between(view, item, from, until), detail: first?.detail ?? null });
  }
  return out;
}

/** No activity of the item: the server was down, or it waited for its turn. */
function between(view, item, from, until) {
  return view.restarts.some((restart) => restart.at >= from && restart.at <= until + 50) ? 'restart' : 'other';
}

function piecesOf(view, span, to) {
  if (!span) return [];
  const end = span.end ?? to;
  if (span.kind === 'stream') {
    const parts = [{ what: 'model', from: span.start, until: end, detail: null }];
    // The call waited for a permit before it was sent.
    if (span.queuedMs) parts.push({ what: 'queue', from: span.start, until: Math.min(end, span.start + span.queuedMs), detail: null });
    if (span.error?.retryInMs && span.end != null) {
      parts.push({ what: 'pause', from: span.end, until: Math.min(to, span.end + span.error.retryInMs), detail: span.error.code });
    }
    return parts;
  }
  if (span.kind === 'task') return [{ what: 'agent', from: span.start, until: end, detail: span.agentId }];
  const waits = span.waits.map((wait) => ({ what: 'person', from: wait.from, until: wait.to ?? end, detail: wait.kind }));
  const began = span.began ?? waits.at(-1)?.until ?? span.start;
  return [...waits, { what: 'tools', from: Math.max(span.start, began), until: end, detail: span.toolName }];
}
