// The past: the state as of any observation, folded on from the nearest one that was kept.

import * as core from './fold/core.js';
import { emptyView, foldView } from './fold/view.js';

const EVERY = 200;

/** A thread's log with both folds. `minSeq` and `base` say where the log begins, if not at 1. */
export function createHistory({ minSeq = 1, base = null } = {}) {
  const first = { seq: minSeq - 1, core: base ? core.fromState(base) : core.empty(minSeq - 1), view: emptyView() };
  const log = [];
  const kept = [first];
  let last = first;
  let past = first;

  function step(from, batch) {
    if (batch.length === 0) return from;
    let state = from.core;
    for (const told of batch) state = core.fold(state, told);
    return { seq: batch.at(-1).seq, core: state, view: foldView(from.view, batch) };
  }

  const cut = (from, to) => log.slice(from - minSeq + 1, to - minSeq + 1);

  return {
    minSeq,
    log,
    get lastSeq() {
      return last.seq;
    },
    get last() {
      return last;
    },
    /** Takes in observations that follow. Those that were told before are dropped; a hole is not taken: `false`. */
    add(batch) {
      const fresh = batch.filter((told) => told.seq > last.seq);
      for (let i = 0; i < fresh.length; i++) if (fresh[i].seq !== last.seq + 1 + i) return false;
      log.push(...fresh);
      while (fresh.length) {
        const room = EVERY - ((last.seq - minSeq + 1) % EVERY);
        last = step(last, fresh.splice(0, room));
        if ((last.seq - minSeq + 1) % EVERY === 0) kept.push(last);
      }
      return true;
    },
    /** The state as of an observation. */
    at(seq) {
      if (seq >= last.seq) return last;
      const nearest = kept[Math.max(0, Math.floor((seq - minSeq + 1) / EVERY))] ?? first;
      const from = past.seq <= seq && past.seq >= nearest.seq ? past : nearest;
      past = step(from, cut(from.seq, seq));
      return past;
    },
  };
}
