// The bar at the top: pages, connection, who we are.

import { Sign } from '../shapes.js';
import { html } from '../vendor/preact-htm.js';
import { Kbd } from './parts.js';

const PAGES = [
  ['threads', '#/', 'Threads'],
  ['questions', '#/questions', 'Questions'],
  ['usage', '#/usage', 'Usage'],
  ['policy', '#/policy', 'Policy'],
  ['system', '#/system', 'System'],
];
const OF_THREADS = ['thread', 'threads', 'new', 'compare', 'home', 'unknown'];

export function TopBar({ ctx, route }) {
  const isLogin = route.page === 'login';
  return html`<header class="top">
    <a class="brand" href="#/"><${Mark} />PES</a>
    ${isLogin ? null : html`<nav class="nav" aria-label="Pages">${links(ctx, route)}</nav>`}
    <div class="row right">
      ${isLogin ? null : html`<button type="button" class="b small quiet hide" onClick=${ctx.openPalette} data-testid="palette">Find or do…<${Kbd} k="⌘K" /></button>
        <${Connection} ctx=${ctx} /><${Me} ctx=${ctx} />`}
      <button type="button" class="b small quiet" aria-label=${ctx.theme === 'dark' ? 'Light colours' : 'Dark colours'}
        onClick=${() => ctx.setTheme(ctx.theme === 'dark' ? 'light' : 'dark')} data-testid="theme"><${Sign} name="sun" /></button>
      ${isLogin ? null : html`<button type="button" class="b small quiet hide" aria-label="Keys" onClick=${ctx.openKeys}>?</button>
        <${NarrowPages} ctx=${ctx} route=${route} />`}
    </div>
  </header>`;
}

function links(ctx, route) {
  const page = OF_THREADS.includes(route.page) ? 'threads' : route.page;
  const asks = ctx.questions?.length ?? 0;
  return PAGES.map(([name, href, label]) => html`<a key=${name} href=${href} aria-current=${page === name ? 'page' : null}>${label}
    ${name === 'questions' && asks ? html`<span class="count" data-testid="question-count">${asks}</span>` : null}</a>`);
}

/** On narrow screens the pages stand behind a menu. */
function NarrowPages({ ctx, route }) {
  const asks = ctx.questions?.length ?? 0;
  const close = (event) => event.currentTarget.closest('details').removeAttribute('open');
  return html`<details class="menu only-narrow">
    <summary class="b small quiet"><${Sign} name="menu" /><span class="sr">Pages</span>${asks ? html`<span class="count">${asks}</span>` : null}</summary>
    <nav class="menu-list" aria-label="Pages" onClick=${close}>${links(ctx, route)}</nav>
  </details>`;
}

const CONNECTION = {
  live: ['c-completed', 'live'], held: ['c-failed', 'not connected'], replay: ['c-running', 'replay'], connecting: ['dim', 'connecting'],
};

function Connection({ ctx }) {
  const [cls, word] = CONNECTION[ctx.conn];
  return html`<span class="row mid t1" data-testid="connection"><span class=${cls} aria-hidden="true">●</span><span>${word}</span></span>`;
}

function Me({ ctx }) {
  if (!ctx.me) return null;
  const { keyName, scopes = [] } = ctx.me;
  return html`<span class="tag hide" title="What this key may do"><${Sign} name="person" />${keyName ? `${keyName} · ` : ''}${scopes.join(' ')}</span>`;
}

function Mark() {
  const lines = 'M4 9h8M12 9c4 0 3-6 7-6M12 9c4 0 3 6 7 6M19 3c4 0 3 6 7 6M19 15c4 0 3-6 7-6';
  return html`<svg viewBox="0 0 30 18" aria-hidden="true"><path d=${lines} fill="none" stroke="currentColor" stroke-width="1.5" />
    <circle class="ink" cx="4" cy="9" r="3" /><path class="accent" d="M16.4 .6h5v5h-5zM16.4 12.4h5v5h-5z" />
    <path class="ink" d="M26 5.5 29.5 9 26 12.5 22.5 9z" /></svg>`;
}
