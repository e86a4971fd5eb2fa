// Small parts that many views are made of.

import { enc, newKey } from '../api.js';
import { countdown } from '../format.js';
import { threadHash } from '../router.js';
import { show } from '../text.js';
import { Component, h, html, useRef, useState } from '../vendor/preact-htm.js';

/** A key beside the words of a button. */
export function Kbd({ k }) {
  return k ? html`<kbd aria-hidden="true">${k}</kbd>` : null;
}

/** A button; `why` says why it cannot be pressed, in its tooltip. */
export function Button({ label, k, cls = '', why = null, onClick, id, ...more }) {
  return html`<button type="button" class="b ${cls}" disabled=${why != null} title=${why} onClick=${onClick} data-testid=${id} ...${more}>
    ${label}<${Kbd} k=${k} />
  </button>`;
}

/** A number of the log: a place to look at, to replay to, to fork from. */
export function SeqLink({ ctx, seq, label }) {
  return html`<a class="seqlink mono" href=${ctx.to({ at: seq })} title=${`Look at the thread as of observation ${seq}`}>${label ?? seq}</a>`;
}

/** Grey bars of about the right height, while something is read. */
export function Loading({ rows = 5 }) {
  return html`<div class="loading" role="status" aria-busy="true" aria-label="Loading">${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}</div>`;
}

/* A component that renders only when one of its props is another. */

export function pure(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const had = this.props;
      const names = Object.keys(next);
      return names.length !== Object.keys(had).length || names.some((name) => name !== 'children' && next[name] !== had[name]);
    }

    render(props) {
      return h(View, props);
    }
  };
}

/* State that outlives its component: drafts of answers, messages and plans, kept while the page is open and nowhere else. */

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

/** The time that is left until `at`; the clock writes it anew. */
export const Left = ({ at, now }) => html`<span class="num" data-tick=${`left:${at}`}>${countdown(at - now)}</span>`;

/* Refusals. */

/** What an effect that reads depends on besides: it reads again when the server is back. */
export const away = (ctx, problem) => (problem?.isUnreachable ? ctx.conn : null);

export const wordsOf = (problem) => problem.detail ?? problem.title;

/** What was refused, in the server's words. */
export const Refusal = ({ problem, id }) => (problem ? html`<p class="wrong" role="alert" data-testid=${id}>${show(wordsOf(problem))}</p>` : null);

/**
 * `{press, busy, problem}`. `press(name, path, body)` gives the answer, or null where it was refused. It is done once however
 * often it is made: name and path say for what it is.
 */
export function usePress(ctx) {
  const [state, set] = useState({ busy: null, problem: null });
  const keys = useRef(new Map());
  const press = async (name, path, body = {}) => {
    const id = `${name} ${path}`;
    set({ busy: name, problem: null });
    if (!keys.current.has(id)) keys.current.set(id, newKey());
    try {
      const answer = await ctx.api.post(path, body, { key: keys.current.get(id) });
      keys.current.delete(id);
      set({ busy: null, problem: null });
      return answer ?? true;
    } catch (problem) {
      if (!problem.retryable) keys.current.delete(id);
      set({ busy: null, problem });
      return null;
    }
  };
  return { ...state, press };
}

/* Going on from an earlier observation, in a thread of its own. */

/** `{at(seq), why, problem}` */
export function useFork(ctx, thread) {
  const { press, problem } = usePress(ctx);
  const at = async (seq = null) => {
    const made = await press(`${seq ?? thread.lastSeq}`, `/threads/${enc(thread.id)}/fork`, seq == null ? {} : { at: seq });
    if (made) ctx.goOn(threadHash({ id: made.threadId }));
  };
  // A fork of the past changes nothing there.
  return { at, why: ctx.whyNot('run', { inPast: true }), problem };
}
