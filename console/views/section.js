// What a view reads of the server while it is shown; tables; and those of the page System, each with name, section of the
// settings, and text for an empty one.

import { REMEDIES } from '../remedies.js';
import { Shape } from '../shapes.js';
import { show } from '../text.js';
import { html, useEffect, useReducer, useState } from '../vendor/preact-htm.js';
import { Todo } from './code.js';
import { Button, Loading, Refusal, wordsOf } from './parts.js';
import { pressedOnce, useArmed } from './question/parts.js';

export const Table = ({ label, heads, cls = '', id, children }) => html`<div class="scrollx" tabindex="0" role="group" aria-label=${label}>
  <table class="data ${cls}" data-testid=${id}><thead><tr>${heads.map((head) => (typeof head === 'string'
    ? html`<th>${head || html`<span class="sr">Status</span>`}</th>` : head))}</tr></thead><tbody>${children}</tbody></table></div>`;

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

/** Changes when the window gets the focus, or somebody presses: no frame tells of what these pages show. */
export function useAgain() {
  const [times, again] = useReducer((n) => n + 1, 0);
  useEffect(() => {
    addEventListener('focus', again);
    return () => removeEventListener('focus', again);
  }, []);
  return times;
}

export const ReadAgain = () => html`<${Button} cls="small" id="read-again" label="Read again" onClick=${() => dispatchEvent(new Event('focus'))} />`;

export const useList = (ctx, path, most) => useRead(ctx, [path, useAgain()], (signal) => ctx.api.all(path, { most, signal }));

/** `number`: how many there are, if the list is of something else. */
export function Section({ name, from, list, number = list.items?.length, heads, empty, more, cls = '', children }) {
  const { items, problem } = list;
  return html`<section class=${cls} data-testid=${`section-${name.toLowerCase().replace(/\W+/g, '-')}`}>
    <h2>${name}${items && html`<span class="dim num">${number}</span>`}<span class="dim right from">${from}</span></h2>
    ${problem ? html`<${Refused} problem=${problem} />` : !items ? html`<${Loading} rows=${3} />`
      : items.length === 0 ? html`<p class="dim">${empty}</p>`
        : html`<${Table} label=${name} heads=${heads}>${children}</${Table}>`}
    ${more}
  </section>`;
}

function Refused({ problem }) {
  const todo = REMEDIES[problem.code];
  return html`<p class="wrong">${show(wordsOf(problem))}${todo && html` <span class="mid"><${Todo} text=${todo} /></span>`}</p>`;
}

export const Status = ({ of: [shape, word] }) => html`<td class="nowrap"><${Shape} status=${shape} small label=${false} /> ${show(word)}</td>`;

/** A row's button: sends its action once, and shows a refusal beside it. */
export function RowAction({ label, sure, why, act, id }) {
  const [state, set] = useState({});
  const [isArmed, arm, disarm] = useArmed();
  const press = () => {
    if (sure && !isArmed) return arm();
    disarm();
    set({ busy: true });
    return act().then(() => set({}), (problem) => set({ problem }));
  };
  return html`<${Button} cls="small" id=${id} label=${state.busy ? 'Sending …' : isArmed ? sure : label} disabled=${Boolean(why) || state.busy} title=${why}
      ...${pressedOnce(press)} />
    <${Refusal} problem=${state.problem} />`;
}
