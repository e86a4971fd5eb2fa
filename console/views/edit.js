// The plan as an editable list. Finished and running items are locked; the difference is saved.

import { enc } from '../api.js';
import { useKeys } from '../browser.js';
import * as plan from '../draft.js';
import { count, listed } from '../format.js';
import { sentence } from '../outlook.js';
import { Shape, Sign } from '../shapes.js';
import { plain, show } from '../text.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { Awaited } from './failure.js';
import { Button, Refusal } from './parts.js';
import { away } from './section.js';

const versionOf = (etag) => etag.replace(/\D/g, '');

const TYPE = 'application/json-patch+json';

const hasEdits = (draft) => draft !== null && plan.edits(draft).length > 0;

/** The draft, and the result of saving it. */
function useEdit(ctx, thread) {
  const [state, setState] = useState({ draft: null, tools: new Set() });
  const set = (news) => setState((before) => ({ ...before, ...news }));
  const latest = useRef(state);
  latest.current = state;
  const path = `/threads/${enc(thread.id)}/plan`;
  const read = async () => {
    const { body, etag } = await ctx.api.read(path);
    const items = body.map((item) => ({ ...item, shown: thread.item(item.id)?.shown }));
    return { items, etag };
  };
  const load = () => read()
    .then(({ items, etag }) => hasEdits(latest.current.draft) || set({ draft: plan.begin(items, etag), problem: null }))
    .catch((problem) => set({ problem }));
  useEffect(() => {
    ctx.api.all(`/tools?threadId=${enc(thread.id)}`)
      .then(({ items }) => set({ tools: new Set(items.map((tool) => tool.name)) }), () => {});
    ctx.readTools();
  }, []);
  const isEdited = hasEdits(state.draft);
  // An unedited draft follows the thread's plan.
  useEffect(() => {
    if (!isEdited && versionOf(latest.current.draft?.version ?? '') !== String(thread.core.planVersion)) load();
  }, [thread.core.planVersion, isEdited, away(ctx, state.problem)]);
  useEffect(() => ctx.guard(() => (hasEdits(latest.current.draft)
    ? 'Leave without saving? Your edits of the plan will be gone.' : null)), []);
  const draft = state.draft && plan.relock(state.draft, (id) => thread.item(id)?.shown);
  // A draft being sent is fixed until the outcome is known.
  const change = (next) => latest.current.busy || set({ draft: next, errors: new Map(), refused: null, foreseen: null });
  const saved = () => {
    latest.current = { draft: null };
    ctx.say('The plan was saved.');
    ctx.goOn(ctx.to({ view: 'list' }));
  };
  return { ...state, draft, isEdited, path, read, set, change, saved };
}

export function EditPlan({ ctx, thread }) {
  const edit = useEdit(ctx, thread);
  const { draft, problem, tools } = edit;
  const wrong = draft ? plan.mistakes(draft, tools) : [];
  const why = ctx.whyNot('run') ?? (edit.busy ? 'It is being sent.' : null);
  const save = () => draft && edit.isEdited && wrong.length === 0 && why === null && send(ctx, edit);
  useKeys({ 'Mod+s': () => save(), n: () => draft && edit.change(plan.addRow(draft)) });
  if (!draft) return html`<div class="scroll page"><${Awaited} ctx=${ctx} problem=${problem} rows=${8} /></div>`;
  return html`<div class="scroll" data-version=${versionOf(draft.version)}>
    ${edit.rebased && html`<${Rebased} rebased=${edit.rebased} version=${versionOf(draft.version)} />`}
    <div class="edit-row dim hide" aria-hidden="true"><span></span><span></span><span>What to do</span><span>Tools</span><span>After</span></div>
    ${draft.rows.map((row) => html`<${Row} key=${row.key} row=${row} draft=${draft} change=${edit.change} busy=${edit.busy}
      wrong=${wrong.filter((one) => one.id === row.id)} refused=${edit.errors?.get(row.id)} foreseen=${edit.foreseen} />`)}
    <div class="row edit-bar"><${Button} cls="small" id="add-item" label="Add item" k="n" onClick=${() => edit.change(plan.addRow(draft))} />
      <span class="dim">Finished and running items stay as they are.<span class="hide"> Alt ↑ ↓ moves an item.</span></span></div>
    <${Foot} ctx=${ctx} edit=${edit} wrong=${wrong} why=${why} save=${save} />
    <datalist id="tool-names">${[...tools].map((name) => html`<option value=${name}></option>`)}</datalist>
  </div>`;
}

/** Saves; if the plan has changed, rebases the edits, and the person saves again. */
async function send(ctx, { draft, path, read, set, saved }) {
  set({ busy: true, refused: null });
  try {
    await ctx.api.patch(path, plan.patchOf(draft), { ifMatch: draft.version, type: TYPE });
    saved();
  } catch (problem) {
    if (problem.status === 412) await rebase(draft, read, set);
    else set({ busy: false, refused: problem, errors: errorsOf(draft, problem) });
  }
}

async function rebase(draft, read, set) {
  try {
    const { items, etag } = await read();
    const { draft: next, ...rebased } = plan.rebase(draft, items, etag);
    set({ busy: false, draft: next, rebased: { ...rebased, base: draft.base, now: items } });
  } catch (problem) {
    set({ busy: false, refused: problem, errors: new Map() });
  }
}

function errorsOf(draft, problem) {
  const errors = new Map();
  for (const { pointer, detail } of problem.errors) {
    const place = plan.rowAt(draft, pointer);
    if (place) errors.set(place.id, [...errors.get(place.id) ?? [], { field: place.field, message: detail }]);
  }
  return errors;
}

function Rebased({ rebased: { fit, all, lost, base, now }, version }) {
  const gone = base.filter((item) => !now.some((one) => one.id === item.id));
  const fresh = now.filter((item) => !base.some((one) => one.id === item.id));
  const other = now.filter((item) => base.some((one) => one.id === item.id && one.description !== item.description));
  const line = (sign, item) => (sign === '+' ? html`<ins>${show(item.id)}  ${show(item.description)}</ins>`
    : html`<del>${show(item.id)}  ${show(item.description)}</del>`);
  return html`<section class="rebased" role="alert" data-testid="rebased">
    <p><b>The plan has moved on to v${version}.</b> ${fit} of ${all} of your edits still fit and are laid on it below; save again.</p>
    ${lost.length > 0 && html`<p class="mid">Left out:</p><ul class="lines">${lost.map(({ edit, why }) => html`<li data-testid="lost-edit">
      <span class="mono">${show(edit.id ?? 'the order')}</span>${edit.field && ` ${edit.field}`}: ${why}${edit.now !== undefined && edit.kind === 'changed'
        && html`. You wrote “${show(Array.isArray(edit.now) ? edit.now.join(', ') : String(edit.now))}”`}.</li>`)}</ul>`}
    ${gone.length + fresh.length + other.length > 0 && html`<p class="mid">What changed meanwhile:</p>
      <div class="diff">${gone.map((item) => line('-', item))}${other.map((item) => [line('-', base.find((one) => one.id === item.id)), line('+', item)])}
        ${fresh.map((item) => line('+', item))}</div>`}
  </section>`;
}

const MOVES = [[-1, '▴', 'Move up', 'Alt ↑'], [1, '▾', 'Move down', 'Alt ↓']];

function Row({ row, draft, change, busy, wrong, refused = [], foreseen }) {
  const set = (patch) => change(plan.setRow(draft, row.key, patch));
  const onKeyDown = (event) => {
    const step = event.altKey && { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    change(plan.moveRow(draft, row.key, step));
  };
  const said = [...wrong, ...refused];
  const cls = row.lock ? 'lock' : row.removed ? 'removed' : row.item === null ? 'new' : plan.isChanged(row) ? 'changed' : '';
  return html`<div class="edit-row ${cls}" data-testid="edit-row" data-id=${plain(row.id)} data-state=${cls}
      onKeyDown=${row.lock ? undefined : onKeyDown}>
    ${row.lock ? html`<${Sign} name="lock" label=${`${row.lock}: not editable`} />`
      : html`<span class="movers">${MOVES.map(([step, sign, label, title]) => html`<button type="button" class="mover" aria-label=${label} title=${title}
          onClick=${() => change(plan.moveRow(draft, row.key, step))}>${sign}</button>`)}</span>`}
    <${Shape} status=${row.item?.shown ?? row.item?.status ?? 'pending'} />
    ${row.lock || row.removed ? html`<${Fixed} row=${row} />` : html`<${Fields} row=${row} set=${set} said=${said} busy=${busy} />`}
    ${row.lock ? html`<span></span>` : html`<${Button} cls="small quiet" label=${row.removed ? '↶' : '×'} aria-label=${row.removed ? 'Put back' : 'Remove'} id="remove"
      onClick=${() => change(plan.removeRow(draft, row.key))} />`}
    <${Notes} row=${row} said=${said} foreseen=${foreseen} />
  </div>`;
}

function Fixed({ row }) {
  return html`<span class=${row.removed ? 'struck' : ''}>${show(row.item?.description ?? row.description)}</span>
    ${[row.item?.requiredTools, row.item?.dependencies].map((names) => html`<span class="opt mono">${show(listed(names) || '–')}</span>`)}`;
}

function Fields({ row, set, said, busy }) {
  const at = (field) => ({ 'aria-invalid': said.some((one) => one.field === field) ? 'true' : undefined, autocomplete: 'off', readonly: busy });
  const input = (field, label, more) => html`<input ...${at(field)} class="f" aria-label=${label} value=${row[field]} data-testid="edit-${field}"
    onInput=${(event) => set({ [field]: event.currentTarget.value })} ...${more} />`;
  return html`<span class="what">
      ${row.item === null && html`<input ...${at('id')} class="f mono id" aria-label="Name of the item" value=${row.id} data-testid="edit-id"
        onChange=${(event) => event.currentTarget.value.trim() && set({ id: event.currentTarget.value.trim() })} />`}
      ${input('description', 'What to do', { placeholder: 'What to do' })}</span>
    <span class="opt">${input('tools', 'Tools', { class: 'f mono', placeholder: 'tools', list: 'tool-names' })}</span>
    <span class="opt">${input('after', 'After', { class: 'f mono', placeholder: 'after' })}</span>`;
}

function Notes({ row, said, foreseen }) {
  const item = foreseen?.items.find((one) => one.id === row.id);
  const asks = item?.mayCall?.filter((call) => call.action !== 'auto').map((call) => (call.action === 'ask' ? `${call.toolName} would ask a person`
    : `${call.toolName} would be denied`)) ?? [];
  const was = row.item && !row.lock && !row.removed && row.description !== row.item.description;
  const notes = [
    was && html`was “${show(row.item.description)}”`, row.removed && 'removed', row.item === null && 'new',
    plan.cameTooLate(row) && `your edit came too late: it is ${row.lock}`, ...asks.map((text) => show(text)),
  ].filter(Boolean);
  return html`${notes.length > 0 && html`<span class="edit-note dim">${notes.map((note, i) => html`${i > 0 && ' · '}${note}`)}</span>`}
    ${said.map((one, i) => html`<span key=${i} class="edit-note wrong" role="alert" data-testid="edit-wrong">${show(one.message)}</span>`)}`;
}

function Foot({ ctx, edit, wrong, why, save }) {
  const { draft, isEdited, refused, foreseen } = edit;
  const kinds = plan.edits(draft);
  const number = (kind) => new Set(kinds.filter((one) => one.kind === kind).map((one) => one.id)).size;
  const tags = [['changed', number('changed')], ['new', number('added')], ['removed', number('removed')], ['moved', number('moved')]].filter(([, n]) => n > 0);
  const look = () => ctx.api.post(`${edit.path}/forecast`, plan.patchOf(draft), { ifMatch: draft.version, type: TYPE })
    .then((told) => edit.set({ foreseen: told }))
    .catch((problem) => edit.set({ refused: problem, errors: errorsOf(draft, problem) }));
  const off = why ?? (!isEdited ? 'Nothing is changed.' : wrong.length > 0 ? `${count(wrong.length, 'mistake')} to correct first.` : null);
  return html`<div class="edit-foot">
    <div class="row wrap">${tags.map(([name, n]) => html`<span class="tag"
        key=${name}>${name === 'moved' ? 'order changed' : `${n} ${name}`}</span>`)}
      <span class="mid t1 grow">Against v${versionOf(draft.version)}. If the plan moves on meanwhile, your edits are kept and laid on it.</span>
      <${Button} cls="small" id="foresee" label="What would it ask?" why=${isEdited && wrong.length === 0 ? null : off} onClick=${look} />
      <a class="b" href=${ctx.to({ view: 'list' })}>Discard</a>
      <${Button} cls="main" id="save-plan" label=${`Save as v${Number(versionOf(draft.version)) + 1}`} k="⌘S" why=${off} onClick=${save} /></div>
    ${off && isEdited && html`<p class="off-reason">${off}</p>`}
    ${foreseen && html`<p data-testid="foreseen">${sentence(foreseen)}</p>`}
    <${Refusal} problem=${refused} id="edit-refused" />
  </div>`;
}
