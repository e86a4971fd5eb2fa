// What every view is given: see README.md.

import { changed as changedHash } from './router.js';

const THEME = 'pes.theme';

const LACKS = {
  run: 'to start, steer or stop, use one with the scope run',
  approve: 'to answer, use one with the scope approve',
  admin: 'to change this, use one with the scope admin',
};

export function makeContext(app) {
  const { route, me, thread } = app;
  const conn = app.conn();
  return {
    api: app.api,
    live: app.tokens,
    clock: app.clock,
    me,
    route,
    conn,
    threads: app.lists.lists.threads,
    questions: app.lists.lists.questions,
    listsProblem: app.lists.lists.problem,
    moreThreads: app.lists.lists.more ?? null,
    tools: app.tools,
    models: app.models,
    theme: theme(),
    setTheme(name) {
      localStorage.setItem(THEME, name);
      applyTheme();
      app.paint();
    },
    go: app.go,
    to: (patch) => changedHash(route, patch),
    say: (line) => app.announcer.say(line),
    guard: app.guard,
    refresh: () => app.lists.read(),
    readThread: () => app.opened?.readAgain(),
    retryNow: () => app.retryNow(),
    retryAt: app.opened?.retryAt ?? null,
    signedIn: app.start,
    openPalette: () => app.openDialog('palette'),
    openKeys: () => app.openDialog('keys'),
    whyNot(scope) {
      if (conn === 'held') return 'Not connected: nothing can be sent now.';
      if (thread?.replay && route.page === 'thread') return 'You look at the past. Fork here to go on from this point.';
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

/** The theme that was chosen here, else that of the system. */
export function applyTheme() {
  const chosen = localStorage.getItem(THEME);
  if (chosen === 'dark' || chosen === 'light') document.documentElement.dataset.theme = chosen;
}
