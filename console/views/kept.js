// State that outlives its component: drafts of answers, messages and plans, kept while the page is open and nowhere else.

import { useState } from '../vendor/preact-htm.js';

const MOST = 100;
const kept = new Map();

/** `[state, set]`; `set` takes members to change, or a function that makes them of the state as it is then. */
export function useKept(key, initial) {
  const [, renderAgain] = useState(0);
  if (!kept.has(key)) {
    kept.set(key, initial());
    if (kept.size > MOST) kept.delete(kept.keys().next().value);
  }
  const set = (change) => {
    const before = kept.get(key) ?? initial();
    kept.set(key, { ...before, ...(typeof change === 'function' ? change(before) : change) });
    renderAgain((n) => n + 1);
  };
  return [kept.get(key), set];
}

/** The state as it is now; undefined if there is none. */
export const keptAt = (key) => kept.get(key);
