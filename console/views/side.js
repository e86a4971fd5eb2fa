// Beside the plan: the question, the conversation, the item, and what a model call saw.

import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { ContextTab } from './modelcall.js';
import { ItemTab } from './item.js';
import { QuestionTab } from './question/tab.js';
import { Talk } from './talk.js';

const TABS = [['ask', 'Question'], ['talk', 'Conversation'], ['item', 'Item'], ['context', 'Context']];
const PANES = { ask: QuestionTab, talk: Talk, item: ItemTab, context: ContextTab };

/**
 * Question where this thread asks something, else Conversation. What is asked anew comes to the front, but not under somebody
 * who types; what was answered stays in sight.
 */
function useUsualTab(thread) {
  const asks = thread.core.suspensions.length > 0;
  const [tab, setTab] = useState(asks ? 'ask' : 'talk');
  const panel = useRef(null);
  useEffect(() => {
    const active = document.activeElement;
    const isTyping = panel.current?.contains(active) && active.matches('input, textarea, select');
    if (asks && !isTyping) setTab('ask');
  }, [asks]);
  return [tab, panel];
}

export function Side({ ctx, route, thread }) {
  const [usual, panel] = useUsualTab(thread);
  const tab = route.tab ?? (route.part === 'talk' ? 'talk' : route.part === 'ask' ? 'ask' : usual);
  const Pane = PANES[tab];
  const asks = thread.core.suspensions.length;
  return html`<div class="side" ref=${panel} data-testid="side" data-tab=${tab}>
    <div class="tabs" role="tablist" aria-label="Beside the plan" onKeyDown=${(event) => alongTabs(event, ctx, tab)}>
      ${TABS.map(([name, label]) => html`<button type="button" role="tab" key=${name} id=${`tab-${name}`} aria-controls="side-panel"
        aria-selected=${String(tab === name)} tabindex=${tab === name ? 0 : -1} data-testid=${`tab-${name}`}
        onClick=${() => ctx.go(ctx.to({ tab: name }), { replace: true })}>${label}
        ${name === 'ask' && asks > 0 && html`<span class="count">${asks}</span>`}</button>`)}
    </div>
    <div class="side-panel" id="side-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
      <${Pane} ctx=${ctx} route=${route} thread=${thread} /></div>
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
