// Compares the page's fold with the state of a live server.

import { empty, fold, stateBody } from '../../../console/fold/core.js';
import { canonical, digest } from './golden.mjs';

/** Folds a thread's log and asks the server for its state at every observation: `{lines, differences}`. */
export async function compare(server, thread) {
  const lines = [];
  const differences = [];
  let state = empty();
  for (const observation of await server.log(thread)) {
    const wants = await server.get(`/threads/${thread}/state?at=${observation.seq}`);
    state = fold(state, observation);
    const has = stateBody(state, { threadId: thread, minSeq: wants.minSeq });
    if (canonical(has) !== canonical(wants)) {
      differences.push(`${thread} at ${observation.seq} ${observation.type}\n  has   ${canonical(has)}\n  wants ${canonical(wants)}`);
    }
    lines.push({ observation, state: digest(wants) });
  }
  return { lines, differences };
}
