// The parts of a thread on a narrow screen, of which one is shown at a time.

import { Sign } from '../shapes.js';
import { html } from '../vendor/preact-htm.js';

const PARTS = [['plan', 'Plan', 'plan'], ['time', 'Timeline', 'time'], ['talk', 'Talk', 'talk'], ['ask', 'Question', 'person']];

/** Which part a narrow screen shows. */
export function partOf(route, thread) {
  if (route.part) return route.part;
  if (route.tab === 'talk') return 'talk';
  if (route.tab) return 'ask';
  return route.view ? 'plan' : thread?.core.suspensions.length ? 'ask' : 'plan';
}

export function Dock({ ctx, route, thread }) {
  const isThread = route.page === 'thread';
  const part = isThread ? partOf(route, thread) : null;
  const asks = thread?.core.suspensions.length ?? 0;
  const to = (name) => (isThread ? ctx.to({ part: name, tab: name === 'talk' ? 'talk' : name === 'ask' ? 'ask' : null }) : '#/');
  return html`<nav class="dock" aria-label="Parts">
    <a href="#/threads" aria-current=${route.page === 'threads' ? 'true' : null}><${Sign} name="menu" />Threads</a>
    ${PARTS.map(([name, label, sign]) => html`<a key=${name} href=${to(name)} aria-current=${part === name ? 'true' : null} data-testid=${`dock-${name}`}>
      ${name === 'ask' && asks ? html`<span class="count">${asks}</span>` : html`<${Sign} name=${sign} />`}${label}</a>`)}
  </nav>`;
}
