// A thread's questions: the tab, and their merge from the log and the list of all questions.

// What these import is named too, so that all of it is requested at once.
import '../../answer.js';
import '../../diff.js';
import '../../form.js';
import { count } from '../../format.js';
import { useKeys } from '../../browser.js';
import { byUrgency } from '../../lists.js';
import '../../outlook.js';
import '../../remedies.js';
import { KIND_SHAPE, Shape } from '../../shapes.js';
import { plain, show } from '../../text.js';
import { html, useState } from '../../vendor/preact-htm.js';
import '../../words.js';
import '../code.js';
import '../forecast-table.js';
import { Choice, keptAt, SeqLink } from '../parts.js';
import '../section.js';
import { Answered } from './answered.js';
import './approval.js';
import { draftKey, NOBODY, QuestionCard, useShown } from './card.js';
import './fields.js';
import './kinds.js';
import './parts.js';

export function QuestionTab({ ctx, thread, cameByItself }) {
  const { open, over } = questionsOf(ctx, thread);
  const [chosen, choose] = useState(null);
  const isMine = (one) => one?.ended && keptAt(draftKey(one))?.over?.mine;
  // A question answered here stays until something else is chosen or asked; one answered by others until the person leaves:
  // a replacement could get a key press meant for it.
  const { shown, hand } = useShown(chosen, (had) => {
    const { suspensionId: id } = had ?? chosen ?? {};
    const kept = (thread.replay ? open : [...open, ...over]).find((one) => one.suspensionId === id);
    return (isMine(kept) ? null : kept) ?? open[0] ?? (isMine(over[0]) ? over[0] : null);
  }, cameByItself);
  const rest = over.filter((one) => one !== shown);
  useKeys({
    q: () => {
      const at = open.indexOf(shown);
      if (at >= 0 && !hand.isHere) hand.reach();
      else if (at + 1 < open.length) choose({ ...open[at + 1] });
      else ctx.go('#/questions');
    },
  });
  return html`<div class="scroll">
    ${open.length > (open.includes(shown) ? 1 : 0) && html`<${Chooser} open=${open} shown=${shown} choose=${choose} />`}
    ${shown ? html`<${QuestionCard} key=${shown.suspensionId} ctx=${ctx} question=${shown} thread=${thread} hand=${hand}
          onDone=${() => document.getElementById('tab-ask')} />`
      : html`<p class="fact dim">${nothing(ctx, thread, over)}</p>`}
    ${rest.length > 0 && html`<${Before} ctx=${ctx} thread=${thread} rest=${rest} />`}
  </div>`;
}

function nothing(ctx, thread, over) {
  if (thread.replay) return over.length ? 'Nothing is asked at this point.' : 'Nobody was asked anything yet at this point.';
  const elsewhere = ctx.questions?.length ?? 0;
  if (elsewhere > 0) return html`This thread asks nothing. <a href="#/questions">${elsewhere} elsewhere</a>.`;
  return NOBODY;
}

const named = ({ suspensionId, message, itemId }, i) => [suspensionId, html`${i + 1}${itemId && html` <span class="mono">${show(itemId)}</span>`}`,
  { title: plain(message) }];

function Chooser({ open, shown, choose }) {
  return html`<div class="bar row wrap"><span class="mid">${count(open.length, 'question')}</span>
    <${Choice} label="Open questions" of=${open.map(named)} now=${shown?.suspensionId}
      choose=${(id) => choose({ ...open.find((one) => one.suspensionId === id) })} /></div>`;
}

function Before({ ctx, thread, rest }) {
  return html`<section class="fact before" data-testid="asked-before"><h2>Asked before</h2>
    <ul>${rest.map((one) => html`<li key=${one.suspensionId}>
      <${SeqLink} ctx=${ctx} seq=${one.seq} />
      <div><p><${Shape} status=${KIND_SHAPE[one.kind] ?? 'ask'} small label=${false} /> ${show(one.message)}</p>
        <${Answered} ctx=${ctx} thread=${thread} question=${one} /></div></li>`)}</ul>
  </section>`;
}

/* A thread's questions, from its log and the list of all questions. */

/** A question of the fold, with more facts from the list. */
export function withRow(ctx, thread, question) {
  // The list is current, but a replay shows the past.
  const row = thread?.replay ? null : ctx.questions?.find((one) => one.suspensionId === question.suspensionId);
  const told = thread?.view.questions.get(question.suspensionId);
  return { ...told, ...question, ...row, seq: told?.seq, threadId: question.threadId ?? thread?.id };
}

/** Open ones, the most urgent first; then answered ones, the latest first. */
function questionsOf(ctx, thread) {
  const open = thread.core.suspensions.map((one) => withRow(ctx, thread, one)).sort(byUrgency);
  const over = [...thread.view.questions.values()].filter((one) => one.ended)
    .map((one) => ({ ...one, threadId: thread.id })).sort((a, b) => b.ended.seq - a.ended.seq);
  return { open, over };
}
