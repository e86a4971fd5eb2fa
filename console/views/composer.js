// What to say next: to a run that is under way, or to begin another.

import { enc, newKey } from '../api.js';
import { html } from '../vendor/preact-htm.js';
import { show } from '../text.js';
import { threadHash } from '../router.js';
import { useKept } from './kept.js';

const WAYS = [['steer', 'Steer now', 'The plan is changed while it runs'], ['enqueue', 'Next', 'In its turn, after this run'],
  ['interrupt', 'Interrupt', 'This run is cancelled first']];

/** `{draft, set, take(text)}`; a draft lives as long as the page. */
export function useComposer(thread) {
  const [draft, set] = useKept(`talk ${thread.id}`, () => ({ text: '', way: 'steer', busy: false, problem: null, sent: null }));
  return { draft, set, take: (text) => set({ text, problem: null }) };
}

export function Composer({ ctx, thread, composer: { draft, set } }) {
  const isBusy = thread.core.runId !== null;
  const why = thread.replay ? null : ctx.whyNot('run');
  const send = async (event) => {
    event?.preventDefault();
    const query = draft.text.trim();
    if (query === '' || draft.busy || why) return;
    const text = JSON.stringify([query, thread.replay ? thread.seq : draft.way]);
    const key = draft.sent?.text === text ? draft.sent.key : newKey();
    set({ busy: true, problem: null, sent: { text, key } });
    try {
      const id = thread.replay ? await fork(ctx, thread, key) : thread.id;
      await ctx.api.post(`/threads/${enc(id)}/process`, isBusy && !thread.replay ? { query, onBusy: draft.way } : { query }, { key });
      set({ text: '', busy: false, sent: null });
      ctx.refresh();
      if (id !== thread.id) ctx.go(threadHash({ id, tab: 'talk' }));
    } catch (problem) {
      set({ busy: false, problem });
    }
  };
  return html`<form class="compose" onSubmit=${send} data-testid="compose">
    <textarea class="f" rows="2" aria-label="Message" data-testid="message-field" value=${draft.text}
      placeholder=${thread.replay ? 'You look at the past. Fork here to go on from this point.' : 'Say something to the agent…'}
      onInput=${(event) => set({ text: event.currentTarget.value })} onKeyDown=${(event) => isSend(event) && send(event)}></textarea>
    ${draft.problem && html`<p class="wrong" role="alert" data-testid="compose-problem">${show(draft.problem.detail ?? draft.problem.title)}</p>`}
    <div class="row wrap">
      ${isBusy && !thread.replay && html`<div class="seg" role="group" aria-label="While it runs">
        ${WAYS.map(([way, label, title]) => html`<button type="button" key=${way} title=${title} aria-pressed=${String(draft.way === way)}
          data-testid=${`way-${way}`} onClick=${() => set({ way })}>${label}</button>`)}</div>`}
      ${why && html`<span class="off-reason">${why}</span>`}
      <button type="submit" class="b main right" data-testid="send" disabled=${draft.busy || why !== null || draft.text.trim() === ''}>
        ${draft.busy ? 'Sending …' : thread.replay ? 'Fork here and send' : 'Send'}<kbd aria-hidden="true">⌘↵</kbd></button>
    </div>
  </form>`;
}

const isSend = (event) => event.key === 'Enter' && (event.metaKey || event.ctrlKey) && !event.isComposing;

async function fork(ctx, thread, key) {
  const { threadId } = await ctx.api.post(`/threads/${enc(thread.id)}/fork`, { at: thread.seq }, { key: `${key}-fork` });
  return threadId;
}
