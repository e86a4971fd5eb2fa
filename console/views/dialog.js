// A dialog of the browser: it takes the focus, and gives it back. And the one that asks before a run is cancelled.

import { count } from '../format.js';
import { html, useEffect, useRef } from '../vendor/preact-htm.js';
import { Button } from './parts.js';

export function Dialog({ label, close, cls = '', children }) {
  const element = useRef(null);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  const outside = (event) => {
    if (event.target === element.current) close();
  };
  const cancelled = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog class=${cls} ref=${element} aria-label=${label} onCancel=${cancelled} onClick=${outside}>
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
