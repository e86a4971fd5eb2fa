// Tokens and money: by day, by model, by run, by item.

import { enc } from '../api.js';
import { count, dollars, figure, placed, tokens } from '../format.js';
import { threadHash } from '../router.js';
import { plain, show } from '../text.js';
import { html } from '../vendor/preact-htm.js';
import { Awaited } from './failure.js';
import { Tabs } from './parts.js';
import { titleOf } from './rail.js';
import { ReadAgain, Table, useAgain, useRead } from './section.js';

const size = (row) => row.costUsd || 0;
const weight = (row) => row.inputTokens + row.outputTokens;
const dearest = (rows) => [...rows].sort((a, b) => size(b) - size(a) || weight(b) - weight(a)).slice(0, 50);

const GROUPS = [['day', 'Day'], ['model', 'Model'], ['run', 'Run'], ['item', 'Item']];
const DAY = 86_400_000;
/** The most columns of the chart. */
const MOST = 62;

const dayOf = (time) => new Date(time).toISOString().slice(0, 10);

/** Rows by day for the chart, by model, and by the chosen group. */
const useRows = (ctx, by, from) => useRead(ctx, [by, from, useAgain()], async (signal) => {
  const read = (group) => ctx.api.all(`/usage?groupBy=${group}&limit=1000&from=${enc(from)}`, { signal });
  const [{ items: days }, { items: models }, { items: rows, more }, runs] = await Promise.all([read('day'), read('model'),
    read(by === 'item' ? by : 'run'), ctx.api.get('/runs?limit=200', { signal }).then((page) => page.items, () => [])]);
  const shown = dearest(by === 'item' ? rows.filter((row) => row.itemId) : rows);
  // Older runs; what is deleted has no id of a run.
  const older = new Set(shown.map((row) => row.runId).filter((id) => id?.startsWith('run_') && runs.every((run) => run.runId !== id)));
  await Promise.all([...older].map((id) => ctx.api.get(`/runs/${enc(id)}`, { signal }).then((run) => runs.push(run), () => {})));
  return { days, models, rows, more, runs, by, from };
});

export function Usage({ ctx, route }) {
  const by = GROUPS.some(([name]) => name === route.query.get('by')) ? route.query.get('by') : 'day';
  const from = /^\d{4}-\d\d-\d\d$/.test(route.query.get('from') ?? '') ? route.query.get('from') : dayOf(ctx.clock.now() - 13 * DAY);
  const state = useRows(ctx, by, from);
  const to = (change) => `#/usage?${new URLSearchParams({ by, from, ...change })}`;
  return html`<main class="stage wide"><div class="page scroll" data-testid="usage">
    <div class="title"><h1>Usage</h1><label class="row mid">since <input class="f date" type="date" value=${from} max=${dayOf(ctx.clock.now())}
        onChange=${(event) => event.currentTarget.value && ctx.go(to({ from: event.currentTarget.value }))} /></label>
      <${ReadAgain} /><${Tabs} cls="right" label="By" id="by" of=${GROUPS.map(([name, label]) => [name, label, to({ by: name })])} now=${by} /></div>
    ${state.by !== by || state.from !== from ? html`<${Awaited} ctx=${ctx} problem=${state.problem} rows=${8} />`
      : html`<${Content} ctx=${ctx} state=${state} by=${by} from=${from} />`}
  </div></main>`;
}

const sum = (rows, name) => rows.reduce((all, row) => all + (row[name] ?? 0), 0);

const priceOf = (row) => (row.calls > 0 && row.unpricedCalls === row.calls ? 'no price' : dollars(row.costUsd));

function Content({ ctx, state, by, from }) {
  const { days, models, rows, more, runs } = state;
  if (models.length === 0) return html`<p class="dim"
      data-testid="no-usage">No model was called since ${from}. What runs take in tokens and money stands here.</p>`;
  return html`<${Totals} models=${models} />
    ${by === 'day' && html`<${Days} ctx=${ctx} days=${days} from=${from} />`}
    <div class="grid2 usage">
      ${by !== 'run' && by !== 'item' && html`<section><h2>By model</h2><${Bars}
          rows=${models} nameOf=${(row) => show(`${row.provider}:${row.model}`)} /></section>`}
      ${by === 'item' ? html`<section class="whole-line"><h2>Dearest items</h2><${Bars} rows=${rows.filter((row) => row.itemId)}
          nameOf=${(row) => html`<span class="mono">${show(row.itemId)}</span> ${runName(ctx, runs, row)}`} /></section>`
        : html`<section class=${by === 'run' ? 'whole-line' : ''}><h2>Dearest runs</h2><${Bars}
            rows=${rows} nameOf=${(row) => runName(ctx, runs, row)} /></section>`}
    </div>
    ${more && html`<p class="c-ask note" data-testid="more">Of the oldest ${rows.length} only: choose a later day for others.</p>`}
    ${noPrice(models).length > 0 && html`<p class="dim note" data-testid="no-price">${noPrice(models).map((row) => html`No price for
      ${' '}<span class="mono">${show(`${row.provider}:${row.model}`)}</span>: add one under prices. `)}</p>`}`;
}

const noPrice = (models) => models.filter((row) => row.unpricedCalls === row.calls);

function Totals({ models }) {
  const input = sum(models, 'inputTokens');
  const cached = input > 0 ? Math.round((sum(models, 'cachedInputTokens') / input) * 100) : 0;
  const calls = sum(models, 'calls');
  const unpriced = sum(models, 'unpricedCalls');
  const facts = [
    [unpriced === calls ? 'no price' : dollars(sum(models, 'costUsd')), unpriced === calls ? 'is known' : 'spent'],
    [tokens(input), cached ? `tokens in, ${cached} % cached` : 'tokens in'], [tokens(sum(models, 'outputTokens')), 'tokens out'],
    [figure(calls), calls === 1 ? 'model call' : 'model calls'],
    ...(unpriced > 0 && unpriced < calls ? [[figure(unpriced), unpriced === 1 ? 'call without a price' : 'calls without a price']] : []),
  ];
  return html`<dl class="totals" data-testid="totals">${facts.map(([value, name]) => html`<div key=${name}><dd class="num">${value}</dd>
      <dt>${name}</dt></div>`)}</dl>`;
}

/** One column per day; money if priced, else tokens. */
function Days({ ctx, days, from }) {
  const first = Date.parse(from);
  const last = ctx.clock.now();
  const all = Math.floor((last - first) / DAY) + 1;
  const number = Math.max(1, Math.min(MOST, all));
  const byDay = new Map(days.map((row) => [row.day, row]));
  const list = Array.from({ length: number }, (_, i) => dayOf(last - (number - 1 - i) * DAY));
  const isMoney = days.some((row) => row.costUsd > 0);
  const value = (row) => (row ? (isMoney ? row.costUsd : row.inputTokens + row.outputTokens) : 0);
  const top = Math.max(...list.map((day) => value(byDay.get(day))), 1e-9);
  const words = (day) => `${day}: ${isMoney ? dollars(value(byDay.get(day))) : `${tokens(value(byDay.get(day)))} tokens`}`;
  const name = `${isMoney ? 'Cost' : 'Tokens'} per day${all > number ? ` of the last ${number}` : ''}`;
  return html`<figure><figcaption class="dim t1">${name}</figcaption>
    <div class="cols-chart" role="img" aria-label=${`${name}: ${list.map(words).join(', ')}`}>
    ${list.map((day, i) => html`<div key=${day} title=${words(day)}><i ...${placed({ height: `${(value(byDay.get(day)) / top) * 90}px` })}></i>
      <span>${number <= 16 || i % 7 === 0 ? Number(day.slice(8)) : ''}</span></div>`)}</div></figure>`;
}

function Bars({ rows, nameOf }) {
  if (rows.length === 0) return html`<p class="dim">Nothing yet.</p>`;
  const sorted = dearest(rows);
  const measure = sorted.some((row) => size(row) > 0) ? size : weight;
  const top = Math.max(...sorted.map(measure), 1e-9);
  const figures = ['Tokens', 'Calls', 'Cost'].map((head) => html`<th class="n">${head}</th>`);
  return html`<${Table} label="Usage" heads=${['What', html`<td class="hide"></td>`, ...figures]}>${sorted.map((row, i) => html`<tr key=${i}><td>${nameOf(row)}</td>
      <td class="bar-cell hide"><div class="hbar" ...${placed({ width: `${(measure(row) / top) * 100}%` })}></div></td>
      <td class="n">${tokens(weight(row))}</td><td class="n">${row.calls}</td>
      <td class="n" title=${row.unpricedCalls ? `${count(row.unpricedCalls, 'call')} without a price` : null}>${priceOf(row)}${row.unpricedCalls && row.unpricedCalls < row.calls ? ' +' : ''}</td></tr>`)}</${Table}>
    ${rows.length > sorted.length && html`<p class="dim note">The dearest ${sorted.length} of ${figure(rows.length)}.</p>`}`;
}

/** A run by its thread's title, if known here. */
function runName(ctx, runs, row) {
  const run = runs.find((one) => one.runId === row.runId);
  const threadId = run?.threadId;
  if (!threadId) return html`<span class="mono">${show(row.runId ?? '–')}</span>`;
  const title = titleOf(ctx.threads?.find((one) => one.threadId === threadId) ?? { threadId });
  return html`<a href=${threadHash({ id: threadId, run: row.runId })} title=${plain(run?.query ?? '')}>${show(title)}</a>`;
}
