// The whole log in one strip, with the shown position. A bar's height is the time since the previous observation.

import { useKeys, useSize } from '../browser.js';
import { Sign, WORD } from '../shapes.js';
import { plain } from '../text.js';
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../vendor/preact-htm.js';
import { Button, useFork } from './parts.js';

const HEIGHT = 40;
const SPEEDS = [1, 4, 16];
const LONG_PAUSE = 2000;
const SHORT_PAUSE = 300;

export function Tape({ ctx, thread }) {
  const box = useRef(null);
  const width = Math.max(100, Math.round(useSize(box).width));
  const last = thread.lastSeq;
  const set = (seq) => {
    const at = Math.max(thread.minSeq, Math.round(seq));
    // A step of the player may come when the person has just left.
    if (ctx.route.id === thread.id) ctx.go(ctx.to({ at: at >= last ? null : at }), { replace: true });
  };
  const player = usePlayer(thread, set);
  const step = (by) => {
    player.stop();
    set(thread.seq + by);
  };
  const status = (by) => {
    player.stop();
    const next = nextStatus(thread, by);
    if (next != null) set(next);
  };
  useKeys({
    Space: player.toggle,
    ',': () => step(-1),
    '.': () => step(1),
    '<': () => status(-1),
    '>': () => status(1),
    0: () => ctx.go(ctx.to({ at: null })),
  });
  return html`<div class="tape" data-testid="tape">
    <div class="play">
      ${sign('prev', 'One observation back', () => step(-1))}
      ${sign(player.isOn ? 'stop' : 'play', player.isOn ? 'Stop' : 'Play', player.toggle, 'play')}
      ${sign('next', 'One observation on', () => step(1))}
      <select class="b small extra" aria-label="Speed" value=${player.speed} onChange=${(event) => player.setSpeed(Number(event.target.value))}>
        ${SPEEDS.map((speed) => html`<option key=${speed} value=${speed}>${speed}×</option>`)}</select>
    </div>
    <div class="tape-box" ref=${box}><${Strip} thread=${thread} width=${width} set=${(seq) => { player.stop(); set(seq); }} /></div>
    <${Place} ctx=${ctx} thread=${thread} />
  </div>`;
}

const sign = (name, label, onClick, id) => html`<${Button} cls="small" id=${id} aria-label=${label} label=${html`<${Sign} name=${name} />`} onClick=${onClick} />`;

function Place({ ctx, thread }) {
  const fork = useFork(ctx, thread);
  return html`<div class="row"><span class="mono num num-at">${thread.seq} / ${thread.lastSeq}</span>
    ${thread.replay ? html`<${Button} cls="small extra" label=${html`<${Sign} name="fork" />Fork here`} why=${fork.why} onClick=${() => fork.at(thread.seq)} id="fork-here" />
        <${Button} cls="small main" label="Back to live" onClick=${() => ctx.go(ctx.to({ at: null }))} />`
      : html`<span class="tag ${ctx.conn === 'held' ? 'fail' : 'run'}">${ctx.conn === 'held' ? 'held' : '● live'}</span>`}</div>`;
}

/** Keeps the order and shortens long pauses. */
function usePlayer(thread, set) {
  const [isOn, setOn] = useState(false);
  const [speed, setSpeed] = useState(4);
  const at = useRef(null);
  // Before painting, so that no step follows a stop.
  useLayoutEffect(() => {
    if (!isOn) return undefined;
    if (!thread.replay && at.current !== null) {
      setOn(false);
      at.current = null;
      return undefined;
    }
    const seq = thread.replay ? thread.seq : thread.minSeq - 1;
    const next = thread.log[seq + 1 - thread.minSeq];
    if (!next) {
      setOn(false);
      return undefined;
    }
    const pause = seq < thread.minSeq ? 0 : next.timestamp - thread.log[seq - thread.minSeq].timestamp;
    const timer = setTimeout(() => {
      at.current = seq + 1;
      set(seq + 1);
    }, Math.max(16, (pause > LONG_PAUSE ? SHORT_PAUSE : pause) / speed));
    return () => clearTimeout(timer);
  }, [isOn, speed, thread.seq, thread.replay]);
  const toggle = () => {
    at.current = null;
    setOn(!isOn);
  };
  return { isOn, speed, setSpeed, toggle, stop: () => setOn(false) };
}

function nextStatus(thread, by) {
  const { log, minSeq, seq } = thread;
  for (let i = seq - minSeq + by; i >= 0 && i < log.length; i += by) if (log[i].type === 'ITEM_STATUS_CHANGE') return log[i].seq;
  return null;
}

/** A bar's colour is that of a status; a run's and a person's are ink. */
const STATUS = {
  ITEM_STATUS_CHANGE: 'completed', TOOL_CALL: 'idle', TOOL_EXECUTION: 'idle', AGENT_SUSPENDED: 'ask', AGENT_RESUMED: 'ask', SUSPENSION_TIMEOUT: 'ask',
  A2A_TASK: 'waiting', ERROR: 'failed', LLM_STREAM_ERROR: 'failed', RUN_STARTED: 'ink', RUN_FINISHED: 'ink', STATE_UPDATE: 'ink', FINAL_RESPONSE: 'completed',
};
const statusOf = (told) => (told.type === 'TOOL_EXECUTION' && told.content.status === 'error' ? 'failed' : STATUS[told.type] ?? 'running');

/** One bar per pixel column, one path per colour. */
function columns(log, count, width) {
  const wide = Math.max(1, Math.min(6, Math.floor(width / Math.max(1, count))));
  const bars = Math.min(count, Math.floor(width / wide)) || 1;
  const tallest = new Array(bars).fill(null);
  for (let i = 0; i < count; i++) {
    const column = Math.min(bars - 1, Math.floor((i / count) * bars));
    const ms = i === 0 ? 0 : log[i].timestamp - log[i - 1].timestamp;
    const height = Math.min(24, 4 + 4 * Math.log10(1 + ms));
    const had = tallest[column];
    if (!had || height > had.height) tallest[column] = { height, status: statusOf(log[i]) };
  }
  const paths = new Map();
  tallest.forEach((bar, column) => {
    if (!bar) return;
    const x = ((column + 0.5) / bars) * width;
    paths.set(bar.status, `${paths.get(bar.status) ?? ''}M${x.toFixed(1)} ${HEIGHT - 1}v${-bar.height.toFixed(1)}`);
  });
  return { paths: [...paths], stroke: Math.max(1, (width / bars) * 0.75) };
}

function Strip({ thread, width, set }) {
  // Live, it is redrawn at most once a second.
  const drawn = useSlow(thread.lastSeq, 1000);
  const { paths, stroke } = useMemo(() => columns(thread.log, Math.min(thread.log.length, drawn - thread.minSeq + 1), width), [drawn, width, thread.id]);
  const first = thread.minSeq;
  const span = Math.max(1, thread.lastSeq - first + 1);
  const x = (seq) => ((seq - first + 0.5) / span) * width;
  const place = thread.replay ? x(thread.seq) : width - 2;
  const drag = (event) => {
    if (event.type === 'pointerdown') event.currentTarget.setPointerCapture(event.pointerId);
    else if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = event.currentTarget.getBoundingClientRect();
    set(first + ((event.clientX - box.left) / box.width) * span - 0.5);
  };
  const keys = (event) => {
    const to = { ArrowLeft: thread.seq - 1, ArrowRight: thread.seq + 1, Home: first, End: thread.lastSeq, PageUp: thread.seq - 20, PageDown: thread.seq + 20 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    set(to);
  };
  return html`<svg viewBox=${`0 0 ${width} ${HEIGHT}`} preserveAspectRatio="none" role="slider" tabindex="0" aria-label="Observation" aria-valuemin=${first}
      aria-valuemax=${thread.lastSeq} aria-valuenow=${thread.seq} aria-valuetext=${spoken(thread)} onPointerDown=${drag} onPointerMove=${drag} onKeyDown=${keys}>
    ${paths.map(([status, d]) => html`<path key=${status} class="c-${status}" d=${d} stroke-width=${stroke} />`)}
    ${thread.replay && html`<rect class="veil" x=${place} y="10" width=${Math.max(0, width - place)} height="30" />`}
    <${Marks} marks=${thread.lastView.marks} x=${x} />
    <path d=${`M${place} 0V${HEIGHT}`} stroke-width="2" /><path class="mark" d=${`M${place - 6} 0h12l-6 7z`} />
  </svg>`;
}

function useSlow(value, ms) {
  const [shown, setShown] = useState(value);
  const at = useRef(0);
  useEffect(() => {
    if (shown === value) return undefined;
    const wait = Math.max(0, at.current + ms - performance.now());
    const timer = setTimeout(() => {
      at.current = performance.now();
      setShown(value);
    }, wait);
    return () => clearTimeout(timer);
  }, [value, shown]);
  return Math.min(shown, value);
}

const MARK = {
  error: ['failed', (x) => `${x - 4} 2h8v8h-8z`], ask: ['ask', (x) => `${x} 0l6 6-6 6-6-6z`], agent: ['waiting', (x) => `${x - 4} 1h8l4 5-4 5h-8l-4-5z`],
  person: ['ink', (x) => `${x - 5} 2h10l-5 9z`], plan: ['running', (x) => `${x - 5} 2h10l-5 9z`], restart: ['failed restart', (x) => `${x} 0V${HEIGHT}`],
};

function Marks({ marks, x }) {
  return marks.map(({ seq, kind }) => html`<path key=${`${seq}${kind}`} class="mark c-${MARK[kind][0]}" d=${`M${MARK[kind][1](x(seq))}`} />`);
}

function spoken(thread) {
  const current = thread.core.todoList.find((item) => item.id === thread.core.currentStepId);
  const what = current ? `, ${plain(current.id)} ${WORD[thread.shown(current)]}` : '';
  return `observation ${thread.seq} of ${thread.lastSeq}${what}`;
}
