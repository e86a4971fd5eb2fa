// What is recorded of a thread: the changes of its plan, and its log.

import { rowHeight, useKeys, useSize } from '../browser.js';
import { clockTime, count, fullTime, listed, placed } from '../format.js';
import { brief, show } from '../text.js';
import { html, useRef } from '../vendor/preact-htm.js';
import { authorText } from '../words.js';
import { SeqLink } from './parts.js';
import { useInSight } from './sight.js';

export function Changes({ ctx, thread }) {
  const revisions = [...thread.view.revisions].reverse();
  if (revisions.length === 0) {
    return html`<p class="fact dim">Each change of the plan stands here with who made it, as soon as there is a plan.</p>`;
  }
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Changes of the plan" data-testid="changes">
    ${revisions.map((one) => html`<${Revision} key=${one.seq} ctx=${ctx} revision=${one} />`)}</div>`;
}

function Revision({ ctx, revision }) {
  const { seq, version, at, changes } = revision;
  return html`<section class="rev" data-seq=${seq}><header class="row wrap">
      <${SeqLink} ctx=${ctx} seq=${seq} /><h3>v${version}</h3><span class="tag ${TAG[revision.source] ?? ''}">${show(authorText(revision))}</span>
      <span class="dim t1" title=${fullTime(at)}>${clockTime(at)}</span>
      <span class="mid t1">${reason(revision)}</span>
      <a class="b small quiet right" href=${ctx.to({ at: seq, view: 'graph' })}>Show plan as of here</a>
    </header>
    <div class="diff">${changes.changes.map((change, i) => html`<${Change} key=${i} change=${change} />`)}</div></section>`;
}

const TAG = { refinement: 'run', agent: 'agent', user: 'done', rewind: 'run' };

function reason({ source, because, changes }) {
  if (source === 'planner') return html`${count(changes.added.length, 'item')}${because && html` from ${quoted(because)}`}`;
  if (source === 'refinement') return quoted(because);
  return source === 'agent' ? 'in its reply' : null;
}

function quoted(text) {
  if (!text) return null;
  return html`“${show(brief(text, 120))}”`;
}

function Change({ change }) {
  const { item, previousItem: before } = change;
  if (!before || change.type === 'added') return item ? html`<ins>${line(item)}</ins>` : null;
  if (!item || change.type === 'removed') return html`<del>${line(before)}</del>`;
  const fields = FIELDS.filter(({ of }) => of(before) !== of(item));
  if (fields.length === 0) return html`<p class="dim">${show(item.id)}: only its status or its time changed</p>`;
  return html`<del>${line(before)}</del><ins>${line(item)}
    ${fields.map(({ name, of }) => html`<span key=${name} class="was" title="What changed">  ${name} was ${show(of(before) || 'nothing')}</span>`)}</ins>`;
}

const FIELDS = [
  { name: 'description', of: (item) => item.description },
  { name: 'after', of: (item) => listed(item.dependencies) },
  { name: 'tools', of: (item) => listed(item.requiredTools) },
  { name: 'promised', of: (item) => item.expectedOutcome ?? '' },
  { name: 'kind', of: (item) => item.stepType ?? '' },
];

function line(item) {
  const [after, tools] = [listed(item.dependencies), listed(item.requiredTools)];
  return show(`${item.id}  ${item.description}${after && `  after ${after}`}${tools && `  with ${tools}`}`);
}

export function Log({ ctx, route, thread, openRaw }) {
  const box = useRef(null);
  const { height } = useSize(box);
  const row = rowHeight();
  const all = thread.upTo();
  const { from, to, onScroll } = useInSight(all.length, row, height || 400);
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
  return html`<div class="scroll tl" ref=${box} onScroll=${onScroll} tabindex="0" role="region" aria-label="Log" data-testid="log">
    ${thread.minSeq > 1 && html`<p class="fact dim">Older observations were compacted: the log begins at ${thread.minSeq}.</p>`}
    <div class="tl-body" role="list" ...${placed({ height: `${all.length * row}px` })}>
      ${all.slice(from, to).map((told, i) => html`<${Line} key=${told.seq} told=${told} top=${(from + i) * row} begin=${begin} isSelected=${route.row === told.seq} open=${openRaw} />`)}
    </div></div>`;
}

function Line({ told, top, begin, isSelected, open }) {
  return html`<div class="log-row ${isSelected ? 'on' : ''}" role="listitem" ...${placed({ top: `${top}px` })} data-seq=${told.seq}>
    <span class="seq">${told.seq}</span><span class="num dim">${((told.timestamp - begin) / 1000).toFixed(1)}</span>
    <button type="button" class="mono link" onClick=${() => open(told.seq)}>${told.type}</button>
    <span class="mono dim clip hide">${told.parentId ? show(told.parentId) : ''}</span><span class="clip">${show(told.title)}</span></div>`;
}
