// An observation as the server told it.

import { enc } from '../api.js';
import { fullTime } from '../format.js';
import { html } from '../vendor/preact-htm.js';
import { asCurl, Copy, Json } from './code.js';
import { Dialog } from './dialog.js';
import { Button, useFork } from './parts.js';

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
