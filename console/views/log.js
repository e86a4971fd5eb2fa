// The log, one line for each observation.

import { isNarrow, useKeys, useSize } from '../browser.js';
import { placed } from '../format.js';
import { show } from '../text.js';
import { html, useRef, useState } from '../vendor/preact-htm.js';

const MARGIN = 20;

export function Log({ ctx, route, thread, openRaw }) {
  const [scrollTop, setScrollTop] = useState(0);
  const box = useRef(null);
  const { height } = useSize(box);
  const row = isNarrow() ? 34 : 26;
  const all = thread.upTo();
  const from = Math.max(0, Math.floor(scrollTop / row) - MARGIN);
  const to = Math.min(all.length, Math.ceil((scrollTop + (height || 400)) / row) + MARGIN);
  const begin = all[0]?.timestamp ?? 0;
  // Keys may be faster than paints: `route` is the painted one.
  const move = (step) => {
    const seq = Math.min(thread.seq, Math.max(thread.minSeq, (ctx.route.row ?? (step > 0 ? thread.minSeq - 1 : thread.seq + 1)) + step));
    ctx.go(ctx.to({ row: seq }), { replace: true });
    const top = (seq - thread.minSeq) * row;
    if (top < box.current.scrollTop || top + 2 * row > box.current.scrollTop + box.current.clientHeight) box.current.scrollTop = top - 100;
  };
  const look = () => (ctx.route.row ? openRaw(ctx.route.row) : false);
  useKeys({ j: () => move(1), k: () => move(-1), Enter: look, r: look });
  return html`<div class="scroll tl" ref=${box} onScroll=${(event) => setScrollTop(event.currentTarget.scrollTop)} tabindex="0" role="region" aria-label="Log" data-testid="log">
    ${thread.minSeq > 1 ? html`<p class="fact dim">Older observations were compacted: the log begins at ${thread.minSeq}.</p>` : null}
    <div class="tl-body" role="list" ...${placed({ height: `${all.length * row}px` })}>
      ${all.slice(from, to).map((told, i) => html`<${Line} key=${told.seq} told=${told} top=${(from + i) * row} begin=${begin} isSelected=${route.row === told.seq} open=${openRaw} />`)}
    </div></div>`;
}

function Line({ told, top, begin, isSelected, open }) {
  return html`<div class="log-row ${isSelected ? 'on' : ''}" role="listitem" ...${placed({ top: `${top}px` })} data-seq=${told.seq}>
    <span class="seq">${told.seq}</span><span class="num dim">${((told.timestamp - begin) / 1000).toFixed(1)}</span>
    <button type="button" class="mono link" onClick=${() => open(told.seq)}>${told.type}</button>
    <span class="mono dim hide">${told.parentId ? show(told.parentId) : ''}</span><span class="clip">${show(told.title)}</span></div>`;
}
