// What the plan will ask and may do, before it does. Conditions are shown, never guessed: arguments are not known yet.

import { enc } from '../api.js';
import { costRange, costText, openItems } from '../outlook.js';
import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { FailurePanel } from './failure.js';
import { ForecastList, ForecastTable, Sentence } from './forecast-table.js';
import { Loading } from './parts.js';
import { QuestionCard } from './question/card.js';
import { withRow } from './question/tab.js';

const DAYS = 30;

export function Forecast({ ctx, thread }) {
  if (thread.replay) {
    return html`<p class="fact dim" data-testid="forecast-past">A forecast is of what is still to be done. You look at the past:
      <a href=${ctx.to({ at: null })}>back to live</a>.</p>`;
  }
  return html`<${Foreseen} ctx=${ctx} thread=${thread} />`;
}

function Foreseen({ ctx, thread }) {
  const { forecast, range, problem } = useForecast(ctx, thread);
  if (problem) return html`<div class="scroll page"><${FailurePanel} ctx=${ctx} thread=${thread} problem=${problem} /></div>`;
  if (!forecast) return html`<div class="scroll page"><${Loading} rows=${6} /></div>`;
  const review = thread.core.suspensions.find((one) => one.kind === 'plan_review');
  return html`<div class="scroll page scrollx forecast" tabindex="0" role="region" aria-label="Forecast" data-testid="forecast">
    <${Sentence} forecast=${forecast} cost=${costText(range)} />
    <${ForecastTable} forecast=${forecast} /><div class="only-narrow"><${ForecastList} forecast=${forecast} /></div>
    <${Basis} range=${range} />
    ${review && html`<${QuestionCard} ctx=${ctx} question=${withRow(ctx, thread, review)} thread=${thread} boxed />`}
  </div>`;
}

/** Read again when the plan changes; what items cost before is read once. */
function useForecast(ctx, thread) {
  const [state, set] = useState({});
  const { planVersion } = thread.core;
  useEffect(() => {
    const ends = new AbortController();
    const { signal } = ends;
    ctx.api.get(`/threads/${enc(thread.id)}/plan/forecast`, { signal })
      .then((forecast) => set((before) => ({ ...before, forecast, problem: null })))
      .catch((problem) => signal.aborted || set((before) => ({ ...before, problem })));
    return () => ends.abort();
  }, [thread.id, planVersion]);
  useEffect(() => {
    const from = Math.floor(ctx.clock.now() - DAYS * 86_400_000);
    ctx.api.get(`/usage?groupBy=item&limit=1000&from=${from}`)
      .then(({ items }) => set((before) => ({ ...before, rows: items })))
      // Without the right to read usage there is no estimate, and that is said.
      .catch(() => {});
  }, [thread.id]);
  const range = state.forecast && state.rows ? costRange(state.rows, openItems(state.forecast).length) : null;
  return { ...state, range };
}

function Basis({ range }) {
  const costs = range && !range.unpriced
    ? `Costs: what items took in the last ${DAYS} days (n = ${range.n}), 10th to 90th of 100, times the items that are left. `
    : range?.unpriced ? 'No price is known for the models that were used: add one under prices. ' : 'Costs: there is nothing yet to go by. ';
  return html`<p class="dim basis">${costs}Arguments are not known yet: a rule with conditions is shown as “asks if”.</p>`;
}
