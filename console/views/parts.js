// Small parts that many views are made of.

import { show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';

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

const MOST_BYTES = 20_000;
const MOST_LINES = 400;

/** JSON as text. What is large is cut, with a button that shows all; `onAll` hears when all of it was shown. */
export function Json({ value, onAll, label = 'JSON' }) {
  const [isAll, setAll] = useState(false);
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? '';
  const lines = text.split('\n');
  const isLong = text.length > MOST_BYTES || lines.length > MOST_LINES;
  const cut = isLong && !isAll ? lines.slice(0, MOST_LINES).join('\n').slice(0, MOST_BYTES) : text;
  const all = () => {
    setAll(true);
    onAll?.();
  };
  return html`<pre class="json" tabindex="0" role="region" aria-label=${label}>${show(cut)}</pre>
    ${isLong && !isAll ? html`<${Button} cls="small" label=${`Show all (${size(text.length)})`} onClick=${all} />` : null}`;
}

function size(n) {
  return n < 1_000_000 ? `${Math.round(n / 1000)} kB` : `${(n / 1_000_000).toFixed(1)} MB`;
}

/** A text that the clock writes anew: `since`, `left` or `age` of a time. */
export function Tick({ kind, time, now, words, still = false, cls = '' }) {
  const text = kind === 'since' ? words.duration(now - time) : kind === 'left' ? words.countdown(Math.max(0, time - now)) : words.age(time, now);
  return html`<span class="num ${cls}" data-tick=${still ? null : `${kind}:${time}`}>${text}</span>`;
}

/** Grey bars of about the right height, while something is read. */
export function Loading({ rows = 5 }) {
  return html`<div class="loading" aria-busy="true" aria-label="Loading">${Array.from({ length: rows }, (_, i) => html`<i key=${i}></i>`)}</div>`;
}
