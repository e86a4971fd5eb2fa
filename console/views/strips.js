// What must be known before anything is read: no connection, a model that only plays, a thread that is set aside.

import { clockTime, countdown } from '../format.js';
import { Shape } from '../shapes.js';
import { html } from '../vendor/preact-htm.js';

export function Strips({ ctx, route, thread }) {
  return html`<div class="strips">
    ${ctx.conn === 'held' ? html`<${Held} ctx=${ctx} thread=${thread} />` : null}
    ${isDemo(ctx, route, thread) ? html`<${Demo} />` : null}
    ${thread?.row?.status === 'quarantined' ? html`<${SetAside} />` : null}
  </div>`;
}

function Held({ ctx, thread }) {
  const now = ctx.clock.now();
  const asOf = thread?.view.at ? ` What you see is as of observation ${thread.lastSeq}, ${clockTime(thread.view.at)}.` : '';
  return html`<div class="strip bad" role="status" data-testid="held"><${Shape} status="failed" small label=${false} />
    <b>The server does not answer.</b><span>${asOf}
    ${ctx.retryAt && ctx.retryAt > now ? html` Trying again in <span class="num" data-tick=${`left:${ctx.retryAt}`}>${countdown(ctx.retryAt - now)}</span>.` : null}</span>
    <button type="button" class="b small right" onClick=${ctx.retryNow}>Try now</button></div>`;
}

function isDemo(ctx, route, thread) {
  if (route.page === 'login') return false;
  const run = route.run ? thread?.view.runs.get(route.run) : thread?.newestRun;
  if (run) return run.provider === 'demo';
  return (ctx.models?.items ?? []).some((model) => model.isDefault && model.provider === 'demo');
}

function Demo() {
  return html`<div class="strip demo" role="region" aria-label="Demo model"><b>Demo model</b><span>Answers are scripted; no model is called.</span>
    <span class="right hide">Make it real: <code>OPENAI_API_KEY=… pes</code></span></div>`;
}

function SetAside() {
  return html`<div class="strip bad" role="status"><b>This thread is set aside (<code>thread_quarantined</code>).</b>
    <span>Working on it stopped the server more than once. Fork it to go on from an earlier observation.</span></div>`;
}
