// One item: its task and result, its calls, and its waits.

import { enc } from '../api.js';
import { OVER } from '../fold/core.js';
import { spansOf } from '../fold/view.js';
import { waited } from '../fold/waits.js';
import { dollars, duration, ruleName } from '../format.js';
import { gist } from '../markdown.js';
import { Shape, WORD } from '../shapes.js';
import { show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { addedBy, authorText, endText } from '../words.js';
import { asCurl, countHidden, hiddenNote, Json } from './code.js';
import { Button, Copy, Refusal, SeqLink, usePress } from './parts.js';
import { useComposer } from './talk.js';
import { statusOf } from './timeline/row.js';

const VALIDATED = { passed: 'tools checked: passed', failed: 'tools checked: failed', skipped: 'tools not checked' };

export function ItemTab({ ctx, route, thread }) {
  const id = route.sel ?? thread.core.currentStepId ?? thread.core.todoList[0]?.id;
  const item = id == null ? null : thread.item(id);
  if (!item) {
    return html`<p class="fact dim">${thread.core.todoList.length === 0 ? 'Items stand here as soon as there is a plan.'
      : 'Choose an item in the plan: what it promised, delivered and called stands here.'}</p>`;
  }
  return html`<div class="scroll" data-testid="item" data-id=${item.id}><div class="fact">
    <div class="row top-row"><${Shape} status=${item.shown} /><h1 class="grow">${show(item.description)}</h1></div>
    <${Facts} ctx=${ctx} thread=${thread} item=${item} />
    <${Pair} thread=${thread} item=${item} />
    <${Calls} ctx=${ctx} thread=${thread} item=${item} />
    <${Result} item=${item} />
    <${Waits} thread=${thread} item=${item} />
    <${ByHand} ctx=${ctx} thread=${thread} item=${item} />
    <details class="part"><summary>Raw</summary><${Json} value=${item} label="The item as JSON" /></details>
  </div></div>`;
}

function Facts({ ctx, thread, item }) {
  const costs = thread.view.costs.get(item.id);
  const added = addedBy(thread.view, item.id);
  const needs = item.dependencies ?? [];
  return html`<div class="row wrap mid t1"><span class="mono">${show(item.id)}</span><span>${WORD[item.shown]}</span>
    ${added && html`<span>added by ${show(authorText(added))}</span>`}
    <span>${needs.length === 0 ? 'waits for nothing' : html`after ${needs.map((need, i) => html`${i > 0 && ', '}<a class="mono"
      href=${ctx.to({ tab: 'item', sel: need })}>${show(need)}</a>`)}`}</span>
    ${costs?.priced > 0 && html`<span class="num">${dollars(costs.costUsd)}</span>`}
    ${item.reason && html`<p class="c-failed whole-line">${show(item.reason)}</p>`}</div>`;
}

function Pair({ thread, item }) {
  const output = thread.core.stepOutputs?.[item.id];
  const got = output?.rawResult ?? item.result;
  const isDone = item.status === 'completed';
  return html`<div class="pair"><div><h2>Promised</h2><p>${item.expectedOutcome ? show(item.expectedOutcome) : html`<span
      class="dim">nothing in particular</span>`}</p></div>
    <div data-testid="delivered"><h2>Delivered</h2>
      ${got == null || !isDone ? html`<p class="dim">${isDone ? 'nothing was said' : OVER.has(item.status) ? 'nothing' : 'not yet'}</p>`
        : html`<p><span class="c-completed" aria-hidden="true">✓ </span>${show(gist(got))}</p>`}
      ${item.validationStatus && html`<p class="dim t0">${VALIDATED[item.validationStatus]}</p>`}</div></div>`;
}

/** All calls of the item up to the shown observation, the last run's last. */
function callsOf(thread, id) {
  return spansOf(thread.view, id).flatMap((span) => thread.view.spans.all(span.children))
    .filter((span) => span.kind === 'call' || span.kind === 'task');
}

function Calls({ ctx, thread, item }) {
  const calls = callsOf(thread, item.id);
  if (calls.length === 0) return null;
  return html`<h2>Calls</h2>${calls.map((span) => html`<${span.kind === 'task' ? Task : Call} key=${span.id} ctx=${ctx}
      thread=${thread} span=${span} />`)}`;
}

const RESULT = { completed: ['done', 'success'], failed: ['fail', 'error'], cancelled: ['', 'skipped'] };

function Call({ ctx, thread, span }) {
  const isAsking = span.waits?.some((wait) => wait.to === null);
  const [cls, word] = span.end === null ? (isAsking ? ['ask', 'asks a person'] : ['run', 'running']) : RESULT[span.status] ?? ['', span.status];
  const hidden = hiddenNote(countHidden(span.arguments) + countHidden(span.output ?? null));
  return html`<div class="call c-${isAsking ? 'ask' : span.status}" data-testid="call">
    <header class="row wrap"><${SeqLink} ctx=${ctx} seq=${span.seq} /><b class="mono">${show(span.toolName)}</b><span class="tag ${cls}">${word}</span>
      <span class="right num mid">${span.durationMs == null ? '' : duration(span.durationMs)}</span></header>
    <${Json} value=${span.arguments} label="Arguments" />
    ${span.output !== undefined && html`<p class="arrow dim" aria-hidden="true">→</p><${Json} value=${span.output} label="Result" />`}
    ${span.error && html`<p class="wrong">${show(span.error.code)}: ${show(span.error.message)}</p>`}
    ${hidden && html`<p class="c-ask note">${hidden}</p>`}
    <${CallFoot} thread=${thread} span=${span} /></div>`;
}

function CallFoot({ thread, span }) {
  const [raw, setRaw] = useState(false);
  const path = `/threads/${enc(thread.id)}/tool-calls/${enc(span.callId)}`;
  const { policy, digest } = span;
  return html`<footer>
    ${policy && html`<span>${policy.action} · <a class="mono" href="#/policy">${show(ruleName(policy))}</a></span>`}
    ${digest && html`<span class="mono" title="Digest of tool and arguments">${digest.slice(0, 4)}…${digest.slice(-4)}</span>`}
    ${span.waits?.length > 0 && html`<span class="mono">${decided(thread, span)}</span>`}
    <${Button} cls="small quiet" label="Raw" aria-expanded=${String(raw)} onClick=${() => setRaw(!raw)} />
    <${Copy} text=${() => asCurl('GET', path)} label="Copy as curl" cls="quiet" />
    ${raw && html`<div class="whole-line"><${Json} label="Observations of the call" value=${[span.seq, span.endSeq].filter((seq) => seq != null)
      .map((seq) => thread.observation(seq))} /></div>`}
  </footer>`;
}

function decided(thread, span) {
  const ended = span.waits.map((wait) => thread.view.questions.get(wait.suspensionId)?.ended).filter(Boolean).at(-1);
  return ended ? show(endText(ended)) : 'waits for a person';
}

function Task({ ctx, span }) {
  return html`<div class=${`call c-${statusOf(null, { kind: 'task', span })}`} data-testid="task">
    <header class="row wrap"><${SeqLink} ctx=${ctx} seq=${span.seq} /><b>${show(span.agentId)}</b><span class="mono">${show(span.taskType ?? '')}</span>
      <span class="tag agent">${show(span.status)}</span></header>
    ${(span.message || span.reason) && html`<p class="pad">${show(span.message ?? span.reason)}</p>`}</div>`;
}

function Result({ item }) {
  if (item.result == null) return null;
  return html`<h2>Result</h2>${typeof item.result === 'string' ? html`<p>${show(item.result)}</p>` : html`<${Json} value=${item.result}
      label="Result" />`}`;
}

const WAIT = {
  dependencies: 'other items', place: 'a free place', model: 'the model', queue: 'a place at the model', pause: 'a pause before the next attempt', tools: 'tools',
  person: 'a person', agent: 'an agent', restart: 'a restart of the server', other: 'its turn',
};

function Waits({ thread, item }) {
  const parts = waited(thread, item.id);
  if (parts.length === 0) return null;
  const whole = parts.reduce((sum, part) => sum + part.ms, 0);
  return html`<h2>What it waited for</h2><table class="data" data-testid="waits"><tbody>
    ${parts.map(({ what, ms, detail }) => html`<tr key=${what}><td>${WAIT[what] ?? what}${detail && html` <span
        class="mono dim">${show(detail)}</span>`}</td>
      <td class="n">${duration(ms)}</td></tr>`)}
    <tr><th scope="row">together</th><td class="n">${duration(whole)}</td></tr></tbody></table>`;
}

/** An item of the active run, retried or skipped by hand; one of an ended run is asked for in another. */
function ByHand({ ctx, thread, item }) {
  const { press, busy, problem } = usePress(ctx);
  const { draft, take } = useComposer(thread);
  const isActive = thread.core.runId !== null;
  const canRetry = OVER.has(item.status);
  const canSkip = isActive && item.status === 'pending';
  if (thread.replay || !(canRetry || canSkip)) return null;
  const off = ctx.whyNot('run');
  const why = busy ? 'It is being sent.' : off;
  const ask = () => {
    take(`${draft.text.trim() && `${draft.text}\n\n`}Do the item ${item.id} again: ${item.description}`);
    ctx.go(ctx.to({ tab: 'talk', part: 'talk' }));
  };
  const since = spansOf(thread.view, item.id).at(-1)?.moves.at(-1).seq;
  const act = async (verb) => (await press(`${verb} ${since}`, `/threads/${enc(thread.id)}/items/${enc(item.id)}/${verb}`)) && ctx.refresh();
  return html`<div class="row wrap">
    ${canRetry && (isActive ? html`<${Button} cls="small" id="item-retry" label="Do this item again" why=${why} onClick=${() => act('retry')} />`
      : html`<${Button} cls="small" id="item-anew" label="Ask for this item again" why=${why} onClick=${ask} />`)}
    ${canSkip && html`<${Button} cls="small" id="item-skip" label="Skip this item" why=${why} onClick=${() => act('skip')} />`}
    <${Refusal} problem=${problem} />
    ${off && html`<span class="off-reason">${off}</span>`}</div>`;
}
