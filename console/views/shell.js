// The frame: bar, strips, rail, the route's page, dock and dialogs.

import { enc } from '../api.js';
import { useKeys } from '../browser.js';
import { clockTime } from '../format.js';
import { byUrgency } from '../lists.js';
import { partOf, threadHash } from '../router.js';
import { Shape, Sign } from '../shapes.js';
import { html, useRef } from '../vendor/preact-htm.js';
import { Boundary } from './boundary.js';
import { Compare, FailurePanel, Inbox, KeysDialog, Login, NewThread, Notice, Palette, Policy, stage, System, Upgraded, Usage, wide } from './later.js';
import { Button, Left, Loading } from './parts.js';
import { Rail } from './rail.js';
import { ThreadPage } from './thread.js';

/** Pages without the rail. */
const WIDE = { questions: Inbox, usage: Usage, policy: Policy, system: System, login: Login };

export function Shell({ dialog, closeDialog, ...props }) {
  const { ctx, route } = props;
  const isLogin = route.page === 'login';
  useKeys({
    '?': ctx.openKeys,
    'Mod+k': ctx.openPalette,
    q: () => nextQuestion(ctx, route),
    n: () => !isLogin && ctx.go('#/new'),
    '/': () => !isLogin && find(ctx),
    t: () => turn(ctx),
  });
  return html`<button type="button" class="b skip" onClick=${skip}>Skip to the content</button>
    <${TopBar} ...${props} />
    <${Strips} ...${props} />
    ${pageOf(props)}
    ${!isLogin && html`<${Dock} ...${props} />`}
    ${dialog === 'palette' && html`<${Palette} ...${props} close=${closeDialog} />`}
    ${dialog === 'keys' && html`<${KeysDialog} ctx=${ctx} close=${closeDialog} />`}`;
}

/** Searches in the rail, where that is shown. */
function find(ctx) {
  const field = document.querySelector('.rail [type=search]');
  if (field?.offsetParent) field.focus();
  else ctx.openPalette();
}

const turn = (ctx) => ctx.setTheme(ctx.theme === 'dark' ? 'light' : 'dark');

function skip() {
  const main = document.querySelector('main, .only');
  main.tabIndex = -1;
  main.focus();
}

function pageOf(props) {
  const { ctx, route } = props;
  const Wide = WIDE[route.page];
  if (Wide) return html`<${Boundary} key=${route.page} ctx=${ctx} wrap=${wide}><${Wide} ...${props} /></${Boundary}>`;
  if (route.page === 'threads') return html`<${Rail} ...${props} only />`;
  return html`<${Rail} ...${props} />
    <${Boundary} ctx=${ctx} place=${`${route.page} ${route.id}`} wrap=${stage}>${beside(props)}</${Boundary}>`;
}

function beside(props) {
  const { ctx, route } = props;
  switch (route.page) {
    case 'thread':
      return html`<${ThreadPage} key=${route.id} ...${props} />`;
    case 'new':
      return html`<${NewThread} ...${props} />`;
    case 'compare':
      return html`<${Compare} key=${`${route.a} ${route.b}`} ...${props} />`;
    case 'unknown':
      return html`<main class="stage"><div class="page"><h1>There is no page “${route.path}”.</h1><p><a href="#/">Go to the threads</a></p></div></main>`;
    default:
      return ctx.listsProblem && !ctx.threads
        ? html`<main class="stage"><div class="page"><${FailurePanel} ctx=${ctx} problem=${ctx.listsProblem} /></div></main>`
        : html`<main class="stage"><${Loading} rows=${8} /></main>`;
  }
}

/** The most urgent question that is not shown. */
function nextQuestion(ctx, route) {
  const open = [...(ctx.questions ?? [])].sort(byUrgency);
  const now = open.findIndex((one) => one.suspensionId === route.id);
  const next = open[(now + 1) % open.length];
  return next ? ctx.go(`#/questions/${enc(next.suspensionId)}`) : ctx.go('#/questions');
}

/* The top bar: pages, connection, caller. */

export const LINKS = [
  ['threads', '#/', 'Threads'],
  ['questions', '#/questions', 'Questions'],
  ['usage', '#/usage', 'Usage'],
  ['policy', '#/policy', 'Policy'],
  ['system', '#/system', 'System'],
];
const OF_THREADS = ['thread', 'threads', 'new', 'compare', 'home', 'unknown'];

function TopBar({ ctx, route }) {
  const isLogin = route.page === 'login';
  return html`<header class="top">
    <a class="brand row" href="#/"><${Mark} />PES</a>
    ${!isLogin && html`<nav class="nav" aria-label="Pages">${links(ctx, route)}</nav>`}
    <div class="row right">
      ${!isLogin && html`<${Button} cls="small quiet hide" label="Find or do…" k="⌘K" onClick=${ctx.openPalette} id="palette" />
        <${Connection} ctx=${ctx} /><${Me} ctx=${ctx} />`}
      <${Button} cls="small quiet" id="theme" label=${html`<${Sign} name="sun" />`} aria-label=${ctx.theme === 'dark' ? 'Light colours' : 'Dark colours'}
        onClick=${() => turn(ctx)} />
      ${!isLogin && html`<${Button} cls="small quiet hide" aria-label="Keys" label="?" onClick=${ctx.openKeys} />
        <${NarrowPages} ctx=${ctx} route=${route} />`}
    </div>
  </header>`;
}

function links(ctx, route) {
  const page = OF_THREADS.includes(route.page) ? 'threads' : route.page;
  const asks = ctx.questions?.length ?? 0;
  return LINKS.map(([name, href, label]) => html`<a key=${name} href=${href} aria-current=${page === name ? 'page' : null}>${label}
    ${name === 'questions' && asks > 0 && html`<span class="count" data-testid="question-count">${asks}</span>`}</a>`);
}

/** On narrow screens pages are in a menu. */
function NarrowPages({ ctx, route }) {
  const asks = ctx.questions?.length ?? 0;
  return html`<details class="menu only-narrow">
    <summary class="b small quiet"><${Sign} name="menu" /><span class="sr">Pages</span>${asks > 0 && html`<span class="count">${asks}</span>`}</summary>
    <nav class="menu-list" aria-label="Pages">${links(ctx, route)}</nav>
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
  const may = scopes.join(' ');
  const title = `${keyName ? `${keyName} · ` : ''}${may}`;
  const tag = html`<span class="tag" title=${title}><${Sign} name="person" /><span class="clip hide">${keyName ?? may}${keyName && html`<span class="scopes"> · ${may}</span>`}</span></span>`;
  return ctx.signOut ? html`<details class="menu me"><summary>${tag}</summary><div class="menu-list">
      <${Button} label="Sign out" onClick=${ctx.signOut} /></div></details>` : html`<span class="me hide">${tag}</span>`;
}

function Mark() {
  const lines = 'M4 9h8M12 9c4 0 3-6 7-6M12 9c4 0 3 6 7 6M19 3c4 0 3 6 7 6M19 15c4 0 3-6 7-6';
  return html`<svg viewBox="0 0 30 18" aria-hidden="true"><path d=${lines} fill="none" stroke="currentColor" stroke-width="1.5" />
    <circle class="ink" cx="4" cy="9" r="3" /><path class="accent" d="M16.4 .6h5v5h-5zM16.4 12.4h5v5h-5z" />
    <path class="ink" d="M26 5.5 29.5 9 26 12.5 22.5 9z" /></svg>`;
}

/* Warnings: no connection, another version, a scripted model, a quarantined thread. */

function Strips({ ctx, route, thread }) {
  return html`<div class="strips">
    ${ctx.conn === 'held' && html`<${Held} ctx=${ctx} thread=${thread} />`}
    ${ctx.isUpgraded && html`<${Upgraded} />`}
    ${isDemo(ctx, route, thread) && html`<${Demo} />`}
    ${(ctx.isOver || thread?.row?.status === 'quarantined') && html`<${Notice} ctx=${ctx} />`}
  </div>`;
}

/** The newest of what is known without a connection. */
export const asOf = ({ lastSeq, lastView: { at } }) => (at ? ` What you see is as of observation ${lastSeq}, ${clockTime(at)}.` : '');

function Held({ ctx, thread }) {
  const now = ctx.clock.now();
  return html`<div class="strip bad" role="status" data-testid="held"><${Shape} status="failed" small label=${false} />
    <b>The server does not answer.</b><span>${thread && asOf(thread)}
    ${ctx.retryAt && ctx.retryAt > now && html` Trying again in <${Left} at=${ctx.retryAt} now=${now} />.`}</span>
    <${Button} cls="small right" label="Try now" onClick=${ctx.retryNow} /></div>`;
}

function isDemo(ctx, route, thread) {
  if (route.page === 'login') return false;
  const run = route.run ? thread?.view.runs.get(route.run) : thread?.newestRun;
  if (run) return run.provider === 'demo';
  return (ctx.models?.items ?? []).some((model) => model.isDefault && model.provider === 'demo');
}

function Demo() {
  return html`<div class="strip demo" role="region" aria-label="Demo model"><b>Demo model</b><span>Answers are scripted; no model is called.</span>
    <span class="right hide">Make it real: <code>OPENAI_API_KEY=… pes</code></span></div>`;
}

/* A thread's parts on a narrow screen, shown one at a time; elsewhere those of the last thread, and all questions. */

const PARTS = [['plan', 'Plan', 'plan'], ['time', 'Timeline', 'time'], ['talk', 'Talk', 'talk'], ['ask', 'Question', 'person']];

function Dock({ ctx, route, thread }) {
  const isThread = route.page === 'thread';
  const last = useRef(null);
  if (isThread) last.current = route.id;
  const part = isThread ? partOf(route, thread) : route.page === 'questions' && 'ask';
  const asks = (isThread ? thread?.core.suspensions : ctx.questions)?.length;
  const to = (name) => {
    const patch = { part: name, tab: name === 'talk' || name === 'ask' ? name : null };
    if (isThread) return ctx.to(patch);
    return name === 'ask' ? '#/questions' : last.current ? threadHash({ id: last.current, ...patch }) : '#/';
  };
  return html`<nav class="dock" aria-label="Parts">
    <a href="#/threads" aria-current=${route.page === 'threads' ? 'true' : null}><${Sign} name="menu" />Threads</a>
    ${PARTS.map(([name, label, sign]) => html`<a key=${name} href=${to(name)} aria-current=${part === name ? 'true' : null} data-testid=${`dock-${name}`}>
      ${name === 'ask' && asks ? html`<span class="count">${asks}</span>` : html`<${Sign} name=${sign} />`}${label}</a>`)}
  </nav>`;
}
