// The threads and the open questions, as they stand: one stream of the server says what changed; without it they are read
// again every five seconds while the page is looked at.

import { basePath, Problem } from './api.js';

const EVERY = 5000;

export function createLists({ api, changed, document = globalThis.document, target = globalThis.window }) {
  const lists = { threads: null, questions: null, problem: null, reading: null };
  let timer = null;
  let stream = null;
  let isStarted = false;
  /** Found out once: the server has a stream of all threads. */
  let hasStream = true;

  async function read() {
    if (lists.reading) return lists.reading;
    lists.reading = Promise.all([api.get('/threads?limit=200'), api.all('/suspensions?limit=200')])
      .then(([threads, questions]) => {
        lists.threads = threads.items;
        lists.more = threads.nextCursor ?? null;
        lists.questions = questions.items;
        lists.problem = null;
      })
      .catch((problem) => {
        lists.problem = problem;
      })
      .finally(() => {
        lists.reading = null;
        changed();
      });
    return lists.reading;
  }

  function put(list, row, key) {
    if (!list) return list;
    const rest = list.filter((one) => one[key] !== row[key]);
    return [row, ...rest];
  }

  function threadTold(row) {
    lists.threads = put(lists.threads, row, 'threadId');
    changed();
  }

  function threadGone({ threadId }) {
    lists.threads = lists.threads?.filter((one) => one.threadId !== threadId) ?? null;
    lists.questions = lists.questions?.filter((one) => one.threadId !== threadId) ?? null;
    changed();
  }

  function questionTold(row) {
    const rest = lists.questions?.filter((one) => one.suspensionId !== row.suspensionId);
    lists.questions = row.status === 'pending' && rest ? [...rest, row] : rest ?? null;
    changed();
  }

  function listen() {
    if (!hasStream || !globalThis.EventSource) return poll();
    const mine = new EventSource(`${basePath()}/events`);
    stream = mine;
    let isOpen = false;
    mine.onopen = () => {
      isOpen = true;
    };
    const on = (name, fn) => mine.addEventListener(name, (event) => fn(JSON.parse(event.data)));
    on('thread', threadTold);
    on('thread_deleted', threadGone);
    on('suspension', questionTold);
    // Nothing is repeated: what stands is read, then and after a gap.
    on('caught_up', read);
    on('gap', read);
    mine.onerror = () => {
      if (isOpen && mine.readyState !== EventSource.CLOSED) {
        // It comes back by itself, and then tells `caught_up`.
        lists.problem = new Problem(0, { title: 'The server does not answer.' });
        return changed();
      }
      // A server without this stream refuses it; one that is away is asked again.
      mine.close();
      stream = null;
      if (!isOpen) hasStream = false;
      poll();
    };
  }

  function poll() {
    clearInterval(timer);
    read();
    timer = setInterval(() => {
      if (!document.hidden) read();
    }, EVERY);
  }

  return {
    lists,
    read,
    start() {
      if (isStarted) return;
      isStarted = true;
      target?.addEventListener('focus', read);
      listen();
    },
    stop() {
      isStarted = false;
      stream?.close();
      clearInterval(timer);
      target?.removeEventListener('focus', read);
    },
  };
}
