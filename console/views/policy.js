// The policy's rules as a table, and as editable JSON. Their effect on past calls is shown before saving.

import { useKeys } from '../browser.js';
import * as form from '../form.js';
import { count, figure } from '../format.js';
import { threadHash } from '../router.js';
import { brief, show } from '../text.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { CLASS, conditionText } from '../words.js';
import { Mistakes } from './code.js';
import { Awaited } from './failure.js';
import { Button, wordsOf } from './parts.js';
import { away, Table, useAgain } from './section.js';

async function readPolicy(api) {
  const { body, etag } = await api.read('/policy?effective=true');
  return { ...body, etag };
}

const written = (rules) => JSON.stringify(rules, null, 2);

export function Policy({ ctx }) {
  const [state, set] = useState({});
  const latest = useRef(state);
  latest.current = state;
  const put = (change) => set((before) => ({ ...before, ...(typeof change === 'function' ? change(before) : change) }));
  const isEdited = () => latest.current.policy && latest.current.text !== written(latest.current.policy.rules);
  const isAtRest = () => latest.current.problem || !(isEdited() || latest.current.report || latest.current.busy);
  const load = async (isAsked) => {
    const read = await readPolicy(ctx.api)
      .then((policy) => ({ policy, text: written(policy.rules), problem: null, report: null, tried: null, refused: null }), (problem) => ({ problem }));
    // What was written meanwhile stays.
    if (isAsked || isAtRest()) put(read);
  };
  useEffect(() => void (isAtRest() && load()), [away(ctx, state.problem), useAgain()]);
  useEffect(() => ctx.guard(() => (isEdited() ? 'Leave without saving? Your rules will be gone.' : null)), []);
  const edit = useEditing(ctx, state, put);
  useKeys({ 'Mod+s': () => edit.save() });
  return html`<main class="stage wide"><div class="page scroll" data-testid="policy">
    <div class="title"><h1>Policy</h1><span
        class="mid">The most specific rule decides.${state.policy ? ` Version ${state.policy.etag?.replace(/\D/g, '') ?? '–'}.` : ''}</span>
      <div class="right row"><${Button} cls="small" id="try-rules" label="Try on past calls" why=${edit.whyTry} onClick=${edit.dryRun} />
        <${Button} cls="small main" id="save-rules" label="Save" k="⌘S" why=${edit.whySave} onClick=${edit.save} /></div></div>
    ${state.problem || !state.policy ? html`<${Awaited} ctx=${ctx} problem=${state.problem} />`
      : html`<${Content} state=${state} put=${put} edit=${edit} load=${load} />`}
  </div></main>`;
}

/** The possible actions on the text, and why not. */
function useEditing(ctx, { policy, text, tried, busy }, put) {
  const { rules, error } = policy ? read(text) : {};
  const off = ctx.whyNot('admin') ?? (busy ? 'It is being sent.' : !policy ? 'The rules are being read.' : error ?? null);
  const isSame = policy && text === written(policy.rules);
  const whySave = off ?? (isSame ? 'Nothing is changed.' : tried !== text ? 'Try them on past calls first.' : null);
  const refused = (problem) => put({ busy: false, refused: problem });
  const dryRun = () => {
    if (off) return;
    put({ busy: true, refused: null });
    ctx.api.post('/policy/dry-run', { rules }).then((report) => put({ busy: false, report, tried: text }), refused);
  };
  const save = () => {
    if (whySave) return;
    put({ busy: true, refused: null });
    ctx.api.send('PUT', '/policy', { rules }, { ifMatch: policy.etag ?? undefined })
      .then(({ body, etag }) => {
        put((now) => ({
          busy: false, policy: { ...policy, rules: body.rules, etag }, text: now.text === text ? written(body.rules) : now.text, tried: null, report: null,
        }));
        ctx.say('The rules were saved.');
      }, refused);
  };
  return { rules, error, whyTry: off, whySave, dryRun, save };
}

/** All rules are sent, unchanged ones too: a rounded number would be saved. */
function read(text) {
  const { value, error } = form.read('json', text);
  return error ? { error } : Array.isArray(value) ? { rules: value } : { error: 'The rules are a list: [ … ].' };
}

function Content({ state, put, edit, load }) {
  const { policy, text, report, tried, refused } = state;
  return html`
    <${Rules} rules=${edit.rules ?? policy.rules} />
    <details class="part" open=${state.isOpen ?? (policy.rules.length === 0 || Boolean(edit.error))}
      onToggle=${(event) => put({ isOpen: event.currentTarget.open })}><summary>As JSON</summary>
      <textarea class="f mono rules" rows="12" spellcheck=${false} aria-label="Rules as JSON" data-testid="rules-json" value=${text}
        aria-invalid=${edit.error ? 'true' : undefined} onInput=${(event) => put({ text: event.currentTarget.value })}></textarea>
      ${edit.error && html`<p class="wrong" role="alert">${show(edit.error)}</p>`}</details>
    ${refused && html`<${Refused} problem=${refused} load=${load} />`}
    ${!edit.error && text !== written(policy.rules) && edit.whySave && html`<p class="off-reason">${edit.whySave}</p>`}
    ${report && tried === text && html`<${Report} report=${report} />`}
    ${policy.server?.length > 0 && html`<h2 class="sub-h">Of this server</h2><p
        class="mid">Written in its settings; they cannot be changed here.</p>
      <${Rules} rules=${policy.server} />`}
    ${policy.defaults && html`<${Defaults} defaults=${policy.defaults} />`}`;
}

function Rules({ rules }) {
  if (rules.length === 0) return html`<p class="dim" data-testid="no-rules">No rules of your own. Reading runs, what cannot be undone asks.</p>`;
  return html`<${Table} label="Rules" id="rules" heads=${['Rule', 'Tool', 'Then', 'When', 'With']}>${rules.map((rule, i) => html`<tr key=${i}><td class="mono">${show(rule?.id ?? '–')}</td>
      <td class="mono">${show(rule?.tool ?? '*')}${rule?.thread && html`<div class="dim">in ${show(rule.thread)}</div>`}</td>
      <td><${Action} action=${rule?.action} /></td>
      <td class="mono">${Array.isArray(rule?.when) && show(rule.when.map(conditionText).join(' and '))}</td>
          <td>${show(terms(rule ?? {}))}</td></tr>`)}</${Table}>`;
}

const Action = ({ action }) => html`<span
    class=${`tag ${{ ask: 'ask', deny: 'fail', auto: 'done' }[action] ?? ''}`}>${show(String(action))}</span>`;

const THEN = { remind: 'then remind', deny: 'then refuse', fail: 'then the item fails' };

function terms({ fourEyes, approvers, expiresAfterMs, onExpiry, reason }) {
  return [fourEyes && 'four eyes', [approvers ?? []].flat().map((one) => brief(one)).join(', '),
    expiresAfterMs > 0 && [time(expiresAfterMs), THEN[onExpiry]].filter(Boolean).join(', '), reason && `“${brief(reason)}”`].filter(Boolean).join('; ');
}

function time(ms) {
  const [n, unit] = [[86_400_000, 'd'], [3_600_000, 'h'], [60_000, 'min'], [1_000, 's']].map(([size, name]) => [ms / size, name])
    .find(([count_]) => count_ >= 1) ?? [ms, 'ms'];
  return `${Math.round(n * 10) / 10} ${unit}`;
}

function Defaults({ defaults }) {
  return html`<h2 class="sub-h">Where no rule says anything</h2><table class="data short">
      <tbody>${defaults.map((one) => html`<tr key=${one.class}>
    <td>${show(one.class)} <span class="dim">${CLASS[one.class] ?? ''}</span></td><td><${Action} action=${one.action} /></td>
        </tr>`)}</tbody></table>`;
}

function Refused({ problem, load }) {
  return html`<div class="wrong" role="alert" data-testid="rules-refused"><p>${show(wordsOf(problem))}</p>
    <${Mistakes} errors=${problem.errors} />
    ${problem.status === 412 && html`<p>Somebody else saved rules meanwhile. <${Button} cls="small" label="Read them again" onClick=${load} />
      Your text goes; copy it first.</p>`}</div>`;
}

/** What the edited rules would have decided. */
function Report({ report }) {
  const { calls, changed, complete, counts } = report;
  const sums = Object.values(counts).reduce((all, row) => {
    for (const [action, n] of Object.entries(row)) all[action] = (all[action] ?? 0) + n;
    return all;
  }, {});
  const total = Object.values(sums).reduce((all, n) => all + n, 0);
  const moved = (to) => Object.entries(counts).reduce((all, [from, row]) => all + (from === to ? 0 : row[to] ?? 0), 0);
  const parts = [[moved('ask'), 'would ask', 'c-ask'], [moved('deny'), 'would be denied', 'c-failed'], [moved('auto'), 'would run', 'c-completed']].filter(([n]) => n > 0);
  return html`<section data-testid="dry-run"><h2 class="sub-h">What these rules would have decided</h2>
    <p class="mid">${count(total, 'past call')}: ${figure(total - changed)} as before${parts.map(([n, words, cls]) => html`, <b class=${cls}>${n} ${words}</b>`)}.
      ${complete ? '' : ' Not all past calls were looked at.'}</p>
    ${calls.length > 0 && html`<${Table} label="Calls that differ" heads=${['Tool', 'Thread', 'Then', 'Rule']}>${calls.map((one) => html`<tr key=${one.callId}><td
        class="mono">${show(one.toolName)}</td>
      <td><a href=${threadHash({ id: one.threadId })}>${show(one.threadId)}</a></td>
      <td class="nowrap">${one.old.action} → <b>${one.new.action}</b></td><td class="rule-ref">${show(one.new.rule)}</td></tr>`)}</${Table}>`}</section>`;
}
