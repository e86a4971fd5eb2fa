// What a view reads of the server while it is shown.

import { useEffect, useState } from '../vendor/preact-htm.js';

/** An extra dependency of reading effects: reads again when the server is back. */
export const away = (ctx, problem) => (problem?.isUnreachable ? ctx.conn : null);

/**
 * The members that `read(signal)` resolves with, or `problem`; read again when `deps` change. With them `set`, and `load()`
 * to read once more.
 */
export function useRead(ctx, deps, read) {
  const [state, set] = useState({});
  const load = (signal) => read(signal).then((told) => signal?.aborted || set(told), (problem) => signal?.aborted || set({ problem }));
  useEffect(() => {
    const ends = new AbortController();
    load(ends.signal);
    return () => ends.abort();
  }, [...deps, away(ctx, state.problem)]);
  return { ...state, set, load: () => load() };
}
