// The other kinds of questions, each with what it shows and its possible answers.

import { reasonOf, rejection, reply } from '../../answer.js';
import * as form from '../../form.js';
import { dollars, tokens } from '../../format.js';
import { show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { isSend } from '../talk.js';
import { Arguments } from './approval.js';
import { AnswerControl, answerValue, EditFields } from './fields.js';
import { Decide, Reason, ReasonField, ResultField, withReason, YesNo } from './parts.js';

const argumentsOf = ({ question, draft, set }) => question.toolInput !== undefined && html`<${Arguments} question=${question}
  schema=${question.inputSchema} draft=${draft} set=${set} mayEdit=${false} />`;

/** The tool by which a model asks; its arguments are the question. */
export const ASK_USER = 'ask_user';

/** A tool, an agent or the model asks for input. */
export function input(props) {
  const { question, draft, set, press, whyNot, over } = props;
  const { prompt, inputType } = question.feedbackSchema;
  const isYesNo = inputType === 'boolean' || inputType === 'confirm';
  const decline = withReason(props, 'decline');
  const answer = (value) => press('answer', reply(question, { value }));
  const { value, error } = isYesNo ? {} : answerValue(question.feedbackSchema, draft);
  const keyed = (event) => {
    const isSent = isSend(event) || (event.key === 'Enter' && event.target.matches('input[data-testid=answer-field]'));
    if (!isSent || event.isComposing) return;
    event.preventDefault();
    if (!event.repeat && !whyNot.approve && !error) answer(value);
  };
  return [html`
    ${prompt && prompt !== question.message && !question.message.endsWith(prompt) && html`<p>${show(prompt)}</p>`}
    ${!over && !isYesNo && html`<div onKeyDown=${keyed}><${AnswerControl} schema=${question.feedbackSchema} draft=${draft} set=${set} off=${whyNot.approve} /></div>`}
    ${question.toolName === ASK_USER ? html`<details class="part">
        <summary>As the model asked it</summary>${argumentsOf(props)}</details>` : argumentsOf(props)}`,
    html`<${ReasonField} ...${props} needed=${draft.needsReason} hint="Reason (needed to decline; the model reads it)" />
      ${isYesNo ? html`<div class="acts">
          <${Decide} name="yes" cls="main" label="Yes" draft=${draft} off=${whyNot.approve} onPress=${() => answer(true)} />
          <${Decide} name="no" label="No" draft=${draft} off=${whyNot.approve} onPress=${() => answer(false)} />
          <${Decide} name="decline" cls="bad" label="Decline" draft=${draft} off=${whyNot.reject} onPress=${decline} />
          <${Reason} text=${whyNot.approve} /></div>`
        : html`<${YesNo} ...${props} wrong=${error} yes=${['answer', 'Answer', () => answer(value)]}
            no=${['decline', 'Decline', decline]} />`}`];
}

/** A call that may have taken effect. */
export function inDoubt(props) {
  const { question, draft, set, press, whyNot } = props;
  const act = (action, members = {}) => press(action, reply(question, { action, ...members }));
  const { value, error } = resultOf(draft);
  const off = whyNot.approve;
  const done = () => (draft.giving ? act('done', value === undefined ? {} : { value }) : set({ giving: true }));
  const skip = () => act('skip', reasonOf(draft.reason));
  return [html`
    <p class="mid">The call was handed over, and what came of it is not known. It was not repeated, as that might do it
      twice. Look where it would have had its effect, then say what is true.</p>
    ${argumentsOf(props)}`,
    html`<${ReasonField} ...${props} hint="Reason, if you skip it (the model reads it)" />
      ${draft.giving && html`<${ResultField} label="Its result: text or JSON. Without one the model is told that it was done." draft=${draft} set=${set} />
        ${error && html`<p class="wrong" role="alert">${show(error)}</p>`}`}
      <div class="choices">
        <${Decide} name="done" draft=${draft} off=${off ?? (draft.giving ? error : null)} onPress=${done}
          cls=${draft.giving ? 'main' : ''} label=${draft.giving ? 'It was done: use this result' : 'It was done: use this result…'} />
        <${Decide} name="retry" draft=${draft} off=${off} label="It was not done: make the call again" onPress=${() => act('retry')} />
        <${Decide} name="skip" draft=${draft} off=${off} label="Skip this call, go on" onPress=${skip} />
        <${Decide} name="abort" cls="bad" draft=${draft} off=${off} label="Abort the item" onPress=${() => act('abort')} />
        <${Reason} text=${off} />
      </div>`];
}

/** A typed result: JSON if it looks like it, else text. */
function resultOf({ result = '' }) {
  const text = result.trim();
  if (text === '') return {};
  return /^[[{"]/.test(text) ? form.read('json', text) : { value: result };
}

/** A call that the caller's own program executes. */
export function clientTool(props) {
  const { question, draft, set, press } = props;
  const { value, error } = resultOf(draft);
  const missing = error ?? (value === undefined ? 'Type the result first.' : null);
  return [html`
    <p class="mid">The program that asked for this run carries out this call, and answers by itself. Answer here only if it does not.</p>
    ${argumentsOf(props)}`,
    html`<${ResultField} label="Its result: text or JSON" draft=${draft} set=${set} />
      <${ReasonField} ...${props} needed=${draft.needsReason} hint="Reason (needed to refuse; the model reads it)" />
      <${YesNo} ...${props} wrong=${missing} told=${draft.result ? error : null}
        yes=${['answer', 'Give this result', () => press('answer', reply(question, { value }))]}
        no=${['fail', 'It cannot be done', withReason(props, 'fail')]} />`];
}

/** By member of a budget: its name, and what the message says when it is spent. */
const BUDGET = {
  maxTokens: ['tokens', 'tokens,'], maxCostUsd: ['US dollars', 'costs'], maxLlmCalls: ['model calls', 'calls are'], deadlineMs: ['milliseconds from now', 'time is'],
};

/** A budget's form, with names for its members; what is spent comes first. */
function named(schema, message) {
  const members = Object.entries(schema?.properties ?? {}).map(([name, rules]) => [name, { ...rules, title: BUDGET[name]?.[0] }]);
  const isSpent = ([name]) => message.includes(BUDGET[name]?.[1]);
  return { ...schema, properties: Object.fromEntries(members.sort((a, b) => isSpent(b) - isSpent(a))) };
}

/** The budget is used up: how much more? */
export function budget(props) {
  const { question, thread, draft, set, press } = props;
  const run = thread?.view.runs.get(question.runId);
  const more = draft.form ?? form.begin(named(question.feedbackSchema.customSchema, question.message), {});
  const isMore = Object.keys(more.value).length > 0;
  const extend = () => press('extend', reply(question, { approved: true, ...(isMore ? { value: more.value } : {}) }));
  const wrong = form.hasErrors(more) ? 'Correct what is marked first.' : null;
  return [run && html`<p class="mid num">Spent so far: ${run.unpriced ? '' : html`<b>${dollars(run.costUsd ?? 0)}</b>, `}
      <b>${tokens((run.input ?? 0) + (run.output ?? 0))}</b> tokens, <b>${run.llmCalls}</b> model calls.</p>`,
    html`<div class="args"><p class="mid">How much more? Without a figure as much is added as there was.</p>
        <${EditFields} state=${more} set=${(next) => set({ form: next })} refused=${draft.refused} blank /></div>
      <${YesNo} ...${props} wrong=${wrong}
        yes=${['extend', isMore ? 'Go on with this much more' : 'Go on with as much again', extend]}
        no=${['stop', 'End the run', () => press('stop', reply(question, { approved: false }))]} />`];
}

/** An agent needs a person to sign in elsewhere. */
export function peerAuth(props) {
  const { question, draft, press } = props;
  return [html`
    <p class="mid">Do there what the agent asks for, then say so: it is looked at again.</p>
    ${argumentsOf(props)}`,
    html`<${ReasonField} ...${props} hint="Reason, if you will not (the model reads it)" />
      <${YesNo} ...${props} yes=${['answer', 'Done: look again', () => press('answer', reply(question, { value: true }))]}
        no=${['refuse', 'I will not', () => press('refuse', rejection(question, draft.reason))]} />`];
}

export function pause(props) {
  const { question, press } = props;
  return [html`<p class="mid">What is under way comes to its end; nothing new starts.</p>`,
    html`<${YesNo} ...${props}
      yes=${['continue', 'Continue', () => press('continue', reply(question, { approved: true }))]} />`];
}
