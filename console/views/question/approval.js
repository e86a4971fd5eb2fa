// May this call run? Approve it, approve it with other arguments, or reject it.

import { approval, needsTwo, obstacle, rejection } from '../../answer.js';
import * as form from '../../form.js';
import { useKeys } from '../../keyboard.js';
import { show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { Arguments, useFacts } from './arguments.js';
import { Decide, pressed, Reason, ReasonField } from './buttons.js';
import { Why } from './why.js';

export function Approval({ ctx, question, draft, set, press, whyNot, over }) {
  const schema = question.inputSchema ?? ctx.tools.get(question.toolName)?.inputSchema;
  const mayEdit = !over && question.feedbackSchema?.allowModifyArgs === true && whyNot.approve === null;
  return html`
    <${Arguments} question=${question} schema=${schema} draft=${draft} set=${set} mayEdit=${mayEdit} />
    <${Why} ctx=${ctx} question=${question} />
    ${!over && html`<${Acts} question=${question} draft=${draft} set=${set} press=${press} whyNot=${whyNot}
      mayEdit=${mayEdit} schema=${schema} />`}`;
}

function Acts({ question, draft, set, press, whyNot, mayEdit, schema }) {
  const edited = draft.view === 'edit' && draft.form ? draft.form : null;
  const isChanged = edited !== null && form.changes(edited).length > 0;
  const size = useFacts(question.toolInput).text.length;
  const stop = obstacle(question, { form: edited, seen: draft.seen || edited !== null, size });
  const approve = () => {
    if (needsTwo(question) && !draft.armed) set({ armed: true, note: null });
    else press('approve', approval(question, edited, draft.reason));
  };
  const reject = () => {
    if (draft.reason.trim() === '') set({ needsReason: true });
    else press('reject', rejection(question, draft.reason));
  };
  const undo = () => set({ view: 'form', form: form.begin(schema, question.toolInput), armed: false, asJson: false });
  const edit = () => set({ view: 'edit', seen: true, form: form.begin(schema, question.toolInput), armed: false });
  const off = whyNot.approve ?? stop;
  useKeys({
    a: pressed(draft, off, approve),
    x: pressed(draft, whyNot.reject, reject),
    e: pressed(draft, edited || mayEdit ? null : 'no', edited ? undo : edit),
  });
  const label = draft.armed ? 'Press again' : isChanged ? `Approve ${form.withWords(edited)}` : 'Approve';
  return html`
    <${ReasonField} draft=${draft} set=${set} needed=${draft.needsReason} />
    <div class="acts">
      <${Decide} name="approve" keys=${needsTwo(question) ? 'a a' : 'a'} cls=${`main${draft.armed ? ' armed' : ''}`} draft=${draft} off=${off}
        label=${html`${label}${draft.armed && html`: <span class="mono">${show(question.toolName)}</span>`}`} onPress=${approve} />
      ${edited
        ? html`<button type="button" class="b" data-testid="undo" onClick=${undo}>Undo</button>`
        : mayEdit && html`<button type="button" class="b" data-testid="edit" disabled=${draft.busy !== null} onClick=${edit}>Edit<kbd
            aria-hidden="true">e</kbd></button>`}
      <${Decide} name="reject" keys="x" cls="bad" label="Reject" draft=${draft} off=${whyNot.reject} onPress=${reject} />
      <${Reason} text=${off} />
    </div>`;
}
