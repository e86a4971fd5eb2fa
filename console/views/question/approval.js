// An approval: the call's arguments, complete; approve it, with these or other arguments, or reject it.

import * as answer from '../../answer.js';
import { useKeys } from '../../browser.js';
import * as form from '../../form.js';
import { show } from '../../text.js';
import { html, useMemo } from '../../vendor/preact-htm.js';
import { bytes, countHidden, Diff, hiddenNote } from '../code.js';
import { EditFields, ReadFields } from './fields.js';
import { Button, Choice } from '../parts.js';
import { Decide, keysOf, pressed, Reason, ReasonField, useArmed, withReason } from './parts.js';

export function approval(props) {
  const { question, draft, set, whyNot, over } = props;
  const schema = question.inputSchema;
  const { text, isRounded } = useFacts(question.toolInput);
  // An edit sends all arguments: a rounded number would be sent.
  const mayEdit = !over && question.feedbackSchema?.allowModifyArgs === true && whyNot.approve === null && !isRounded;
  // Another server may not say what it asks about.
  return [question.toolInput !== undefined
      && html`<${Arguments} question=${question} schema=${schema} draft=${draft} set=${set} mayEdit=${mayEdit} />`,
    html`<${Acts} ...${props} mayEdit=${mayEdit} schema=${schema} size=${text.length} />`];
}

function Acts(props) {
  const { question, draft, set, press, whyNot, mayEdit, schema, size, hand } = props;
  const edited = draft.view === 'edit' && draft.form ? draft.form : null;
  const isChanged = edited !== null && form.changes(edited).length > 0;
  const stop = answer.obstacle(question, { form: edited, seen: draft.seen || edited !== null, size });
  const isTwice = answer.needsTwo(question);
  const [isArmed, arm, disarm] = useArmed(edited ?? question.digest);
  const approve = () => {
    if (isTwice && !isArmed) {
      arm();
      return set({ note: null });
    }
    disarm();
    return press('approve', answer.approval(question, edited, draft.reason));
  };
  const reject = withReason(props, 'reject');
  const undo = () => set({ view: 'form', form: form.begin(schema, question.toolInput), asJson: false });
  const edit = () => set({ view: 'edit', seen: true, form: form.begin(schema, question.toolInput) });
  const off = whyNot.approve ?? stop;
  useKeys(!hand?.isHere ? {} : {
    a: pressed(draft, off, approve),
    x: pressed(draft, whyNot.reject, reject),
    e: pressed(draft, edited || mayEdit ? null : 'no', edited ? undo : edit),
  });
  const label = isArmed ? 'Press again' : isChanged ? `Approve ${form.withWords(edited)}` : 'Approve';
  return html`
    <${ReasonField} draft=${draft} set=${set} needed=${draft.needsReason} />
    <div class="acts">
      <${Decide} name="approve" keys=${keysOf(hand, isTwice ? 'a a' : 'a')} cls=${`main${isArmed ? ' armed' : ''}`} draft=${draft} off=${off}
        label=${html`${label}${isArmed && html`: <span class="mono">${show(question.toolName)}</span>`}`} onPress=${approve} />
      ${edited
        ? html`<${Button} label="Undo" onClick=${undo} />`
        : mayEdit && html`<${Button} label="Edit" k=${keysOf(hand, 'e')} id="edit" disabled=${draft.busy !== null} onClick=${edit} />`}
      <${Decide} name="reject" keys=${keysOf(hand, 'x')} cls="bad" label="Reject" draft=${draft} off=${whyNot.reject} onPress=${reject} />
      <${Reason} text=${off} />
    </div>`;
}

/* A call's arguments, complete: as a form, as JSON, or editable. */

/** Facts about arguments, computed once. */
function useFacts(value) {
  return useMemo(() => ({
    text: JSON.stringify(value, null, 2) ?? '', hidden: hiddenNote(countHidden(value)), isRounded: form.hasRounded(value),
  }), [value]);
}

/** `draft.view`: form, json or edit. Long arguments are shown on demand, recorded in `draft.seen`. */
export function Arguments({ question, schema, draft, set, mayEdit }) {
  const value = question.toolInput;
  const { text, hidden, isRounded } = useFacts(value);
  const isHeld = text.length > answer.LARGE && !draft.seen;
  // In other kinds the form is the answer's.
  const show_ = (view) => set({ view, seen: draft.seen || view === 'json', ...(view === 'edit' && { form: draft.form ?? form.begin(schema, value) }) });
  const views = [['form', 'Form'], ['json', 'JSON'], ...(mayEdit ? [['edit', 'Edit']] : [])]
    .map(([view, label]) => [view, label, { 'data-testid': `show-${view}` }]);
  return html`
    <div class="row"><h2 class="sub">Arguments</h2>
      <${Choice} cls="right" label="Show arguments as" of=${views} now=${draft.view} choose=${show_} /></div>
    ${isHeld
      ? html`<p class="mid" data-testid="args-held">The arguments are ${bytes(text.length)} long.
          <${Button} cls="small" id="show-all" label=${`Show all (${bytes(text.length)})`} onClick=${() => set({ seen: true })} /></p>`
      : html`<${View} draft=${draft} set=${set} value=${value} text=${text} schema=${schema} refused=${draft.refused} />`}
    <${Notes} hidden=${hidden} isRounded=${isRounded} />`;
}

function View({ draft, set, value, text, schema, refused }) {
  if (draft.view === 'json') return html`<pre class="json whole" tabindex="0">${show(text)}</pre>`;
  if (draft.view === 'edit') return html`<${Edit} draft=${draft} set=${set} refused=${refused} />`;
  const fields = form.fieldsOf(schema, value);
  return html`<div class="args" data-testid="args-read">
    ${fields.length === 0 ? html`<p class="dim">No arguments.</p>` : html`<${ReadFields} fields=${fields} />`}</div>`;
}

function Edit({ draft, set, refused }) {
  const setForm = (next) => set({ form: next });
  const whole = { path: [], key: '', control: 'json' };
  return html`<div class="args" data-testid="args-edit">
    ${draft.asJson
      ? html`<textarea class="f mono" rows="8" spellcheck=${false} aria-label="Arguments as JSON"
          value=${draft.form.typed[''] ?? form.written('json', draft.form.value)}
          onInput=${(event) => setForm(form.type(draft.form, whole, event.currentTarget.value))}></textarea>
          ${draft.form.errors[''] && html`<p class="wrong" role="alert">${show(draft.form.errors[''])}</p>`}`
      : html`<${EditFields} state=${draft.form} set=${setForm} refused=${refused} />`}
    <${Button} cls="small quiet" label=${draft.asJson ? 'Edit as a form' : 'Edit as JSON'} disabled=${form.hasErrors(draft.form)}
      onClick=${() => set({ asJson: !draft.asJson, form: { ...draft.form, typed: {} } })} />
  </div>
  <${Diff} was=${draft.form.base} now=${draft.form.value} />`;
}

function Notes({ hidden, isRounded }) {
  return html`
    ${hidden && html`<p class="c-ask note" data-testid="hidden-note">${hidden}</p>`}
    ${isRounded && html`<p class="c-ask note" data-testid="rounded-note">
      A number here has more digits than a browser can hold, and is shown rounded. What you approve is the number itself; it cannot be edited here.</p>`}`;
}
