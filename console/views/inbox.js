// All questions, the most urgent first, each with its card.

import { enc } from '../api.js';
import { useKeys } from '../browser.js';
import { age, ruleName } from '../format.js';
import { byUrgency } from '../lists.js';
import { threadHash } from '../router.js';
import { KIND_SHAPE, Shape } from '../shapes.js';
import { brief, show } from '../text.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { isHigh, KIND, resolutionText } from '../words.js';
import { Awaited } from './failure.js';
import { Left, pure, Tabs, useInView } from './parts.js';
import { NOBODY, QuestionCard, useShown } from './question/card.js';
import { ASK_USER } from './question/kinds.js';
import { useRead } from './section.js';

const FILTERS = [['open', 'Open'], ['mine', 'I may answer'], ['answered', 'Answered']];

export function Inbox({ ctx, route }) {
  const filter = FILTERS.some(([name]) => name === route.query.get('show')) ? route.query.get('show') : 'open';
  const [gone, setGone] = useState(null);
  const answered = useAnswered(ctx, filter === 'answered' || gone !== null);
  const rows = rowsOf(ctx, filter, answered);
  const open = ctx.questions;
  const by = (id) => (one) => one.suspensionId === id;
  // It stays, whatever happens: a replacement could get a key press meant for it.
  const { shown, hand, leave } = useShown(rows ? `${filter} ${route.id}` : null, (had) => {
    const id = had?.suspensionId ?? route.id;
    if (!id) return rows?.[0] ?? null;
    return rows?.find(by(id)) ?? (had && (open?.find(by(id)) ?? answered.items?.find(by(id)) ?? { ...had, isGone: true }));
  });
  const goneId = shown && ![...rows ?? [], ...open ?? []].includes(shown) ? shown.suspensionId : null;
  useEffect(() => setGone(goneId), [goneId]);
  const go = (row) => ctx.go(hashOf(row?.suspensionId, filter), { replace: true });
  const step = (by) => {
    const at = rows?.indexOf(shown) ?? -1;
    const next = rows?.[Math.max(0, Math.min(rows.length - 1, at + by))];
    if (next) go(next);
  };
  const call = () => (shown && !goneId && !hand.isHere ? hand.reach() : step(1));
  useKeys({ j: () => step(1), k: () => step(-1), q: call });
  const latest = useRef();
  latest.current = { rows, shown, go };
  useEffect(() => () => {
    latest.current = {};
  }, []);
  // After an answer the next one opens, unless the person left meanwhile.
  const done = ({ suspensionId }) => {
    const now = latest.current;
    if (now.shown?.suspensionId !== suspensionId) return null;
    const at = rows.findIndex(by(suspensionId));
    const next = [...rows.slice(at + 1), ...rows.slice(0, Math.max(0, at))].find((one) => now.rows.find(by(one.suspensionId))?.status === 'pending');
    leave();
    if (next) now.go(next);
    return next && document.querySelector(`.in[data-id="${next.suspensionId}"]`);
  };
  return html`<main class="stage wide" data-testid="inbox"><div class="inbox${route.id ? ' one' : ''}">
    <div class="list"><${Title} ctx=${ctx} filter=${filter} rows=${rows} />
      ${rows ? html`<${Rows} ctx=${ctx} rows=${rows} shown=${shown} filter=${filter} />`
        : html`<${Awaited} ctx=${ctx} problem=${ctx.listsProblem ?? answered.problem} />`}
      ${filter === 'answered' && answered.more && html`<p class="fact dim" data-testid="more">Older ones are not listed.</p>`}</div>
    <section class="beside" aria-label="The question">
      ${route.id && html`<a class="b small only-narrow back" href=${hashOf(null, filter)}>All questions</a>`}
      ${shown ? html`<${QuestionCard} key=${shown.suspensionId} ctx=${ctx} question=${shown}
          link=${threadHash({ id: shown.threadId, tab: 'ask' })} onDone=${done} hand=${hand} />`
        : route.id && rows && html`<p class="fact">This question is not open any more, or it is not for this key.${' '}
          <a href=${hashOf(null, 'answered')}>Look at the answered ones</a></p>`}</section>
  </div></main>`;
}

const hashOf = (id, filter) => `#/questions${id ? `/${enc(id)}` : ''}${filter === 'open' ? '' : `?show=${filter}`}`;

function rowsOf(ctx, filter, answered) {
  if (filter === 'answered') return answered.items;
  if (!ctx.questions) return null;
  const open = ctx.questions.filter((one) => one.status === 'pending').sort(byUrgency);
  return filter === 'mine' ? open.filter((one) => one.mayAnswer?.approve !== false && ctx.whyNot('approve') === null) : open;
}

/** Answered ones are read when shown, and when others are open. */
const useAnswered = (ctx, isWanted) => useRead(ctx, [isWanted, ctx.questions?.map((one) => one.suspensionId).join()], async (signal) => {
  if (!isWanted) return {};
  const { items, more } = await ctx.api.all('/suspensions?status=all&limit=100', { most: 100, signal });
  return { items: items.filter((one) => one.status !== 'pending'), more };
});

function Title({ ctx, filter, rows }) {
  const now = ctx.clock.now();
  const soonest = filter === 'answered' ? null : rows?.find((one) => one.expiresAt != null);
  return html`<div class="title"><h1>Questions</h1>
    ${rows && filter !== 'answered' && html`<span class="mid">${rows.length} open.${soonest && html` The soonest expires in <${Left} at=${soonest.expiresAt} now=${now} />.`}</span>`}
    <${Tabs} cls="right" label="Show" id="show" of=${FILTERS.map(([name, label]) => [name, label, hashOf(null, name)])} now=${filter} /></div>`;
}

function Rows({ ctx, rows, shown, filter }) {
  if (rows.length === 0) {
    return html`<p class="fact dim">${filter === 'answered' ? 'Nothing was answered yet.' : NOBODY}</p>`;
  }
  const { clock } = ctx;
  const minute = Math.floor(clock.now() / 60_000);
  return rows.map((row) => html`<${Row} key=${row.suspensionId} clock=${clock} minute=${minute} row=${row} isShown=${row.suspensionId === shown?.suspensionId}
    filter=${filter} />`);
}

/** Among many others only a changed row is rendered; each at least once a minute. */
const Row = pure(({ clock, row, isShown, filter }) => {
  const now = clock.now();
  const title = row.threadTitle || row.threadId;
  const isOpen = row.status === 'pending';
  return html`<a class="in" ref=${useInView(isShown)} href=${hashOf(row.suspensionId, filter)} aria-current=${isShown ? 'true' : null} data-testid="question-row"
      data-id=${row.suspensionId}>
    <${Shape} status=${KIND_SHAPE[row.kind] ?? 'ask'} /><span class="q">${show(row.message)}</span>
    <span class="num nowrap end ${soon(row, now) ? 'c-ask' : 'dim'}">${!isOpen ? row.status : row.expiresAt == null ? 'no deadline' : html`<${Left} at=${row.expiresAt} now=${now} /> left`}</span>
    <span class="m"><b>${KIND[row.kind] ?? row.kind}</b> · ${show(title)}${row.threadTitle && html` <span class="mono dim">${show(row.threadId)}</span>`}${row.itemId && html` · <span class="mono">${show(row.itemId)}</span> ${show(row.itemDescription)}`}
      ${row.toolName && html` · <span class="mono">${show(row.toolName)} ${row.toolInput && row.toolName !== ASK_USER && show(brief(row.toolInput, 100))}</span>`}</span>
    <span class="row end">${row.riskLevel && html`<span class="tag ${isHigh(row.riskLevel) ? 'fail' : ''}">${show(row.riskLevel)}</span>`}
      <span class="dim nowrap num" data-tick=${`age:${row.createdAt}`}>${age(row.createdAt, now)}</span></span>
    <span class="m rule-ref">${row.resolution ? show(resolutionText(row.resolution, now)) : row.policy ? show(ruleName(row.policy)) : ''}</span>
  </a>`;
});

const soon = (row, now) => row.expiresAt != null && row.expiresAt - now < 3_600_000;
