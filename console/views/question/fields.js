// A form's fields, as text or as controls of their type; the control of a question's `inputType`.

import * as form from '../../form.js';
import { brief, plain, show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { Button } from '../parts.js';

function Value({ value }) {
  if (typeof value === 'string') return value === '' ? html`<span class="dim">empty text</span>` : show(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return html`<span class="num">${String(value)}</span>`;
  if (value === null) return html`<span class="dim">nothing (null)</span>`;
  if (Array.isArray(value) && value.length === 0) return html`<span class="dim">empty list</span>`;
  if (Array.isArray(value) && value.every((entry) => typeof entry === 'string')) {
    return html`<ul class="lines">${value.map((entry) => html`<li>${show(entry)}</li>`)}</ul>`;
  }
  return html`<pre class="json whole">${show(JSON.stringify(value, null, 2))}</pre>`;
}

export function ReadFields({ fields }) {
  return fields.filter((field) => !field.absent).map((field) => (field.fields
    ? html`<fieldset key=${field.key}><legend><${Name} field=${field} /></legend><${ReadFields} fields=${field.fields} /></fieldset>`
    : html`<div class="arg-row" key=${field.key} data-field=${plain(field.key)}>
        <span class="arg-name"><${Name} field=${field} /></span><div class="arg-value"><${Value} value=${field.value} /></div>
      </div>`));
}

function Name({ field }) {
  return html`<span title=${plain(field.description ?? '')}>${show(field.title ?? String(field.name))}</span>
    ${field.unknown && html` <span class="tag" title="The tool’s schema does not name this">not in the schema</span>`}`;
}

/** A choice that would be rounded is disabled. */
const barred = (value) => form.hasRounded(value) && { disabled: true, title: form.ROUNDED };

const TYPED = ['text', 'area', 'number', 'date'];

/**
 * All fields for editing. `state` is a form of form.js, `set` takes the next one. `blank`: there was no value, so absent
 * fields are empty controls.
 */
export function EditFields({ state, set, fields = form.fieldsOf(state.schema, state.value, state.base), refused = {}, blank }) {
  return fields.map((field) => {
    const isBlank = blank && TYPED.includes(field.control);
    if (field.absent && !isBlank) return html`<${Absent} key=${field.key} field=${field} state=${state} set=${set} />`;
    if (field.fields) {
      return html`<fieldset key=${field.key}><legend><${Name} field=${field} /></legend>
        <${EditFields} state=${state} set=${set} fields=${field.fields} refused=${refused} /></fieldset>`;
    }
    return html`<${EditField} key=${field.key} field=${field} state=${state} set=${set} refused=${refused[field.key]} blank=${isBlank} />`;
  });
}

function Absent({ field, state, set }) {
  return html`<div class="arg-row"><span class="arg-name"><${Name} field=${field} /></span>
    <span><${Button} cls="small quiet" label="Give a value" onClick=${() => set(form.give(state, field))} /></span></div>`;
}

function EditField({ field, state, set, refused, blank }) {
  const change = blank ? null : form.changedField(state, field);
  const wrong = state.errors[field.key] ?? refused;
  const id = `f${field.key}`;
  const was = change && 'was' in change ? change.was : undefined;
  return html`<div class="arg-row" data-field=${plain(field.key)}>
    <label class="arg-name" for=${id}><${Name} field=${field} /></label>
    <div class="arg-value">
      <${Control} id=${id} field=${field} state=${state} set=${set} isChanged=${change !== null} wrong=${wrong} blank=${blank} />
      ${wrong && html`<p class="wrong" id=${`${id}-e`} role="alert">${show(wrong)}</p>`}
      ${change && html`<p class="was">${was === undefined ? 'was not given' : html`was <del>${show(brief(was, Infinity))}</del>`}</p>`}
      ${change && was === undefined && html`<${Button} cls="small quiet" label="Leave out" onClick=${() => set(form.leaveOut(state, field))} />`}
    </div>
  </div>`;
}

function Control({ id, field, state, set, isChanged, wrong, blank }) {
  const { control, value } = field;
  const text = state.typed[field.key] ?? (field.absent ? '' : form.written(control, value));
  const onInput = (event) => set((blank ? form.typeOptional : form.type)(state, field, event.currentTarget.value));
  const at = {
    id, class: `f${isChanged ? ' changed' : ''}`, 'aria-invalid': wrong ? 'true' : undefined,
    'aria-describedby': wrong ? `${id}-e` : undefined, required: blank && field.required,
  };
  const typed = { ...at, value: text, onInput };
  // An empty field stays one line when its text grows long.
  switch (blank && control === 'area' ? 'text' : control) {
    case 'select': return html`<${Select} at=${at} field=${field} state=${state} set=${set} />`;
    case 'boolean': return html`<span class="row check"><input id=${id} type="checkbox" checked=${value}
      onChange=${(event) => set(form.choose(state, field, event.currentTarget.checked))} />
      <span class="mid">${value ? 'yes' : 'no'}</span></span>`;
    case 'number': return html`<input ...${typed} class="${at.class} num" inputmode="decimal" autocomplete="off" />`;
    case 'date': return html`<input ...${typed} type="date" />`;
    case 'text': return html`<input ...${typed} autocomplete="off" />`;
    case 'area': return html`<textarea ...${typed} rows="3"></textarea>`;
    case 'lines': return html`<textarea ...${typed} rows="3"></textarea><p class="was">one per line</p>`;
    default: return html`<textarea ...${typed} class="${at.class} mono" rows="4" spellcheck=${false}></textarea><p class="was">as JSON</p>`;
  }
}

function Select({ at, field, state, set }) {
  const chosen = field.options.findIndex((option) => JSON.stringify(option.value) === JSON.stringify(field.value));
  return html`<select ...${at} value=${String(chosen)}
    onChange=${(event) => set(form.choose(state, field, field.options[Number(event.currentTarget.value)].value))}>
    ${field.options.map((option, i) => html`<option value=${String(i)} ...${barred(option.value)}>${plain(option.label)}</option>`)}
  </select>`;
}

/* The control of a question's `inputType`, and its value. */

const isForm = ({ customSchema: schema }) => schema !== null && typeof schema === 'object' && schema.type === 'object';

/** `{value}` of the draft, or `{error}`. */
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

/** A local time becomes an unambiguous one. */
function timeOf(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? { error: 'Choose a day and a time.' } : { value: time.toISOString() };
}

function customOf(schema, draft) {
  if (!isForm(schema)) return (draft.text ?? '') === '' ? { error: 'Type an answer as JSON.' } : form.read('json', draft.text);
  const state = draft.form ?? form.begin(schema.customSchema, {});
  if (form.hasErrors(state)) return { error: 'Correct what is marked first.' };
  if (form.hasRounded(state.value)) return { error: form.ROUNDED };
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
      checked=${isMany ? many.includes(i) : draft.chosen === i} onChange=${() => toggle(i)} ...${barred(option.value)} /> ${show(option.label)}</label>`)}
  </fieldset>`;
}

function Custom({ schema, draft, set, at, typed }) {
  if (!isForm(schema)) return html`<textarea ...${at} class="f mono" rows="4" placeholder="JSON" ...${typed}></textarea>`;
  const state = draft.form ?? form.begin(schema.customSchema, {});
  return html`<div class="args"><${EditFields} state=${state} set=${(next) => set({ form: next })} refused=${draft.refused} blank /></div>`;
}
