// A server with keys: exchanges the key for a session, and does not keep it. Users of an issuer sign in there.

import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { Refusal } from './parts.js';

/** Only addresses of this page. */
const safe = (hash) => (hash?.startsWith('#/') && !hash.startsWith('#/login') ? hash : '#/');

export function Login({ ctx, route }) {
  const [state, set] = useState({ key: '', busy: false, problem: null });
  const [issuers, setIssuers] = useState([]);
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
      ctx.go(safe(route.query.get('to')), { replace: true });
    } catch (problem) {
      set({ key: '', busy: false, problem });
    }
  };
  return html`<main class="stage wide"><form class="empty login" onSubmit=${signIn} data-testid="login">
    <h1>This server wants a key.</h1>
    <p class="mid"><code>pes keys new</code> or an administrator makes one. It is exchanged for a session of 12 hours, and not kept here.</p>
    <label class="stack"><span>Key</span><input class="f mono" type="password" placeholder="pes_…"
        autocomplete="off" spellcheck=${false} autofocus data-testid="key"
      value=${state.key} onInput=${(event) => set({ ...state, key: event.currentTarget.value })} /></label>
    <${Refusal} problem=${state.problem} id="login-problem" />
    <button type="submit" class="b main" data-testid="sign-in"
        disabled=${state.busy || state.key.trim() === ''}>${state.busy ? 'Signing in …' : 'Sign in'}</button>
    ${issuers.map((name) => html`<a class="b" href="session/oidc/${name}">Sign in with ${name}</a>`)}
  </form></main>`;
}
