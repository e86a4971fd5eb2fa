// A question on one card: everything needed to decide, and the buttons.

import * as answer from '../../answer.js';
import { enc, newKey } from '../../api.js';
import { useKeys } from '../../browser.js';
import { fieldsOf, keysOf as fieldKeys } from '../../form.js';
import { threadHash } from '../../router.js';
import { KIND_SHAPE, Shape, Sign } from '../../shapes.js';
import { show } from '../../text.js';
import { html, useRef } from '../../vendor/preact-htm.js';
import { barredText, CLASS, EXPIRED, isHigh, KIND, resolutionText } from '../../words.js';
import { countHidden, Diff, hiddenNote, Mistakes, Todo } from '../code.js';
import { ForecastList, Sentence } from '../forecast-table.js';
import { useKept, useRepaint } from '../parts.js';
import { Given } from './answered.js';
import { approval } from './approval.js';
import { budget, clientTool, inDoubt, input, pause, peerAuth } from './kinds.js';
import { Countdown, Decide, keysOf, pressed, Reason, ReasonField, Why, withReason } from './parts.js';

/** By kind, from the card's props: what is shown above why it is asked, and the possible answers. They may use hooks. */
const PARTS = {
  approval, input, in_doubt: inDoubt, client_tool: clientTool, budget, peer_input: input, peer_auth: peerAuth, plan_review: planReview, pause,
};

const unknown = ({ question }) => [html`<p class="mid">This page does not know questions of the kind ${show(question.kind)}. A newer one may.</p>`];

/**
 * The rule: keys answer only a question that the person chose, because a key press may be meant for an earlier one.
 * `pick(had)` returns the question to show, given the one shown before. It is at hand after another `place` or `reach()`, but
 * not if it appeared by itself or after `leave()`.
 */
export function useShown(place, pick, cameByItself = false) {
  const here = useRef({ isLeft: cameByItself });
  const again = useRepaint();
  const had = here.current;
  const isNew = had.place !== place;
  const shown = pick(isNew ? null : had.shown);
  const atHand = isNew ? !had.isLeft : shown?.suspensionId === had.shown?.suspensionId && had.atHand;
  here.current = { place, shown, atHand };
  const reach = () => {
    if (here.current.atHand) return;
    here.current.atHand = true;
    again();
  };
  const leave = () => {
    here.current.isLeft = true;
  };
  return { shown, hand: { isHere: atHand, reach }, leave };
}

/**
 * `question` is a suspension of the server or the fold, with `threadId`; `thread` only on the thread's page; `link`
 * leads to the thread from elsewhere. Keys work if it is at `hand`. `onDone` returns the element that is focused after an answer.
 */
export function QuestionCard({ ctx, question, thread, boxed, link, onDone, hand }) {
  const { draft, set, press } = useAnswer(ctx, question, onDone);
  const asked = draft.newer ?? question;
  const over = endOf(question, ctx.clock.now()) ?? draft.over?.text ?? (question.isGone ? 'It is not open any more.' : null);
  const [told, acts] = (PARTS[asked.kind] ?? unknown)({ question: asked, thread, draft, set, press, whyNot: whyNot(ctx, asked), over, hand });
  return html`<section class="card k-${asked.kind}${boxed ? ' box' : ''}${over ? ' over' : ''}" data-testid="question"
      data-id=${question.suspensionId} data-kind=${asked.kind} data-state=${over ? 'over' : draft.busy ? 'busy' : 'open'}
      aria-label="Question to a person" onPointerDown=${hand?.reach} onFocusCapture=${hand?.reach}>
    <${Header} ctx=${ctx} question=${asked} link=${link} />
    <p class="q">${show(asked.message)}</p>
    ${asked.itemDescription && html`<p class="mid"><span class="mono">${show(asked.itemId)}</span> ${show(asked.itemDescription)}</p>`}
    <${HiddenNote} text=${asked.message} />
    ${over ? html`<p class="verdict" role="status" data-testid="verdict">${show(over)}</p><${Given} ctx=${ctx} thread=${thread} question=${question} />`
      : html`<${Countdown} ctx=${ctx} question=${asked} />`}
    ${draft.newer && html`<p class="c-ask note">The question has changed since you looked at it; this differs:</p>
      <${Diff} was=${question.toolInput ?? null} now=${asked.toolInput ?? null} />`}
    ${told}
    ${asked.kind !== 'pause' && html`<${Why} question=${asked} />`}
    ${!over && acts}
    ${!over && draft.note && html`<${Note} note=${draft.note} />`}
  </section>`;
}

/** The outcome in a sentence; null while open. */
function endOf({ resolution, ended, status, expiryPolicy }, now) {
  const how = ended ?? resolution ?? (status === 'expired' && { timedOut: true });
  if (how) return (how.timedOut && EXPIRED[expiryPolicy]) || resolutionText(how, now);
  return status === 'cancelled' ? 'It was withdrawn.' : null;
}

/** `{approve, reject}`: why it is disabled, or null. */
function whyNot(ctx, { mayAnswer: mine, policy }) {
  const here = ctx.whyNot('approve');
  const of = (name) => here ?? (mine?.[name] === false ? barredText(mine.why, policy) : null);
  return { approve: of('approve'), reject: of('reject') };
}

function Header({ ctx, question, link }) {
  const { kind, toolName, toolInput, riskLevel, seq } = question;
  const toolClass = question.class;
  const agent = question.remote?.agentId ?? (kind.startsWith('peer_') ? toolInput?.agentId ?? toolInput?.agent : null);
  return html`<header class="row wrap">
    <${Shape} status=${KIND_SHAPE[kind] ?? 'ask'} />
    ${agent && html`<b>${show(agent)}</b>`}
    ${toolName ? html`<b class="mono">${show(toolName)}</b>` : html`<b>${KIND[kind] ?? show(kind)}</b>`}
    ${!link && seq != null && html`<a class="dim mono num" href=${ctx.to({ row: seq })} title="Show in the timeline">#${seq}</a>`}
    ${riskLevel && html`<span class="tag${isHigh(riskLevel) ? ' fail' : ''}" data-testid="risk">${show(riskLevel)} risk</span>`}
    ${(toolClass === 'irreversible' || toolClass === 'external') && html`<span class="tag ask">
      <${Sign} name="once" /> ${CLASS[toolClass]}</span>`}
    ${link && html`<a class="right" href=${link}>Open thread</a>`}
  </header>`;
}

function HiddenNote({ text }) {
  const note = hiddenNote(countHidden(text ?? ''));
  return note && html`<p class="c-ask note">${note}</p>`;
}

function Note({ note }) {
  return html`<div class="answer-note" role="alert" data-testid="answer-note" data-kind=${note.kind}>
    <p>${show(note.text)}</p><${Mistakes} errors=${note.errors} />
    ${note.todo && html`<p class="mid"><${Todo} text=${note.todo} /></p>`}
    ${note.traceId && html`<p class="dim mono">trace ${show(note.traceId)}</p>`}</div>`;
}

/* An answer being sent: its key, its refusals, and what the card shows of them. */

export const NOBODY = html`Nobody is asked anything. When a rule says ask, it stands here: see <a href="#/policy">Policy</a>.`;

export const draftKey = (question) => `question ${question.suspensionId}`;

const fresh = ({ suspensionId: id }) => ({
  id, view: 'form', form: null, asJson: false, seen: false, reason: '',
  busy: null, sent: null, note: null, refused: {}, over: null, newer: null,
});

/** `{draft, set, press}`. `press(name, body)` answers once, however often it is pressed. */
function useAnswer(ctx, question, onDone) {
  const [draft, set] = useKept(draftKey(question), () => fresh(question));
  const press = async (name, body) => {
    if (draft.busy) return;
    const text = JSON.stringify(body);
    // A retry of the same press has the same key; another answer gets a new one.
    const key = draft.sent?.text === text ? draft.sent.key : newKey();
    set({ busy: name, note: null, refused: {}, sent: { text, key } });
    try {
      await ctx.api.post(`/threads/${enc(question.threadId)}/resume`, body, { key });
      set({ busy: null, over: { text: 'Your answer was accepted.', mine: true } });
      ctx.say('Your answer was accepted.');
      ctx.refresh();
      const next = onDone?.(question);
      // What had the focus is gone.
      if (document.activeElement.matches('body, .card *')) next?.focus();
    } catch (problem) {
      await refused(problem, { ctx, question, set });
    }
  };
  return { draft, set, press };
}

async function refused(problem, { ctx, question, set }) {
  const { kind, text, todo, errors } = answer.refusal(problem, question, ctx.clock.now());
  const note = { kind, text, todo, traceId: problem.traceId ?? null };
  ctx.say(text);
  if (kind === 'over') {
    set({ busy: null, over: { text, mine: false } });
    ctx.refresh();
  } else if (kind === 'other') {
    const newer = await readAgain(ctx, question);
    set(newer ? { busy: null, note, newer, form: null, view: 'form', seen: false, sent: null } : { busy: null, note });
  } else {
    set(({ form, asJson }) => {
      const keys = form && !asJson ? fieldKeys(fieldsOf(form.schema, form.value, form.base)) : [];
      const { fields, rest } = answer.placed(errors, keys);
      return { busy: null, note: { ...note, errors: rest }, refused: fields, ...(kind === 'again' ? {} : { sent: null }) };
    });
  }
}

/** The question as it is now; null if unreadable. */
async function readAgain(ctx, question) {
  try {
    const { items } = await ctx.api.all('/suspensions?status=pending');
    return items.find((one) => one.suspensionId === question.suspensionId) ?? null;
  } catch {
    return null;
  }
}

/* A plan review: what the plan will ask and may do, with the plan beside it. */

function planReview(props) {
  const { question, draft, set, press, whyNot, over, hand } = props;
  const run = () => press('approve', answer.approval(question, null, draft.reason));
  const another = withReason(props, 'another');
  const off = whyNot.approve;
  const edit = threadHash({ id: question.threadId, view: 'edit' });
  useKeys(over || !hand?.isHere ? {} : { a: pressed(draft, off, run), x: pressed(draft, whyNot.reject, another) });
  return [question.plan && html`<div data-testid="review"><${Sentence} forecast=${question.plan} />
      <${ForecastList} forecast=${question.plan} /></div>`,
    html`<${ReasonField} draft=${draft} set=${set} needed=${draft.needsReason} hint="What should be otherwise (the planner reads it)" />
      <div class="acts">
        <${Decide} name="approve" keys=${keysOf(hand, 'a')} cls="main" label="Run it" draft=${draft} off=${off} onPress=${run} />
        ${!question.remote && html`<a class="b" href=${edit}>Edit first</a>`}
        <${Decide} name="another" keys=${keysOf(hand, 'x')} label="Ask for another" draft=${draft} off=${whyNot.reject} onPress=${another} />
        <${Decide} name="end" cls="bad" label="End the run" draft=${draft} off=${whyNot.reject}
          onPress=${() => press('end', answer.reply(question, { approved: false }))} />
        <${Reason} text=${off} />
      </div>`];
}
