// The timeline's rows, pure: which exist, which are visible, and times on its axis.

import { OVER } from '../../fold/core.js';

export const FILTERS = {
  All: () => true,
  Model: (span) => span.kind === 'stream',
  Tools: (span) => span.kind === 'call',
  Waits: (span) => span.kind === 'task' || (span.kind === 'call' && span.waits.length > 0) || span.error?.retryInMs != null,
  Errors: (span) => span.status === 'failed' || span.error != null,
};

/**
 * Rows in log order: `{key, kind, depth, span, item, isShut, isOpenable, inside, iteration, isFirst}`. `toggled` has the
 * keys that a person opened or shut; otherwise finished rows are shut.
 */
export function timelineRows(thread, run, { toggled = new Set(), filter = 'All' } = {}) {
  const { view } = thread;
  const top = run && view.spans.get(`run ${run.runId}`);
  if (!top) return [];
  const rows = [rowOf(top, 0)];
  const byId = new Map(thread.core.todoList.map((item) => [item.id, item]));
  const begun = new Set();
  for (const span of view.spans.all(top.children)) {
    if (span.kind === 'item') begun.add(span.itemId);
    addBranch(rows, view, span, byId.get(span.itemId) ?? null, toggled, filter);
  }
  if (run.end == null && filter === 'All') addPending(rows, thread, begun);
  return rows;
}

function addBranch(rows, view, span, item, toggled, filter) {
  const children = leaves(view, span);
  const wanted = children.filter(FILTERS[filter]);
  if (filter !== 'All' && wanted.length === 0) return;
  const isDone = span.end != null;
  const isShut = filter === 'All' && (toggled.has(span.id) ? !isDone : isDone);
  const isOpenable = children.length > 0;
  if (span.kind === 'call' || span.kind === 'stream' || span.kind === 'task') {
    rows.push(rowOf(span, 1));
    return;
  }
  rows.push(rowOf(span, 1, { item, isShut, isOpenable, inside: isShut ? children : [], errors: errorsOf(children) }));
  if (isShut) return;
  let iteration = null;
  for (const child of wanted) {
    const isFirst = child.iteration != null && child.iteration !== iteration;
    if (child.iteration != null) iteration = child.iteration;
    rows.push(rowOf(child, 2, { iteration, isFirst }));
  }
}

/** A call at an agent is shown by its task. */
function leaves(view, span) {
  const all = view.spans.all(span.children);
  const delegated = new Set(all.filter((one) => one.kind === 'task').map((one) => one.callId));
  return all.filter((one) => one.kind !== 'call' || !delegated.has(one.callId));
}

const rowOf = (span, depth, more) => (
  { key: span.id, kind: span.kind, depth, span, item: null, inside: [], isShut: false, isOpenable: false, ...more });

function errorsOf(children) {
  const retries = children.filter((one) => one.error?.retryable && one.kind === 'stream').length;
  const errors = children.filter((one) => one.status === 'failed').length - retries;
  return { retries, errors };
}

/** Pending items are below, in plan order. */
function addPending(rows, thread, begun) {
  for (const item of thread.core.todoList) {
    if (begun.has(item.id) || OVER.has(item.status)) continue;
    rows.push({ ...rowOf({ id: `pending ${item.id}`, kind: 'pending' }, 1), span: null, item });
  }
}

/** The busy times; the rest of the run was waiting. */
export function busyTimes(view, run, now) {
  const busy = [];
  for (const span of view.spans) {
    if (span.runId !== run.runId || !['stream', 'call'].includes(span.kind)) continue;
    const end = span.end ?? now;
    if (span.kind === 'stream') busy.push({ from: span.start, to: end });
    else if (span.end != null) busy.push({ from: Math.max(span.start, span.began ?? span.start), to: end });
    else if (span.waits.every((wait) => wait.to != null)) busy.push({ from: span.waits.at(-1)?.to ?? span.start, to: end });
    // The begin and end of a wait stay visible.
    for (const wait of span.waits ?? []) busy.push({ from: wait.from, to: wait.from + 1 });
  }
  return busy;
}

/** The visible window of rows of different heights. `tops[i]` is the top of row i; the last entry is the end. */
export function windowOf(tops, scrollTop, height, margin = 20) {
  const count = tops.length - 1;
  const first = upper(tops, scrollTop);
  const last = upper(tops, scrollTop + height);
  return { from: Math.max(0, first - margin), to: Math.min(count, last + 1 + margin) };
}

function upper(tops, y) {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* The timeline's axis. Long waits become breaks, so that the work stays visible. */

/** A break is a wait longer than this many times the rest. */
const LONG = 10;
/** A break's share of the axis. */
const BREAK = 0.06;

/**
 * `busy` are `{from, to}` with work; between them are waits. Returns `{at(time) → 0..1, breaks, ticks}`.
 */
export function scale(from, to, busy, most = 6) {
  const end = Math.max(to, from + 1000);
  const quiet = gaps(from, end, busy);
  const work = end - from - quiet.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const long = quiet.filter((gap) => gap.to - gap.from > LONG * Math.max(1000, work) && gap.to - gap.from > 60_000);
  const pieces = [];
  let at = from;
  for (const gap of long) {
    pieces.push({ from: at, to: gap.from }, { ...gap, isBreak: true });
    at = gap.to;
  }
  pieces.push({ from: at, to: end });
  const rest = pieces.reduce((sum, piece) => (piece.isBreak ? sum : sum + piece.to - piece.from), 0) || 1;
  const room = 0.96 - BREAK * long.length;
  let place = 0;
  for (const piece of pieces) {
    piece.at = place;
    piece.share = piece.isBreak ? BREAK : ((piece.to - piece.from) / rest) * room;
    place += piece.share;
  }
  const atTime = (time) => {
    const piece = pieces.find((one) => time <= one.to) ?? pieces.at(-1);
    const length = piece.to - piece.from;
    return piece.at + (length ? Math.max(0, (time - piece.from) / length) : 0) * piece.share;
  };
  const breaks = pieces.filter((piece) => piece.isBreak).map((piece) => ({ at: piece.at, share: piece.share, ms: piece.to - piece.from }));
  return { at: atTime, breaks, ticks: long.length ? [{ time: from, ms: 0 }] : ticks(from, end, most), from, to: end };
}

function gaps(from, to, busy) {
  const sorted = busy.filter((one) => one.to > from).sort((a, b) => a.from - b.from);
  const out = [];
  let at = from;
  for (const one of sorted) {
    if (one.from > at) out.push({ from: at, to: Math.min(one.from, to) });
    at = Math.max(at, one.to);
  }
  if (to > at) out.push({ from: at, to });
  return out;
}

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 21600, 43200, 86400].map((s) => s * 1000);

function ticks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? 86_400_000;
  const out = [];
  for (let ms = 0; from + ms < to && out.length < 40; ms += step) out.push({ time: from + ms, ms });
  return out;
}
