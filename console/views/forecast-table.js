// The table of a forecast: per item the tools that it may call, who decides about them, and what they do.

import { decides, openItems, outlookOf, sentence, strictest } from '../outlook.js';
import { Sign } from '../shapes.js';
import { show } from '../text.js';
import { html } from '../vendor/preact-htm.js';
import { CLASS, SCOPE } from '../words.js';

/** What it will ask and may do, in one sentence. */
export const Sentence = ({ forecast, cost }) => html`<p class="sentence" data-testid="forecast-sentence">${sentence(forecast, cost)}</p>`;

/** One row per item that is left and tool that it may call. `brief` leaves out what fits no narrow card. */
export function ForecastTable({ ctx, forecast, brief }) {
  const items = openItems(forecast);
  if (items.length === 0) return null;
  return html`<table class="data" data-testid="forecast-table">
    <thead><tr><th>Item</th><th>Tools it may call</th><th>Who decides</th>${!brief && html`<th>Rule</th>`}<th>Effect</th></tr></thead>
    <tbody>${items.map((item) => html`<${ItemRows} key=${item.id} ctx=${ctx} item=${item} forecast=${forecast} brief=${brief} />`)}</tbody>
  </table>`;
}

function ItemRows({ item, forecast, brief }) {
  const calls = item.mayCall ?? [];
  const name = (rows) => html`<td rowspan=${rows}><span class="mono">${show(item.id)}</span><div class="mid">${show(item.description)}</div></td>`;
  if (calls.length === 0) {
    const words = item.mayCallAny ? 'any tool of this thread' : 'no tool';
    return html`<tr>${name(1)}<td class="dim">${words}</td>
      <td>${outlookOf(item, forecast).asks === 'maybe' ? 'as its rules say' : '–'}</td>${!brief && html`<td>–</td>`}<td>–</td></tr>`;
  }
  return calls.map((call, i) => {
    const tool = forecast.tools.find((one) => one.toolName === call.toolName);
    return html`<tr>${i === 0 && name(calls.length)}<td class="mono">${show(call.toolName)}</td>
      ${tool ? html`<${Decides} tool=${tool} brief=${brief} />` : html`<td>–</td>${!brief && html`<td>–</td>`}`}
      <td>${tool && html`<${Effect} tool=${tool} />`}</td></tr>`;
  });
}

function Decides({ tool, brief }) {
  const action = strictest(tool);
  const sign = action === 'auto' ? '' : action === 'ask' ? '◆ ' : '× ';
  return html`<td class=${`fore-${action}`}><span aria-hidden="true">${sign}</span>${show(decides(tool))}</td>
    ${!brief && html`<td class="rule-ref">${show(tool.policy.rule)} <span class="dim">${SCOPE[tool.policy.scope]}</span></td>`}`;
}

function Effect({ tool }) {
  if (tool.class === 'read') return '–';
  return html`<span class=${`nowrap${tool.class === 'irreversible' ? ' c-ask' : ''}`}>
    ${tool.class === 'irreversible' && html`<${Sign} name="once" /> `}${CLASS[tool.class]}</span>`;
}
