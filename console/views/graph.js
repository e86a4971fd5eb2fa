// The plan as a graph. A change of status repaints one node.

import { useSize, wrap } from '../browser.js';
import { OVER } from '../fold/core.js';
import { duration, listed } from '../format.js';
import { chain, layout, shapeOf, timeOf, weightOf } from '../plan/layout.js';
import { Shape, Sign, WORD } from '../shapes.js';
import { brief, plain } from '../text.js';
import { html, useLayoutEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { irreversible, pure } from './parts.js';

const FULL = 24;
const MIDDLE = 80;
/** The most nodes in a layer that have three lines each. */
const ROOMY = 4;
/** Nodes added per frame. */
const STEP = 100;
const MARGIN = 14;
const FONT = '550 11.5px system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif';

const SIZES = {
  full: { width: 160, height: 64, gapX: 24, gapY: 12 },
  middle: { width: 84, height: 20, gapX: 26, gapY: 6 },
  dot: { width: 15, height: 15, gapX: 20, gapY: 4 },
};

export function Graph({ ctx, route, thread }) {
  const box = useRef(null);
  const { width } = useSize(box);
  const [held, setHeld] = useState(null);
  const items = thread.core.todoList;
  const mode = items.length <= FULL ? 'full' : items.length <= MIDDLE ? 'middle' : 'dot';
  // With texts, positions also depend on the size.
  const plan = shapeOf(items);
  const room = mode === 'full' ? width : 0;
  const placed = useMemo(() => place(items, mode, room), [plan, mode, room]);
  const weigh = weightOf(thread.view, thread.now);
  const decisive = chain(items, weigh);
  const selected = route.sel ?? held;
  const act = useActions(ctx, placed, items, setHeld);
  useScrollToActive(box, placed, items, thread);
  const drawn = useSteps(items.length);
  return html`<div class="graph" ref=${box} data-testid="graph" data-nodes=${items.length}>
    ${width ? drawing(ctx, thread, { items, drawn, mode, placed, decisive, selected, weigh, act, width }) : null}
  </div>`;
}

/** The number of drawn nodes: a large graph grows in steps, starting after the rest of the view. */
function useSteps(count) {
  const [drawn, setDrawn] = useState(count > STEP ? 0 : STEP);
  useLayoutEffect(() => {
    const frame = drawn < count && requestAnimationFrame(() => setDrawn(drawn + STEP));
    return () => cancelAnimationFrame(frame);
  }, [drawn, count]);
  return drawn;
}

export function Decides({ thread }) {
  const items = thread.core.todoList;
  if (!items.length || thread.core.runId == null) return null;
  const ids = chain(items, weightOf(thread.view, thread.now));
  const byId = new Map(items.map((item) => [item.id, item]));
  const id = ids.find((one) => !OVER.has(byId.get(one).status));
  if (!id) return null;
  const asks = thread.core.suspensions.filter((one) => one.itemId === id);
  const wait = thread.core.a2aWaits.find((one) => one.itemId === id);
  const since = asks.length ? Math.min(...asks.map((one) => one.createdAt)) : wait?.submittedAt;
  const on = asks.length ? 'on a person' : wait ? 'at an agent' : null;
  return html`<span class="row dim hide t1 decides"><span class="key" aria-hidden="true"></span><span class="clip">decides the end: <b class="mid">${plain(id)}</b>
    ${on && html`, <span class="num" data-tick=${thread.replay ? null : `since:${since}`}>${duration(thread.now - since)}</span> ${on}`}</span></span>`;
}

function place(items, mode, room) {
  const size = { ...SIZES[mode] };
  let graph = layout(items, size);
  if (room) {
    const fitting = Math.floor((room - 2 * MARGIN - (graph.layers - 1) * size.gapX) / graph.layers);
    size.width = Math.max(120, Math.min(200, fitting));
    graph = layout(items, size);
  }
  const lines = graph.most <= ROOMY ? 3 : 2;
  const texts = mode === 'full' ? new Map(items.map((item) => [item.id, wrap(plain(brief(item.description, 400)), size.width - 16, lines, FONT)])) : new Map();
  const paths = graph.edges.map((edge) => ({ from: edge[0].id, to: edge.at(-1).id, d: pathOf(edge, size) }));
  return { graph, size, texts, paths };
}

/** Cubic between layers; straight across one. */
function pathOf(edge, { width, height }) {
  return edge.map((node, i) => {
    const x = MARGIN + node.x;
    const y = MARGIN + node.y + height / 2;
    if (i === 0) return `M${x + width} ${y}`;
    const before = edge[i - 1];
    const fromX = MARGIN + before.x + width;
    const fromY = MARGIN + before.y + height / 2;
    const bend = (x - fromX) / 2;
    const through = i < edge.length - 1 ? `L${x + width} ${y}` : '';
    return `C${fromX + bend} ${fromY} ${x - bend} ${y} ${x} ${y}${through}`;
  }).join('');
}

function drawing(ctx, thread, { items, drawn, mode, placed, decisive, selected, weigh, act, width }) {
  const { graph, size, texts, paths } = placed;
  const run = thread.newestRun;
  const runTime = run ? (run.end ?? thread.now) - run.start : 0;
  const status = new Map(items.map((item) => [item.id, item.status]));
  const follows = new Set(decisive.slice(1).map((id, i) => `${decisive[i]} ${id}`));
  const first = selected && graph.nodes.has(selected) ? selected : items[0]?.id;
  const edges = paths.map(({ from, to, d }) => {
    const met = status.get(from) === 'completed';
    const isHeld = selected != null && (from === selected || to === selected);
    const cls = `g-edge ${met ? 'met' : 'block'} ${follows.has(`${from} ${to}`) ? 'crit' : ''} ${mode === 'dot' && !isHeld ? 'faint' : ''}`;
    return html`<path key=${`${from} ${to}`} class=${cls} d=${d} />`;
  });
  const nodes = items.slice(0, drawn).map((item) => {
    const node = graph.nodes.get(item.id);
    const weight = weigh(item);
    return html`<${Node} key=${item.id} x=${MARGIN + node.x} y=${MARGIN + node.y} id=${item.id} description=${item.description}
      shown=${thread.shown(item)} after=${listed(item.dependencies)} mode=${mode} size=${size} lines=${texts.get(item.id)}
      ...${timeOf(thread, weight)} share=${weight && runTime ? share(weight.ms / runTime) : 0}
      retries=${retriesOf(thread, weight?.span)} once=${irreversible(ctx, item).length > 0}
      selected=${selected === item.id} focusable=${first === item.id} act=${act} />`;
  });
  return html`<svg width=${Math.max(width, graph.width + 2 * MARGIN)} height=${graph.height + 2 * MARGIN} role="group"
    aria-label="Plan as a graph; the list says the same">${edges}${nodes}</svg>`;
}

/** In steps, to avoid repaints. */
const share = (part) => Math.round(Math.min(1, part) * 100) / 100;

function retriesOf(thread, span) {
  return span ? span.retries + Math.max(0, span.attempt - 1) : 0;
}

const Node = pure(({ x, y, id, description, shown, after, mode, size, lines, ms, since, share: part, retries, once, selected, focusable, now, act }) => {
  const { width, height } = size;
  const label = plain(id);
  const name = plain(`${description}: ${WORD[shown]}${after ? `, after ${after}` : ''}${once ? ', can do what cannot be undone' : ''}`);
  return html`<g class="g-node ${shown} ${selected ? 'sel' : ''}" transform=${`translate(${x} ${y})`}>
    ${mode !== 'dot' && html`<rect class="box" width=${width} height=${height} rx="3" />`}
    ${mode === 'full' ? html`
      ${lines.map((line, i) => html`<text key=${i} x="8" y=${14 + i * 13} aria-hidden="true">${line}</text>`)}
      <${Shape} status=${shown} label=${false} at=${{ x: 7, y: height - 19, size: 13 }} />
      <text class="sub" x="25" y=${height - 9} aria-hidden="true" data-tick=${since && `since:${since}`}>${since || ms != null ? duration(since ? now - since : ms) : WORD[shown]}</text>
      ${retries > 0 && html`<text class="sub" x=${width - (once ? 24 : 8)} y=${height - 9} text-anchor="end" aria-hidden="true">↻${retries}</text>`}
      ${once && html`<${Sign} name="once" cls="c-ask" label="cannot be undone" at=${{ x: width - 20, y: height - 20, size: 13 }} />`}
      ${part > 0 && html`<rect class="lane c-${shown}" x="0" y=${height - 3} height="3" width=${width * part} />`}`
    : html`<${Shape} status=${shown} label=${false} at=${mode === 'dot' ? { x: 0, y: 0, size: 15 } : { x: 4, y: 3, size: 14 }} />
      ${mode === 'dot' ? html`<text class="label" x="18" y="12" aria-hidden="true">${label}</text>` : html`<text x="22" y="14" aria-hidden="true">${label.length > 9 ? `${label.slice(0, 8)}…` : label}</text>`}`}
    <rect class="hit" width=${width} height=${height} rx="3" role="button" tabindex=${focusable ? 0 : -1} aria-label=${name}
      aria-pressed=${selected ? 'true' : 'false'} data-node=${id} data-status=${shown}
      onClick=${() => act.open(id)} onKeyDown=${(event) => act.key(event, id)} onFocus=${() => act.hold(id)}><title>${plain(description)}</title></rect>
  </g>`;
});

/** Node actions; the same object for the same plan, so that nodes are not repainted. */
function useActions(ctx, placed, items, setHeld) {
  const latest = useRef(null);
  latest.current = { ctx, placed, items };
  return useMemo(() => {
    const open = (id) => latest.current.ctx.go(latest.current.ctx.to({ sel: id, tab: 'item' }));
    return {
      open,
      hold: setHeld,
      key(event, id) {
        if (event.key === 'Enter' || event.key === ' ') open(id);
        else if (!walk(event, id, latest.current.placed)) return;
        event.preventDefault();
      },
    };
  }, []);
}

/** Arrow keys follow edges: right to dependents, left to dependencies, up and down in the layer. */
function walk(event, id, { graph }) {
  const node = graph.nodes.get(id);
  const nearest = (nodes, side) => nodes.map((one) => endOf(one, side)).sort((a, b) => Math.abs(a.y - node.y) - Math.abs(b.y - node.y))[0];
  const inLayer = [...graph.nodes.values()].filter((one) => one.real && one.layer === node.layer).sort((a, b) => a.y - b.y);
  const step = {
    ArrowRight: () => nearest(node.down, 'down'),
    ArrowLeft: () => nearest(node.up, 'up'),
    ArrowDown: () => inLayer[inLayer.indexOf(node) + 1],
    ArrowUp: () => inLayer[inLayer.indexOf(node) - 1],
  }[event.key];
  if (!step) return false;
  const next = step();
  if (next) event.currentTarget.ownerSVGElement.querySelector(`[data-node="${CSS.escape(next.id)}"]`)?.focus();
  return true;
}

/** The item at the end of an edge across layers. */
function endOf(node, side) {
  let one = node;
  while (!one.real) [one] = one[side];
  return one;
}

/** Scrolls to active work once, at opening. */
function useScrollToActive(box, placed, items, thread) {
  const isDone = useRef(false);
  useLayoutEffect(() => {
    if (isDone.current || !placed || !box.current) return;
    const active = items.find((item) => ['ask', 'doubt'].includes(thread.shown(item))) ?? items.find((item) => item.status === 'in_progress');
    if (!active) return;
    isDone.current = true;
    const node = placed.graph.nodes.get(active.id);
    box.current.scrollLeft = node.x - 200;
    box.current.scrollTop = node.y - 100;
  });
}
