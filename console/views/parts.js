// Small parts of many views.

import { enc, newKey } from '../api.js';
import { countdown } from '../format.js';
import { threadHash } from '../router.js';
import { plain, show } from '../text.js';
import { Component, h, html, useEffect, useLayoutEffect, useReducer, useRef, useState } from '../vendor/preact-htm.js';

/** What ⌘ is called on this computer. */
const MOD = /Mac|iP/.test(globalThis.navigator?.platform) ? '⌘' : 'Ctrl+';

export function Kbd({ k }) {
  return k ? html`<kbd aria-hidden="true">${k.replace('⌘', MOD)}</kbd>` : null;
}

/** A button; `why` is its tooltip if it is disabled. */
export function Button({ label, k, cls = '', why = null, onClick, id, ...more }) {
  return html`<button type="button" class="b ${cls}" disabled=${why != null} title=${why} onClick=${onClick} data-testid=${id} ...${more}>
    ${label}<${Kbd} k=${k} />
  </button>`;
}

/** Buttons of which one is pressed: each `[key, name, more]`. */
export const Choice = ({ label, of, now, choose, cls = '' }) => html`<div class="seg ${cls}" role="group" aria-label=${label}>
  ${of.map(([key, name, more]) => html`<button type="button" key=${key} aria-pressed=${String(key === now)} onClick=${() => choose(key)} ...${more}>${name}</button>`)}
</div>`;

/** Links of which one is current: each `[key, name, href, more]`. */
export const Tabs = ({ label, of, now, id, cls = '' }) => html`<nav class="seg ${cls}" aria-label=${label}>
  ${of.map(([key, name, href, more]) => html`<a key=${key} href=${href} aria-current=${key === now ? 'true' : null} data-testid="${id}-${key}" ...${more}>${name}</a>`)}
</nav>`;

/** The outcome in words. Over plain HTTP there is no clipboard. */
export const copied = (text) => (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(() => 'Copied', () => 'No clipboard: needs HTTPS');

export function Copy({ text, label, cls = '', id }) {
  const [said, say] = useState(null);
  const copy = async () => say(await copied(typeof text === 'function' ? await text() : text));
  return html`<${Button} cls=${`small ${cls}`} id=${id} label=${said ?? label} onClick=${copy} />`;
}

export const irreversible = (ctx, item) => (item.requiredTools ?? []).filter((name) => ctx.tools.get(name)?.class === 'irreversible');

/** A `seq`: to look at, replay to, or fork from. */
export function SeqLink({ ctx, seq, label }) {
  return html`<a class="seqlink mono" href=${ctx.to({ at: seq })} title=${`Look at the thread as of observation ${seq}`}>${label ?? seq}</a>`;
}

/** Grey bars of about the right height during loading. */
export function Loading({ rows = 5 }) {
  return html`<div class="loading" role="status" aria-busy="true" aria-label="Loading">${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}</div>`;
}

/** A model's current text, growing in one text node, without a render per token. `of(stream)`: what is shown of it. */
export function Growing({ ctx, streamId, of }) {
  const place = useRef(null);
  useLayoutEffect(() => {
    const node = place.current.appendChild(document.createTextNode(''));
    const write = (stream) => {
      if (!stream) return;
      const text = plain(of(stream));
      // Keeps what a reader has marked.
      if (text.startsWith(node.data)) node.appendData(text.slice(node.length));
      else node.data = text;
    };
    write(ctx.live.get(streamId));
    const stop = ctx.live.listen(streamId, write);
    return () => {
      stop();
      node.remove();
    };
  }, [streamId]);
  return html`<bdi class="arg" ref=${place}></bdi><span class="caret" aria-hidden="true"></span>`;
}

/** Renders the component again when it is called. */
export const useRepaint = () => useReducer((n) => n + 1, 0)[1];

/** For an element that is scrolled into sight when it becomes the shown one. */
export function useInView(isShown) {
  const element = useRef(null);
  useEffect(() => {
    if (isShown) element.current.scrollIntoView({ block: 'nearest' });
  }, [isShown]);
  return element;
}

/* A component that renders only when a prop changes. */

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

/* State that outlives its component: drafts of answers, messages and plans, kept only while the page is open. */

const MOST = 100;
const kept = new Map();

/** Keeps it; of too many, the one that was not changed for longest goes. */
export function keep(key, state) {
  kept.delete(key);
  kept.set(key, state);
  if (kept.size > MOST) kept.delete(kept.keys().next().value);
}

/** For another person. */
export const forget = () => kept.clear();

/** `[state, set]`; `set` takes members to change, or a function of the current state that returns them. */
export function useKept(key, initial) {
  const repaint = useRepaint();
  if (!kept.has(key)) keep(key, initial());
  const set = (change) => {
    const before = kept.get(key) ?? initial();
    keep(key, { ...before, ...(typeof change === 'function' ? change(before) : change) });
    repaint();
  };
  return [kept.get(key), set];
}

export const keptAt = (key) => kept.get(key);

/** The time left until `at`; updated by the clock. */
export const Left = ({ at, now }) => html`<span class="num" data-tick=${`left:${at}`}>${countdown(at - now)}</span>`;

/* Refusals. */

export const wordsOf = (problem) => problem.detail ?? problem.title;

export const Refusal = ({ problem, id }) => (problem ? html`<p class="wrong" role="alert" data-testid=${id}>${show(wordsOf(problem))}</p>` : null);

/** Whether a request may have been taken. `again`: an earlier answer was lost. */
export const mayBeTaken = (problem, again) => problem.isUnreachable || problem.status >= 500 || (again && problem.retryable);

/**
 * `{press, busy, problem}`. `press(name, path, body)` returns the answer, or null if refused. After a lost answer it is
 * sent again as it was, and takes effect once.
 */
export function usePress(ctx) {
  const [state, set] = useState({ busy: null, problem: null });
  const sent = useRef(new Map());
  const press = async (name, path, body = {}) => {
    const id = `${name} ${path}`;
    set({ busy: name, problem: null });
    const again = sent.current.get(id);
    const first = again ?? { key: newKey(), body };
    sent.current.set(id, first);
    try {
      const answer = await ctx.api.post(path, first.body, { key: first.key });
      sent.current.delete(id);
      set({ busy: null, problem: null });
      return answer ?? true;
    } catch (problem) {
      if (!mayBeTaken(problem, again)) sent.current.delete(id);
      set({ busy: null, problem });
      return null;
    }
  };
  return { ...state, press };
}

/* Forks from an earlier observation into a new thread. */

export function useFork(ctx, thread) {
  const { press, problem } = usePress(ctx);
  const at = async (seq = null) => {
    const made = await press(`${seq ?? thread.lastSeq}`, `/threads/${enc(thread.id)}/fork`, seq == null ? {} : { at: seq });
    if (made) ctx.goOn(threadHash({ id: made.threadId }));
  };
  // A fork does not change the past.
  return { at, why: ctx.whyNot('run', { inPast: true }), problem };
}
