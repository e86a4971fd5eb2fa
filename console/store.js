// An open thread: its log folded, current or as of an observation.

import { enc } from './api.js';
import * as core from './fold/core.js';
import { emptyView, foldView } from './fold/view.js';
import { eventsUrl, openLive } from './live.js';

/** How long the backlog may be folded without a break. */
const SLICE = 8;
/** The pause before a refused read is made again. */
const PAUSE = 3000;

/** Opens a thread. `changed()` requests a repaint; `listed()` is its current row, if it is listed. */
export function openThread({
  id, api, clock, tokens, changed, listed = () => null, runChanged = () => {}, open = openLive, now = () => performance.now(),
}) {
  let history = createHistory();
  let queue = [];
  let isFolding = false;
  let isCaughtUp = false;
  let isClosed = false;
  let isGone = false;
  let at = null;
  let shown = { key: [], thread: null };
  /** `statusByRun`: read, or from later frames. */
  const state = {
    conn: 'connecting', heldAt: 0, retryAt: null, problem: null, row: null, runs: null, statusByRun: new Map(), started: new Map(),
  };
  /** Statuses received since the last request: newer than its answer. */
  let heardSinceRead;
  let timer = null;

  const live = open({
    url: (after) => eventsUrl(id, after),
    after: () => history.lastSeq,
    on: { frame: onFrame, held },
  });
  readRow();

  async function readRow() {
    const mine = heardSinceRead = new Map();
    clearTimeout(timer);
    try {
      const [row, { items }] = await Promise.all([api.get(`/threads/${enc(id)}`), api.all(`/runs?threadId=${enc(id)}&limit=100`, { most: 100 })]);
      // Requested again meanwhile, or gone.
      if (mine !== heardSinceRead || isGone) return;
      Object.assign(state, { row, runs: items, statusByRun: new Map([...items.map((run) => [run.runId, run.status]), ...mine]), problem: null });
    } catch (problem) {
      if (!problem.isUnreachable) state.problem = problem;
      if (problem.status === 404) gone();
      // Without a connection it is read again with the next one.
      if (problem.retryable && state.conn === 'live' && mine === heardSinceRead && !isClosed) timer = setTimeout(readRow, PAUSE);
    }
    tell();
  }

  /** Missing, deleted, or not foldable: stops. */
  function gone() {
    isGone = true;
    state.conn = 'connecting';
    live.close();
  }

  function onFrame(event, data) {
    if (Object.hasOwn(take, event)) take[event](data);
  }

  const take = {
    observation(data) {
      queue.push(data);
      fold();
    },
    token: tokens.token,
    run({ runId, status }) {
      heardSinceRead.set(runId, status);
      state.statusByRun = new Map([...state.statusByRun, ...heardSinceRead]);
      tell();
    },
    caught_up: () => take.observation(null),
    /** Too slow, or our cursor is not in the log: reads the state before it if that is not known. */
    gap({ fromSeq }) {
      const known = queue.findLast(Boolean)?.seq ?? history.lastSeq;
      queue = [];
      live.again(fromSeq - known - 1 ? beginAt(fromSeq) : null);
    },
    tool_started(data) {
      state.started.set(data.callId, data);
      tell();
    },
  };

  async function beginAt(minSeq) {
    try {
      const { readEarlier } = await import('./earlier.js');
      history = createHistory(await readEarlier(api, id, minSeq));
    } catch (problem) {
      state.problem = problem;
      if (problem.retryable === false) gone();
      tell();
      await new Promise((done) => { setTimeout(done, PAUSE); });
    }
  }

  function held(ms, ago = 0) {
    if (state.conn !== 'held') state.heldAt = clock.now() - ago;
    state.conn = 'held';
    state.retryAt = clock.now() + ms;
    // The server may answer, but without the thread or the right to read it.
    readRow();
    tell();
  }

  function fold() {
    if (isFolding) return;
    isFolding = true;
    // Batches the observations that arrive meanwhile.
    setTimeout(slice);
  }

  function slice() {
    try {
      if (!isClosed) takeIn();
    } catch (error) {
      // A retry would fail again.
      globalThis.reportError?.(error);
      state.problem = { code: 'page_failed', title: 'This thread could not be shown', detail: String(error.message), errors: [] };
      gone();
      tell();
    }
  }

  function takeIn() {
    const until = now() + SLICE;
    while (queue.length) {
      const stop = queue.indexOf(null);
      const batch = queue.splice(0, Math.min(100, stop < 0 ? queue.length : stop));
      if (!history.add(batch)) {
        queue = [];
        isFolding = false;
        return live.again();
      }
      batch.forEach(ended);
      if (queue[0] === null) {
        queue.shift();
        // Changes without a connection came in no frame.
        if (isCaughtUp) state.statusByRun = new Map();
        isCaughtUp = true;
        state.conn = 'live';
        state.retryAt = null;
        tell();
        readRow();
      }
      if (now() > until && queue.length) return setTimeout(slice);
    }
    isFolding = false;
    if (isCaughtUp) tell();
  }

  function ended(observation) {
    const { type, content } = observation;
    if (type === 'LLM_STREAM_END' || type === 'LLM_STREAM_ERROR') tokens.ended(content.streamId);
    if (type === 'TOOL_EXECUTION') state.started.delete(content.callId);
    if (isCaughtUp && (type === 'RUN_STARTED' || type === 'RUN_FINISHED')) {
      readRow();
      runChanged();
    }
  }

  function tell() {
    if (!isClosed) changed();
  }

  return {
    id,
    get conn() {
      return state.conn;
    },
    get retryAt() {
      return state.retryAt;
    },
    retryNow: () => live.retryNow(),
    /** Shows the thread as of an observation; null: current. */
    show(seq) {
      at = seq;
    },
    /** The views' thread. The same object while nothing changes. */
    thread() {
      const lastSeq = history.lastSeq;
      const isReplay = at != null && at < lastSeq;
      const seq = isReplay ? Math.max(history.minSeq - 1, at) : lastSeq;
      const status = isCaughtUp && !isGone ? 'ready' : state.problem ? 'failed' : 'loading';
      const row = listed() ?? state.row;
      const key = [history, seq, lastSeq, status, row, ...Object.values(state), state.started.size];
      if (key.every((one, i) => one === shown.key[i])) return shown.thread;
      const point = isReplay ? history.at(seq) : history.last;
      const thread = new Thread({ id, history, point, lastSeq, isReplay, state: { ...state, row }, clock, status });
      shown = { key, thread };
      return thread;
    },
    close() {
      isClosed = true;
      clearTimeout(timer);
      live.close();
    },
  };
}

/** An item's drawn status: a wait counts more than running, also that of the whole run. */
export function shownStatus(core, item, runStatus = core.status) {
  if (item.status !== 'in_progress' && item.status !== 'waiting') return item.status;
  const open = core.suspensions.filter((one) => one.itemId === item.id);
  if (open.some((one) => one.kind === 'in_doubt')) return 'doubt';
  return open.length || (runStatus === 'suspended' && item.status === 'in_progress') ? 'ask' : item.status;
}

const WAITS = ['suspended', 'waiting'];

/** The views' thread: see docs/PAGE.md. */
class Thread {
  #clock;
  #core = null;
  #items = null;

  constructor({ id, history, point, lastSeq, isReplay, state, clock, status }) {
    this.#clock = clock;
    const { problem, row, runs, statusByRun } = state;
    const { seq, view } = point;
    const { minSeq, log } = history;
    Object.assign(this, { id, status, problem, row, runs, statusByRun, seq, lastSeq, minSeq, log, point, view, replay: isReplay });
    this.started = isReplay ? new Map() : state.started;
    this.heldAt = state.conn === 'held' ? state.heldAt : null;
    /** Of the whole log, also in replay: the tape's scale. */
    this.lastView = history.last.view;
  }

  /** Advances while live; in the past, and from the loss of the connection on, it is fixed. */
  get now() {
    const at = this.view.at ?? 0;
    return this.replay ? at : Math.max(this.heldAt ?? this.#clock.now(), at);
  }

  /** The title, the same in all places: from the first plan or a person; in the past that of the first plan. */
  get title() {
    const first = ({ type, seq }) => type === 'TITLE' && seq <= this.seq;
    return (this.replay ? this.log.find(first)?.content.title : this.row?.title) || this.core.title || this.newestRun?.query || this.id;
  }

  get core() {
    this.#core ??= core.stateBody(this.point.core, { threadId: this.id, minSeq: this.minSeq });
    return this.#core;
  }

  /** The run's status: the server's last one, as an unstarted call is no work; in the past the log's. */
  get runStatus() {
    const { runId, status } = this.core;
    if (this.replay || runId == null) return status;
    const last = this.statusByRun.get(runId);
    return status === 'running' && WAITS.includes(last) ? last : status;
  }

  item(id) {
    this.#items ??= new Map(this.core.todoList.map((item) => [item.id, { ...item, shown: this.shown(item) }]));
    return this.#items.get(id);
  }

  shown(item) {
    return shownStatus(this.core, item, this.runStatus);
  }

  upTo() {
    const count = this.seq - this.minSeq + 1;
    return count >= this.log.length ? this.log : this.log.slice(0, count);
  }

  observation(seq) {
    return seq > this.seq ? undefined : this.log[seq - this.minSeq];
  }

  get newestRun() {
    const id = this.view.runOrder.at(-1);
    return id ? this.view.runs.get(id) : null;
  }
}

/* The past: the state as of any observation, folded from the nearest snapshot. */

const EVERY = 200;

/** A thread's log with both folds. `minSeq`, `base` and `messages`: its beginning if it is not at 1. */
export function createHistory({ minSeq = 1, base = null, messages = [] } = {}) {
  const first = { seq: minSeq - 1, core: base ? core.fromState(base) : core.empty(minSeq - 1), view: emptyView(minSeq - 1, messages) };
  const log = [];
  const kept = [first];
  let last = first;
  let past = first;

  function step(from, batch) {
    if (batch.length === 0) return from;
    let state = from.core;
    for (const told of batch) state = core.fold(state, told);
    return { seq: batch.at(-1).seq, core: state, view: foldView(from.view, batch) };
  }

  const cut = (from, to) => log.slice(from - minSeq + 1, to - minSeq + 1);

  return {
    minSeq,
    log,
    get lastSeq() {
      return last.seq;
    },
    get last() {
      return last;
    },
    /** Adds observations. Known ones are dropped; a gap is refused: `false`. */
    add(batch) {
      const fresh = batch.filter((told) => told.seq > last.seq);
      for (let i = 0; i < fresh.length; i++) if (fresh[i].seq !== last.seq + 1 + i) return false;
      log.push(...fresh);
      while (fresh.length) {
        const room = EVERY - ((last.seq - minSeq + 1) % EVERY);
        last = step(last, fresh.splice(0, room));
        if ((last.seq - minSeq + 1) % EVERY === 0) kept.push(last);
      }
      return true;
    },
    at(seq) {
      if (seq >= last.seq) return last;
      const nearest = kept[Math.max(0, Math.floor((seq - minSeq + 1) / EVERY))] ?? first;
      const from = past.seq <= seq && past.seq >= nearest.seq ? past : nearest;
      past = step(from, cut(from.seq, seq));
      return past;
    },
  };
}
