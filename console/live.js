// What the server tells while it happens: a WebSocket, which comes back by itself, and what models say.

import { basePath, enc } from './api.js';

const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;
/** Closed because the reader was too slow: what is missing is read again at once. */
const TOO_SLOW = 1013;
/** What says nothing for two to three of these is gone. */
const TICK = 20_000;

/**
 * Opens events after `after()`, again whenever the connection ends, or died without a word. `on` hears `frame(event, data)`,
 * `open()`, and `held(retryAt)` when the server does not answer. Gives `{close, retryNow, again}`.
 */
export function openLive({ url, after, on, sockets = globalThis.WebSocket, target = globalThis.window }) {
  let socket = null;
  let isOpen = false;
  let timer = null;
  let retry = FIRST_RETRY;
  let isClosed = false;
  /** What the server said when it stopped. */
  let drainedFor = null;
  /** Ticks since it said anything. */
  let silent = 0;
  let ticks = setInterval(tick, TICK);
  let readAgainAt = -Infinity;

  function connect() {
    timer = null;
    silent = 0;
    isOpen = false;
    const mine = new sockets(url(after()), ['pes.v1']);
    socket = mine;
    mine.onopen = () => {
      if (socket !== mine) return;
      isOpen = true;
      drainedFor = null;
      on.open();
    };
    mine.onmessage = ({ data }) => {
      if (socket !== mine) return;
      const frame = JSON.parse(data);
      retry = FIRST_RETRY;
      silent = 0;
      if (frame.event === 'draining') drainedFor = frame.data.retryInMs;
      if (frame.event !== 'pong') on.frame(frame.event, frame.data);
    };
    mine.onclose = ({ code }) => {
      if (socket === mine) ended(code);
    };
  }

  function ended(code) {
    drop();
    if (code === TOO_SLOW && isOpen) return connect();
    const ms = drainedFor ?? retry;
    wait(ms);
    on.held(ms, code);
    if (drainedFor == null) retry = Math.min(LAST_RETRY, retry * 2);
  }

  function drop() {
    const old = socket;
    socket = null;
    old?.close(1000);
  }

  function wait(ms) {
    clearTimeout(timer);
    timer = setTimeout(connect, ms);
  }

  /** A connection can die without an end: then not even what is asked is answered. */
  function tick() {
    if (!socket) return;
    silent += 1;
    if (silent > 2) ended();
    else if (silent === 2) ping();
  }

  function ping() {
    if (isOpen) socket.send('{"op":"ping","id":0}');
  }

  function retryNow() {
    if (isClosed || socket) return;
    clearTimeout(timer);
    connect();
  }

  /** Who comes back from sleep wants to know at once. */
  function looked() {
    retryNow();
    if (isClosed) return;
    ping();
    silent = 2;
    clearInterval(ticks);
    ticks = setInterval(tick, TICK);
  }

  /** Reads again from `after()`, once that is `ready`, but not all the time: something is missing. */
  function again(ready) {
    if (isClosed) return;
    clearTimeout(timer);
    drop();
    Promise.resolve(ready).then(() => {
      if (isClosed || socket) return;
      const now = Date.now();
      wait(now - readAgainAt < FIRST_RETRY ? FIRST_RETRY : 0);
      readAgainAt = now;
    });
  }

  target?.addEventListener('online', retryNow);
  target?.addEventListener('focus', looked);
  connect();
  return {
    again,
    retryNow,
    close() {
      isClosed = true;
      clearTimeout(timer);
      clearInterval(ticks);
      target?.removeEventListener('online', retryNow);
      target?.removeEventListener('focus', looked);
      drop();
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
