// May this plan run? What it will ask and may do, and the plan itself beside it.

import { approval, rejection, reply } from '../../answer.js';
import { useKeys } from '../../keyboard.js';
import { threadHash } from '../../router.js';
import { html } from '../../vendor/preact-htm.js';
import { ForecastList, Sentence } from '../forecast-table.js';
import { Decide, pressed, Reason, ReasonField } from './buttons.js';
import { Why } from './why.js';

export function PlanReview({ ctx, question, draft, set, press, whyNot, over }) {
  const run = () => press('approve', approval(question, null, draft.reason));
  const another = () => (draft.reason.trim() === '' ? set({ needsReason: true }) : press('another', rejection(question, draft.reason)));
  const off = whyNot.approve;
  const edit = threadHash({ id: question.threadId, view: 'edit' });
  useKeys(over ? {} : { a: pressed(draft, off, run), x: pressed(draft, whyNot.reject, another) });
  return html`
    ${question.plan && html`<div data-testid="review"><${Sentence} forecast=${question.plan} />
      <${ForecastList} forecast=${question.plan} /></div>`}
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`
      <${ReasonField} draft=${draft} set=${set} needed=${draft.needsReason} hint="What should be otherwise (the planner reads it)" />
      <div class="acts">
        <${Decide} name="approve" keys="a" cls="main" label="Run it" draft=${draft} off=${off} onPress=${run} />
        <a class="b" href=${edit} data-testid="edit-first">Edit first</a>
        <${Decide} name="another" keys="x" label="Ask for another" draft=${draft} off=${whyNot.reject} onPress=${another} />
        <${Decide} name="end" cls="bad" label="End the run" draft=${draft} off=${whyNot.reject}
          onPress=${() => press('end', reply(question, { approved: false }))} />
        <${Reason} text=${off} />
      </div>`}`;
}
