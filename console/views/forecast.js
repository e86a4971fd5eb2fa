// What the plan will ask and may do. Conditions are shown, not evaluated: arguments are not known yet.

import { enc } from '../api.js';
import { OVER } from '../fold/core.js';
import { basisText, costText } from '../outlook.js';
import { show } from '../text.js';
import { html } from '../vendor/preact-htm.js';
import { Awaited } from './failure.js';
import { ForecastList, ForecastTable, Sentence } from './forecast-table.js';
import { QuestionCard } from './question/card.js';
import { withRow } from './question/tab.js';
import { useRead } from './section.js';

export function Forecast({ ctx, thread }) {
  if (thread.replay) {
    return html`<p class="fact dim">A forecast is of what is still to be done. You look at the past:
      <a href=${ctx.to({ at: null })}>back to live</a>.</p>`;
  }
  return html`<${Foreseen} ctx=${ctx} thread=${thread} />`;
}

const openOf = ({ todoList }) => todoList.filter(({ status }) => !OVER.has(status)).map((item) => item.id);

function Foreseen({ ctx, thread }) {
  const { forecast, problem } = useForecast(ctx, thread);
  if (!forecast) return html`<div class="scroll page"><${Awaited} ctx=${ctx} thread=${thread} problem=${problem} /></div>`;
  const review = thread.core.suspensions.find((one) => one.kind === 'plan_review' && !one.remote);
  return html`<div class="scroll page scrollx forecast" tabindex="0" role="region" aria-label="Forecast" data-testid="forecast">
    <${Sentence} forecast=${forecast} cost=${costText(forecast.cost)} />
    <${ForecastTable} forecast=${forecast} /><div class="only-narrow"><${ForecastList} forecast=${forecast} /></div>
    <p class="dim basis">${show(basisText(forecast.cost))} Arguments are not known yet: a rule with conditions is shown
      as “asks if”.</p>
    ${review && html`<${QuestionCard} ctx=${ctx} question=${withRow(ctx, thread, review)} thread=${thread} boxed />`}
  </div>`;
}

/** Read again with each change of the plan, and when an item is over. */
const useForecast = (ctx, { id, core }) => useRead(ctx, [id, core.planVersion, openOf(core).join()], async (signal) => (
  { forecast: await ctx.api.get(`/threads/${enc(id)}/plan/forecast`, { signal }) }));
