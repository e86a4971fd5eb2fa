// A table of the page System: its name, which part of the settings it comes from, and what it says when there is nothing.

import { REMEDIES } from '../remedies.js';
import { Shape } from '../shapes.js';
import { show } from '../text.js';
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { Loading, Todo } from './parts.js';

/** `{items, problem, load}` of a list, read when the page opens. */
export function useList(ctx, path) {
  const [state, set] = useState({});
  const load = () => ctx.api.all(path).then(({ items }) => set({ items }), (problem) => set({ problem }));
  useEffect(() => void load(), [path]);
  return { ...state, load, set: (items) => set({ items }) };
}

export function Section({ name, from, list, heads, empty, more, children }) {
  const { items, problem } = list;
  return html`<section data-testid=${`section-${name.toLowerCase().replace(/\W+/g, '-')}`}>
    <h2>${name}${items && html`<span class="dim num">${items.length}</span>`}<span class="dim right from">${from}</span></h2>
    ${problem ? html`<${Refused} problem=${problem} />` : !items ? html`<${Loading} rows=${3} />`
      : items.length === 0 ? html`<p class="dim">${empty}</p>`
        : html`<div class="scrollx" tabindex="0" role="region" aria-label=${name}><table class="data"><thead><tr>
            ${heads.map((head) => html`<th>${head || html`<span class="sr">Status</span>`}</th>`)}</tr></thead><tbody>${children}</tbody>
                </table></div>`}
    ${more}
  </section>`;
}

function Refused({ problem }) {
  const todo = REMEDIES[problem.code];
  return html`<p class="wrong">${show(problem.detail ?? problem.title)}${todo && html` <span class="mid"><${Todo} text=${todo} /></span>`}</p>`;
}

/** The shape and the word of a row. */
export const Status = ({ shape, word }) => html`<td class="nowrap"><${Shape} status=${shape} small label=${false} /> ${show(word)}</td>`;

/** A button of a row: what it does is sent once, and what is refused stands beside it. */
export function RowAction({ label, sure, why, act, id }) {
  const [state, set] = useState({});
  const press = async () => {
    if (sure && !state.armed) {
      set({ armed: true });
      return;
    }
    set({ busy: true });
    try {
      await act();
      set({});
    } catch (problem) {
      set({ problem });
    }
  };
  return html`<button type="button" class="b small" data-testid=${id} disabled=${Boolean(why) || state.busy} title=${why ?? null} onClick=${press}>
      ${state.busy ? 'Sending …' : state.armed ? sure : label}</button>
    ${state.problem && html`<span class="wrong" role="alert">${show(state.problem.detail ?? state.problem.title)}</span>`}`;
}
