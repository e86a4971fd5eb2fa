// The prompt of a model call: its parts, their share of the window, and their text.

import { enc } from '../api.js';
import { dollars, duration, figure, placed } from '../format.js';
import { plain, show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { Json } from './code.js';
import { Awaited } from './failure.js';
import { SeqLink, wordsOf } from './parts.js';
import { useRead } from './section.js';

const KIND = {
  system: 'System prompt', persona: 'Persona', thread: 'Prompt of server, thread and call', tools: 'Tools offered', summary: 'Summary of what came before',
  conversation: 'Conversation', query: 'What was asked', plan: 'The plan', results: 'Results of other items', item: 'The task', loop: 'This item so far',
  repair: 'The reply that could not be used',
};

/** Model calls up to the shown observation, of the chosen item if any. */
function callsOf(thread, sel) {
  const all = [...thread.view.spans].filter((span) => span.kind === 'stream');
  const own = sel ? all.filter((span) => span.itemId === sel) : [];
  return own.length > 0 ? own : all;
}

const nameOf = (span) => [span.itemId ?? span.phase, span.iteration && `iteration ${span.iteration}`, span.attempt > 1 && `attempt ${span.attempt}`]
  .filter(Boolean).join(', ');

export function ContextTab({ ctx, route, thread }) {
  const calls = callsOf(thread, route.sel);
  const [other, setOther] = useState('');
  const chosen = calls.find((span) => span.seq === route.row) ?? calls.at(-1);
  if (!chosen) return html`<p class="fact dim">What a model call saw stands here as soon as there was one.</p>`;
  const second = calls.find((span) => span.streamId === other && span !== chosen);
  const option = (span) => html`<option key=${span.streamId} value=${span.streamId}>#${span.seq} ${plain(nameOf(span))}</option>`;
  const choose = (event) => ctx.go(ctx.to({ row: calls.find((span) => span.streamId === event.currentTarget.value).seq, tab: 'context' }));
  return html`<div class="scroll" data-testid="context"><div class="fact">
    <div class="row"><h2>What the model saw</h2><span class="right"><${SeqLink} ctx=${ctx} seq=${chosen.seq} label=${`#${chosen.seq}`} />
        </span></div>
    <label class="row"><span class="sr">Model call</span><select class="f" value=${chosen.streamId}
        onChange=${choose}>${calls.map(option)}</select></label>
    <p class="mid mono t1">${show(`${chosen.provider}:${chosen.model}`)}</p>
    <${Figures} span=${chosen} />
    <${Prompt} key=${chosen.streamId} ctx=${ctx} thread=${thread} span=${chosen} second=${second} />
    ${calls.length > 1 && html`<label class="stack"><span>Compare with</span><select class="f" value=${other}
      onChange=${(event) => setOther(event.currentTarget.value)}><option value="">no other call</option>
      ${calls.filter((span) => span !== chosen).map(option)}</select></label>`}
  </div></div>`;
}

function Figures({ span }) {
  const { tokens, ttftMs, costUsd, stopReason, queuedMs, error } = span;
  const fact = (name, value) => value != null && html`<span><b class="num">${typeof value === 'number' ? figure(value) : value}</b> ${name}</span>`;
  return html`<p class="row wrap mid t1 num" data-testid="figures">
    ${fact('tokens in', tokens?.input)}${fact('of them from the cache', tokens?.cached || null)}
    ${fact('tokens out', tokens?.output)}${fact('until the first token', ttftMs == null ? null : duration(ttftMs))}
    ${fact('waited for a free place', queuedMs ? duration(queuedMs) : null)}
    ${tokens && fact('', costUsd == null ? 'no price' : dollars(costUsd))}${stopReason && html`<span>ended with ${show(stopReason)}</span>`}
  </p>${error && html`<p class="wrong">${show(error.code)}: ${show(error.message)}</p>`}`;
}

/** The prompt, rendered again by the server. */
function usePrompt(ctx, thread, span) {
  const id = span?.streamId;
  const state = useRead(ctx, [thread.id, id], async (signal) => (
    { id, prompt: id && await ctx.api.get(`/threads/${enc(thread.id)}/streams/${enc(id)}`, { signal }) }));
  return state.problem || state.id === id ? state : {};
}

function Prompt({ ctx, thread, span, second }) {
  const { prompt, problem } = usePrompt(ctx, thread, span);
  const compared = usePrompt(ctx, thread, second);
  if (problem?.status === 404) return html`<p class="mid">${show(wordsOf(problem))}</p>`;
  if (!prompt) return html`<${Awaited} ctx=${ctx} thread=${thread} problem=${problem} />`;
  const sum = prompt.parts.reduce((all, part) => all + part.tokens, 0);
  const { window } = prompt;
  return html`<div class="win" role="img" aria-label=${`${sum} tokens in ${prompt.parts.length} parts`}>
      ${prompt.parts.map((part, i) => html`<i key=${i} class="p${(i % 6) + 1}" title=${`${titleOf(part)}: ${part.tokens}`}
        ...${placed({ width: `${(part.tokens / Math.max(1, sum)) * 100}%` })}></i>`)}</div>
    ${window && html`<div class="left row t1"><span class="meter"><i
        class="used" ...${placed({ width: `${Math.min(100, (sum / window) * 100)}%` })}></i></span></div>`}
    <p class="num mid t1"><b>${figure(sum)}</b>${window && ` of ${figure(window)}`} tokens${prompt.exact === false ? ', rendered again: not exactly as it was sent' : ''}</p>
    <div>${prompt.parts.map((part, i) => html`<${Part} key=${i} part=${part} number=${i} again=${prompt.parts.findIndex((one) => one.kind === part.kind) < i} twin=${twinOf(compared.prompt, part, i)} />`)}</div>`;
}

const titleOf = (part) => plain([KIND[part.kind] ?? part.kind, part.of && `(${part.of})`].filter(Boolean).join(' '));

const twinOf = (prompt, part, i) => prompt && (prompt.parts[i]?.kind === part.kind ? prompt.parts[i] : prompt.parts.find((one) => one.kind === part.kind) ?? null);

function Part({ part, number, again, twin }) {
  const differs = twin !== undefined && twin?.text !== part.text;
  return html`<details class="part"><summary><i class="sw p${(number % 6) + 1}"></i><span>${titleOf(part)}${again && !part.of && html` <span class="dim">continued</span>`}</span>
      ${twin !== undefined && html`<span class="tag ${differs ? 'ask' : ''}">${differs ? 'differs' : 'same'}</span>`}
      <span class="n">${figure(part.tokens)}</span></summary>
    <${Json} value=${part.text} label=${titleOf(part)} />
    ${differs && html`<h3>In the other call</h3>${twin ? html`<${Json} value=${twin.text}
        label="The same part of the other call" />` : html`<p class="dim">not there</p>`}`}
  </details>`;
}
