// The log, indexed for the page: spans, questions, plan changes, costs, marks of the tape.
//
// Pure, like `core.js`: `foldView` leaves its input untouched. It takes a batch, and copies what it changes once per
// batch. It ignores unknown observations, which the log shows as they are.

import { answered, asked, messageTold, planCopied, planTold, takeBack, taskTold } from './people.js';
import * as spans from './spans.js';
import { addCosts, addUsage, noCosts } from './spans.js';

export function emptyView(seq = 0, messages = []) {
  return {
    seq,
    /** The time of the first and of the last observation. */
    from: null,
    at: null,
    spans: new Table(),
    runs: new Map(),
    runOrder: [],
    itemSpans: new Map(),
    questions: new Map(),
    revisions: [],
    messages,
    failures: [],
    marks: [],
    restarts: [],
    totals: noCosts(),
    costs: new Map(),
    forkedFrom: null,
  };
}

/** The spans of an item, one for each run. */
export const spansOf = (view, itemId) => view.spans.all(view.itemSpans.get(itemId) ?? []);

export function foldView(view, batch) {
  if (batch.length === 0) return view;
  const draft = new Draft(view);
  for (const told of batch) {
    draft.seq = told.seq;
    draft.at = told.timestamp;
    draft.from ??= told.timestamp;
    TAKE[told.type]?.(draft, told.content, told);
  }
  return draft.done();
}

const TAKE = {
  RUN_STARTED(draft, content, told) {
    spans.runBegins(draft, content, told);
    messageTold(draft, content.message, 'start', told);
  },
  RUN_FINISHED: spans.runEnds,
  ITEM_STATUS_CHANGE: spans.itemMoves,
  LLM_STREAM_START: spans.streamBegins,
  LLM_STREAM_METADATA(draft, content, told) {
    const span = spans.streamTold(draft, content);
    addUsage(draft, span, told, content);
  },
  LLM_STREAM_END: spans.streamEnds,
  LLM_STREAM_ERROR: spans.streamFails,
  TOOL_CALL: spans.callsBegin,
  TOOL_EXECUTION(draft, content, told) {
    spans.callEnds(draft, content, told);
    addCosts(draft, told, { toolCalls: 1 });
  },
  AGENT_SUSPENDED: asked,
  AGENT_RESUMED: (draft, content, told) => answered(draft, content.suspensionId, { ...content, timedOut: false }, told),
  SUSPENSION_TIMEOUT(draft, content, told) {
    if (content.policy !== 'remind') answered(draft, content.suspensionId, { decision: content.policy, timedOut: true }, told);
  },
  A2A_TASK: taskTold,
  PLAN: planCopied,
  PLAN_UPDATE: planTold,
  STATE_UPDATE(draft, content, told) {
    if (content.forkedFrom) draft.forkedFrom = content.forkedFrom;
    if (content.superseded) takeBack(draft, content.superseded, told);
    for (const message of content.messages ?? []) messageTold(draft, message, 'history', told);
    if (!content.message) return;
    const isCopy = content.forkedFrom != null || !told.runId;
    const kind = isCopy ? 'kept' : content.keys.includes('queue') ? 'queued' : content.message.role === 'USER' ? 'steer' : 'reply';
    messageTold(draft, content.message, kind, told);
    if (kind === 'steer') draft.mark(told.seq, 'person');
  },
  FINAL_RESPONSE: (draft, content, told) => messageTold(draft, content.message, 'answer', told),
  ERROR(draft, content, told) {
    const { code, message, phase, fatal } = content;
    draft.fail(told, { kind: 'error', code, message, phase, fatal, became: fatal ? 'It ended the run.' : null });
    draft.mark(told.seq, 'error');
  },
};

/** A view under change; copies a member at its first write. */
class Draft {
  constructor(view) {
    const { seq, from, at, forkedFrom } = view;
    Object.assign(this, { view, seq, from, at, forkedFrom, spans: view.spans.writer(), own: {}, edited: new Set() });
  }

  write(name) {
    const mine = this.own[name];
    if (mine) return mine;
    const old = this.view[name];
    this.own[name] = old instanceof Map ? new Map(old) : Array.isArray(old) ? old.slice() : { ...old };
    return this.own[name];
  }

  read(name) {
    return this.own[name] ?? this.view[name];
  }

  /** A map's entry for writing; `make` creates a missing one. */
  entry(name, key, make) {
    const had = this.read(name).get(key);
    const mark = `${name} ${key}`;
    if (had !== undefined && this.edited.has(mark)) return had;
    if (had === undefined && make === undefined) return undefined;
    const entry = had === undefined ? make() : { ...had };
    this.edited.add(mark);
    this.write(name).set(key, entry);
    return entry;
  }

  mark(seq, kind) {
    this.write('marks').push({ seq, kind });
  }

  fail(told, failure) {
    const { seq, timestamp: at, runId, parentId: itemId = null } = told;
    this.write('failures').push({ seq, at, runId, itemId, ...failure });
  }

  /** A restart of the server: all interrupted work is recorded at one time. */
  restarted(told) {
    const last = this.read('restarts').at(-1);
    if (last && told.timestamp - last.at < 2000) return;
    this.write('restarts').push({ seq: told.seq, at: told.timestamp });
    this.mark(told.seq, 'restart');
  }

  done() {
    const { seq, from, at, forkedFrom } = this;
    return { ...this.view, ...this.own, seq, from, at, forkedFrom, spans: this.spans.done() };
  }
}

/*
 * A table of records by id in insertion order, whose old versions stay readable.
 *
 * A version is a list of chunks; a write copies the chunks that it changes. All versions of a log share one index: a log
 * gives each id one place, and a version ignores places beyond its length.
 */

const CHUNK = 64;

export class Table {
  constructor(index = new Map(), chunks = [], size = 0) {
    this.index = index;
    this.chunks = chunks;
    this.size = size;
  }

  get(id) {
    const place = this.index.get(id);
    return place === undefined || place >= this.size ? undefined : this.chunks[Math.floor(place / CHUNK)][place % CHUNK];
  }

  /** The records of these ids that it has. */
  all(ids) {
    return ids.map((id) => this.get(id)).filter(Boolean);
  }

  *[Symbol.iterator]() {
    for (let place = 0; place < this.size; place++) yield this.chunks[Math.floor(place / CHUNK)][place % CHUNK];
  }

  /** For a batch of changes; `done()` returns the next version. */
  writer() {
    return new Writer(this);
  }
}

class Writer extends Table {
  constructor(table) {
    super(table.index, table.chunks, table.size);
    this.table = table;
    this.ownChunks = new Set();
    this.ownRecords = new Set();
  }

  add(id, record) {
    const place = this.size;
    this.index.set(id, place);
    this.size += 1;
    this.chunk(place)[place % CHUNK] = record;
    this.ownRecords.add(id);
    return record;
  }

  /** The record for changing: copied for this batch. Undefined if missing. */
  edit(id) {
    const record = this.get(id);
    if (record === undefined || this.ownRecords.has(id)) return record;
    const place = this.index.get(id);
    this.ownRecords.add(id);
    const copy = { ...record };
    this.chunk(place)[place % CHUNK] = copy;
    return copy;
  }

  chunk(place) {
    const number = Math.floor(place / CHUNK);
    if (this.ownChunks.has(number)) return this.chunks[number];
    if (this.ownChunks.size === 0) this.chunks = this.chunks.slice();
    this.ownChunks.add(number);
    this.chunks[number] = this.chunks[number]?.slice() ?? [];
    return this.chunks[number];
  }

  done() {
    return this.ownChunks.size === 0 ? this.table : new Table(this.index, this.chunks, this.size);
  }
}
