// A failure in words, its remedy, and what is kept.

import { basePath, enc } from '../api.js';
import { count, fullTime } from '../format.js';
import { REMEDIES, TITLES } from '../remedies.js';
import { Shape } from '../shapes.js';
import { plain, show } from '../text.js';
import { html } from '../vendor/preact-htm.js';
import { Mistakes, Todo } from './code.js';
import { Button, Copy, Loading, Refusal, SeqLink, usePress } from './parts.js';
import { Table } from './section.js';

/** Of a refused request, or the thread's last run: one line of a run that was partly done, until it is opened. */
export function FailurePanel({ ctx, thread, problem }) {
  const failure = problem ? ofProblem(problem, thread) : ofRun(thread);
  if (!failure) return null;
  const { code, message, isPartial } = failure;
  const title = html`<${Shape} status=${isPartial ? 'partial' : 'failed'} /><h1>${show(failure.title)}</h1>
    ${isPartial && html`<span class="mid clip grow">${show(message)}</span>`}<code class="right nowrap">${code}</code>`;
  const box = html`<section class="panel-error" role="alert" data-testid="failure" data-code=${code}>
    ${!isPartial && html`<div class="row">${title}</div>`}
    ${message && html`<p>${show(message)}</p>`}
    <${Mistakes} errors=${failure.errors} />
    <${Facts} ctx=${ctx} failure=${failure} thread=${problem ? null : thread} />
    <${Acts} ctx=${ctx} failure=${failure} thread=${thread} problem=${problem} />
  </section>
  ${!problem && html`<${Failures} ctx=${ctx} thread=${thread} />`}`;
  return isPartial ? html`<details class="failure-box part"><summary data-testid="partly-done">${title}</summary>${box}</details>`
    : html`<div class="failure-box">${box}</div>`;
}

/** What is not read yet: why, or bars of about its height. */
export const Awaited = ({ ctx, thread, problem, rows = 6 }) => (problem ? html`<${FailurePanel} ctx=${ctx} thread=${thread} problem=${problem} />`
  : html`<${Loading} rows=${rows} />`);

function ofProblem(problem, thread) {
  // Whichever request for the thread was refused first.
  if (problem.code === 'not_found' && thread?.status === 'failed') {
    return { ...ofProblem(problem), asked: `/threads/${enc(thread.id)}`,
      ...(thread.lastSeq && { title: 'The thread was deleted', message: thread.title, todo: null }) };
  }
  return {
    code: problem.code ?? 'unreachable',
    title: problem.title ?? 'The request was refused',
    message: problem.detail === problem.title ? null : problem.detail,
    todo: problem.todo ?? (problem.isUnreachable ? 'Wait until the server answers; it is asked again by itself' : REMEDIES[problem.code]),
    errors: problem.errors,
    asked: problem.code === 'not_found' && problem.body?.instance,
    traceId: problem.traceId,
  };
}

/** The last run's failure: from its result, else from the log. */
function ofRun(thread) {
  if (!thread) return null;
  const runId = thread.view.runOrder.at(-1);
  const run = thread.view.runs.get(runId);
  if (!run || run.end == null) return null;
  const isPartial = run.resultStatus === 'partial';
  if (run.status !== 'failed' && run.resultStatus !== 'error' && !isPartial) return null;
  const last = (fits) => thread.view.failures.findLast((one) => one.runId === runId && fits(one));
  const item = last((one) => one.kind === 'item');
  const told = last((one) => one.kind === 'error' && one.fatal) ?? last((one) => one.kind === 'error' && (!item || one.itemId === item.itemId)) ?? item;
  const result = thread.runs?.find((one) => one.runId === runId)?.result?.metadata?.error;
  const code = result?.code ?? told?.code ?? (isPartial ? 'partial' : 'failed');
  const itemId = isPartial && told?.itemId;
  return {
    isPartial,
    code,
    title: (!itemId && TITLES[code]) || (isPartial ? 'Not everything could be done' : 'The run failed'),
    message: result?.message ?? (itemId ? `${itemId}: ${told.message}` : told?.message ?? null),
    todo: REMEDIES[code] ?? (isPartial ? 'Look at the items that failed; run again or ask for them anew' : null),
    phase: result?.phase ?? told?.phase ?? null,
    attempt: told?.attempt ?? null,
    seq: told?.seq ?? run.endSeq,
    traceId: thread.observation(run.endSeq)?.traceId ?? null,
    run,
  };
}

function Facts({ ctx, failure, thread }) {
  const { asked, todo, phase, attempt, seq, traceId } = failure;
  return html`<dl class="why">
    ${asked && html`<dt>Asked for</dt><dd class="mono" data-testid="asked-for">${show(asked)}</dd>`}
    ${todo && html`<dt>What to do</dt><dd data-testid="remedy"><${Todo} text=${todo} /></dd>`}
    ${phase && html`<dt>Where</dt><dd>${show(phase)}${attempt ? `, attempt ${attempt}` : ''}
      ${seq != null && html` · observation <${SeqLink} ctx=${ctx} seq=${seq} />`}</dd>`}
    ${traceId && html`<dt>Trace</dt><dd class="mono">${show(traceId)} <${Copy} text=${traceId} label="Copy" cls="quiet" /></dd>`}
    ${thread && html`<dt>Work done</dt><dd>${kept(thread)}</dd>`}
    ${REMEDIES[failure.code] && html`<dt>About</dt><dd><a href="${basePath()}/docs#${enc(failure.code)}">
        <code>${failure.code}</code> in the list of errors</a></dd>`}
  </dl>`;
}

function kept(thread) {
  const { todoList } = thread.core;
  const done = todoList.filter((item) => item.status === 'completed');
  if (todoList.length === 0) return 'No plan was made, so nothing was begun.';
  if (done.length === 0) return `None of ${count(todoList.length, 'item')}.`;
  return html`${done.length} of ${count(todoList.length, 'item')}, kept: ${show(done.map((item) => item.id).join(', '))}.
    Finished items are not repeated.`;
}

function Acts({ ctx, failure, thread, problem }) {
  const { press, problem: refused } = usePress(ctx);
  const { run } = failure;
  const again = async () => (await press(`again ${run.runId}`, `/threads/${enc(thread.id)}/process`, { query: run.query, options: optionsOf(ctx, failure) })) && ctx.refresh();
  const canRun = !problem && run.query;
  return html`<div class="acts">
    ${canRun && html`<${Button} label="Run again" cls="main" id="run-again" why=${ctx.whyNot('run')} onClick=${again} />`}
    ${failure.code.startsWith('model_') && html`<a class="b" href="#/system">Check the models</a>`}
    <${Copy} text=${() => report(ctx, failure, thread)} label="Copy report" cls="quiet" />
    <${Refusal} problem=${refused} />
    ${canRun && html`<p class="off-reason">${ctx.whyNot('run') ?? 'With the options of that run, but for those that no log keeps: its prompt, its persona and tools of its caller.'}</p>`}
  </div>`;
}

/** A run's options for a retry: a failed model that is no longer offered is replaced by the current one. */
function optionsOf(ctx, { code, run }) {
  const { executionConfig, budget, providerConfig, llmParams, synthesisParams, answerSchema } = run.options ?? {};
  const isGone = code.startsWith('model_') && !ctx.models?.items.some(({ provider, model }) => provider === run.provider && model === run.model);
  return { executionConfig, budget, providerConfig: isGone ? undefined : providerConfig, llmParams, synthesisParams, answerSchema };
}

/** For a bug report: where and what, without arguments and model texts. */
async function report(ctx, failure, thread) {
  const version = await ctx.api.get('/version').then((one) => `${one.name} ${one.version}`, () => 'version unknown');
  return [
    version,
    `code ${failure.code}`,
    failure.phase && `phase ${failure.phase}`,
    failure.traceId && `trace ${failure.traceId}`,
    thread && `thread ${thread.id}`,
    failure.run && `run ${failure.run.runId}`,
    failure.seq != null && `observation ${failure.seq}`,
  ].filter(Boolean).join('\n');
}

/** Every failure of the thread, and its outcome. */
function Failures({ ctx, thread }) {
  // A failed run is shown by the error that ended it.
  const failures = thread.view.failures.filter((one) => one.kind !== 'run' || !thread.view.failures.some((other) => other.fatal && other.kind === 'error'
    && other.runId === one.runId));
  if (failures.length === 0) return null;
  return html`<section class="failures" data-testid="failures"><h2>Failures in this thread</h2>
    <${Table} label="Failures" heads=${['#', 'What', 'Code', 'Words', 'What became of it']}>${[...failures].reverse().map((one) => html`<tr key=${`${one.seq} ${one.kind}`} title=${plain(fullTime(one.at))}>
      <td><${SeqLink} ctx=${ctx} seq=${one.seq} /></td>
      <td>${WHAT[one.kind] ?? one.kind}${one.itemId && html` <span class="mono dim">${show(one.itemId)}</span>`}</td>
      <td class="mono">${show(one.code)}</td><td>${show([one.toolName, one.message].filter(Boolean).join(': '))}</td>
      <td>${one.became ? show(one.became) : BECAME[one.kind]}</td></tr>`)}</${Table}></section>`;
}

/** The outcome if no other is known. */
const BECAME = {
  stream: 'It was not made again.', call: 'The model was told.', item: 'Its item failed.', run: 'It ended the run.', error: 'The run went on.',
};

const WHAT = { stream: 'model', call: 'tool', item: 'item', run: 'run', error: 'error' };

/** Above the page: the session has ended under unsaved work, or the thread is quarantined. */
export const Notice = ({ ctx }) => (ctx.isOver
  ? html`<div class="strip bad" role="status" data-testid="session-over"><b>Your session is over.</b>
    <span><a href="#/login" target="_blank">Sign in in another tab</a>, then try again.</span>
    <${Button} cls="small right" label="Try again" onClick=${ctx.signedIn} /></div>`
  : html`<div class="strip bad" role="status"><b>This thread is set aside (<code>thread_quarantined</code>).</b>
    <span>Working on it stopped the server more than once. Fork it to go on from an earlier observation.</span></div>`);
