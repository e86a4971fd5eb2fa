// A native dialog, which takes the focus and returns it, and its contents: the confirmation of a cancel, a thread's name and
// deletion, the keys, and an observation as the server sent it.

import { enc } from '../api.js';
import { areKeysOn, switchKeys } from '../browser.js';
import { count, fullTime } from '../format.js';
import { show } from '../text.js';
import { html, useLayoutEffect, useRef, useState } from '../vendor/preact-htm.js';
import { asCurl, Json } from './code.js';
import { Button, Copy, Kbd, Refusal, useFork } from './parts.js';

export function Dialog({ label, close, cls = '', children }) {
  const element = useRef(null);
  const pressed = useRef(null);
  // Before the next key.
  useLayoutEffect(() => {
    const dialog = element.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  // A press that began inside, as to mark a text, is none outside.
  const outside = ({ type, target }) => {
    if (type === 'pointerdown') pressed.current = target;
    else if (target === element.current && pressed.current === target) close();
  };
  const cancelled = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog class=${cls} ref=${element} aria-label=${label} onCancel=${cancelled} onPointerDown=${outside} onClick=${outside}>
    <div class="dialog-body">${children}</div>
  </dialog>`;
}

export function CancelDialog({ thread, close, cancel }) {
  const done = thread.core.todoList.filter((item) => item.status === 'completed').length;
  const open = [...thread.view.spans].filter((span) => span.kind === 'call' && span.end == null && !span.waits.some((wait) => wait.to == null)).length;
  const words = [`${count(done, 'finished item')} ${done === 1 ? 'stays' : 'stay'}`];
  if (open) words.push(`${count(open, 'call')} may already have been sent`);
  return html`<${Dialog} label="Cancel this run?" close=${close}>
    <h1>Cancel this run?</h1>
    <p>${words.join('; ')}.</p>
    <div class="acts"><${Button} cls="bad" label="Cancel the run" onClick=${cancel} id="cancel-yes" /><${Button} label="Keep it running" onClick=${close} /></div>
  </${Dialog}>`;
}

/** What is done with a thread: `send` sends it. */
function Asked({ label, yes, cls, send, close, children }) {
  const [{ busy, problem }, set] = useState({});
  const submit = (event) => {
    event.preventDefault();
    set({ busy: true });
    send().then(close, (refused) => set({ problem: refused }));
  };
  return html`<${Dialog} label=${label} close=${close}><form class="args" onSubmit=${submit}>
    <h1>${label}</h1>${children}<${Refusal} problem=${problem} />
    <div class="acts"><button class="b ${cls}" disabled=${busy} data-testid="thread-yes">${yes}</button>
      <${Button} label="Leave it as it is" onClick=${close} autofocus /></div>
  </form></${Dialog}>`;
}

function Rename({ ctx, thread, close }) {
  const [title, setTitle] = useState(thread.title);
  const send = () => ctx.api.patch(`/threads/${enc(thread.id)}`, { title: title.trim() });
  return html`<${Asked} label="Rename this thread" yes="Rename it" cls="main" send=${send} close=${close}>
    <input class="f" aria-label="Title" value=${title} required pattern=".*\\S.*" onInput=${(event) => setTitle(event.target.value)} autofocus data-testid="title" />
  </${Asked}>`;
}

function Delete({ ctx, thread, close }) {
  const gone = () => ctx.goOn('#/new');
  // Not found: an earlier request was taken, and its answer lost.
  const send = () => ctx.api.delete(`/threads/${enc(thread.id)}`).catch((problem) => problem.status === 404 || Promise.reject(problem)).then(gone);
  return html`<${Asked} label="Delete this thread?" yes="Delete it" cls="bad" send=${send} close=${close}>
    <p><b>${show(thread.title)}</b> <span class="mono dim">${show(thread.id)}</span></p>
    <p>${thread.core.runId && 'Its run is stopped. '}Its plan, log and answers are erased for good; only its audit and its usage are kept.</p>
  </${Asked}>`;
}

export const ThreadDialog = ({ what, ...props }) => html`<${what === 'Rename' ? Rename : Delete} ...${props} />`;

const KEYS = [
  ['Next, previous row', 'j k'], ['Open, close branch', '→ ←'], ['Open details', '↵'], ['Plan as graph, list', 'g l'],
  ['Changes, forecast', 'd o'], ['Edit plan', 'E'], ['Approve (twice on high risk)', 'a'], ['Edit arguments', 'e'], ['Reject', 'x'],
  ['Take up the question, the next one', 'q'], ['Pause, cancel', 'p c'], ['Fork from the row', 'f'], ['Context of the call', 'v'], ['Raw observation', 'r'],
  ['Copy as curl', 'y'], ['Play, stop the tape', 'Space'], ['One observation', ', .'], ['One status change', '< >'], ['Live', '0'],
  ['Search threads', '/'], ['Find or do', '⌘K'], ['New thread', 'n'], ['Light, dark', 't'], ['Close, back', 'Esc'], ['These keys', '?'],
];

export function KeysDialog({ close }) {
  const [isOn, setOn] = useState(areKeysOn());
  const change = (event) => {
    switchKeys(event.target.checked);
    setOn(event.target.checked);
  };
  return html`<${Dialog} label="Keys" close=${close}>
    <div class="row"><h1>Keys</h1><span class="right"><${Button} cls="small" label="Close" onClick=${close} /></span></div>
    <div class="keys">${KEYS.map(([what, keys]) => html`<div key=${what}><span>${what}</span><span class="row">${keys.split(' ').map((k) => html`<${Kbd} key=${k} k=${k} />`)}</span></div>`)}</div>
    <label class="row"><input type="checkbox" checked=${isOn} onChange=${change} />Single keys work (they never do in fields and dialogs)</label>
  </${Dialog}>`;
}

export function RawDialog({ ctx, thread, seq, close }) {
  const told = thread.observation(seq);
  const forking = useFork(ctx, thread);
  if (!told) return null;
  const path = `/threads/${enc(thread.id)}/events?after=${seq - 1}&limit=1`;
  return html`<${Dialog} label=${`Observation ${seq}`} cls="large" close=${close}>
    <div class="row wrap"><h1>${seq} ${told.type}</h1><span class="dim t1">${fullTime(told.timestamp)}</span><span class="right"><${Button} cls="small" label="Close" k="Esc" onClick=${close} /></span></div>
    <${Json} value=${told} label=${`Observation ${seq}`} />
    <div class="row wrap"><a class="b small" href=${ctx.to({ at: seq })} onClick=${close}>Look at the thread as of here</a>
      <${Button} cls="small" label="Fork from here" why=${forking.why} onClick=${() => forking.at(seq)} /><${Copy} text=${() => asCurl('GET', path)} label="Copy as curl" /></div>
  </${Dialog}>`;
}
