// Code: JSON, what differs in it, names in a sentence, counts of hidden characters; a request as curl.

import { basePath } from '../api.js';
import { diffLines } from '../diff.js';
import { figure } from '../format.js';
import { pieces, show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { Button, copied } from './parts.js';

const MOST_BYTES = 20_000;
const MOST_LINES = 400;

/** 1.2 MB */
export function bytes(n) {
  if (n < 1000) return `${n} B`;
  return n < 1_000_000 ? `${(n / 1000).toFixed(1)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

/** JSON as text. A large one is cut, with a button for all. */
export function Json({ value, label = 'JSON' }) {
  const [isAll, setAll] = useState(false);
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? '';
  const lines = text.split('\n');
  const isLong = text.length > MOST_BYTES || lines.length > MOST_LINES;
  const cut = isLong && !isAll ? lines.slice(0, MOST_LINES).join('\n').slice(0, MOST_BYTES) : text;
  return html`<pre class="json" tabindex="0" role="group" aria-label=${label}>${show(cut)}</pre>
    ${isLong && !isAll && html`<${Button} cls="small" label=${`Show all (${bytes(text.length)})`} onClick=${() => setAll(true)} />`}`;
}

/** The same request for a terminal, with a variable for the key. */
export function asCurl(method, path, body, origin = globalThis.location ? location.origin + basePath() : '') {
  const quoted = (text) => `'${String(text).replaceAll("'", `'\\''`)}'`;
  const parts = ['curl', '-s'];
  if (method !== 'GET') parts.push('-X', method);
  parts.push(quoted(origin + path), '-H', '"Authorization: Bearer $PES_TOKEN"');
  if (body !== undefined) parts.push('-H', quoted('content-type: application/json'), '-d', quoted(JSON.stringify(body)));
  return parts.join(' ');
}

export const copyCurl = (path) => copied(asCurl('GET', path));

/** The remedy, names in it as code. */
export const Todo = ({ text }) => html`${text.split('`').map((part, i) => (i % 2 ? html`<code>${show(part)}</code>` : show(part)))}.`;

export function Diff({ was, now }) {
  const lines = diffLines(was, now);
  if (lines.length === 0) return null;
  return html`<div class="diff box" data-testid="diff" role="group" aria-label="What is changed">
    ${lines.map(({ sign, text }) => (sign === '-' ? html`<del>${show(text)}</del>` : html`<ins>${show(text)}</ins>`))}
  </div>`;
}

export const Mistakes = ({ errors }) => errors?.map(({ pointer, detail }) => html`<p><code>${show(pointer)}</code> ${show(detail)}</p>`);

/** The number of hidden characters or sequences in a text, or in a JSON value. */
export function countHidden(value) {
  if (typeof value === 'string') return pieces(value).reduce((sum, piece) => sum + (piece.count ?? 0), 0);
  if (Array.isArray(value)) return value.reduce((sum, entry) => sum + countHidden(entry), 0);
  if (value === null || typeof value !== 'object') return 0;
  return Object.entries(value).reduce((sum, [name, entry]) => sum + countHidden(name) + countHidden(entry), 0);
}

/** A sentence about them for the card, or nothing. */
export function hiddenNote(count) {
  if (count === 0) return null;
  return count === 1 ? '1 hidden character is shown as its code.' : `${figure(count)} hidden characters are shown as their codes.`;
}
