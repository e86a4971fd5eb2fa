// The plan as a list with lanes: the text form of the graph.

import { spansOf } from '../fold/view.js';
import { dollars, duration, listed, placed } from '../format.js';
import { gist } from '../markdown.js';
import { lanes } from '../plan/lanes.js';
import { shapeOf, timeOf, weightOf } from '../plan/layout.js';
import { Shape, Sign, WORD } from '../shapes.js';
import { show } from '../text.js';
import { html, useMemo } from '../vendor/preact-htm.js';
import { addedBy, authorText } from '../words.js';
import { irreversible, pure } from './parts.js';
import { useInSight } from './sight.js';
import { ruleText, waitText } from './timeline/row.js';

const LANE = 14;
const EDGE = 16;
/** Wider lanes would take the room of the words: they are left out. */
const WIDEST = 200;
const ALONE = { lane: 0, from: [], through: [], down: false };
/** Above so many items rows have one height, and only visible ones are drawn. */
const MANY = 200;
const TIGHT = 46;

export function PlanList({ ctx, route, thread }) {
  const items = thread.core.todoList;
  const drawn = useMemo(() => fitting(lanes(items)), [shapeOf(items)]);
  const weigh = weightOf(thread.view, thread.now);
  const status = new Map(items.map((item) => [item.id, item.status]));
  const isTight = items.length > MANY;
  const sight = useInSight(items.length, TIGHT, innerHeight);
  const { from, to } = isTight ? sight : { from: 0, to: items.length };
  const rows = items.slice(from, to).map((item, n) => {
    const i = from + n;
    const costs = thread.view.costs.get(item.id);
    return html`<${Row} key=${item.id} item=${item} shown=${thread.shown(item)} row=${drawn.rows[i]} width=${drawn.width}
      met=${metOf(status, item)} ...${timeOf(thread, weigh(item))}
      cost=${costs?.priced ? dollars(costs.costUsd) : null} unpriced=${costs?.unpriced ?? 0} by=${authorOf(thread, item)}
      once=${irreversible(ctx, item).join(' ')} rule=${ruleOf(thread, item)} waits=${waitText(thread, item)} output=${thread.core.stepOutputs[item.id]}
      selected=${route.sel === item.id} href=${ctx.to({ sel: item.id, tab: 'item' })} open=${ctx.go} />`;
  });
  const gap = (count) => (count ? html`<tr class="gap" aria-hidden="true"><td colspan="7" ...${placed({ height: `${count * TIGHT}px` })}></td></tr>` : null);
  return html`<div class="scroll scrollx" tabindex="0" role="region" aria-label="Plan as a list" data-testid="plan-list"
      onScroll=${isTight ? sight.onScroll : null}><table class="plan ${isTight ? 'tight' : ''}">
    <thead><tr><th ...${placed({ width: isTight ? `${EDGE + drawn.width * LANE}px` : null })}><span class="sr">Status</span></th><th>Item</th><th class="c2">After</th><th class="c3">Tools and rule</th><th>Promised → delivered</th>
      <th>Time</th><th class="c6">Cost</th></tr></thead>
    <tbody>${gap(from)}${rows}${gap(items.length - to)}</tbody></table></div>`;
}

const fitting = (drawn) => (EDGE + drawn.width * LANE > WIDEST ? { rows: drawn.rows.map(() => ALONE), width: 1 } : drawn);

function metOf(status, item) {
  return (item.dependencies ?? []).map((id) => (status.get(id) === 'completed' ? '1' : '0')).join('');
}

/** The author of the item, if not the planner. */
function authorOf(thread, item) {
  const added = addedBy(thread.view, item.id);
  return added && !['planner', 'copy', 'rewind'].includes(added.source) ? authorText(added) : null;
}

const Row = pure(({ item, shown, row, width, met, ms, since, now, cost, unpriced, by, once, rule, waits, output, selected, href, open }) => {
  const isOnce = (name) => once.split(' ').includes(name);
  const click = (event) => {
    if (!event.target.closest('a')) open(href);
  };
  return html`<tr aria-selected=${selected ? 'true' : null} onClick=${click} data-item=${item.id} data-status=${shown}>
    <td class="lanetd"><${LaneCell} row=${row} width=${width} met=${met} status=${shown} /></td>
    <td class="what"><a class="item-link" href=${href}>${show(item.description)}</a>
      <div class="dim mono">${show(item.id)}${by && html` · added by ${show(by)}`}</div></td>
    <td class="mono mid c2">${show(listed(item.dependencies) || '–')}</td>
    <td class="c3">${(item.requiredTools ?? []).map((name) => html`<div key=${name} class="mono">${isOnce(name) && html`<span class="c-ask"><${Sign} name="once" label="cannot be undone" /> </span>`}${show(name)}</div>`)}
      <div class="rule-ref">${rule ? show(rule) : item.requiredTools?.length ? null : 'no tool'}</div></td>
    <td class="c4"><${Delivered} item=${item} shown=${shown} waits=${waits} output=${output} /></td>
    <td class="num nowrap" data-tick=${since && `since:${since}`}>${duration(since ? now - since : ms)}</td>
    <td class="num nowrap c6" title=${unpriced ? 'Some calls have no price.' : null}>${cost ?? (unpriced ? 'no price' : '–')}</td>
  </tr>`;
});

const SIGN = { completed: '✓', failed: '×' };

function Delivered({ item, shown, waits, output }) {
  const got = output?.rawResult ?? item.result;
  const isOver = SIGN[shown] != null;
  return html`
    ${item.expectedOutcome && html`<div class="mid">${show(item.expectedOutcome)}</div>`}
    ${isOver ? html`<div class="clamp"><span class="c-${shown}" aria-hidden="true">${SIGN[shown]} </span>${show(gist(got) || item.reason || WORD[shown])}</div>` : html`<div class="dim">${show(waits)}</div>`}
    ${item.validationStatus && item.validationStatus !== 'passed' && html`<div class="c-failed t0">tools checked: ${item.validationStatus}</div>`}`;
}

function LaneCell({ row, width, met, status }) {
  const x = (lane) => EDGE + lane * LANE;
  const wide = EDGE + width * LANE;
  const line = (d, isMet, key) => html`<path key=${key} class="g-edge ${isMet ? 'met' : ''}" d=${d} vector-effect="non-scaling-stroke" />`;
  return html`<div class="lanes" ...${placed({ width: `${wide}px` })}>
    <svg class="lane-svg" width=${wide} height="100%" viewBox=${`0 0 ${wide} 100`} preserveAspectRatio="none" aria-hidden="true">
      ${row.through.map((lane) => line(`M${x(lane)} 0V100`, false, `t${lane}`))}
      ${row.from.map((lane, i) => line(`M${x(lane)} 0C${x(lane)} 18 ${x(row.lane)} 4 ${x(row.lane)} 22`, met[i] === '1', `f${lane}`))}
      ${row.down ? line(`M${x(row.lane)} 22V100`, status === 'completed', 'd') : null}
    </svg>
    <span class="lane-shape" ...${placed({ left: `${x(row.lane) - 8}px` })}><${Shape} status=${status} /></span>
  </div>`;
}

/** `ask · large-refunds`: of the item's last call with a ruling. */
function ruleOf(thread, item) {
  const span = spansOf(thread.view, item.id).at(-1);
  const calls = thread.view.spans.all(span?.children ?? []).filter((one) => one.kind === 'call' && one.policy);
  const policy = calls.at(-1)?.policy;
  return policy ? ruleText(policy) : null;
}
