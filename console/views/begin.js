// Where a person begins: with a key, and with a new thread.

import { enc, newKey } from '../api.js';
import { threadHash } from '../router.js';
import { show } from '../text.js';
import { html, useEffect, useRef, useState } from '../vendor/preact-htm.js';
import { Kbd, Refusal, useKept } from './parts.js';
import { isSend } from './talk.js';

/** What the demo model's prompts show. */
const SHOWS = [
  'Four items with dependencies; one call fails and is made again.',
  'A call that a person must approve: you.',
  'The plan is refined; what is done stays done.',
];

/** What can be asked, and what happens then. */
export function NewThread({ ctx }) {
  const [draft, set] = useKept('new thread', () => ({ text: '', review: false, busy: false, problem: null, sent: null }));
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);
  const why = ctx.whyNot('run');
  const start = async (query) => {
    if (query === '' || draft.busy || why) return;
    const text = JSON.stringify([query, draft.review]);
    const sent = draft.sent?.text === text ? draft.sent : { text, key: newKey() };
    set({ busy: true, problem: null, sent });
    try {
      // The query makes the thread: one that is refused leaves none.
      const id = `thr_${sent.key}`;
      const options = draft.review ? { options: { executionConfig: { planReview: 'always' } } } : {};
      await ctx.api.post(`/threads/${id}/process`, { query, ...options }, { key: sent.key });
      set((now) => ({ text: now.text.trim() === query ? '' : now.text, busy: false, sent: null }));
      ctx.refresh();
      ctx.goOn(threadHash({ id }));
    } catch (problem) {
      set({ busy: false, problem });
    }
  };
  const submit = (event) => {
    event.preventDefault();
    start(draft.text.trim());
  };
  return html`<main class="stage"><div class="scroll"><div class="empty" data-testid="first-ask">
    <h1>Ask for something that takes steps.</h1>
    <p class="mid lead">The agent writes a plan, works through it, asks you where it must, and answers. You can stop the server at any moment: the run goes on where it was.</p>
    <form class="whole" onSubmit=${submit}>
      <textarea class="f" rows="3" placeholder="What shall be done?" aria-label="What shall be done?" ref=${field} data-testid="query"
          value=${draft.text}
        onInput=${(event) => set({ text: event.currentTarget.value })}
        onKeyDown=${(event) => isSend(event) && submit(event)}></textarea>
      <div class="row wrap under"><label class="row mid"><input type="checkbox" checked=${draft.review} data-testid="review"
          onChange=${(event) => set({ review: event.currentTarget.checked })} /> Show me the plan before it runs</label>
        ${why && html`<span class="off-reason" data-testid="why-not">${why}</span>`}
        <button type="submit" class="b main right" data-testid="start" disabled=${draft.busy || why !== null || draft.text.trim() === ''}>
          ${draft.busy ? 'Starting …' : 'Start'}<${Kbd} k="⌘↵" /></button></div>
      <${Refusal} problem=${draft.problem} id="new-problem" />
    </form>
    <${Prompts} ctx=${ctx} start=${start} off=${why !== null || draft.busy} />
  </div></div></main>`;
}

/** The prompts that the default model can answer. */
function Prompts({ ctx, start, off }) {
  const model = ctx.models?.items?.find((one) => one.isDefault);
  if (!model?.prompts?.length) return null;
  return html`<div class="try">${model.prompts.map((prompt, i) => html`<button type="button" key=${prompt} disabled=${off}
      data-testid="prompt" onClick=${() => start(prompt)}>
      ${show(prompt)}<kbd aria-hidden="true">↵</kbd>${SHOWS[i] && model.provider === 'demo' && html`<small>${SHOWS[i]}</small>`}</button>`)}</div>
    ${model.provider === 'demo' && html`<p
        class="dim">The demo model knows these ${model.prompts.length === 3 ? 'three' : model.prompts.length} prompts and nothing else.</p>`}`;
}

/** Only addresses of this page. */
const safe = (hash) => (hash?.startsWith('#/') && !hash.startsWith('#/login') ? hash : '#/');

/** Why a sign-in at an issuer failed, by the server's word for it. */
const FAILED = new Map([
  ['denied', 'Your issuer did not sign you in, or you stopped there. Sign in again.'],
  ['over', 'That sign-in was finished before, took more than ten minutes, or began in another browser. Sign in again.'],
  ['forbidden', 'Your issuer gave you no rights here, or no tenant that you may use. Ask who runs this server.'],
  ['issuer_unavailable', 'Your issuer does not answer. Sign in again in half a minute.'],
  ['too_many_requests', 'Too many sign-ins from your network failed. Wait a minute, then sign in again.'],
]);

/** A server with keys: exchanges the key for a session, and does not keep it. Users of an issuer sign in there. */
export function Login({ ctx, route }) {
  const [state, set] = useState({ key: '', busy: false, problem: null });
  const [issuers, setIssuers] = useState([]);
  const to = safe(route.query.get('to'));
  const failed = route.query.get('problem');
  const problem = state.problem ?? (failed && { detail: FAILED.get(failed) ?? 'You were not signed in. Sign in again, or ask who runs this server.' });
  useEffect(() => {
    ctx.api.get('/session/oidc').then((found) => setIssuers(found.names), () => {});
  }, []);
  const signIn = async (event) => {
    event.preventDefault();
    const key = state.key.trim();
    if (key === '' || state.busy) return;
    set({ key: state.key, busy: true, problem: null });
    try {
      await ctx.api.signIn(key);
      // Nothing is shown before it is known whose it is.
      await ctx.signedIn();
      set({ key: '', busy: false, problem: null });
      ctx.go(to, { replace: true });
    } catch (problem) {
      set({ key: '', busy: false, problem });
    }
  };
  if (ctx.me?.open) {
    return html`<main class="stage wide"><div class="empty login" data-testid="login"><h1>This server wants no key.</h1>
      <p><a href="#/">Go to the threads</a></p></div></main>`;
  }
  return html`<main class="stage wide"><form class="empty login" onSubmit=${signIn} data-testid="login">
    <h1>This server wants a key.</h1>
    <p class="mid"><code>pes keys new</code> or an administrator makes one. It is exchanged for a session of 12 hours, and not kept here.</p>
    <label class="stack"><span>Key</span><input class="f mono" type="password" placeholder="pes_…"
        autocomplete="off" spellcheck=${false} autofocus data-testid="key"
      value=${state.key} onInput=${(event) => set({ ...state, key: event.currentTarget.value })} /></label>
    <${Refusal} problem=${problem} id="login-problem" />
    <button type="submit" class="b main" data-testid="sign-in"
        disabled=${state.busy || state.key.trim() === ''}>${state.busy ? 'Signing in …' : 'Sign in'}</button>
    ${issuers.map((name) => html`<a class="b" href="session/oidc/${name}?to=${enc(to)}">Sign in with ${name}</a>`)}
  </form></main>`;
}
