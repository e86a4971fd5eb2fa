import { enc } from '../../api.js';
import { age, fullTime } from '../../format.js';
import { plain, show } from '../../text.js';
import { html, useState } from '../../vendor/preact-htm.js';
import { RowAction, Section, Status, useList } from './section.js';

const SCOPES = [['read', 'look'], ['run', 'ask and steer'], ['approve', 'answer questions'], ['admin', 'everything']];

export function Keys({ ctx }) {
  const list = useList(ctx, '/keys');
  return html`<${Section} name="Keys" from="PES_API_KEYS, POST /keys" list=${list} heads=${['', 'Name', 'Scopes', 'Made', '']}
    empty="No key was made here: this server is open to its own machine, or its keys stand in PES_API_KEYS."
        more=${html`<${Make} ctx=${ctx} load=${list.load} />`}>
    ${list.items?.map((one) => html`<tr key=${one.keyId}><${Status} shape=${one.revokedAt ? 'cancelled' : 'completed'}
        word=${one.revokedAt ? 'revoked' : 'valid'} />
      <td>${show(one.name)}</td><td>${one.scopes.join(' ')}</td><td class="nowrap"
          title=${plain(fullTime(one.createdAt))}>${age(one.createdAt, ctx.clock.now())}</td>
      <td>${!one.revokedAt && html`<${RowAction} label="Revoke" sure="Press again: revoke" why=${ctx.whyNot('admin')} id="revoke"
        act=${() => ctx.api.delete(`/keys/${enc(one.keyId)}`).then(list.load)} />`}</td></tr>`)}</${Section}>`;
}

/** A new key is shown once, here, and nowhere again. */
function Make({ ctx, load }) {
  const [state, set] = useState({ name: '', scopes: ['read'], isOpen: false });
  const why = ctx.whyNot('admin');
  const put = (change) => set((before) => ({ ...before, ...change }));
  const toggle = (scope) => put({ scopes: state.scopes.includes(scope) ? state.scopes.filter((one) => one !== scope) : [...state.scopes, scope] });
  const make = async (event) => {
    event.preventDefault();
    try {
      const { key } = await ctx.api.post('/keys', { name: state.name.trim(), scopes: state.scopes, tenant: ctx.me?.tenant ?? 'default' });
      set({ name: '', scopes: ['read'], isOpen: false, made: { key, name: state.name.trim() } });
      await load();
    } catch (problem) {
      put({ problem });
    }
  };
  return html`
    ${state.made && html`<div class="made" role="status" data-testid="made-key">
        <p>The key of ${show(state.made.name)}. It is shown now and never again:</p>
      <p class="row"><code class="grow">${show(state.made.key)}</code>
        <button type="button" class="b small" onClick=${() => navigator.clipboard?.writeText(state.made.key)}>Copy</button>
        <button type="button" class="b small" onClick=${() => put({ made: null })}>I have it</button></p></div>`}
    ${state.isOpen ? html`<form class="make" onSubmit=${make}>
      <label class="stack"><span>Whose it is</span><input class="f" required maxlength="64" value=${state.name} data-testid="key-name"
        onInput=${(event) => put({ name: event.currentTarget.value })} /></label>
      <fieldset class="options row wrap"><legend class="sr">What it may do</legend>${SCOPES.map(([scope, words]) => html`<label
          class="row" key=${scope} title=${words}>
        <input type="checkbox" checked=${state.scopes.includes(scope)} onChange=${() => toggle(scope)} /> ${scope}</label>`)}</fieldset>
      ${state.problem && html`<p class="wrong" role="alert">${show(state.problem.detail ?? state.problem.title)}</p>`}
      <div class="row"><button type="submit" class="b small main"
          disabled=${why !== null || state.scopes.length === 0 || state.name.trim() === ''}>Make it</button>
        <button type="button" class="b small" onClick=${() => put({ isOpen: false })}>Leave it</button></div></form>`
      : html`<p><button type="button" class="b small" data-testid="make-key" disabled=${why !== null}
          onClick=${() => put({ isOpen: true, made: null })}>Make a key…</button>
        ${why && html` <span class="off-reason">${why}</span>`}</p>`}`;
}
