// Two threads side by side: different items, and events since they parted.

import { enc } from '../api.js';
import { happenings, matched, partedAt } from '../branches.js';
import { useKeys } from '../browser.js';
import { readEarlier } from '../earlier.js';
import { stateBody } from '../fold/core.js';
import { count, dollars, duration } from '../format.js';
import { gist } from '../markdown.js';
import { threadHash } from '../router.js';
import { Shape, WORD } from '../shapes.js';
import { createHistory, shownStatus } from '../store.js';
import { brief, show } from '../text.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { NotRead } from './later.js';
import { Button, Loading } from './parts.js';
import { titleOf } from './rail.js';
import { away } from './section.js';

/** The most observations read of a log. */
const MOST = 20_000;

/** A thread's folded log: `{id, row, core, view, minSeq, lastSeq, more}`. Reuses what `kept` has of it. */
async function readThread(api, id, kept, signal) {
  const path = `/threads/${enc(id)}`;
  const [row, state] = await Promise.all([api.get(path, { signal }), api.get(`${path}/state`, { signal })]);
  const had = kept.get(id);
  // A log shortened beyond our cursor is read anew.
  const history = had?.lastSeq >= state.minSeq - 1 ? had
    : createHistory(state.minSeq > 1 ? await readEarlier(api, id, state.minSeq, { signal }) : {});
  kept.set(id, history);
  let last = row.lastSeq;
  while (history.lastSeq < last && history.log.length < MOST) {
    const { items, lastSeq } = await api.get(`${path}/events?after=${history.lastSeq}&limit=1000`, { signal });
    last = lastSeq;
    if (items.length === 0 || !history.add(items)) break;
  }
  const { core, view, seq } = history.last;
  const { minSeq } = history;
  return { id, row, core: stateBody(core, { threadId: id, minSeq }), view, minSeq, lastSeq: seq, more: seq < last };
}

/** Reads both threads, one read at a time, incrementally: `read` when one may have changed, `end` to stop. */
function reader(api, ids, set) {
  const ends = new AbortController();
  const tell = (state) => ends.signal.aborted || set(state);
  const kept = new Map();
  let isAsked = false;
  let isReading = false;
  async function read() {
    isAsked = true;
    if (isReading) return;
    isReading = true;
    while (isAsked && !ends.signal.aborted) {
      isAsked = false;
      await Promise.all(ids.map((id) => readThread(api, id, kept, ends.signal)))
        .then((threads) => tell({ threads }), (problem) => tell({ problem }));
    }
    isReading = false;
  }
  return { read, end: () => ends.abort() };
}

function useThreads(ctx, a, b) {
  const [state, set] = useState({});
  const both = useRef(null);
  const seqOf = (id) => ctx.threads?.find((row) => row.threadId === id)?.lastSeq;
  useEffect(() => {
    both.current = b && reader(ctx.api, [a, b], set);
    return () => both.current?.end();
  }, [a, b]);
  useEffect(() => void both.current?.read(), [a, b, seqOf(a), seqOf(b), away(ctx, state.problem)]);
  return state;
}

export function Compare({ ctx, route }) {
  const { a, b } = route;
  const { threads, problem } = useThreads(ctx, a, b);
  const [isBrief, setBrief] = useState(false);
  const leave = threadHash({ id: a ?? '' });
  useKeys({ Escape: () => ctx.go(a ? leave : '#/') });
  if (!a || !b) return html`<${Pick} ctx=${ctx} a=${a} />`;
  if (problem) return html`<${NotRead} ctx=${ctx} problem=${problem} />`;
  if (!threads) return html`<main class="stage"><div class="page"><${Loading} rows=${10} /></div></main>`;
  const rows = matched(...threads);
  const parted = partedAt(...threads);
  const differ = rows.filter((row) => row.differs).length;
  return html`<main class="stage" data-testid="compare">
    <div class="strip replay"><h1>Two branches</h1>
      <span data-testid="differences">${parted ? `Same up to observation ${parted.a}. ` : ''}${count(differ, 'item')} of ${rows.length} ${differ === 1 ? 'differs' : 'differ'}${parted ? ' since' : ''}.</span>
      <${Button} cls="small right" label="Only differences" aria-pressed=${String(isBrief)} onClick=${() => setBrief(!isBrief)} />
      <a class="b small" href=${leave}>Leave comparison<kbd aria-hidden="true">Esc</kbd></a></div>
    <div class="scroll"><div class="two">
      <${Column} thread=${threads[0]} rows=${rows} side="a" isBrief=${isBrief} since=${parted?.a} />
      <${Column} thread=${threads[1]} rows=${rows} side="b" isBrief=${isBrief} since=${parted?.b} />
    </div></div></main>`;
}

function Column({ thread, rows, side, isBrief, since = 0 }) {
  const { view, core, row, id, minSeq, lastSeq, more } = thread;
  const fork = view.forkedFrom;
  const took = view.from === null ? null : view.at - view.from;
  return html`<div data-testid=${`side-${side}`}><div class="bar row"><h2 class="clip"><a
      href=${threadHash({ id })}>${show(titleOf(row))}</a></h2>
      <span class="dim mono">${show(id)}${fork ? html`, fork of ${show(fork.threadId)} at ${fork.seq}` : ''} ${lastSeq > since ? `${Math.max(since + 1, minSeq)} – ${lastSeq}` : ''}</span>
      <span class="right num mid t1">${duration(took)}${view.totals.priced ? ` · ${dollars(view.totals.costUsd)}` : ''}</span></div>
    ${more && html`<p class="c-ask note" data-testid="more">Read up to observation ${lastSeq} only.</p>`}
    <table class="plan"><tbody>${rows.filter((one) => one.differs || !isBrief).map((one) => html`<${Item}
        key=${one.id} one=${one} mine=${one[side]} core=${core} />`)}</tbody></table>
    <h3 class="since-h">${lastSeq === since ? 'Nothing since then' : since ? 'Since then' : 'What happened'}</h3>
    <ol class="since">${happenings(thread, since).map((one, i) => html`<li key=${i}><a class="seqlink mono"
        href=${threadHash({ id, at: one.seq })}>${one.seq}</a>
      <span class="mono dim">${show(one.where)}</span><span>${show((one.where === 'answer' ? gist : brief)(one.text, 160))}</span></li>`)}</ol></div>`;
}

function Item({ one, mine, core }) {
  if (!mine) return html`<tr class="differs"><td></td><td class="dim">not in this plan: <span class="mono">${show(one.id)}</span></td><td>
      </td></tr>`;
  const { item, costUsd } = mine;
  const status = shownStatus(core, item);
  return html`<tr class=${one.differs ? 'differs' : ''} data-id=${one.id}><td><${Shape} status=${status} /></td>
    <td>${show(item.description)}${one.differs && html`<div
        class="mid t1">${mine.result === null ? WORD[status] : show(gist(mine.result, 160))}</div>`}</td>
    <td class="n mid">${costUsd === null ? '–' : dollars(costUsd)}</td></tr>`;
}

function Pick({ ctx, a }) {
  const others = (ctx.threads ?? []).filter((row) => row.threadId !== a);
  const origin = ctx.threads?.find((row) => row.threadId === a)?.forkedFrom?.threadId;
  const first = others.filter((row) => row.threadId === origin || row.forkedFrom?.threadId === a);
  return html`<main class="stage"><div class="page scroll" data-testid="compare-pick"><div class="title">
      <h1>Compare ${a ? show(a) : 'two threads'} with</h1></div>
    ${others.length === 0 ? html`<p class="dim">There is no other thread.</p>`
      : html`<ul class="pick">${[...new Set([...first, ...others])].map((row) => html`<li key=${row.threadId}>
        <a href=${a ? `#/compare/${enc(a)}/${enc(row.threadId)}` : `#/compare/${enc(row.threadId)}`}>${show(titleOf(row))}</a>
        ${first.includes(row) && html` <span class="tag run">fork</span>`} <span class="mono dim">${show(row.threadId)}</span>
            </li>`)}</ul>`}</div></main>`;
}
