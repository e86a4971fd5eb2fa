// A timeline row; in words, an item's wait, and the rule for a call.

import { OVER } from '../../fold/core.js';
import { spansOf } from '../../fold/view.js';
import { age, count, dollars, duration, placed, ruleName, tokens } from '../../format.js';
import { Shape, Sign, WORD } from '../../shapes.js';
import { brief, show, showStart } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { Growing } from '../parts.js';

const PHASE = { planning: 'Plan', refining: 'Change the plan', refinement: 'Change the plan', synthesis: 'Write the answer', synthesizing: 'Write the answer' };

export function TimelineRow({ ctx, thread, row, scale, top, isSelected, waits, onSelect, id }) {
  const { span, depth, kind } = row;
  const status = statusOf(thread, row);
  const label = labelOf(thread, row);
  const isLive = kind === 'stream' && span.end == null && !thread.replay;
  return html`<div class="tl-row d${depth}" role="treeitem" id=${id} aria-level=${depth + 1} aria-selected=${isSelected ? 'true' : 'false'}
      aria-expanded=${row.isOpenable ? String(!row.isShut) : null}
      ...${placed({ top: `${top}px`, '--d': depth })} onClick=${() => onSelect(row)} data-seq=${span?.seq} data-kind=${kind} data-status=${status}>
    <span class="seq">${span ? span.seq : ''}</span>
    <${Name} row=${row} status=${status} label=${label} />
    <${Lane} row=${row} status=${status} scale=${scale} thread=${thread} waits=${waits} />
    <${Time} span=${span} thread=${thread} />
    <span class="n cst">${costOf(thread, row)}</span>
    ${isLive && html`<span class="tok" ...${placed({ '--d': depth })} data-testid="tokens"><${Growing} ctx=${ctx} streamId=${span.streamId} of=${tail} /></span>`}
  </div>`;
}

/** The row's name and status for a label, also when not drawn. */
export function labelOf(thread, { kind, span, item }) {
  switch (kind) {
    case 'run':
      return span.title;
    case 'phase':
      return PHASE[span.phase] ?? span.phase;
    case 'item':
    case 'pending':
      return item?.description ?? span.itemId;
    case 'stream':
      return `${span.model}${span.attempt > 1 ? `, attempt ${span.attempt}` : ''}${span.purpose ? `, ${span.purpose}` : ''}`;
    case 'task':
      return `${span.agentId}: ${span.taskType}`;
    default:
      return `${span.toolName} ${firstValue(span.arguments)}`.trim();
  }
}

function firstValue(input) {
  const first = input && typeof input === 'object' ? Object.values(input).find((value) => typeof value !== 'object') : input;
  return brief(first == null ? '' : String(first), 60);
}

export function statusOf(thread, { kind, span, item }) {
  if (kind === 'pending') return 'pending';
  if (kind === 'run') return runStatus(thread, span);
  if (kind === 'item') return item && span.end == null ? thread.shown({ ...item, status: span.status }) : span.status;
  if (kind === 'task') return span.end == null ? 'waiting' : span.status === 'completed' ? 'completed' : 'failed';
  if (kind === 'call' && span.end == null) {
    const wait = span.waits.find((one) => one.to == null);
    if (wait) return wait.kind === 'in_doubt' ? 'doubt' : 'ask';
    return 'in_progress';
  }
  return span.status;
}

const RESULT = { success: 'completed', error: 'failed' };

function runStatus(thread, span) {
  if (span.end != null) return RESULT[span.status] ?? span.status;
  return thread.core.runId === span.runId ? thread.runStatus : 'running';
}

const SIGNS = { stream: 'model', call: 'call', task: 'task' };

function Name({ row, status, label }) {
  const { kind, span, depth } = row;
  const lead = depth > 1
    ? html`<span class="tw it ${row.isFirst ? 'first' : ''}" title=${row.iteration ? `iteration ${row.iteration}` : null}>${row.isFirst ? row.iteration : ''}</span>`
    : html`<span class="tw" aria-hidden="true">${row.isOpenable ? (row.isShut ? '▸' : '▾') : ''}</span>`;
  return html`<span class="tl-name ${depth > 1 ? 'mid' : ''}">${lead}
    ${SIGNS[kind] ? html`<${Sign} name=${SIGNS[kind]} cls="c-${status}" />` : html`<${Shape} status=${status} />`}
    <span class="label clip ${kind === 'call' || kind === 'task' ? 'mono' : ''}">${showStart(String(label ?? ''))}</span>
    <${Tags} row=${row} status=${status} span=${span} /></span>`;
}

function Tags({ row, status, span }) {
  if (row.errors && row.isShut) {
    return html`${row.errors.retries > 0 && html`<span class="tag fail">${count(row.errors.retries, 'retry', 'retries')}</span>`}
      ${row.errors.errors > 0 && html`<span class="tag fail">${count(row.errors.errors, 'error')}</span>`}`;
  }
  if (row.depth < 2) return null;
  if (span.error && span.end != null) return html`<span class="tag fail">${show(span.error.code)}${span.error.httpStatus ? ` ${span.error.httpStatus}` : ''}</span>`;
  if (status === 'ask' || status === 'doubt') return html`<span class="tag ask">${WORD[status]}</span>`;
  if (status === 'waiting') return html`<span class="tag agent">at an agent</span>`;
  return null;
}

const percent = (part) => `${(part * 100).toFixed(3)}%`;

function Lane({ row, status, scale, thread, waits }) {
  const { span } = row;
  return html`<span class="lanebox c-${colour(row, status)}">
    ${scale.ticks.map((tick) => html`<i key=${tick.ms} class="v" ...${placed({ left: percent(scale.at(tick.time)) })}></i>`)}
    ${scale.breaks.map((one, i) => html`<i key=${`b${i}`} class="v break" ...${placed({ left: percent(one.at), width: percent(one.share) })} title=${`${duration(one.ms)} of waiting`}>//</i>`)}
    ${scale.restarts.map((at) => html`<i key=${`r${at}`} class="v restart" ...${placed({ left: percent(scale.at(at)) })} title="The server was restarted here; the run went on."></i>`)}
    ${span ? bars(row, status, scale, thread.now) : html`<span class="dim clip waits">${show(waits)}</span>`}
    ${!scale.isOver && !thread.replay && html`<i class="v now" ...${placed({ left: percent(scale.at(thread.now)) })}></i>`}
  </span>`;
}

function colour({ kind, span }, status) {
  if (kind === 'stream') return status === 'failed' ? 'failed' : 'in_progress';
  if (kind === 'call') return status === 'failed' || status === 'ask' || status === 'doubt' ? status : span.waits.length ? 'ask' : 'idle';
  return kind === 'task' ? 'waiting' : status;
}

function bars(row, status, scale, now) {
  const { span, kind } = row;
  const end = span.end ?? now;
  const piece = (key, from, to, cls, more) => html`<i key=${key} class=${cls} ...${placed({ left: percent(scale.at(from)), width: percent(Math.max(0, scale.at(to) - scale.at(from))), ...more })}></i>`;
  const bar = (key, from, to, cls, more) => piece(key, from, to, `bx ${cls}`, more);
  if (kind === 'call') return callBars(span, end, bar);
  if (kind === 'task') return bar('task', span.start, end, `hatch ${span.end == null ? 'live' : ''}`);
  if (kind === 'stream') {
    const whole = Math.max(1, end - span.start);
    const pale = span.ttftMs != null && !span.error ? { '--ttft': `${Math.min(100, (span.ttftMs / whole) * 100)}%` } : null;
    return bar('stream', span.start, end, `${span.error ? 'err' : pale ? 'first' : ''} ${span.end == null ? 'live' : ''}`, pale);
  }
  const inside = row.inside.map((one) => {
    const cls = one.status === 'failed' ? 'failed' : one.kind === 'stream' ? 'in_progress' : one.kind === 'task' ? 'waiting' : 'idle';
    return piece(one.id, one.began ?? one.start, one.end ?? now, `seg2 c-${cls}`);
  });
  return [bar('whole', span.start, end, row.inside.length ? 'under' : ''), ...inside];
}

/** A call: its wait for people hatched, then its own time. */
function callBars(span, end, bar) {
  const waits = span.waits.map((wait) => bar(wait.suspensionId, wait.from, wait.to ?? end, `hatch ${wait.to == null ? 'live' : ''}`));
  if (span.end == null && span.waits.some((wait) => wait.to == null)) return waits;
  const from = span.began ?? span.waits.at(-1)?.to ?? span.start;
  const cls = span.status === 'failed' ? 'err' : span.end == null ? 'live' : '';
  return [...waits, bar('run', Math.max(span.start, from), end, cls)];
}

function Time({ span, thread }) {
  if (!span) return html`<span class="n"></span>`;
  const isOpen = span.end == null;
  const own = span.kind === 'call' && !isOpen && span.waits.length === 0 ? span.durationMs : null;
  return html`<span class="n" data-tick=${isOpen && !thread.replay ? `since:${span.start}` : null}>${duration(own ?? (span.end ?? thread.now) - span.start)}</span>`;
}

export function costOf(thread, { kind, span }) {
  if (kind === 'run') return dollarsOr(thread.view.runs.get(span.runId));
  if (kind === 'item') return dollarsOr(span.costs);
  if (kind === 'stream') return span.costUsd != null ? dollars(span.costUsd) : span.tokens ? tokens(span.tokens.input + span.tokens.output) : '';
  const policy = kind === 'call' ? span.policy ?? thread.started.get(span.callId)?.policy : null;
  return policy ? html`<span class="rule-ref clip" title=${ruleText(policy)}>${policy.action}</span>` : '';
}

function dollarsOr(costs) {
  if (!costs) return '';
  return costs.priced ? dollars(costs.costUsd) : costs.unpriced ? tokens(costs.input + costs.output) : '';
}

const TAIL = 600;

const tail = ({ text, thinking }) => (text || thinking).slice(-TAIL);

const STOPPED = { plan_review: 'waits for the plan to be reviewed', pause: 'the run is paused', budget: 'the budget is spent' };

export function waitText(thread, item) {
  const shown = thread.shown(item);
  if (OVER.has(item.status)) return WORD[shown];
  if (shown === 'ask' || shown === 'doubt') return WORD[shown];
  if (item.status === 'waiting') {
    const wait = thread.core.a2aWaits.find((one) => one.itemId === item.id);
    return wait ? `at ${wait.agentId}, asked ${age(wait.submittedAt, thread.now)} ago` : WORD.waiting;
  }
  if (item.status === 'in_progress') return pauseOf(thread, item) ?? WORD.in_progress;
  const status = new Map(thread.core.todoList.map((one) => [one.id, one.status]));
  const open = (item.dependencies ?? []).filter((id) => !OVER.has(status.get(id)));
  if (open.length) return `waits for ${open.join(', ')}`;
  if (thread.core.runId == null) return 'pending';
  const stopped = thread.core.suspensions.find((one) => STOPPED[one.kind] && !one.remote);
  if (stopped) return STOPPED[stopped.kind];
  const most = thread.newestRun?.options?.executionConfig?.maxParallelItems;
  return `waits for a free place${most ? ` (of ${most})` : ''}`;
}

/** The pause between a failed attempt and the next. */
function pauseOf(thread, item) {
  const span = spansOf(thread.view, item.id).at(-1);
  const last = span && thread.view.spans.get(span.children.at(-1));
  if (last?.kind !== 'stream' || !last.error?.retryInMs || last.end == null) return null;
  const left = last.end + last.error.retryInMs - thread.now;
  if (left <= 0) return null;
  return `again in ${Math.ceil(left / 1000)} s (${last.error.httpStatus ?? last.error.code})`;
}

export const ruleText = (policy) => `${policy.action} · ${ruleName(policy)}`;
