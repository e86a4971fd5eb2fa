// What to do about a refusal.

import { show } from '../text.js';
import { html } from '../vendor/preact-htm.js';

/** What to do, the names in it as code. */
export const Todo = ({ text }) => html`${text.split('`').map((part, i) => (i % 2 ? html`<code>${show(part)}</code>` : show(part)))}.`;
