// What an item waited for, in order: dependencies, a free place, the model, pauses, tools, people, agents. The parts sum
// to the time from the run's beginning (or the item's, if nothing delayed it) to its end. And what a run's time was spent on.

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
  const stops = stopsOf(view, item.runId, to);
  beforeStart(thread, view, item, stops, put);
  const covered = cover(thread, item, stops, to);
  for (const { what, from, until, detail } of covered) put(what, until - from, detail);
  return [...parts.values()];
}

/** From the run's beginning to the item's: its dependencies, then a free place, or a person to let the run go on. */
function beforeStart(thread, view, item, stops, put) {
  const listed = thread.core.todoList.find((one) => one.id === item.itemId);
  const run = view.runs.get(item.runId);
  if (!listed || !run) return;
  const planned = Math.max(run.start, listed.createdTimestamp ?? run.start);
  const needs = listed.dependencies ?? [];
  const met = needs.map((need) => lastEnd(view, need)).filter((end) => end != null);
  const ready = Math.min(item.start, Math.max(planned, ...met));
  if (needs.length) put('dependencies', ready - planned, needs.join(', '));
  const stopped = lengthOf(stops, ready, item.start);
  put('person', stopped, stops[0]?.detail);
  put('place', item.start - ready - stopped, null);
}

const lastEnd = (view, id) => spansOf(view, id).at(-1)?.end ?? null;

const FIRST = ['person', 'agent', 'restart', 'tools', 'queue', 'model', 'pause'];

/** The item's time, cut at every begin and end; of concurrent spans the first in FIRST counts. */
function cover(thread, item, stops, to) {
  const pieces = thread.view.spans.all(item.children).flatMap((span) => piecesOf(thread, span, to)).filter((one) => one.until > one.from);
  const cuts = [...new Set([item.start, to, ...[...pieces, ...stops].flatMap((one) => [one.from, one.until])])]
    .filter((time) => time >= item.start && time <= to).sort((a, b) => a - b);
  const out = [];
  for (let i = 1; i < cuts.length; i++) {
    const [from, until] = [cuts[i - 1], cuts[i]];
    const goesOn = (one) => one.from <= from && one.until >= until;
    const going = pieces.filter(goesOn);
    // What is under way when the run is stopped ends first.
    const first = FIRST.map((what) => going.find((one) => one.what === what)).find(Boolean) ?? stops.find(goesOn);
    out.push({ from, until, what: first?.what ?? between(thread.view, from, until), detail: first?.detail ?? null });
  }
  return out;
}

/** No activity of the item: the server was down, or it waited for its turn. */
function between(view, from, until) {
  return view.restarts.some((restart) => restart.at >= from && restart.at <= until + 50) ? 'restart' : 'other';
}

/** The times in which the whole run waited for a person: it was paused, its budget was spent, its plan reviewed. */
function stopsOf(view, runId, to) {
  return [...view.questions.values()].filter((one) => one.runId === runId && one.callId == null && one.itemId == null)
    .map((one) => ({ what: 'person', from: one.at, until: one.ended?.at ?? to, detail: one.kind }));
}

/** How long any of the pieces lasts between two times. */
function lengthOf(pieces, from, to) {
  let [at, sum] = [from, 0];
  for (const one of pieces.sort((a, b) => a.from - b.from)) {
    const until = Math.max(at, Math.min(one.until, to));
    sum += Math.max(0, until - Math.max(one.from, at));
    at = until;
  }
  return sum;
}

function piecesOf(thread, span, to) {
  const end = span.end ?? to;
  if (span.kind === 'stream') return modelPieces(thread, span, end, to);
  if (span.kind === 'task') return [{ what: 'agent', from: span.start, until: end, detail: span.agentId }];
  if (span.kind !== 'call') return [];
  const waits = span.waits.map((wait) => ({ what: 'person', from: wait.from, until: wait.to ?? end, detail: wait.kind }));
  const began = span.began ?? waits.at(-1)?.until ?? span.start;
  return [...waits, { what: 'tools', from: Math.max(span.start, began), until: end, detail: span.toolName }];
}

function modelPieces(thread, { start, end: over, queuedMs = 0, error }, end, to) {
  // The call waited for a permit before it was sent. A stopped server records nothing: it ended with the last observation.
  const sent = Math.min(end, start + queuedMs);
  const until = error?.code === 'interrupted' && error.retryable ? Math.max(sent, thread.log.findLast((told) => told.timestamp < over)?.timestamp ?? 0) : end;
  const parts = [{ what: 'model', from: sent, until }];
  if (sent > start) parts.push({ what: 'queue', from: start, until: sent });
  if (error) parts.push({ what: 'restart', from: until, until: end }, { what: 'pause', from: end, until: Math.min(to, end + (error.retryInMs ?? 0)), detail: error.code });
  return parts;
}

/** A run's time by kind, `[{what, ms}]`; times of one kind that overlap count once. */
export function spent(thread, run) {
  const to = run.end ?? thread.now;
  const parts = new Map(FIRST.map((what) => [what, []]));
  const put = (pieces) => pieces.forEach((one) => parts.get(one.what).push(one));
  put(stopsOf(thread.view, run.runId, to));
  for (const span of thread.view.spans) if (span.runId === run.runId) put(piecesOf(thread, span, to));
  return [...parts].map(([what, pieces]) => ({ what, ms: lengthOf(pieces, run.start, to) })).filter(({ ms }) => ms >= 1);
}
