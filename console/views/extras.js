// What an answer brings besides its text.

import { webAddress } from '../markdown.js';
import { show } from '../text.js';
import { html } from '../vendor/preact-htm.js';

export function Extras({ ui, composer, isLast: withSuggestions }) {
  if (ui === null || typeof ui !== 'object') return null;
  const sources = list(ui.sources).map(sourceOf).filter(Boolean);
  const suggestions = withSuggestions ? list(ui.suggestions).filter((one) => typeof one === 'string') : [];
  return html`
    ${sources.length > 0 && html`<div class="extras"><h3>Sources</h3><ol>${sources.map(({ title, address }) => html`<li>
      ${address ? html`<a href=${address.href} target="_blank" rel="noopener noreferrer">${show(title)}</a><span
          class="host"> (${address.host})</span>`
        : show(title)}</li>`)}</ol></div>`}
    ${suggestions.length > 0 && html`<div class="extras"><h3>To go on</h3><ul>${suggestions.map((text) => html`<li class="row">
      <span class="grow">${show(text)}</span>
      <button type="button" class="b small" onClick=${() => composer.take(text)}>Use</button></li>`)}</ul></div>`}`;
}

const list = (value) => (Array.isArray(value) ? value.slice(0, 20) : []);

function sourceOf(source) {
  if (typeof source === 'string') return { title: source, address: webAddress(source) };
  if (source === null || typeof source !== 'object') return null;
  const url = typeof source.url === 'string' ? source.url : '';
  const title = String(source.title || source.sourceName || url).trim();
  return title === '' ? null : { title, address: webAddress(url) };
}
