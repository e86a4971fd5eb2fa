// The WebSocket of a thread: the log from an observation on, then live. It comes back by itself.

import { basePath } from './api.js';

const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;
/** Closed because the reader was too slow: what is missing is read again at once. */
const TOO_SLOW = 1013;

/**
 * Opens the thread's events after `after()`, again whenever the connection ends. `on` hears `frame(event, data)`, `open()`, and
 * `held(retryAt)` when the server does not answer. Gives `{close, retryNow, again}`.
 */
export function openLive({ url, after, on, sockets = globalThis.WebSocket, target = globalThis.window }) {
  let socket = null;
  let timer = null;
  let retry = FIRST_RETRY;
  let isClosed = false;
  /** What the server said when it stopped. */
  let drainedFor = null;

  function connect() {
    timer = null;
    const mine = new sockets(url(after()), ['pes.v1']);
    socket = mine;
    let isOpen = false;
    mine.onopen = () => {
      isOpen = true;
      drainedFor = null;
      on.open();
    };
    mine.onmessage = ({ data }) => {
      if (socket !== mine) return;
      const frame = JSON.parse(data);
      retry = FIRST_RETRY;
      if (frame.event === 'draining') drainedFor = frame.data.retryInMs;
      on.frame(frame.event, frame.data);
    };
    mine.onclose = ({ code }) => {
      if (socket !== mine) return;
      socket = null;
      if (isClosed) return;
      if (code === TOO_SLOW && isOpen) return connect();
      wait(drainedFor ?? retry, code);
      if (drainedFor == null) retry = Math.min(LAST_RETRY, retry * 2);
    };
  }

  function wait(ms, code) {
    clearTimeout(timer);
    timer = setTimeout(connect, ms);
    on.held(ms, code);
  }

  function retryNow() {
    if (isClosed || socket) return;
    clearTimeout(timer);
    connect();
  }

  /** Reads again from `after()`: something is missing. */
  function again() {
    const old = socket;
    socket = null;
    old?.close(1000);
    clearTimeout(timer);
    connect();
  }

  target?.addEventListener('online', retryNow);
  target?.addEventListener('focus', retryNow);
  connect();
  return {
    again,
    retryNow,
    close() {
      isClosed = true;
      clearTimeout(timer);
      target?.removeEventListener('online', retryNow);
      target?.removeEventListener('focus', retryNow);
      socket?.close(1000);
      socket = null;
    },
  };
}

/** The address of a thread's events. */
export function eventsUrl(threadId, after, place = globalThis.location) {
  const scheme = place.protocol === 'https:' ? 'wss' : 'ws';
  return `${scheme}://${place.host}${basePath(place)}/threads/${encodeURIComponent(threadId)}/events?after=${after}`;
}
