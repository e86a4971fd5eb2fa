// Copying a text.

import { html, useState } from '../vendor/preact-htm.js';
import { Button } from './parts.js';

/** The outcome in words. Over plain HTTP there is no clipboard. */
export const copied = (text) => (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(() => 'Copied', () => 'No clipboard: needs HTTPS');

/** `text` is the text to copy, or a function for it. */
export function Copy({ text, label, cls = '', id }) {
  const [said, say] = useState(null);
  const copy = async () => say(await copied(typeof text === 'function' ? await text() : text));
  return html`<${Button} cls=${`small ${cls}`} id=${id} label=${said ?? label} onClick=${copy} />`;
}
