// A forecast's table: per item its possible tools, who decides about them, and their effect.

import { decides, openItems, outlookOf, sentence, strictest, toolOf } from '../outlook.js';
import { ruleName } from '../format.js';
import { Sign } from '../shapes.js';
import { show } from '../text.js';
import { html } from '../vendor/preact-htm.js';
import { CLASS, SCOPE } from '../words.js';

/** What it will ask and may do, in a sentence. */
export const Sentence = ({ forecast, cost }) => html`<p class="sentence">${sentence(forecast, cost)}</p>`;

/** The same for a narrow card, by item. */
export function ForecastList({ forecast }) {
  return html`<ol class="forecast-list">${openItems(forecast).map((item) => html`<li key=${item.id}>
    <p><span class="mono dim">${show(item.id)}</span> ${show(item.description)}</p>
    ${(item.mayCall ?? []).map((call) => {
      const tool = toolOf(forecast, call);
      return html`<p class="t1 fore-${tool ? strictest(tool) : 'auto'}"><span
          class="mono">${show(call.toolName)}</span> ${tool && show(decides(tool))}
        ${tool && tool.class !== 'read' && html` · <${Effect} tool=${tool} />`}</p>`;
    })}
    ${item.mayCallAny && html`<p class="t1 mid">may call any tool of this thread</p>`}</li>`)}</ol>`;
}

/** One row per open item and possible tool. */
export function ForecastTable({ forecast }) {
  const items = openItems(forecast);
  if (items.length === 0) return null;
  return html`<table class="data">
    <thead><tr><th>Item</th><th>Tools it may call</th><th>Who decides</th><th>Rule</th><th>Effect</th></tr></thead>
    <tbody>${items.map((item) => html`<${ItemRows} key=${item.id} item=${item} forecast=${forecast} />`)}</tbody>
  </table>`;
}

function ItemRows({ item, forecast }) {
  const calls = item.mayCall ?? [];
  const name = (rows) => html`<td rowspan=${rows}><span class="mono">${show(item.id)}</span><div class="mid">${show(item.description)}</div></td>`;
  if (calls.length === 0) {
    const words = item.mayCallAny ? 'any tool of this thread' : 'no tool';
    return html`<tr>${name(1)}<td class="dim">${words}</td>
      <td>${outlookOf(item, forecast).asks === 'maybe' ? 'as its rules say' : '–'}</td><td>–</td><td>–</td></tr>`;
  }
  return calls.map((call, i) => {
    const tool = toolOf(forecast, call);
    return html`<tr>${i === 0 && name(calls.length)}<td class="mono">${show(call.toolName)}</td>
      ${tool ? html`<${Decides} tool=${tool} />` : html`<td>–</td><td>–</td>`}
      <td>${tool && html`<${Effect} tool=${tool} />`}</td></tr>`;
  });
}

function Decides({ tool }) {
  const action = strictest(tool);
  const sign = action === 'auto' ? '' : action === 'ask' ? '◆ ' : '× ';
  return html`<td class="fore-${action}"><span aria-hidden="true">${sign}</span>${show(decides(tool))}</td>
    <td class="rule-ref">${show(ruleName(tool.policy))} <span class="dim">${SCOPE[tool.policy.scope]}</span></td>`;
}

function Effect({ tool }) {
  if (tool.class === 'read') return '–';
  return html`<span class="nowrap${tool.class === 'irreversible' ? ' c-ask' : ''}">
    ${tool.class === 'irreversible' && html`<${Sign} name="once" /> `}${CLASS[tool.class]}</span>`;
}
