// A thread's totals and actions.

import { enc } from '../api.js';
import { useKeys } from '../browser.js';
import { count, dollars, duration, tokens } from '../format.js';
import { Shape, Sign, WORD } from '../shapes.js';
import { plain, show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { CancelDialog, ThreadDialog } from './later.js';
import { Button, Refusal, useFork, usePress } from './parts.js';

export function Head({ ctx, route, thread }) {
  const run = chosenRun(route, thread);
  const acts = useActs(ctx, thread, run);
  const status = statusOf(thread, run);
  const { title } = thread;
  // The plan is that of the newest run.
  const items = run === thread.newestRun ? thread.core.todoList : [];
  return html`<header class="head row wrap" data-testid="head">
    <${Shape} status=${status} />
    <div class="grow">
      <div class="row"><h1 class="clip" title=${plain(title)}>${show(title)}</h1><span class="dim mono hide t0">${show(thread.id)}</span></div>
      <div class="facts num">
        <span class="c-${status}" data-testid="status" data-status=${status}><b>${WORD[status] ?? status}</b></span>
        <${Besides} thread=${thread} items=${items} status=${status} />
        <${Figures} thread=${thread} items=${items} run=${run} />
        <${RunPicker} ctx=${ctx} thread=${thread} run=${run} />
      </div>
    </div>
    <${Acts} acts=${acts} />
    ${acts.dialog}
    <${Refusal} problem=${acts.problem} />
  </header>`;
}

/** The page's run: that of the address, else the newest. */
export function chosenRun(route, thread) {
  return (route.run && thread.view.runs.get(route.run)) || thread.newestRun;
}

function statusOf(thread, run) {
  if (!run) return 'idle';
  if (run.end != null) return run.resultStatus === 'error' ? 'failed' : run.resultStatus ?? run.status;
  if (thread.row?.status === 'quarantined' && !thread.replay) return 'quarantined';
  return thread.runStatus;
}

function Besides({ thread, items, status }) {
  const now = items.map((item) => thread.shown(item));
  const of = (name) => now.filter((one) => one === name).length;
  const others = [['in_progress', 'running'], ['waiting', 'at an agent'], ['ask', 'asking'], ['doubt', 'in doubt']]
    .filter(([name]) => name !== (status === 'suspended' ? 'ask' : status === 'running' ? 'in_progress' : status))
    .map(([name, word]) => (of(name) ? `${of(name)} ${word}` : null)).filter(Boolean);
  return others.length > 0 && html`<span class="hide">${others.join(', ')}</span>`;
}

function Figures({ thread, items, run }) {
  const done = items.filter((item) => item.status === 'completed').length;
  if (!run) return null;
  const isOpen = run.end == null;
  const cost = costOf(run);
  return html`
    ${items.length > 0 && html`<span data-testid="done"><b>${done}</b> of ${count(items.length, 'item')}</span>`}
    <span><b data-tick=${isOpen && !thread.replay ? `since:${run.start}` : null}>${duration((run.end ?? thread.now) - run.start)}</b></span>
    <span><b>${tokens(run.input + run.output)}</b> tokens</span>
    ${cost && html`<span title=${cost.title}>${cost.text}</span>`}`;
}

/** Calls without a price are counted separately, never as free. */
function costOf(run) {
  const most = run.options?.budget?.maxCostUsd;
  const of = most == null ? '' : ` of ${dollars(most)}`;
  if (run.priced) {
    const title = run.unpriced ? `${count(run.unpriced, 'model call')} without a price on top` : null;
    return { text: html`<b>${dollars(run.costUsd)}</b>${of}${run.unpriced ? ' and more' : ''}`, title };
  }
  return run.unpriced ? { text: 'no price', title: `No price for ${run.provider}:${run.model}: add one under prices.` } : null;
}

function RunPicker({ ctx, thread, run }) {
  const order = thread.view.runOrder;
  if (order.length < 2) return null;
  const choose = (event) => ctx.go(ctx.to({ run: event.target.value === order.at(-1) ? null : event.target.value, row: null }));
  return html`<label class="hide">run <select class="plain" value=${run.runId} onChange=${choose}>
    ${order.map((id, i) => html`<option key=${id} value=${id}>${i + 1} of ${order.length}</option>`)}</select></label>`;
}

function useActs(ctx, thread, run) {
  const [asked, ask] = useState(null);
  const [stopping, setStopping] = useState(null);
  const [what, setWhat] = useState(null);
  const { press, problem } = usePress(ctx);
  const { runId } = thread.core;
  const isOpen = !thread.replay && runId != null;
  const canPause = isOpen && thread.core.suspensions.every(({ kind }) => kind !== 'pause');
  const whyNot = ctx.whyNot('run');
  const pause = () => press(`pause ${runId}`, `/threads/${enc(thread.id)}/pause`);
  const forking = useFork(ctx, thread);
  const fork = () => forking.at(thread.replay ? thread.seq : null);
  const cancel = async () => {
    ask(null);
    setStopping(asked);
    if (!(await press('cancel', `/runs/${enc(asked)}/cancel`))) setStopping(null);
  };
  const isStopping = isOpen && stopping === runId;
  useKeys({
    f: (event) => (event.repeat || forking.why ? false : forking.at(ctx.route.row ?? (thread.replay ? thread.seq : null))),
    p: (event) => (!event.repeat && canPause && !whyNot ? pause() : false),
    c: () => (isOpen && !whyNot && !isStopping ? ask(runId) : false),
  });
  const dialog = asked ? html`<${CancelDialog} ctx=${ctx} thread=${thread} close=${() => ask(null)} cancel=${cancel} />`
    : what && html`<${ThreadDialog} ctx=${ctx} thread=${thread} what=${what} close=${() => setWhat(null)} />`;
  return { fork, pause, ask: () => ask(runId), setWhat, isOpen, canPause, isStopping, whyNot, dialog, problem: problem ?? forking.problem, replay: thread.replay, whyForkNot: forking.why };
}

function Acts({ acts }) {
  if (acts.isStopping) return html`<span class="mid t1" role="status">stopping; nothing new starts</span>`;
  const all = (cls) => [
    html`<${Button} key="fork" cls=${cls} label=${acts.replay ? 'Fork here' : 'Fork'} k="f" why=${acts.whyForkNot} onClick=${acts.fork} id="fork" />`,
    acts.canPause && html`<${Button} key="pause" cls=${cls} label="Pause" k="p" why=${acts.whyNot} onClick=${acts.pause} id="pause" />`,
    acts.isOpen && html`<${Button} key="cancel" cls=${`${cls} bad`} label="Cancel…" k="c" why=${acts.whyNot} onClick=${acts.ask} id="cancel" />`,
  ];
  const more = (label, cls = '') => html`<${Button} cls=${`small ${cls}`} label=${`${label} thread…`} why=${acts.whyNot} onClick=${() => acts.setWhat(label)} />`;
  return html`<div class="row">${all('small hide')}
    <details class="menu"><summary class="b small quiet" aria-label="More"><${Sign} name="more" /></summary><div class="menu-list">${all('small only-narrow')}
      ${more('Rename')}${more('Delete', 'bad')}</div></details></div>`;
}
