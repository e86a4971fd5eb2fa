// Questions of the other kinds: each with the answers that it takes, in plain words.

import { rejection, reply } from '../../answer.js';
import { useKeys } from '../../browser.js';
import * as form from '../../form.js';
import { dollars, tokens } from '../../format.js';
import { show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { Arguments } from './approval.js';
import { AnswerControl, answerValue, EditFields } from './fields.js';
import { Decide, pressed, Reason, ReasonField, Why } from './parts.js';

const argumentsOf = ({ ctx, question, draft, set }) => question.toolInput !== undefined && html`<${Arguments} question=${question}
  schema=${question.inputSchema ?? ctx.tools.get(question.toolName)?.inputSchema} draft=${draft} set=${set} mayEdit=${false} />`;

/** The tool by which a model asks; its arguments are the question. */
const ASK_USER = 'ask_user';

/** A tool, an agent or the model wants to know something. */
export function Input(props) {
  const { ctx, question, draft, set, press, whyNot, over } = props;
  const { prompt, inputType } = question.feedbackSchema;
  const isYesNo = inputType === 'boolean' || inputType === 'confirm';
  const decline = () => (draft.reason.trim() === '' ? set({ needsReason: true }) : press('decline', rejection(question, draft.reason)));
  const answer = (value) => press('answer', reply(question, { value }));
  const { value, error } = isYesNo ? {} : answerValue(question.feedbackSchema, draft);
  return html`
    ${prompt && prompt !== question.message && !question.message.endsWith(prompt) && html`<p>${show(prompt)}</p>`}
    ${!over && !isYesNo && html`<${AnswerControl} schema=${question.feedbackSchema} draft=${draft} set=${set} off=${whyNot.approve} />`}
    ${question.toolName === ASK_USER ? html`<details class="part">
        <summary>As the model asked it</summary>${argumentsOf(props)}</details>` : argumentsOf(props)}
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`<${ReasonField} draft=${draft} set=${set} needed=${draft.needsReason} hint="Reason (needed to decline; the model reads it)" />
      <div class="acts">
        ${isYesNo
          ? html`<${Decide} name="yes" cls="main" label="Yes" draft=${draft} off=${whyNot.approve} onPress=${() => answer(true)} />
              <${Decide} name="no" label="No" draft=${draft} off=${whyNot.approve} onPress=${() => answer(false)} />`
          : html`<${Decide} name="answer" cls="main" label="Answer" draft=${draft} off=${whyNot.approve ?? error}
              onPress=${() => answer(value)} />`}
        <${Decide} name="decline" cls="bad" label="Decline" draft=${draft} off=${whyNot.reject} onPress=${decline} />
        <${Reason} text=${whyNot.approve ?? error} />
      </div>`}`;
}

/** A call that may or may not have had its effect. */
export function InDoubt(props) {
  const { ctx, question, draft, set, press, whyNot, over } = props;
  const act = (action, members = {}) => press(action, reply(question, { action, ...members }));
  const { value, error } = resultOf(draft);
  const off = whyNot.approve;
  const done = () => (draft.giving ? act('done', value === undefined ? {} : { value }) : set({ giving: true }));
  const skip = () => act('skip', draft.reason.trim() ? { reason: draft.reason.trim() } : {});
  useKeys(over ? {} : {
    d: pressed(draft, off, () => set({ giving: true })), r: pressed(draft, off, () => act('retry')),
    s: pressed(draft, off, skip), x: pressed(draft, off, () => act('abort')),
  });
  return html`
    <p class="mid">The call was handed over, and the server stopped before an answer came. It was not repeated, as that might do it
      twice. Look where it would have had its effect, then say what is true.</p>
    ${argumentsOf(props)}
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`
      <${ReasonField} draft=${draft} set=${set} hint="Reason, if you skip it (the model reads it)" />
      ${draft.giving && html`<label class="stack"><span>Its result: text or JSON. Without one the model is told that it was done.</span>
        <textarea class="f mono" rows="3" data-testid="result" value=${draft.result ?? ''}
          onInput=${(event) => set({ result: event.currentTarget.value })}></textarea></label>
        ${error && html`<p class="wrong" role="alert">${show(error)}</p>`}`}
      <div class="choices">
        <${Decide} name="done" keys="d" draft=${draft} off=${off ?? (draft.giving ? error : null)} onPress=${done}
          cls=${draft.giving ? 'main' : ''} label=${draft.giving ? 'It was done: use this result' : 'It was done: use this result…'} />
        <${Decide} name="retry" keys="r" draft=${draft} off=${off} label="It was not done: make the call again" onPress=${() => act('retry')} />
        <${Decide} name="skip" keys="s" draft=${draft} off=${off} label="Skip this call, go on" onPress=${skip} />
        <${Decide} name="abort" keys="x" cls="bad" draft=${draft} off=${off} label="Abort the item" onPress=${() => act('abort')} />
        <${Reason} text=${off} />
      </div>`}`;
}

/** A result that was typed: JSON where it looks like it, else text. */
function resultOf({ result = '' }) {
  const text = result.trim();
  if (text === '') return {};
  return /^[[{"]/.test(text) ? form.read('json', text) : { value: result };
}

/** A call that the caller's own program carries out. */
export function ClientTool(props) {
  const { ctx, question, draft, set, press, whyNot, over } = props;
  const { value, error } = resultOf(draft);
  const missing = error ?? (value === undefined ? 'Type the result first.' : null);
  const fail = () => (draft.reason.trim() === '' ? set({ needsReason: true }) : press('fail', rejection(question, draft.reason)));
  return html`
    <p class="mid">The program that asked for this run carries out this call, and answers by itself. Answer here only if it does not.</p>
    ${argumentsOf(props)}
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`
      <label class="stack"><span>Its result: text or JSON</span>
        <textarea class="f mono" rows="3" data-testid="result" value=${draft.result ?? ''}
          onInput=${(event) => set({ result: event.currentTarget.value })}></textarea></label>
      <${ReasonField} draft=${draft} set=${set} needed=${draft.needsReason} hint="Reason (needed to refuse; the model reads it)" />
      <div class="acts">
        <${Decide} name="answer" cls="main" label="Give this result" draft=${draft} off=${whyNot.approve ?? missing}
          onPress=${() => press('answer', reply(question, { value }))} />
        <${Decide} name="fail" cls="bad" label="It cannot be done" draft=${draft} off=${whyNot.reject} onPress=${fail} />
        <${Reason} text=${whyNot.approve ?? (draft.result ? error : null)} />
      </div>`}`;
}

const BUDGET = { maxTokens: 'tokens', maxCostUsd: 'US dollars', maxLlmCalls: 'model calls', deadlineMs: 'milliseconds from now' };

/** The form of a budget, its members called what they are. */
function named(schema) {
  const members = Object.entries(schema?.properties ?? {});
  return { ...schema, properties: Object.fromEntries(members.map(([name, rules]) => [name, { ...rules, title: BUDGET[name] }])) };
}

/** The budget is spent: how much more? */
export function Budget({ ctx, question, thread, draft, set, press, whyNot, over }) {
  const run = thread?.view.runs.get(question.runId);
  const more = draft.form ?? form.begin(named(question.feedbackSchema.customSchema), {});
  const isMore = Object.keys(more.value).length > 0;
  const extend = () => press('extend', reply(question, { approved: true, ...(isMore ? { value: more.value } : {}) }));
  const wrong = form.hasErrors(more) ? 'Correct what is marked first.' : null;
  return html`
    ${run && html`<p class="mid num">Spent so far: ${run.unpriced ? '' : html`<b>${dollars(run.costUsd ?? 0)}</b>, `}
      <b>${tokens((run.input ?? 0) + (run.output ?? 0))}</b> tokens, <b>${run.llmCalls}</b> model calls.</p>`}
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`
      <div class="args"><p class="mid">How much more? Without a figure as much is added as there was.</p>
        <${EditFields} state=${more} set=${(next) => set({ form: next })} refused=${draft.refused} blank /></div>
      <div class="acts">
        <${Decide} name="extend" cls="main" draft=${draft} off=${whyNot.approve ?? wrong} onPress=${extend}
          label=${isMore ? 'Go on with this much more' : 'Go on with as much again'} />
        <${Decide} name="stop" cls="bad" label="End the run" draft=${draft} off=${whyNot.reject}
          onPress=${() => press('stop', reply(question, { approved: false }))} />
        <${Reason} text=${whyNot.approve ?? wrong} />
      </div>`}`;
}

/** An agent wants a person to sign in somewhere else. */
export function PeerAuth(props) {
  const { ctx, question, draft, set, press, whyNot, over } = props;
  const refuse = () => press('refuse', rejection(question, draft.reason));
  return html`
    <p class="mid">Do there what the agent asks for, then say so: it is looked at again.</p>
    ${argumentsOf(props)}
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`
      <${ReasonField} draft=${draft} set=${set} hint="Reason, if you will not (the model reads it)" />
      <div class="acts">
        <${Decide} name="answer" cls="main" label="Done: look again" draft=${draft} off=${whyNot.approve}
          onPress=${() => press('answer', reply(question, { value: true }))} />
        <${Decide} name="refuse" cls="bad" label="I will not" draft=${draft} off=${whyNot.reject} onPress=${refuse} />
        <${Reason} text=${whyNot.approve} />
      </div>`}`;
}

/** Somebody holds the run back. */
export function Pause({ question, draft, press, whyNot, over }) {
  return html`<p class="mid">What was under way came to its end; nothing new starts.</p>
    ${!over && html`<div class="acts">
      <${Decide} name="continue" cls="main" label="Continue" draft=${draft} off=${whyNot.approve}
        onPress=${() => press('continue', reply(question, { approved: true }))} />
      <${Reason} text=${whyNot.approve} />
    </div>`}`;
}
