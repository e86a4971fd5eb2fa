// The current threads and open questions: one stream of the server reports changes.

import { eventsUrl, openLive } from './live.js';

/** Who reads: an answer may be for somebody who signed in in another tab. */
export const WHO = '/whoami';
/** Threads that are kept: older ones are found by searching. */
const MOST = 200;
/** The first and the longest pause after a request that failed: the socket may be open. */
const PAUSE = 3000;
const LONGEST = 30_000;

/** `changes`: threads that came or went. */
const NONE = { threads: null, more: false, changes: 0, questions: null, problem: null };

const EVENTS = ['focus', 'online'];

/** `readBy(me)` gets the caller, whatever the lists answer. */
export function createLists({ api, changed, readBy = () => {}, wereRead = () => {}, open = openLive, target = globalThis.window }) {
  const lists = { ...NONE };
  /** Of the server, since the page was loaded. */
  const versions = new Set();
  let live = null;
  let reading = null;
  let next = null;
  let timer = null;
  let pause = PAUSE;
  /** Frames since the request began. */
  let meanwhile = [];

  /** Resolves with data requested after the call: a pending answer may be older. */
  function read() {
    if (reading) return next ??= reading.then(() => { next = null; return read(); });
    const mine = live;
    clearTimeout(timer);
    meanwhile = [];
    const caller = api.get(WHO).then((me) => mine && mine === live && readBy(me), () => {});
    reading = Promise.all([api.get(`/threads?limit=${MOST}`), api.all('/suspensions?limit=200'), api.get('/version'), caller])
      .then(([threads, questions, { version }]) => {
        if (!mine || mine !== live) return;
        versions.add(version);
        Object.assign(lists, {
          threads: threads.items, more: threads.nextCursor != null, questions: questions.items, problem: null, isUpgraded: versions.size > 1,
        });
        for (const [event, data] of meanwhile) take[event](data);
        pause = PAUSE;
        wereRead();
      })
      .catch((problem) => {
        if (mine !== live) return;
        lists.problem = problem;
        if (!live || !(problem.retryable || problem.status >= 500)) return;
        timer = setTimeout(read, pause);
        pause = Math.min(2 * pause, LONGEST);
      })
      .finally(() => {
        reading = null;
        changed();
      });
    return reading;
  }

  const without = (list, name, id) => list?.filter((one) => one[name] !== id) ?? null;

  const take = {
    thread(row) {
      if (!lists.threads) return;
      const all = [row, ...without(lists.threads, 'threadId', row.threadId)];
      if (all.length > lists.threads.length) lists.changes += 1;
      lists.threads = all.slice(0, MOST);
      lists.more ||= all.length > MOST;
    },
    thread_deleted({ threadId }) {
      lists.changes += 1;
      lists.threads = without(lists.threads, 'threadId', threadId);
      lists.questions = without(lists.questions, 'threadId', threadId);
    },
    suspension(row) {
      const rest = without(lists.questions, 'suspensionId', row.suspensionId);
      lists.questions = row.status === 'pending' && rest ? [...rest, row] : rest;
    },
  };

  function onFrame(event, data) {
    // Frames are not replayed: reads the lists on connect and after a gap.
    if (event === 'caught_up' || event === 'gap') read();
    if (!Object.hasOwn(take, event)) return;
    if (reading) meanwhile.push([event, data]);
    take[event](data);
    changed();
  }

  return {
    lists,
    read,
    start() {
      if (live) return;
      for (const event of EVENTS) target?.addEventListener(event, read);
      // The request tells an unreachable server from a refused key.
      live = open({ url: () => eventsUrl(), after: () => 0, on: { frame: onFrame, held: read } });
      read();
    },
    retryNow() {
      live?.retryNow();
      read();
    },
    stop() {
      live?.close();
      live = null;
      clearTimeout(timer);
      Object.assign(lists, NONE);
      for (const event of EVENTS) target?.removeEventListener(event, read);
    },
  };
}

/** Questions by urgency: expiry, then risk, then age. */
export function byUrgency(a, b) {
  const risk = { critical: 0, high: 1, medium: 2, low: 3 };
  return (a.expiresAt ?? Infinity) - (b.expiresAt ?? Infinity) || (risk[a.riskLevel] ?? 4) - (risk[b.riskLevel] ?? 4)
    || a.createdAt - b.createdAt;
}
