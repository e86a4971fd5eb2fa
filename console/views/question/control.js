// The control of a question's `inputType`, and the value that it gives.

import * as form from '../../form.js';
import { plain, show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { EditFields } from './fields.js';

const isForm = ({ customSchema: schema }) => schema !== null && typeof schema === 'object' && schema.type === 'object';

/** `{value}` of what was given so far, or `{error}`. */
export function answerValue(schema, draft) {
  const text = draft.text ?? '';
  switch (schema.inputType) {
    case 'number': return text === '' ? { error: 'Type a number.' } : form.read('number', text);
    case 'date': return text === '' ? { error: 'Choose a day.' } : { value: text };
    case 'datetime': return timeOf(text);
    case 'select': return draft.chosen === undefined ? { error: 'Choose one.' } : { value: schema.options[draft.chosen].value };
    case 'multiselect': return { value: (draft.many ?? []).map((i) => schema.options[i].value) };
    case 'custom': return customOf(schema, draft);
    case 'file': return text.trim() === '' ? { error: 'Type the address of the file.' } : { value: text.trim() };
    default: return text === '' ? { error: 'Type an answer.' } : { value: text };
  }
}

/** A time as it is here becomes one that everybody reads alike. */
function timeOf(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? { error: 'Choose a day and a time.' } : { value: time.toISOString() };
}

function customOf(schema, draft) {
  if (!isForm(schema)) return (draft.text ?? '') === '' ? { error: 'Type an answer as JSON.' } : form.read('json', draft.text);
  const state = draft.form ?? form.begin(schema.customSchema, {});
  if (form.hasErrors(state)) return { error: 'Correct what is marked first.' };
  const missing = form.fieldsOf(state.schema, state.value).filter((field) => field.required && field.absent);
  return missing.length > 0 ? { error: `Still needed: ${missing.map((field) => plain(field.name)).join(', ')}.` } : { value: state.value };
}

export function AnswerControl({ schema, draft, set, off }) {
  const at = { class: 'f', 'data-testid': 'answer-field', 'aria-label': 'Your answer', disabled: Boolean(off) };
  const typed = { value: draft.text ?? '', onInput: (event) => set({ text: event.currentTarget.value, sent: null }) };
  switch (schema.inputType) {
    case 'number': return html`<input ...${at} inputmode="decimal" autocomplete="off" ...${typed} />`;
    case 'date': return html`<input ...${at} type="date" ...${typed} />`;
    case 'datetime': return html`<input ...${at} type="datetime-local" ...${typed} /><p class="was">in the time of this computer</p>`;
    case 'select': case 'multiselect': return html`<${Options} schema=${schema} draft=${draft} set=${set} off=${off} />`;
    case 'file': return html`<input ...${at} placeholder="https://…" autocomplete="off" ...${typed} />`;
    case 'custom': return html`<${Custom} schema=${schema} draft=${draft} set=${set} at=${at} typed=${typed} />`;
    default: return html`<textarea ...${at} rows="3" ...${typed}></textarea>`;
  }
}

function Options({ schema, draft, set, off }) {
  const isMany = schema.inputType === 'multiselect';
  const many = draft.many ?? [];
  const toggle = (i) => set(isMany ? { many: many.includes(i) ? many.filter((one) => one !== i) : [...many, i] } : { chosen: i });
  return html`<fieldset class="options" data-testid="answer-field" disabled=${Boolean(off)}><legend class="sr">Your answer</legend>
    ${schema.options.map((option, i) => html`<label class="row"><input type=${isMany ? 'checkbox' : 'radio'} name="answer"
      checked=${isMany ? many.includes(i) : draft.chosen === i} onChange=${() => toggle(i)} /> ${show(option.label)}</label>`)}
  </fieldset>`;
}

function Custom({ schema, draft, set, at, typed }) {
  if (!isForm(schema)) return html`<textarea ...${at} class="f mono" rows="4" placeholder="JSON" ...${typed}></textarea>`;
  const state = draft.form ?? form.begin(schema.customSchema, {});
  return html`<div class="args"><${EditFields} state=${state} set=${(next) => set({ form: next })} refused=${draft.refused} blank /></div>`;
}
