// The conversation: messages, plan changes, questions, and the answer; below it, the next message.

import { enc, newKey } from '../api.js';
import { OVER } from '../fold/core.js';
import { clockTime, count, fullTime } from '../format.js';
import { threadHash } from '../router.js';
import { KIND_SHAPE, Shape, WORD } from '../shapes.js';
import { show } from '../text.js';
import { html, useEffect, useRef } from '../vendor/preact-htm.js';
import { Answered, Extras, Markdown } from './later.js';
import { Choice, Growing, Kbd, mayBeTaken, Refusal, SeqLink, useKept } from './parts.js';

export function Talk({ ctx, thread }) {
  const composer = useComposer(thread);
  const entries = entriesOf(thread);
  const box = useStickToEnd();
  return html`<div class="scroll" ref=${box} data-testid="talk"><div class="talk">
      ${thread.view.forkedFrom && html`<p class="mid note">Forked from <a href=${threadHash({ id: thread.view.forkedFrom.threadId })}
        class="mono">${show(thread.view.forkedFrom.threadId)}</a> at observation ${thread.view.forkedFrom.seq}.${' '}
        <a href="#/compare/${enc(thread.view.forkedFrom.threadId)}/${enc(thread.id)}">Compare</a></p>`}
      ${entries.map(({ key, View, entry }) => html`<${View} key=${key} ctx=${ctx} thread=${thread} entry=${entry} composer=${composer} />`)}
      <${Now} ctx=${ctx} thread=${thread} />
    </div></div>
    <${Composer} ctx=${ctx} thread=${thread} composer=${composer} />`;
}

/** Messages, plan changes and questions, in log order. */
function entriesOf(thread) {
  const { messages, revisions, questions } = thread.view;
  const seen = new Set();
  const fresh = messages.filter((one) => !seen.has(one.messageId) && seen.add(one.messageId));
  const of = (View, list, name) => list.map((entry) => ({ key: `${name}${entry.seq} ${entry.messageId ?? ''}`, View, entry }));
  return [...of(Message, fresh, 'm'), ...of(Revision, revisions, 'r'), ...of(Question, [...questions.values()], 'q')]
    .sort((a, b) => a.entry.seq - b.entry.seq);
}

/** Shows the last answer from its beginning; follows what comes after it unless the reader scrolled elsewhere. */
function useStickToEnd() {
  const box = useRef(null);
  useEffect(() => {
    const element = box.current;
    const talk = element.firstElementChild;
    let answer = talk.querySelector('[data-testid=answer]:last-child');
    let isAtEnd = true;
    let top;
    const grown = new ResizeObserver(() => {
      if (answer !== talk.lastElementChild) answer = null;
      if (answer || isAtEnd) element.scrollTop = answer ? answer.offsetTop - talk.offsetTop : element.scrollHeight;
      top = element.scrollTop;
    });
    grown.observe(element);
    grown.observe(talk);
    element.onscroll = () => {
      if (element.scrollTop === top) return;
      answer = null;
      isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
    };
    return () => grown.disconnect();
  }, []);
  return box;
}

const TAG = { steer: 'steered the plan', queued: 'in its turn', kept: 'before the fork', history: 'said elsewhere' };

const Entry = ({ ctx, entry: { seq, at, kind }, name, cls, id, children }) => html`<article class="msg ${cls}" data-testid=${id}>
  <${SeqLink} ctx=${ctx} seq=${seq} />
  <header><b>${name}</b><time title=${fullTime(at)}>${clockTime(at)}</time>${TAG[kind] && html`<span class="tag run">${TAG[kind]}</span>`}</header>
  <div class="body">${children}</div></article>`;

function Message({ ctx, entry, composer, thread }) {
  const isUser = entry.role === 'USER';
  const who = isUser ? entry.by ?? 'Asked' : entry.role === 'AI' ? 'Answer' : entry.role.toLowerCase();
  return html`<${Entry} ctx=${ctx} entry=${entry} name=${show(who)} cls=${isUser ? 'user' : ''} id=${isUser ? 'message' : 'answer'}>
    ${isUser ? html`<p>${show(entry.content)}</p>` : html`<${Markdown} ctx=${ctx} text=${entry.content} />`}
    ${!isUser && entry.metadata?.uiMetadata && html`<${Extras} ctx=${ctx} ui=${entry.metadata.uiMetadata} composer=${composer} isLast=${isLast(thread, entry)} />`}
  </${Entry}>`;
}

const isLast = (thread, entry) => thread.view.messages.at(-1) === entry && !thread.replay;

function Revision({ ctx, entry }) {
  const { added, modified, removed } = entry.changes;
  const ids = (name, changes) => changes.length > 0 && `${name} ${changes.map((one) => one.itemId).join(', ')}`;
  const isFirst = entry.source === 'planner' && entry.version === 1;
  const words = isFirst ? `${count(entry.todoList.length, 'item')}.`
    : `${[ids('Added', added), ids('Changed', modified), ids('Removed', removed)].filter(Boolean).join('. ')}.`;
  return html`<${Entry} ctx=${ctx} entry=${entry} name="Plan v${entry.version}" cls="note">
    <a href=${ctx.to({ view: 'changes' })}>${show(words)}</a></${Entry}>`;
}

function Question({ ctx, thread, entry }) {
  return html`<${Entry} ctx=${ctx} entry=${entry} name="Question" cls=${entry.ended ? 'note' : ''}>${entry.ended
    ? html`<p>${show(entry.message)}</p><${Answered} ctx=${ctx} thread=${thread} question=${entry} />`
    : html`<a class="b ask-link" href=${ctx.to({ tab: 'ask', part: 'ask' })}><${Shape} status=${KIND_SHAPE[entry.kind] ?? 'ask'} />
        <span>${show(entry.message)}</span></a>`}</${Entry}>`;
}

/** Current activity; the answer as it is written. */
function Now({ ctx, thread }) {
  if (thread.replay || thread.core.runId === null) return null;
  const writing = answerOf(thread);
  const busy = thread.core.todoList.map((item) => thread.item(item.id)).filter(({ shown }) => shown !== 'pending' && !OVER.has(shown));
  return html`<article class="msg"><span></span><header><b>Now</b></header><div class="body mid">
    ${writing ? html`<p><${Growing} ctx=${ctx} streamId=${writing.streamId} of=${whole} /></p>`
      : busy.length === 0 ? 'The model is at work.'
        : html`<ul>${busy.map((item) => html`<li key=${item.id}><span class="mono">${show(item.id)}</span> ${WORD[item.shown]}</li>`)}</ul>`}
  </div></article>`;
}

/** The open stream of the answer; null if none. */
function answerOf({ view, core }) {
  const phase = view.spans.get(view.spans.get(`run ${core.runId}`)?.phase);
  if (phase?.phase !== 'synthesis' || phase.end !== null) return null;
  const last = view.spans.get(phase.children.at(-1));
  return last?.kind === 'stream' && last.end === null ? last : null;
}

const whole = ({ text }) => text;

/* The next message: for an active run, or to start another. */

const way = (name, label, title) => [name, label, { title, 'data-testid': `way-${name}` }];
const WAYS = [way('steer', 'Steer now', 'The plan is changed while it runs'), way('enqueue', 'Next', 'In its turn, after this run'),
  way('interrupt', 'Interrupt', 'This run is cancelled first')];

/** `{draft, set, take(text)}`; a draft lives as long as the page. */
export function useComposer(thread) {
  const [draft, set] = useKept(`talk ${thread.id}`, () => ({ text: '', way: 'steer', busy: false, problem: null, sent: null }));
  return { draft, set, take: (text) => set({ text, problem: null }) };
}

function Composer({ ctx, thread, composer: { draft, set } }) {
  const isBusy = thread.core.runId !== null;
  const why = ctx.whyNot('run', { inPast: true });
  const send = async (event) => {
    event?.preventDefault();
    const query = draft.text.trim();
    if (query === '' || draft.busy || why) return;
    const text = JSON.stringify([query, thread.replay ? thread.seq : draft.way]);
    // When it is sent again, its own run may be under way.
    const body = isBusy && !thread.replay ? { query, onBusy: draft.way } : { query };
    const sent = draft.sent?.text === text ? draft.sent : { text, key: newKey(), body };
    set({ busy: true, problem: null, sent });
    try {
      const id = thread.replay ? await fork(ctx, thread, sent.key) : thread.id;
      await ctx.api.post(`/threads/${enc(id)}/process`, sent.body, { key: sent.key });
      // Later typing stays.
      set(({ text: now }) => ({ text: now === draft.text ? '' : now, busy: false, sent: null }));
      ctx.refresh();
      if (id !== thread.id) ctx.goOn(threadHash({ id, tab: 'talk' }));
    } catch (problem) {
      // A fork that was made is used again.
      set({ busy: false, problem, sent: thread.replay || mayBeTaken(problem, draft.sent === sent) ? sent : null });
    }
  };
  return html`<form class="compose" onSubmit=${send} data-testid="compose">
    <textarea class="f" rows="2" aria-label="Message" data-testid="message-field" value=${draft.text}
      placeholder=${thread.replay ? 'You look at the past. Fork here to go on from this point.' : 'Say something to the agent…'}
      onInput=${(event) => set({ text: event.currentTarget.value })} onKeyDown=${(event) => isSend(event) && send(event)}></textarea>
    <${Refusal} problem=${draft.problem} />
    <div class="row wrap">
      ${isBusy && !thread.replay && html`<${Choice} label="While it runs" of=${WAYS} now=${draft.way} choose=${(name) => set({ way: name, sent: null })} />`}
      ${why && html`<span class="off-reason">${why}</span>`}
      <button type="submit" class="b main right" data-testid="send" disabled=${draft.busy || why !== null || draft.text.trim() === ''}>
        ${draft.busy ? 'Sending …' : thread.replay ? 'Fork here and send' : 'Send'}<${Kbd} k="⌘↵" /></button>
    </div>
  </form>`;
}

export const isSend = (event) => event.key === 'Enter' && (event.metaKey || event.ctrlKey) && !event.isComposing;

async function fork(ctx, thread, key) {
  const { threadId } = await ctx.api.post(`/threads/${enc(thread.id)}/fork`, { at: thread.seq }, { key: `${key}-fork` });
  return threadId;
}
