// Going on from an earlier observation, in a thread of its own.

import { enc, newKey } from '../api.js';
import { useRef, useState } from '../vendor/preact-htm.js';

/** A fork of the past changes nothing there: replay is no reason against it. */
export function whyForkNot(ctx) {
  if (ctx.conn === 'held') return 'Not connected: nothing can be sent now.';
  const scopes = ctx.me?.scopes;
  return !scopes || scopes.includes('run') || scopes.includes('admin') ? null : 'This key may read only: to fork, use one with the scope run.';
}

/** `{at(seq), why, problem}`; the same press, made again, is done once. */
export function useFork(ctx, thread) {
  const [problem, setProblem] = useState(null);
  const keys = useRef(new Map());
  const at = async (seq = null) => {
    setProblem(null);
    if (!keys.current.has(seq)) keys.current.set(seq, newKey());
    try {
      const made = await ctx.api.post(`/threads/${enc(thread.id)}/fork`, seq == null ? {} : { at: seq }, { key: keys.current.get(seq) });
      keys.current.delete(seq);
      ctx.go(`#/t/${enc(made.threadId)}`);
    } catch (error) {
      if (!error.retryable) keys.current.delete(seq);
      setProblem(error);
    }
  };
  return { at, why: whyForkNot(ctx), problem };
}
