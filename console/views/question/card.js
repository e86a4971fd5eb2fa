// The question to a person: everything that is needed to decide, on one card, and the buttons that decide.

import { hiddenNote, countHidden, show } from '../../text.js';
import { Shape, Sign } from '../../shapes.js';
import { html, useEffect } from '../../vendor/preact-htm.js';
import { barredText, CLASS, EXPIRED, KIND, KIND_SHAPE, resolutionText } from '../../words.js';
import { Todo } from '../todo.js';
import { Approval } from './approval.js';
import { Diff } from './arguments.js';
import { Budget, ClientTool, InDoubt, Input, Pause, PeerAuth } from './kinds.js';
import { PlanReview } from './review.js';
import { useAnswer } from './send.js';
import { Countdown, Why } from './why.js';

const BODY = {
  approval: Approval, input: Input, in_doubt: InDoubt, client_tool: ClientTool, budget: Budget, peer_input: Input,
  peer_auth: PeerAuth, plan_review: PlanReview, pause: Pause,
};

/**
 * `question` is a suspension as the server or the fold has it, with `threadId`; `thread` only on the thread's page; `link`
 * leads to the thread from elsewhere.
 */
export function QuestionCard({ ctx, question, thread, boxed, link, onDone }) {
  const { draft, set, press } = useAnswer(ctx, question, onDone);
  useEffect(() => disarmLater(draft.armed, set), [draft.armed]);
  const asked = draft.newer ?? question;
  const over = endOf(question, ctx.clock.now()) ?? draft.over?.text ?? null;
  const Body = BODY[asked.kind];
  const props = { ctx, question: asked, thread, draft, set, press, whyNot: whyNot(ctx, asked) };
  return html`<section class=${`card k-${asked.kind}${boxed ? ' box' : ''}${over ? ' over' : ''}`} data-testid="question"
      data-id=${question.suspensionId} data-kind=${asked.kind} data-state=${over ? 'over' : draft.busy ? 'busy' : 'open'}
      aria-label="Question to a person">
    <${Header} ctx=${ctx} question=${asked} link=${link} />
    <p class="q">${show(asked.message)}</p>
    <${HiddenNote} text=${asked.message} />
    ${over ? html`<p class="verdict" role="status" data-testid="verdict">${show(over)}</p>`
      : html`<${Countdown} ctx=${ctx} question=${asked} />`}
    ${draft.newer && html`<p class="c-ask note">The question has changed since you looked at it; this differs:</p>
      <${Diff} was=${question.toolInput ?? null} now=${asked.toolInput ?? null} />`}
    ${Body ? html`<${Body} ...${props} over=${over} />`
      : html`<p class="mid">This page does not know questions of the kind ${show(asked.kind)}. A newer one may.</p>
          <${Why} ctx=${ctx} question=${asked} />`}
    ${!over && draft.note && html`<${Note} note=${draft.note} />`}
  </section>`;
}

/** A button that was pressed once falls back after three seconds. */
function disarmLater(armed, set) {
  if (!armed) return undefined;
  const timer = setTimeout(() => set({ armed: false }), 3_000);
  return () => clearTimeout(timer);
}

/** What became of it, in a sentence; null while it is open. */
function endOf({ resolution, ended, status, expiryPolicy }, now) {
  if (ended?.timedOut) return EXPIRED[expiryPolicy] ?? 'Nobody answered in time.';
  if (ended) return resolutionText({ ...ended, decidedAt: ended.at }, now);
  if (resolution) return resolutionText(resolution, now);
  if (status === 'expired') return EXPIRED[expiryPolicy] ?? 'Nobody answered in time.';
  return status === 'cancelled' ? 'It was withdrawn.' : null;
}

/** `{approve, reject}`: why it cannot be done now, or null. */
function whyNot(ctx, { mayAnswer: mine, policy }) {
  const here = ctx.whyNot('approve');
  const of = (name) => here ?? (mine?.[name] === false ? barredText(mine.why, policy) : null);
  return { approve: of('approve'), reject: of('reject') };
}

function Header({ ctx, question, link }) {
  const { kind, toolName, toolInput, riskLevel, seq } = question;
  const toolClass = question.class ?? ctx.tools.get(toolName)?.class;
  const isHigh = riskLevel === 'high' || riskLevel === 'critical';
  const agent = kind.startsWith('peer_') ? toolInput?.agentId ?? toolInput?.agent : null;
  return html`<header>
    <${Shape} status=${KIND_SHAPE[kind] ?? 'ask'} />
    ${agent && html`<b>${show(agent)}</b>`}
    ${toolName ? html`<b class="mono">${show(toolName)}</b>` : html`<b>${KIND[kind] ?? show(kind)}</b>`}
    ${riskLevel && html`<span class=${`tag${isHigh ? ' fail' : ''}`} data-testid="risk">${show(riskLevel)} risk</span>`}
    ${(toolClass === 'irreversible' || toolClass === 'external') && html`<span class="tag ask">
      <${Sign} name="once" /> ${CLASS[toolClass]}</span>`}
    ${link ? html`<a class="right" href=${link}>Open thread</a>`
      : seq != null && html`<a class="right dim mono num" href=${ctx.to({ row: seq })} title="Show in the timeline">#${seq}</a>`}
  </header>`;
}

function HiddenNote({ text }) {
  const note = hiddenNote(countHidden(text ?? ''));
  return note && html`<p class="c-ask note">${note}</p>`;
}

/** What came of a press. */
function Note({ note }) {
  return html`<div class="answer-note" role="alert" data-testid="answer-note" data-kind=${note.kind}>
    <p>${show(note.text)}</p>${note.todo && html`<p class="mid"><${Todo} text=${note.todo} /></p>`}
    ${note.traceId && html`<p class="dim mono">trace ${show(note.traceId)}</p>`}</div>`;
}
