// Search and commands: threads, plan items, and everything with a key; threads beyond the newest.

import { enc } from '../api.js';
import { threadHash } from '../router.js';
import { Shape } from '../shapes.js';
import { show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { Dialog } from './dialog.js';
import { Button, wordsOf } from './parts.js';
import { facts, NONE, ofFilter, rowsOf, titleOf } from './rail.js';
import { useRead } from './section.js';
import { LINKS } from './shell.js';

const MOST = 12;

export function Palette({ ctx, route, thread, close }) {
  const [text, setText] = useState('');
  const [place, setPlace] = useState(0);
  const hits = search(entries(ctx, route, thread), text);
  const found = hits.slice(0, MOST);
  const asked = ctx.moreThreads && text.trim();
  const chosen = Math.min(place, found.length - 1);
  const take = (entry) => {
    close();
    entry?.run();
  };
  const key = (event) => {
    // The keys of an input method choose its candidates.
    if (event.isComposing) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setPlace(Math.max(0, Math.min(found.length - 1, chosen + step)));
    else if (event.key === 'Enter') take(found[chosen]);
    else return;
    event.preventDefault();
  };
  const input = (event) => {
    setText(event.target.value);
    setPlace(0);
  };
  return html`<${Dialog} label="Find or do" cls="palette" close=${close}>
    <input class="f" role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant=${found.length ? `found-${chosen}` : null}
      aria-label="Find or do" placeholder="A thread, an item, or what to do" value=${text} onInput=${input} onKeyDown=${key} autofocus data-testid="palette-field" />
    <div id="found" class="found" role="listbox" aria-label="Found">
      ${found.map((entry, i) => html`<div key=${entry.key} id=${`found-${i}`} role="option" aria-selected=${String(i === chosen)} class="found-row row" onClick=${() => take(entry)}>
        ${entry.status ? html`<${Shape} status=${entry.status} small label=${false} />` : html`<span class="gap"></span>`}<span class="grow clip">${show(entry.label)} <span class="dim mono">${show(entry.id)}</span></span><span class="dim t0">${entry.kind}</span></div>`)}
      ${found.length < hits.length ? html`<p class="dim">The first ${MOST} of ${hits.length}.</p>` : !found.length && !asked && html`<p class="dim">Nothing is called that.</p>`}
    </div>${asked && html`<${OlderThreads} key=${asked} ctx=${ctx} route=${route} text=${asked} filter="All" rows=${hits.length ? ctx.threads : []} />`}</${Dialog}>`;
}

function entries(ctx, route, thread) {
  const out = [];
  const add = (kind, label, run, status, id = '') => out.push({ key: `${kind} ${out.length}`, kind, label, run, status, id });
  const go = (hash) => () => ctx.go(hash);
  if (route.page === 'thread' && thread?.status === 'ready') {
    for (const [view, name] of [['graph', 'Plan as graph'], ['list', 'Plan as list'], ['changes', 'Changes of the plan'], ['forecast', 'Forecast'], ['edit', 'Edit the plan']]) {
      if (view !== 'edit' || !thread.replay) add('do', name, go(ctx.to({ view })));
    }
    if (thread.replay) add('do', 'Back to live', go(ctx.to({ at: null })));
    for (const item of thread.core.todoList) add('item', `${item.id}: ${item.description}`, go(ctx.to({ sel: item.id, tab: 'item' })), thread.shown(item));
  }
  for (const [, hash, name] of [['new', '#/new', 'New thread'], ...LINKS.slice(1)]) add('do', name, go(hash));
  add('do', ctx.theme === 'dark' ? 'Light colours' : 'Dark colours', () => ctx.setTheme(ctx.theme === 'dark' ? 'light' : 'dark'));
  add('do', 'Keys', ctx.openKeys);
  if (ctx.signOut) add('do', 'Sign out', ctx.signOut);
  for (const row of ctx.threads ?? []) {
    const { threadId } = row;
    add('thread', titleOf(row), go(threadHash({ id: threadId })), facts(row).shape, threadId);
    if (route.page === 'thread' && threadId !== route.id) {
      add('compare', `Compare with ${titleOf(row)}`, go(`#/compare/${enc(route.id)}/${enc(threadId)}`), null, threadId);
    }
  }
  return out;
}

/** Matches of all words; comparisons only on request. */
function search(all, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = all.filter((entry) => words.every((word) => `${entry.label} ${entry.id}`.toLowerCase().includes(word)));
  return hits.filter((entry) => entry.kind !== 'compare' || words.some((word) => 'compare with'.includes(word)));
}

const PAGE = 200;

/** What the server is asked for. */
const STATUSES = {
  All: [''], Asks: ['suspended', 'running'], Busy: ['running', 'suspended', 'waiting'], Failed: ['failed', 'quarantined', 'idle&resultStatus=partial'],
};

/** Threads beyond the list, as the server finds them; `rows`: those shown of the list. */
export function OlderThreads({ ctx, route, text, filter, rows }) {
  const [most, setMost] = useState(PAGE);
  // Again when a thread came or went: it may have left the list.
  const changes = text ? `${ctx.threads.length} ${ctx.threadChanges}` : Math.floor(ctx.threadChanges / 100);
  const { all, problem } = useRead(ctx, [most, changes], async (signal) => {
    // The first page of all is the list.
    if (!text && filter === 'All' && most === PAGE) return { all: [{ items: [], more: true }] };
    await new Promise((done) => { setTimeout(done, 150); });
    const paths = STATUSES[filter].map((status) => `/threads?limit=${PAGE}${text && `&q=${enc(text)}`}${status && `&status=${status}`}`);
    return { all: await Promise.all(paths.map((path) => ctx.api.all(path, { most, signal }))) };
  });
  const older = new Map(all?.flatMap(({ items }) => items).map((row) => [row.threadId, row]));
  for (const row of ctx.threads) if (older.has(row.threadId)) older.set(row.threadId, row);
  for (const { threadId } of rows) older.delete(threadId);
  const shown = ofFilter([...older.values()], filter);
  return html`${shown.length > 0 && html`<h3>Older</h3>`}
    ${rowsOf(ctx, route, shown)}
    ${problem ? html`<p class="fact wrong" data-testid="search-refused">Only threads of this list were searched: ${show(wordsOf(problem))}</p>`
      : all && !rows.length && !shown.length && html`<p class="fact dim">${NONE}</p>`}
    ${all?.some(({ more }) => more) && html`<p class="fact"><${Button} cls="small" id="more-threads" label="Show more" onClick=${() => setMost(most + PAGE)} /></p>`}`;
}
