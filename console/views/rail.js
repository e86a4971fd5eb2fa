// The threads, beside the shown one.

import { age, count, dollars } from '../format.js';
import { threadHash } from '../router.js';
import { Shape, WORD } from '../shapes.js';
import { plain, show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { OlderThreads } from './later.js';
import { Choice, Loading, useInView } from './parts.js';

export const BUSY = ['running', 'suspended', 'waiting', 'queued'];

const FILTERS = {
  All: () => true,
  Asks: (row) => row.asks > 0 || row.status === 'suspended',
  Busy: (row) => BUSY.includes(row.status),
  Failed: (row) => ['failed', 'partial', 'quarantined'].includes(row.shape),
};

export const NONE = 'No thread is like that.';

/** `only`: as a page, on narrow screens. */
export function Rail({ ctx, route, only = false }) {
  const [text, setText] = useState('');
  const [filter, setFilter] = useState('All');
  const asked = text.trim();
  const isCut = Boolean(asked || ctx.moreThreads);
  const rows = ofFilter(matching(ctx.threads ?? [], asked), filter);
  return html`<aside class="rail ${only ? 'only' : ''}" aria-label="Threads">
    <header>
      <div class="row">
        <input class="f" type="search" placeholder="Search threads  /" aria-label="Search threads" value=${text}
          onInput=${(event) => setText(event.target.value)} onKeyDown=${leave} />
        <a class="b" href="#/new" aria-label="New thread" title="New thread">+</a>
      </div>
      <${Choice} label="Show" of=${Object.keys(FILTERS).map((name) => [name, name])} now=${filter} choose=${setFilter} />
    </header>
    <nav class="threads" aria-label="Threads" data-testid="threads">${list(ctx, route, rows, filter === 'All', isCut)}
      ${ctx.threads && isCut && html`<${OlderThreads} key=${asked + filter} ctx=${ctx} route=${route} text=${asked} filter=${filter} rows=${rows} />`}</nav>
  </aside>`;
}

function leave(event) {
  if (event.key === 'Escape') event.target.blur();
}

function matching(threads, text) {
  const low = text.toLowerCase();
  return threads.filter((row) => titleOf(row).toLowerCase().includes(low) || row.threadId.toLowerCase().includes(low));
}

export const titleOf = (row) => row.title || row.lastRun?.query || row.threadId;

export function facts(row) {
  const asks = row.openQuestions;
  const result = row.lastRun?.resultStatus ?? row.lastRun?.status;
  const isQueued = row.status === 'waiting' && row.lastRun?.status === 'queued';
  const isOver = !BUSY.includes(row.status) && row.status !== 'quarantined';
  return { ...row, asks, result, shape: isOver && result ? (result === 'error' ? 'failed' : result) : isQueued ? 'queued' : row.status };
}

function list(ctx, route, rows, isAll, isCut) {
  if (!ctx.threads) return ctx.listsProblem ? html`<p class="fact dim">The threads cannot be read now.</p>` : html`<${Loading} rows=${6} />`;
  if (rows.length === 0) {
    return !isCut && html`<p class="fact dim">${isAll ? 'Threads stand here once there are any: ask for something under +.' : NONE}</p>`;
  }
  const part = (title, some) => (some.length ? [html`<h3 key=${title}>${title}</h3>`, ...rowsOf(ctx, route, some)] : []);
  return [...part('Busy', rows.filter(FILTERS.Busy)), ...part('At rest', rows.filter((row) => !FILTERS.Busy(row)))];
}

export const ofFilter = (threads, filter) => threads.map(facts).filter(FILTERS[filter]).sort((a, b) => b.updatedAt - a.updatedAt);

export const rowsOf = (ctx, route, rows) => rows.map((row) => html`<${Row} key=${row.threadId} ctx=${ctx} row=${row} isShown=${route.id === row.threadId} />`);

function Row({ ctx, row, isShown }) {
  const { asks, shape } = row;
  const title = titleOf(row);
  const cost = dollars(row.costUsd || null);
  return html`<a class="th" ref=${useInView(isShown)} href=${threadHash({ id: row.threadId })} aria-current=${isShown ? 'true' : null}
      title=${plain(title)} data-thread=${row.threadId}>
    <${Shape} status=${asks && shape !== 'failed' ? 'ask' : shape} />
    <span class="t">${show(title)}</span>
    <span class="age num" data-tick=${`age:${row.updatedAt}`}>${age(row.updatedAt, ctx.clock.now())}</span>
    <span class="m"><${Beads} items=${row.items} asks=${asks} />
      ${cost && html`<span class="num">${cost}</span>`}
      ${asks > 0 && html`<span class="tag ask">${count(asks, 'question')}</span>`}
      ${(shape === 'failed' || shape === 'quarantined') && html`<span class="tag fail">${shape === 'failed' ? 'failed' : 'set aside'}</span>`}
      ${shape === 'partial' && html`<span class="tag">partial</span>`}
      ${shape === 'waiting' && html`<span class="tag agent">waits for agents</span>`}
    </span>
  </a>`;
}

const MOST_BEADS = 24;

/** The drawn state of each item, finished ones first. A thread that asks is active too. */
export function beadsOf({ total, done = 0, failed = 0, cancelled = 0, running = 0, waiting = 0 }, asks) {
  const ask = Math.min(asks, running);
  const begun = { completed: done, failed, cancelled, ask, waiting, in_progress: running - ask };
  const states = Object.entries(begun).flatMap(([state, n]) => Array(n).fill(state));
  return [...states, ...Array(Math.max(0, total - states.length)).fill('pending')];
}

function Beads({ items, asks }) {
  const { total, done } = items;
  if (!total) return null;
  if (total > MOST_BEADS) return html`<span class="num">${done}/${total}</span>`;
  const states = beadsOf(items, asks);
  const others = [...new Set(states)].filter((state) => state !== 'completed' && state !== 'pending')
    .map((state) => `, ${states.filter((one) => one === state).length} ${WORD[state]}`);
  return html`<span class="beads" role="img" aria-label=${`${done} of ${total} items done${others.join('')}`}>
    ${states.map((state, i) => html`<i key=${i} class="${state} c-${state}"></i>`)}</span>`;
}
