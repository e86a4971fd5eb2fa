// Start, mounting, routes, and the context of all views: see docs/PAGE.md.

import { createApi } from './api.js';
import { createAnnouncer, startKeyboard, startMenus, store, stored } from './browser.js';
import { createClock, startTicking } from './format.js';
import { createLists, WHO } from './lists.js';
import { createTokens } from './live.js';
import { changed as changedHash, createAddress, parse, threadHash } from './router.js';
import { openThread } from './store.js';
import { plain } from './text.js';
import { html, render } from './vendor/preact-htm.js';
import { Boundary } from './views/boundary.js';
import { isReading, loadingDialog, wide } from './views/later.js';
import { forget } from './views/parts.js';
import { BUSY } from './views/rail.js';
import { Shell } from './views/shell.js';

const root = document.getElementById('app');
const page = document.documentElement;
let isPainting = false;
/** Some of what `start` reads had no answer. */
let isLacking = false;
let guards = [];
const address = createAddress();
/** The shown hash: the address may lag behind. */
let shownHash = location.hash;

const app = {
  route: parse(location.hash),
  me: null,
  /** The session has ended, and the person stays because of unsaved work. */
  isOver: false,
  tools: new Map(),
  models: null,
  opened: null,
  thread: null,
  dialog: null,
  clock: createClock(),
  tokens: createTokens(),
  announcer: createAnnouncer(document.getElementById('said')),
};
app.api = createApi({ clock: app.clock, onRefused: refused, onServed: (path) => served(path) });
app.lists = createLists({ api: app.api, changed: paint, readBy, wereRead: () => isLacking && start() });

/** Paints once before the next frame, however often it is called. */
function paint() {
  if (isPainting) return;
  isPainting = true;
  requestAnimationFrame(() => {
    isPainting = false;
    paintNow();
  });
}

function retryNow() {
  app.opened?.retryNow();
  app.lists.retryNow();
}

function paintNow() {
  app.thread = app.opened?.thread() ?? null;
  if (app.route.page === 'home' && !goHome()) return;
  leaveLast();
  const { route, thread, dialog } = app;
  const ctx = makeContext();
  render(html`<${Boundary} ctx=${ctx} place=${shownHash} wrap=${wide}><${Shell} ctx=${ctx} route=${route} thread=${thread} dialog=${dialog}
    closeDialog=${closeDialog} /></${Boundary}>`, root);
  page.dataset.conn = ctx.conn;
  if (!isReading()) page.dataset.seq = thread?.status === 'ready' ? thread.seq : 0;
  page.dataset.page = route.page;
  document.title = titleOf(route, thread);
  app.announcer.seen(thread);
}

function titleOf(route, thread) {
  const questions = app.lists.lists.questions?.length;
  const count = questions ? `(${questions}) ` : '';
  const name = route.page === 'thread' ? thread?.title ?? route.id : null;
  return `${count}${name ? `${plain(name)} – ` : ''}PES`;
}

function conn() {
  if (app.isOver) return 'connecting';
  if (app.opened?.conn === 'held') return 'held';
  if (app.thread?.replay) return 'replay';
  if (app.lists.lists.problem?.isUnreachable) return 'held';
  return app.opened && app.opened.conn !== 'live' && !app.thread?.problem ? 'connecting' : 'live';
}

/** `#/` is the newest active thread, else a new one. False: redirecting to it. */
function goHome() {
  const { threads } = app.lists.lists;
  if (!threads) return true;
  const [newest] = threads.filter((row) => BUSY.includes(row.status)).sort((a, b) => b.updatedAt - a.updatedAt);
  go(newest ? threadHash({ id: newest.threadId }) : '#/new', { replace: true });
  return false;
}

/** The last observation is no past, also when others follow: its address becomes that of the current state. */
function leaveLast() {
  const { route, thread } = app;
  if (route.at == null || thread?.status !== 'ready' || thread.replay) return;
  const hash = changedHash(route, { at: null });
  address.replace(hash);
  show(hash);
}

function go(hash, { replace = false } = {}) {
  if (hash === shownHash || !mayGo(hash)) return;
  if (replace) address.replace(hash);
  else address.push(hash);
  show(hash);
}

/** Confirms leaving unsaved work; a tab or an observation of the same thread is no leaving. */
function guard(ask) {
  guards.push(ask);
  return () => {
    guards = guards.filter((one) => one !== ask);
  };
}

const unsaved = () => guards.map((ask) => ask()).find(Boolean);

const isAt = (one, other) => ['page', 'id', 'view'].every((name) => one[name] === other[name]);

function mayGo(hash) {
  const next = parse(hash);
  const { route } = app;
  // The past cannot be edited.
  const isSamePlace = isAt(next, route) && (next.view !== 'edit' || next.at === route.at);
  const question = isSamePlace ? null : unsaved();
  return !question || confirm(question);
}

/** A link, or the browser's back and forward. */
function went() {
  address.drop();
  const { hash } = location;
  if (hash === shownHash) return;
  if (mayGo(hash)) show(hash);
  else address.push(shownHash);
}

function show(hash) {
  shownHash = hash;
  app.route = parse(hash);
  app.dialog = null;
  openRoute();
  paint();
}

function openRoute() {
  const { route } = app;
  const id = route.page === 'thread' ? route.id : null;
  if (app.opened && app.opened.id !== id) {
    app.opened.close();
    app.opened = null;
    app.thread = null;
    app.tokens.clear();
  }
  if (id != null && !app.opened) {
    const { api, clock, tokens } = app;
    const { lists } = app.lists;
    const listed = () => lists.threads?.find((row) => row.threadId === id);
    app.opened = openThread({ id, api, clock, tokens, listed, changed: paint, runChanged: () => app.lists.read() });
  }
  app.opened?.show(route.at);
}

function openDialog(name) {
  app.dialog = name;
  paint();
}

const closeDialog = () => openDialog(null);

/** The server needs a key: asks for it, then returns here. With unsaved work it asks only once. */
function refused() {
  if (app.route.page === 'login' || (app.isOver && unsaved())) return;
  const from = shownHash && shownHash !== '#/' ? `?to=${encodeURIComponent(shownHash)}` : '';
  go(`#/login${from}`, { replace: true });
  app.isOver = app.route.page !== 'login';
  if (app.isOver) paint();
  else app.lists.stop();
}

/** Signed in again in another tab. */
const served = (path) => app.isOver && path !== WHO && start();

const lacks = (problem) => void (isLacking ||= problem.retryable);

const isOther = (me) => me.tenant !== app.me?.tenant || me.keyName !== app.me?.keyName;

/** Of another caller, who signed in in another tab: nothing of the person before is left. */
function readBy(me) {
  if (!app.me || !isOther(me) || app.me.open || app.isOver || app.route.page === 'login') return;
  // Who could save it is signed out.
  guards = [];
  location.reload();
}

/** For another person: drafts and lists are gone. */
function leave() {
  forget();
  app.me = null;
  app.lists.stop();
}

/** Reads the caller and the lists; again after signing in, and what had no answer once the lists have one. */
async function start(hasSignedIn = false) {
  const { api } = app;
  isLacking = false;
  try {
    const me = await api.get(WHO);
    if (isOther(me) && (hasSignedIn || (app.me && !app.isOver))) leave();
    app.me = me;
    if (app.isOver) retryNow();
    app.isOver = false;
  } catch (problem) {
    if (problem.status === 401) return;
    lacks(problem);
    // It may be another person.
    if (hasSignedIn) leave();
  }
  app.lists.start();
  readTools();
  api.get('/models').catch(lacks).then((models) => {
    app.models = models ?? app.models;
    paint();
  });
}

const signOut = () => app.api.signOut().then(() => {
  // The next person does not begin where this one was.
  app.route = parse('#/login');
  address.drop();
  history.replaceState(null, '', '#/login');
  location.reload();
}, (problem) => {
  retryNow();
  if (problem.status !== 401) alert(`You are still signed in. ${problem.title}`);
});

async function readTools() {
  const tools = await app.api.all('/tools').catch(lacks);
  if (tools) app.tools = new Map(tools.items.map((tool) => [tool.name, tool]));
  paint();
}

const THEME = 'pes.theme';

const LACKS = {
  run: 'to start, steer, stop or fork, use one with the scope run',
  approve: 'to answer, use one with the scope approve',
  admin: 'to change this, use one with the scope admin',
};

function makeContext() {
  const { route, me, thread } = app;
  const connection = conn();
  return {
    api: app.api,
    live: app.tokens,
    clock: app.clock,
    me,
    get route() {
      return app.route;
    },
    conn: connection,
    threads: app.lists.lists.threads,
    moreThreads: app.lists.lists.more,
    threadChanges: app.lists.lists.changes,
    questions: app.lists.lists.questions,
    listsProblem: app.lists.lists.problem,
    tools: app.tools,
    models: app.models,
    theme: theme(),
    setTheme(name) {
      store(THEME, name);
      applyTheme();
      paint();
    },
    go,
    goOn: (hash) => isAt(app.route, route) && go(hash),
    to: (patch) => changedHash(app.route.page === route.page && app.route.id === route.id ? app.route : route, patch),
    say: app.announcer.say,
    guard,
    paint,
    refresh: app.lists.read,
    signOut: me && !me.open ? signOut : null,
    readTools,
    retryNow,
    retryAt: app.opened?.retryAt ?? null,
    signedIn: () => start(true),
    isOver: app.isOver,
    isUpgraded: app.lists.lists.isUpgraded,
    openPalette: () => openDialog('palette'),
    openKeys: () => openDialog('keys'),
    whyNot(scope, { inPast = false } = {}) {
      if (connection === 'held') return 'Not connected: nothing can be sent now.';
      if (!inPast && thread?.replay && route.page === 'thread') return 'You look at the past. Fork here to go on from this point.';
      if (!me?.scopes || me.scopes.includes(scope) || me.scopes.includes('admin')) return null;
      return `This key may ${me.scopes.join(' and ') || 'do nothing'} only: ${LACKS[scope] ?? `use one with the scope ${scope}`}.`;
    },
  };
}

function theme() {
  const set = document.documentElement.dataset.theme;
  if (set) return set;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

/** The theme chosen here, else the system's. */
function applyTheme() {
  const chosen = stored(THEME);
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;
}

applyTheme();
// Firefox would ask twice with `hashchange`.
addEventListener('popstate', went);
addEventListener('pagehide', address.settle);
addEventListener('resize', paint);
addEventListener('focus', () => app.isOver && start());
addEventListener('beforeunload', (event) => {
  if (unsaved()) event.preventDefault();
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint);
startMenus();
startKeyboard(() => loadingDialog() ?? (app.dialog && closeDialog));
startTicking(app.clock, () => conn() !== 'live');
start();
openRoute();
paint();
