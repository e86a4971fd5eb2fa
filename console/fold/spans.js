// Spans of time: runs, phases, items, model streams and tool calls, with begin, end and cost.

import { OVER } from './core.js';

export const runId = (id) => `run ${id}`;
export const itemId = (run, item) => `item ${run} ${item}`;

export function runBegins(draft, content, told) {
  const { seq, timestamp: start, runId: id } = told;
  draft.write('runOrder').push(id);
  draft.write('runs').set(id, {
    runId: id, seq, start, end: null, endSeq: null, status: 'running', resultStatus: null, query: content.query,
    model: content.model, provider: content.provider, options: content.options ?? null,
    ...noCosts(),
  });
  add(draft, told, { id: runId(id), kind: 'run', parent: null, status: 'running', phase: null, title: content.query });
}

/** Adds a span: `more` is what it has of its own, and what differs from the observation. */
export function add(draft, { seq, timestamp: start, runId: run, parentId = null }, more) {
  const span = draft.spans.add(more.id, { runId: run, itemId: parentId, seq, start, end: null, endSeq: null, children: NONE, ...more });
  const parent = draft.spans.edit(more.parent);
  if (parent) parent.children = [...parent.children, more.id];
  return span;
}

export function runEnds(draft, content, told) {
  const run = draft.entry('runs', told.runId);
  if (run) Object.assign(run, { end: told.timestamp, endSeq: told.seq, status: content.status, resultStatus: content.resultStatus ?? null });
  const top = draft.spans.edit(runId(told.runId));
  if (!top) return;
  close(top, told, { status: content.resultStatus ?? content.status });
  endOpen(draft, top, told);
  if (content.resultStatus === 'error' || content.status === 'failed') {
    draft.fail(told, { kind: 'run', code: content.resultStatus ?? 'failed', message: null, fatal: true, became: null });
  }
}

/** The end of a run, or of an item, ends the open spans in it. */
function endOpen(draft, { children }, told) {
  for (const { id } of draft.spans.all(children).filter((one) => one.end == null)) {
    const child = draft.spans.edit(id);
    close(child, told);
    endOpen(draft, child, told);
  }
}

function close(span, told, more) {
  Object.assign(span, { end: told.timestamp, endSeq: told.seq }, more);
}

/** The item in this run; a span of an item is the work of one run. */
export function itemMoves(draft, content, told) {
  const id = itemId(told.runId, content.itemId);
  const move = { seq: told.seq, at: told.timestamp, status: content.status, reason: content.reason ?? null };
  let item = draft.spans.edit(id);
  if (!item) {
    item = add(draft, told, { id, kind: 'item', parent: runId(told.runId), itemId: content.itemId, moves: [], retries: 0, errors: 0, costs: noCosts() });
    const all = draft.read('itemSpans').get(content.itemId) ?? [];
    draft.write('itemSpans').set(content.itemId, [...all, id]);
  }
  item.moves = [...item.moves, move];
  item.status = content.status;
  item.attempt = content.attempt ?? 1;
  if (OVER.has(content.status)) {
    close(item, told);
    endOpen(draft, item, told);
  } else {
    Object.assign(item, { end: null, endSeq: null });
  }
  if (content.status === 'failed') {
    draft.fail(told, { kind: 'item', code: 'item_failed', message: content.reason ?? null, itemId: content.itemId, became: null });
  }
}

/** The parent of a stream or call: its item, or the phase of its run. */
function parentOf(draft, told, phase) {
  if (told.parentId != null) {
    const id = itemId(told.runId, told.parentId);
    if (draft.spans.get(id)) return id;
  }
  return phaseOf(draft, told, phase);
}

/** A phase ends when another begins. */
function phaseOf(draft, told, phase) {
  const top = draft.spans.get(runId(told.runId));
  if (!top) return null;
  const open = top.phase && draft.spans.get(top.phase);
  if (open && open.end == null && (open.phase === phase || phase == null)) return top.phase;
  const id = `phase ${told.runId} ${told.seq}`;
  const run = draft.spans.edit(runId(told.runId));
  if (open && open.end == null) close(draft.spans.edit(top.phase), told, { status: 'completed' });
  add(draft, told, { id, kind: 'phase', parent: runId(told.runId), itemId: null, phase: phase ?? 'planning', status: 'running' });
  run.phase = id;
  return id;
}

/** The plan ends planning, the answer ends synthesis. */
export function phaseEnds(draft, told) {
  const top = draft.spans.get(runId(told.runId));
  const open = top?.phase && draft.spans.get(top.phase);
  if (!open || open.end != null) return;
  const last = draft.spans.get(open.children.at(-1));
  close(draft.spans.edit(top.phase), told, { status: last?.error ? 'failed' : 'completed' });
}

const streamId = (id) => `stream ${id}`;

export function streamBegins(draft, content, told) {
  const { provider, model, phase, purpose = null, attempt, iteration = null } = content;
  const parent = parentOf(draft, told, phase);
  add(draft, told, {
    id: streamId(content.streamId), kind: 'stream', parent, streamId: content.streamId, provider, model, phase, purpose, attempt, iteration,
    status: 'in_progress', ttftMs: null, tokens: null, costUsd: null, queuedMs: null, error: null, stopReason: null,
  });
  if (attempt > 1 && parent) {
    const above = draft.spans.edit(parent);
    above.retries = (above.retries ?? 0) + 1;
  }
  addCosts(draft, told, { llmCalls: 1 });
}

const NONE = [];

export function streamTold(draft, content) {
  const stream = draft.spans.edit(streamId(content.streamId));
  if (!stream) return null;
  Object.assign(stream, {
    model: content.model ?? stream.model, provider: content.provider ?? stream.provider,
    ttftMs: content.timeToFirstTokenMs ?? null, costUsd: content.costUsd ?? null, queuedMs: content.queuedMs ?? null,
    stopReason: content.stopReason ?? null,
    tokens: {
      input: content.inputTokens, output: content.outputTokens, thinking: content.thinkingTokens, cached: content.cachedInputTokens,
    },
  });
  return stream;
}

export function streamEnds(draft, content, told) {
  const stream = draft.spans.edit(streamId(content.streamId));
  if (stream) close(stream, told, { status: 'completed' });
}

export function streamFails(draft, content, told) {
  const { code, message, httpStatus = null, retryInMs = null, retryable } = content;
  const stream = draft.spans.edit(streamId(content.streamId));
  if (stream) close(stream, told, { status: 'failed', error: { code, message, httpStatus, retryInMs, retryable } });
  // One that a person stopped is not made again.
  if (code !== 'interrupted') draft.mark(told.seq, 'error');
  else if (retryable) draft.restarted(told);
  draft.fail(told, {
    kind: 'stream', code, message, phase: stream?.phase ?? null, attempt: stream?.attempt ?? null, fatal: false,
    became: retryable ? 'made again as the next attempt' : null,
  });
}

export const callId = (id) => `call ${id}`;

export function callsBegin(draft, content, told) {
  const parent = parentOf(draft, told, null);
  for (const call of content.toolCalls) {
    add(draft, told, {
      id: callId(call.callId), kind: 'call', parent, callId: call.callId, toolName: call.toolName, arguments: call.arguments,
      iteration: content.iteration ?? null, streamId: content.streamId ?? null, status: 'pending', output: undefined, error: null, policy: null,
      waits: NONE, durationMs: null, began: null,
    });
  }
}

export function callEnds(draft, content, told) {
  const call = draft.spans.edit(callId(content.callId));
  if (!call) return;
  const failed = content.status === 'error';
  close(call, told, {
    status: failed ? 'failed' : content.status === 'success' ? 'completed' : 'cancelled', result: content.status,
    output: content.output, error: content.error ?? null, durationMs: content.durationMs,
    policy: told.metadata?.policy ?? call.policy, digest: told.metadata?.digest ?? call.digest ?? null,
    // When the call itself ran, after its waits.
    began: told.timestamp - (content.durationMs ?? 0),
  });
  if (!failed) return;
  const parent = call.parent && draft.spans.edit(call.parent);
  if (parent) parent.errors = (parent.errors ?? 0) + 1;
  draft.mark(told.seq, 'error');
  draft.fail(told, {
    kind: 'call', code: content.error?.code ?? 'error', message: content.error?.message ?? null, toolName: content.toolName,
    fatal: false, became: null,
  });
}

/* Tokens and money, by run and by item. */

export function noCosts() {
  return { input: 0, output: 0, thinking: 0, cached: 0, costUsd: 0, priced: 0, unpriced: 0, llmCalls: 0, toolCalls: 0 };
}

/** Adds to an observation's thread and run, to its item, and to the item in this run. */
export function addCosts(draft, told, more) {
  sum(draft.write('totals'), more);
  const run = draft.entry('runs', told.runId);
  if (run) sum(run, more);
  if (told.parentId == null) return;
  sum(draft.entry('costs', told.parentId, noCosts), more);
  const item = draft.spans.edit(itemId(told.runId, told.parentId));
  if (item) sum(item.costs = { ...item.costs }, more);
}

function sum(into, more) {
  for (const [name, value] of Object.entries(more)) into[name] += value;
}

/** A reply's usage; a reply without a price counts as unpriced, never as free. */
export function addUsage(draft, stream, told, content) {
  const price = content.costUsd == null ? { unpriced: 1 } : { priced: 1, costUsd: content.costUsd };
  addCosts(draft, told, {
    input: content.inputTokens ?? 0, output: content.outputTokens ?? 0, thinking: content.thinkingTokens ?? 0,
    cached: content.cachedInputTokens ?? 0, ...price,
  });
}
