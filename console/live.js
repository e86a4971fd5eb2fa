// Live events of the server: a WebSocket that reconnects, and the output of models.

import { basePath, enc } from './api.js';

const FIRST_RETRY = 1000;
const LAST_RETRY = 30_000;
/** Closed because the reader was too slow: reconnects at once. */
const TOO_SLOW = 1013;
/** A connection is dead after two to three silent ticks. */
const TICK = 20_000;

/**
 * Opens events after `after()`, again whenever the connection ends or dies silently. `on` gets `frame(event, data)`,
 * and `held(ms, ago)` when the server does not answer: it is asked again after `ms`, and was last heard so long ago. Returns
 * `{close, retryNow, again}`.
 */
export function openLive({ url, after, on, sockets = globalThis.WebSocket, target = globalThis.window }) {
  let socket = null;
  let isOpen = false;
  let timer = null;
  let retry = FIRST_RETRY;
  let isClosed = false;
  /** The server's delay when it drained. */
  let drainedFor = null;
  /** Ticks since the last frame. */
  let silent = 0;
  let heardAt = Date.now();
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
    };
    mine.onmessage = ({ data }) => {
      if (socket !== mine) return;
      const frame = JSON.parse(data);
      retry = FIRST_RETRY;
      silent = 0;
      heardAt = Date.now();
      if (frame.event === 'draining') drainedFor = frame.data.retryInMs;
      if (frame.event !== 'pong') on.frame(frame.event, frame.data);
    };
    mine.onclose = ({ code }) => {
      if (socket === mine) ended(code);
    };
  }

  function ended(code, ago = 0) {
    drop();
    if (code === TOO_SLOW && isOpen) return connect();
    const ms = drainedFor ?? retry;
    wait(ms);
    on.held(ms, ago);
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

  /** A connection can die silently: then a ping is not answered. */
  function tick() {
    if (!socket) return;
    silent += 1;
    if (silent > 2) ended(null, Date.now() - heardAt);
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

  const lost = () => socket && ended();

  /** After sleep the connection is checked at once. */
  function looked() {
    retryNow();
    if (isClosed) return;
    ping();
    silent = 2;
    clearInterval(ticks);
    ticks = setInterval(tick, TICK);
  }

  /** Rereads a gap from `after()` once `ready`, with a delay if repeated. */
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

  const events = Object.entries({ online: retryNow, offline: lost, focus: looked });
  for (const [name, listener] of events) target?.addEventListener(name, listener);
  connect();
  return {
    again,
    retryNow,
    close() {
      isClosed = true;
      clearTimeout(timer);
      clearInterval(ticks);
      for (const [name, listener] of events) target?.removeEventListener(name, listener);
      drop();
    },
  };
}

export function eventsUrl(threadId, after, place = globalThis.location) {
  const scheme = place.protocol === 'https:' ? 'wss' : 'ws';
  const path = threadId == null ? '/events' : `/threads/${enc(threadId)}/events?after=${after}`;
  return `${scheme}://${place.host}${basePath(place)}${path}`;
}

/* Current output of models. The log gets the whole text with `LLM_STREAM_END`. */

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
    /** `{text, bytes, thinking, thinkingBytes}` of an open stream, or undefined. */
    get: (streamId) => streams.get(streamId),
    /** Calls `fn` when the stream's text has grown, at most once a frame. Returns the removal. */
    listen(streamId, fn) {
      if (!listeners.has(streamId)) listeners.set(streamId, new Set());
      listeners.get(streamId).add(fn);
      return () => {
        const all = listeners.get(streamId);
        all?.delete(fn);
        if (all?.size === 0) listeners.delete(streamId);
      };
    },
    /** A piece of text. Pieces may be missing: `…` stands for them until the log has the whole text. */
    token({ streamId, data, offset, tokenType }) {
      const isThinking = tokenType.endsWith('_THINKING');
      let stream = streams.get(streamId);
      if (!stream) streams.set(streamId, (stream = { text: '', bytes: 0, thinking: '', thinkingBytes: 0 }));
      const [text, bytes] = isThinking ? ['thinking', 'thinkingBytes'] : ['text', 'bytes'];
      if (offset < stream[bytes]) return;
      stream[text] += (offset > stream[bytes] ? ' … ' : '') + data;
      stream[bytes] = offset + encoder.encode(data).length;
      touch(streamId);
    },
    /** The log has its text or its failure. */
    ended(streamId) {
      if (streams.delete(streamId)) changed.delete(streamId);
    },
    clear: () => streams.clear(),
  };
}
