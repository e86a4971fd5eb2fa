// A run's spans as a tree, or the plain log.

import { enc } from '../api.js';
import { isNarrow, rowHeight, useKeys, useSize } from '../browser.js';
import { duration, placed } from '../format.js';
import { html, useEffect, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';
import { chosenRun } from './head.js';
import { Log, RawDialog, Sums } from './later.js';
import { Button, Choice, useRepaint } from './parts.js';
import { labelOf, TimelineRow, waitText } from './timeline/row.js';
import { busyTimes, FILTERS, scale as scaleOf, timelineRows, windowOf } from './timeline/rows.js';

/** The height of a row's open stream text. */
const TOKENS = 62;
const PAGE = 400;
/** Below the last begun row: the axis, and one more row. */
const ROOM = 60;

const choice = (key, name) => [key, name, { 'data-testid': `timeline-${key}` }];
const MODES = [choice('tree', 'Tree'), choice('log', 'Log')];
const SHOWN = Object.keys(FILTERS).map((name) => choice(name, name));

export function Timeline({ ctx, route, thread }) {
  const [mode, setMode] = useState('tree');
  const [filter, setFilter] = useState('All');
  const [raw, setRaw] = useState(null);
  const run = chosenRun(route, thread);
  useSecond(run?.end === null && mode === 'tree' && ctx.conn === 'live');
  const shared = { ctx, route, thread, openRaw: setRaw };
  return html`<section class="timebox" aria-label="Timeline">
    <div class="bar row"><h2>Timeline</h2>
      ${mode === 'tree' && html`<${Choice} cls="hide" label="Show" of=${SHOWN} now=${filter} choose=${setFilter} />`}
      <span class="grow clip dim hide t1 sums">${run && mode === 'tree' && html`<${Sums} ctx=${ctx} thread=${thread} run=${run} />`}</span>
      <span class="right"><${Choice} label="As" of=${MODES} now=${mode} choose=${setMode} /></span></div>
    ${mode === 'log' ? html`<${Log} ...${shared} />` : run ? html`<${Tree} key=${run.runId} ...${shared} run=${run} filter=${filter} />`
      : html`<p class="fact dim">What the run does, and how long it takes, stands here as soon as one begins.</p>`}
    ${raw != null && html`<${RawDialog} ctx=${ctx} thread=${thread} seq=${raw} close=${() => setRaw(null)} />`}
  </section>`;
}

/** Running bars grow: redraws the timeline once a second meanwhile. */
function useSecond(isOn) {
  const again = useRepaint();
  useEffect(() => {
    if (!isOn) return undefined;
    const timer = setInterval(() => {
      if (!document.hidden) again();
    }, 1000);
    return () => clearInterval(timer);
  }, [isOn]);
}

function Tree({ ctx, route, thread, run, filter, openRaw }) {
  const [toggled, setToggled] = useState(() => new Set());
  const [scrollTop, setScrollTop] = useState(0);
  const box = useRef(null);
  const { height, width } = useSize(box);
  const isOpen = run.end == null && !thread.replay;
  const rows = timelineRows(thread, run, { toggled, filter });
  const tops = topsOf(rows, thread);
  const scale = axis(thread, run, width);
  const { from, to } = windowOf(tops, scrollTop, height || PAGE);
  // The followed end is the last begun row: pending ones are below it.
  const begun = rows.findLastIndex((row) => row.span) + 1;
  const follow = useFollow(box, isOpen, Math.max(0, tops[begun] + ROOM - height), begun, height);
  const { selected, choose } = useSelected(rows, route.row);
  const toggle = (row) => setToggled((had) => {
    const next = new Set(had);
    if (!next.delete(row.key)) next.add(row.key);
    return next;
  });
  const select = (row) => {
    if (row.isOpenable) toggle(row);
    choose(row);
    ctx.go(ctx.to({ row: row.span?.seq ?? null, ...(row.kind === 'item' || row.kind === 'pending' ? { sel: idOf(row), ...sideOn('item') } : {}) }), { replace: true });
  };
  useTreeKeys({ ctx, thread, rows, selected, choose, box, tops, toggle, openRaw });
  const scrolled = (event) => {
    setScrollTop(event.currentTarget.scrollTop);
    follow.scrolled(event.currentTarget);
  };
  const drawn = rows.slice(from, to).map((row, i) => html`<${TimelineRow} key=${row.key} id=${`row-${from + i}`} ctx=${ctx} thread=${thread} row=${row} scale=${scale}
    top=${tops[from + i]} isSelected=${selected === from + i} waits=${row.kind === 'pending' ? waitText(thread, row.item) : ''} onSelect=${select} />`);
  return html`<div class="scroll tl" ref=${box} onScroll=${scrolled} data-testid="timeline" data-rows=${rows.length}>
    <${Axis} scale=${scale} cost=${thread.view.totals.priced ? 'Cost' : 'Tokens'} />
    <div class="tl-body" role="tree" aria-label="Timeline" tabindex="0" aria-activedescendant=${selected >= from && selected < to ? `row-${selected}` : null}
      ...${placed({ height: `${tops.at(-1)}px` })}>${drawn}</div>
    ${follow.below > 0 && html`<${Button} cls="small below" label="${follow.below} new below" onClick=${follow.toEnd} />`}
  </div>`;
}

const idOf = (row) => row.item?.id ?? row.span?.itemId;

/** On narrow screens a row shows its details in place: the side is another part. */
const sideOn = (tab) => (isNarrow() ? {} : { tab });

function topsOf(rows, thread) {
  const height = rowHeight();
  const tops = [0];
  for (const row of rows) {
    const isLive = row.kind === 'stream' && row.span.end == null && !thread.replay;
    tops.push(tops.at(-1) + height + (isLive ? TOKENS : 0));
  }
  return tops;
}

function axis(thread, run, width) {
  const to = run.end ?? thread.now;
  const restarts = thread.view.restarts.map((one) => one.at).filter((at) => at >= run.start && at <= to);
  const most = width > 700 ? 6 : width > 450 ? 4 : 2;
  return { ...scaleOf(run.start, to, busyTimes(thread.view, run, to), most), restarts, isOver: run.end != null };
}

function Axis({ scale, cost }) {
  const label = (ms) => (ms === 0 ? '0' : ms < 60_000 ? `${ms / 1000} s` : duration(ms));
  return html`<div class="tl-axis" aria-hidden="true"><span class="seq">#</span><span class="what">What</span>
    <span class="ticks">${scale.ticks.map((tick) => html`<span key=${tick.ms} ...${placed({ left: `${scale.at(tick.time) * 100}%` })}>${label(tick.ms)}</span>`)}</span>
    <span class="n">Time</span><span class="n cst">${cost}, rule</span></div>`;
}

/** Live, follows the end until the person scrolls up. */
function useFollow(box, isOpen, end, count, height) {
  const state = useRef({ isFollowing: isOpen, seen: count });
  const again = useRepaint();
  if (!isOpen) state.current.isFollowing = false;
  if (state.current.isFollowing) state.current.seen = count;
  useLayoutEffect(() => {
    if (state.current.isFollowing && height && box.current) box.current.scrollTop = end;
  }, [end, height]);
  return {
    below: isOpen && !state.current.isFollowing ? Math.max(0, count - state.current.seen) : 0,
    scrolled(element) {
      const isAtEnd = element.scrollTop >= end - 30;
      if (!isOpen || isAtEnd === state.current.isFollowing) return;
      state.current = { isFollowing: isAtEnd, seen: count };
      again();
    },
    toEnd() {
      state.current.isFollowing = true;
      if (box.current) box.current.scrollTop = end;
      again();
    },
  };
}

/** Rows may share a number: one chosen here is known by its key, and by the number alone only the first. */
function useSelected(rows, number) {
  const chosen = useRef({});
  const again = useRepaint();
  const atKey = rows.findIndex((row) => row.key === chosen.current.key);
  if (chosen.current.number !== number) chosen.current = { number, key: rows[atKey]?.span?.seq === number ? rows[atKey].key : null };
  const selected = atKey >= 0 && chosen.current.key ? atKey : rows.findIndex((row) => row.span && row.span.seq === number);
  const choose = (row) => {
    chosen.current.key = row.span && row.key;
    again();
  };
  return { selected, choose };
}

function useTreeKeys({ ctx, thread, rows, selected, choose, box, tops, toggle, openRaw }) {
  // Where the next key starts: keys may be faster than paints.
  const cursor = useRef(selected);
  cursor.current = selected;
  const here = () => rows[cursor.current];
  const move = (step) => {
    const at = cursor.current;
    let next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
    while (rows[next] && !rows[next].span) next += step;
    if (!rows[next]) return;
    cursor.current = next;
    choose(rows[next]);
    ctx.go(ctx.to({ row: rows[next].span.seq }), { replace: true });
    ctx.say(labelOf(thread, rows[next]));
    const [above, below] = [tops[next], tops[next + 1] + 30];
    const view = box.current;
    if (above < view.scrollTop) view.scrollTop = above;
    else if (below > view.scrollTop + view.clientHeight) view.scrollTop = below - view.clientHeight;
  };
  const open = (shut) => {
    const row = here();
    return row?.isOpenable && row.isShut === shut ? toggle(row) : false;
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => (document.activeElement?.closest('.tl') ? move(1) : false),
    ArrowUp: () => (document.activeElement?.closest('.tl') ? move(-1) : false),
    ArrowRight: () => open(true),
    ArrowLeft: () => open(false),
    Enter: () => (here() ? details(ctx, here()) : false),
    v: () => (here()?.kind === 'stream' ? ctx.go(ctx.to({ tab: 'context', sel: here().span.itemId })) : false),
    r: () => (here()?.span ? openRaw(here().span.endSeq ?? here().span.seq) : false),
    y: () => (here()?.span ? copyCurl(ctx, thread, here().span.seq) : false),
  });
}

function details(ctx, row) {
  const tab = row.kind === 'stream' ? 'context' : 'item';
  const sel = idOf(row);
  if (!sel && tab === 'item') return false;
  return ctx.go(ctx.to({ tab, sel: sel ?? null }));
}

function copyCurl(ctx, thread, seq) {
  import('./code.js').then((code) => code.copyCurl(`/threads/${enc(thread.id)}/events?after=${seq - 1}&limit=1`))
    .then(ctx.say, () => ctx.say('Not copied'));
}
