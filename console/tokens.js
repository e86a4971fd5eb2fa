// What models are saying right now. It is not in the log: the whole text comes with `LLM_STREAM_END`.

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
