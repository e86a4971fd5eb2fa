// A thread: head, plan over timeline, the side, and the tape below.

import { isNarrow, useKeys } from '../browser.js';
import { duration } from '../format.js';
import { partOf } from '../router.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { Boundary } from './boundary.js';
import { Decides, Graph } from './graph.js';
import { Head } from './head.js';
import { Changes, ContextTab, EditPlan, FailurePanel, Forecast, ItemTab, NotRead, PlanList, QuestionTab } from './later.js';
import { Button, Kbd, Loading, Tabs } from './parts.js';
import { Talk } from './talk.js';
import { Tape } from './tape.js';
import { Timeline } from './timeline.js';

/** Above so many items the list is clearer than the graph. */
const MANY = 80;

const VIEWS = [['graph', 'Graph', 'g'], ['list', 'List', 'l'], ['changes', 'Changes', 'd'], ['forecast', 'Forecast', 'o']];
const PANES = { graph: Graph, list: PlanList, changes: Changes, forecast: Forecast, edit: EditPlan };

export function ThreadPage(props) {
  const { ctx, route, thread } = props;
  useKeys({
    ...Object.fromEntries(VIEWS.map(([view, , key]) => [key, () => ctx.go(ctx.to({ view }))])),
    E: () => (thread?.replay ? false : ctx.go(ctx.to({ view: 'edit' }))),
    Escape: () => (thread?.replay ? ctx.go(ctx.to({ at: null })) : false),
  });
  if (!thread || thread.status === 'loading') {
    if (thread?.row?.openQuestions) QuestionTab.early();
    return html`<main class="stage"><${Loading} rows=${10} /></main>`;
  }
  if (thread.status === 'failed') return html`<${NotRead} ctx=${ctx} thread=${thread} problem=${thread.problem} />`;
  const view = shownView(route, thread);
  const isTall = view !== 'graph';
  return html`<main class="stage">
    ${thread.replay && html`<${ReplayStrip} ctx=${ctx} thread=${thread} />`}
    <${Head} ...${props} />
    ${hasFailed(thread) && html`<${FailurePanel} ctx=${ctx} thread=${thread} />`}
    <div class="cols" data-show=${partOf(route, thread)}>
      <div class="work">
        <section class="planbox ${isTall ? 'tall' : ''}" aria-label="Plan" data-view=${view}>
          <${PlanBar} ctx=${ctx} thread=${thread} view=${view} />
          <${Boundary} ctx=${ctx} place=${view}>${pane(props, view)}</${Boundary}>
        </section>
        ${(!isTall || isNarrow()) && html`<${Boundary} ctx=${ctx}><${Timeline} ...${props} /></${Boundary}>`}
      </div>
      <${Side} ...${props} />
    </div>
    <${Tape} ctx=${ctx} thread=${thread} />
  </main>`;
}

function shownView(route, thread) {
  if (thread.replay && route.view === 'edit') return 'graph';
  if (route.view) return route.view;
  return isNarrow() || thread.core.todoList.length > MANY ? 'list' : 'graph';
}

/** The failure panel stays until another run begins. */
function hasFailed(thread) {
  const run = thread.newestRun;
  return run != null && run.end != null && (run.status === 'failed' || ['error', 'partial'].includes(run.resultStatus));
}

function pane(props, view) {
  const { thread } = props;
  const needsPlan = view === 'graph' || view === 'list';
  if (needsPlan && thread.core.todoList.length === 0) return html`<${NoPlan} thread=${thread} />`;
  const Pane = PANES[view];
  return html`<${Pane} ...${props} />`;
}

function NoPlan({ thread }) {
  const isBusy = thread.core.runId != null;
  return html`<p class="fact dim">${isBusy
    ? 'The plan appears here as soon as the model has written it.'
    : 'No plan yet: ask for something under Conversation, and the plan appears here.'}</p>`;
}

function PlanBar({ ctx, thread, view }) {
  const version = thread.core.planVersion;
  return html`<div class="bar row">
    <h2>Plan</h2><span class="dim num" data-testid="plan-version">${version ? `v${version}` : ''}</span>
    <${Tabs} label="Plan as" id="view" of=${VIEWS.map(([name, label, k]) => [name, label, ctx.to({ view: name }), { title: `Key ${k}` }])} now=${view} />
    ${view === 'graph' && html`<${Decides} thread=${thread} />`}
    ${!thread.replay && thread.core.todoList.length > 0 && html`<a class="b small right ${view === 'edit' ? 'main' : ''}" href=${ctx.to({ view: 'edit' })}>Edit<${Kbd} k="E" /></a>`}
  </div>`;
}

function ReplayStrip({ ctx, thread }) {
  const run = thread.newestRun;
  const into = run && thread.view.at != null ? `, ${duration(thread.view.at - run.start)} into the run` : '';
  return html`<div class="strip replay" role="status"><b>Replay</b>
    <span>The thread as it was after observation ${thread.seq}${into}. Nothing here can be answered.</span>
    <${Button} cls="small right" label="Back to live" k="Esc" onClick=${() => ctx.go(ctx.to({ at: null }))} /></div>`;
}

/* Beside the plan: the question, the conversation, the item, and a model call's prompt. */

const TABS = [['ask', 'Question'], ['talk', 'Conversation'], ['item', 'Item'], ['context', 'Context']];
const TAB_PANES = { ask: QuestionTab, talk: Talk, item: ItemTab, context: ContextTab };

/**
 * Question if this thread asks something, else Conversation. A new question comes to the front, but not while somebody
 * types; an answered one stays visible.
 */
function useUsualTab(thread) {
  const asks = thread.core.suspensions.length > 0;
  const [usual, set] = useState({ tab: asks ? 'ask' : 'talk' });
  const panel = useRef(null);
  useEffect(() => {
    const active = document.activeElement;
    const isTyping = panel.current?.contains(active) && active.matches('input, textarea, select');
    if (asks && !isTyping) set((had) => (had.tab === 'ask' ? had : { tab: 'ask', cameByItself: true }));
  }, [asks]);
  return [usual, panel];
}

function Side(props) {
  const { ctx, route, thread } = props;
  const [usual, panel] = useUsualTab(thread);
  const asked = route.tab ?? (route.part === 'talk' ? 'talk' : route.part === 'ask' ? 'ask' : null);
  const tab = asked ?? usual.tab;
  const Pane = TAB_PANES[tab];
  const asks = thread.core.suspensions.length;
  return html`<div class="side" ref=${panel} data-testid="side" data-tab=${tab}>
    <div class="tabs" role="tablist" aria-label="Beside the plan" onKeyDown=${(event) => alongTabs(event, ctx, tab)}>
      ${TABS.map(([name, label]) => html`<button type="button" role="tab" key=${name} id=${`tab-${name}`} aria-controls="side-panel"
        aria-selected=${String(tab === name)} tabindex=${tab === name ? 0 : -1} data-testid=${`tab-${name}`}
        onClick=${() => ctx.go(ctx.to({ tab: name }), { replace: true })}>${label}
        ${name === 'ask' && asks > 0 && html`<span class="count">${asks}</span>`}</button>`)}
    </div>
    <div class="side-panel" id="side-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
      <${Boundary} ctx=${ctx} place=${`${tab} ${route.sel}`}><${Pane} ...${props} cameByItself=${!asked && usual.cameByItself} /></${Boundary}></div>
  </div>`;
}

function alongTabs(event, ctx, tab) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const at = TABS.findIndex(([name]) => name === tab);
  const [next] = TABS[(at + step + TABS.length) % TABS.length];
  ctx.go(ctx.to({ tab: next }), { replace: true });
  event.currentTarget.querySelector(`#tab-${next}`)?.focus();
}
