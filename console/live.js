// What the server tells while it happens: a WebSocket, which comes back by itself, and what models say.

import { basePath, enc } from './api.js';

const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;
/** Closed because the reader was too slow: what is missing is read again at once. */
const TOO_SLOW = 1013;

/**
 * Opens events after `after()`, again whenever the connection ends. `on` hears `frame(event, data)`, `open()`, and
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

/** The address of a thread's events, or of those of all threads. */
export function eventsUrl(threadId, after, place = globalThis.location) {
  const scheme = place.protocol === 'https:' ? 'wss' : 'ws';
  const path = threadId == null ? '/events' : `/threads/${enc(threadId)}/events?after=${after}`;
  return `${scheme}://${place.host}${basePath(place)}${path}`;
}

/* What models are saying right now. It is not in the log: the whole text comes with `LLM_STREAM_END`. */

const encoder = new TextEncoder();

/** `frame(fn)` calls `fn` once before the next painting. */
export function createTokens(frame = (fn) => requestAnimationFrame(fn)) {
  const streams = new Map();
  const listeners = new Map();
  const changed = new Set();
  let isWaiting = false;

  function tell() {
    isWaiting = false;
    for (const id of changed) for (const listener of listeners.get(id) ?? []) listener(streams.get(id));
    changed.clear();
  }

  function touch(id) {
    if (!listeners.has(id)) return;
    changed.add(id);
    if (isWaiting) return;
    isWaiting = true;
    frame(tell);
  }

  return {
    /** `{text, bytes, incomplete, thinking}` of a stream that goes on, or undefined. */
    get: (streamId) => streams.get(streamId),
    /** Tells `fn` of the stream when its text has grown, at most once a frame. Gives back how to stop. */
    listen(streamId, fn) {
      if (!listeners.has(streamId)) listeners.set(streamId, new Set());
      listeners.get(streamId).add(fn);
      return () => {
        const all = listeners.get(streamId);
        all?.delete(fn);
        if (all?.size === 0) listeners.delete(streamId);
      };
    },
    /** A piece of text. One that does not begin where the last ended leaves the stream incomplete. */
    token({ streamId, data, offset, tokenType }) {
      const isThinking = tokenType.endsWith('_THINKING');
      let stream = streams.get(streamId);
      if (!stream) streams.set(streamId, (stream = { text: '', bytes: 0, thinking: '', thinkingBytes: 0, incomplete: false }));
      const [text, bytes] = isThinking ? ['thinking', 'thinkingBytes'] : ['text', 'bytes'];
      if (offset < stream[bytes]) return;
      if (offset > stream[bytes]) stream.incomplete = true;
      stream[text] += data;
      stream[bytes] = offset + encoder.encode(data).length;
      touch(streamId);
    },
    /** The log has its text, or says that it failed. */
    ended(streamId) {
      if (streams.delete(streamId)) changed.delete(streamId);
    },
    clear: () => streams.clear(),
  };
}
