// The threads and the open questions, as they stand now: one stream of the server says what changed.

import { basePath, Problem } from './api.js';

/** When a server that is away is asked again. */
const AGAIN = 5000;

export function createLists({ api, changed, target = globalThis.window }) {
  const lists = { threads: null, questions: null, problem: null, more: null };
  let reading = null;
  let timer = null;
  let stream = null;
  let isStarted = false;

  function read() {
    reading ??= Promise.all([api.get('/threads?limit=200'), api.all('/suspensions?limit=200')])
      .then(([threads, questions]) => Object.assign(lists, { threads: threads.items, more: threads.nextCursor ?? null, questions: questions.items, problem: null }))
      .catch((problem) => {
        lists.problem = problem;
      })
      .finally(() => {
        reading = null;
        changed();
      });
    return reading;
  }

  const without = (list, name, id) => list?.filter((one) => one[name] !== id) ?? null;

  const told = {
    thread(row) {
      if (lists.threads) lists.threads = [row, ...without(lists.threads, 'threadId', row.threadId)];
    },
    thread_deleted({ threadId }) {
      lists.threads = without(lists.threads, 'threadId', threadId);
      lists.questions = without(lists.questions, 'threadId', threadId);
    },
    suspension(row) {
      const rest = without(lists.questions, 'suspensionId', row.suspensionId);
      lists.questions = row.status === 'pending' && rest ? [...rest, row] : rest;
    },
    // Nothing is repeated: what stands is read, then and after a gap.
    caught_up: read,
    gap: read,
  };

  function listen() {
    const mine = new EventSource(`${basePath()}/events`);
    stream = mine;
    for (const [name, take] of Object.entries(told)) {
      mine.addEventListener(name, (event) => {
        take(JSON.parse(event.data));
        changed();
      });
    }
    mine.onerror = () => {
      if (mine.readyState !== EventSource.CLOSED) {
        // It comes back by itself, and then tells `caught_up`.
        lists.problem ??= new Problem(0, { title: 'The server does not answer.' });
        return changed();
      }
      clearTimeout(timer);
      timer = setTimeout(() => isStarted && stream === mine && listen(), AGAIN);
      read();
    };
  }

  return {
    lists,
    read,
    start() {
      if (isStarted) return;
      isStarted = true;
      target?.addEventListener('focus', read);
      read();
      listen();
    },
    stop() {
      isStarted = false;
      stream?.close();
      clearTimeout(timer);
      target?.removeEventListener('focus', read);
    },
  };
}

/** Questions in the order in which they should be answered: by expiry, then risk, then age. */
export function byUrgency(a, b) {
  const risk = { critical: 0, high: 1, medium: 2, low: 3 };
  return (a.expiresAt ?? Infinity) - (b.expiresAt ?? Infinity) || (risk[a.riskLevel] ?? 4) - (risk[b.riskLevel] ?? 4)
    || a.createdAt - b.createdAt;
}
