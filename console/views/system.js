// For operators: models, servers, agents, deliveries, keys, tools. The settings file is not edited here.

import { enc, newKey } from '../api.js';
import { TASK_OVER } from '../fold/core.js';
import { age, count, dollars, duration, fullTime, placed, tokens } from '../format.js';
import { threadHash } from '../router.js';
import { Sign } from '../shapes.js';
import { plain, show } from '../text.js';
import { html, useState } from '../vendor/preact-htm.js';
import { CLASS } from '../words.js';
import { Diff } from './code.js';
import { Button, Copy, Left, Refusal } from './parts.js';
import { ReadAgain, RowAction, Section, Status, useAgain, useList, useRead } from './section.js';

export function System({ ctx }) {
  const { version, ready } = useRead(ctx, [useAgain()], async (signal) => {
    // A server that is not ready answers 503 with the reason.
    const [about, readiness] = await Promise.all([ctx.api.get('/version', { signal }), ctx.api.get('/readyz', { signal }).catch((problem) => problem.body)]);
    return { version: about, ready: readiness };
  });
  return html`<main class="stage wide"><div class="page scroll" data-testid="system">
    <div class="title"><h1>System</h1><span class="mid" data-testid="ready">${version && `${version.name} ${version.version}`}
      ${ready && html` · ${show(ready.status ?? ready.detail ?? 'not ready')}${ready.durability && ` · durability ${ready.durability.status}`}
        ${ready.durability?.detail && html` (${show(ready.durability.detail)})`}`}</span><span class="right"><${ReadAgain} /></span></div>
    <div class="grid2">
      <${Models} ctx=${ctx} /><${McpServers} ctx=${ctx} /><${Agents} ctx=${ctx} />
      <${Webhooks} ctx=${ctx} /><${Keys} ctx=${ctx} /><${Limits} ctx=${ctx} /><${Tools} ctx=${ctx} />
    </div></div></main>`;
}

const CHECKED = {
  ok: ['completed', 'answers'], key_refused: ['failed', 'key refused'], model_unknown: ['failed', 'unknown model'],
  unreachable: ['failed', 'cannot be reached'], busy: ['ask', 'busy'], failed: ['failed', 'failed'],
};

/** A model's status: its check, else its breaker and queue. Calls of a scripted one are not counted. */
function statusOf({ provider, check, health }) {
  if (check) return CHECKED[check.status] ?? ['idle', check.status];
  if (health?.breaker === 'open') return ['failed', 'left alone'];
  if (health?.breaker === 'half_open') return ['ask', 'tried again'];
  if (health?.waiting > 0) return ['ask', 'busy'];
  if (provider === 'demo') return ['completed', 'scripted'];
  return health ? ['completed', 'in use'] : ['idle', 'not called yet'];
}

function Models({ ctx }) {
  const list = useList(ctx, '/models');
  const [{ asking, problem, checks }, set] = useState({});
  const check = () => {
    set({ asking: true });
    ctx.api.get('/models?check=true').then(({ items }) => set({ checks: items }), (refused) => set({ problem: refused }));
  };
  const rows = list.items?.map((row) => ({ ...row, check: checks?.find((one) => one.provider === row.provider && one.model === row.model)?.check }));
  const more = html`<p class="row wrap"><${Button} cls="small" id="check-models" label=${asking ? 'Asking …' : 'Ask every model for a word'}
      why=${asking ? 'They are being asked.' : ctx.whyNot('run')} onClick=${check} /><span class="dim t1">costs a few tokens each</span>
    <${Refusal} problem=${problem} /></p>`;
  return html`<${Section} name="Models" from="[models] and keys of providers" list=${list}
      heads=${['', 'Model', 'In use', 'Waiting', 'Last answer']}
    empty="No model is named: set PES_MODEL, or a provider’s key." more=${more}>
    ${rows?.map((one) => html`<tr key=${enc(`${one.provider}:${one.model}`)}><${Status} of=${statusOf(one)} />
      <td>${show(`${one.provider}:${one.model}`)}${one.isDefault && html` <span class="tag">default</span>`}</td>
      <td class="num">${one.health?.running ?? '–'}</td><td class="num">${one.health?.waiting ?? '–'}</td>
      <td><${Last} ctx=${ctx} one=${one} /></td></tr>`)}</${Section}>`;
}

function Last({ ctx, one: { check, health } }) {
  const now = ctx.clock.now();
  const again = health?.retryAt > now && html` again in <${Left} at=${health.retryAt} now=${now} />`;
  const words = check?.warning ?? check?.detail ?? health?.lastError;
  return html`${check && duration(check.tookMs)} ${words && show(typeof words === 'string' ? words : words.message ?? JSON.stringify(words))}${again}`;
}

const HEALTH = { ready: ['completed', 'ready'], starting: ['in_progress', 'starting'], down: ['failed', 'down'], disabled: ['cancelled', 'off'] };

function McpServers({ ctx }) {
  const list = useList(ctx, '/mcp-servers');
  return html`<${Section} name="MCP servers" from="[mcp.servers.NAME], POST /mcp-servers" list=${list} heads=${['', 'Server', 'Tools', 'Note']}
    empty="No MCP server is known. One adds its tools here: see TOOLS.md.">
    ${list.items?.map((one) => {
      const changed = one.tools.filter((tool) => tool.standing === 'changed');
      const health = changed.length > 0 && one.health === 'ready' ? ['ask', 'ready'] : HEALTH[one.health] ?? ['idle', one.health];
      return html`<tr key=${one.name}><${Status} of=${health} /><td>${show(one.name)}</td><td
          class="num">${one.tools.length}${one.hasMoreTools ? '+' : ''}</td>
        <td>${one.reason && html`<p>${show(one.reason)}</p>`}${one.restarts > 0 && html`<p>${count(one.restarts, 'restart')}</p>`}
          ${changed.map((tool) => html`<${Changed} key=${tool.tool} ctx=${ctx} server=${one} tool=${tool} load=${list.load} />`)}
          <${Refused} tools=${one.tools} /></td></tr>`;
    })}</${Section}>`;
}

/** A tool's approved description, if any, and its current one; and what is too long to show. */
export function changeOf({ approved = {}, now }) {
  const [{ leftOut: before = [], ...was }, { leftOut: after = [], ...is }] = [approved, now];
  return { was, is, left: [...new Set([...before, ...after])] };
}

/** A tool whose description changed since its approval: disabled until somebody reviews it. */
function Changed({ ctx, server, tool: { tool, reason }, load }) {
  const [{ seen, problem }, set] = useState({});
  const path = `/mcp-servers/${enc(server.name)}`;
  const isIt = (one) => one.tool === tool;
  const look = ({ currentTarget }) => currentTarget.open && ctx.api.get(path)
    .then(({ tools }) => set({ seen: tools.find(isIt) }), (refused) => set({ problem: refused }));
  // Approves what was shown, not a later version.
  const approve = () => ctx.api.post(`${path}/tools/${enc(tool)}/approve`, { hash: seen.hash }).then(load);
  const change = seen?.now && changeOf(seen);
  return html`<details class="part" data-testid="changed-tool" onToggle=${look}><summary><b
      class="mono">${show(tool)}</b> describes itself otherwise: off. <span class="link">See and approve</span></summary>
    ${reason && html`<p class="mid">${show(reason)}</p>`}<${Refusal} problem=${problem} />
    ${change && html`<${Diff} was=${change.was} now=${change.is} />
      ${change.left.length > 0 && html`<p class="c-ask note">Too long to be shown whole: ${show(change.left.join(', '))}.</p>`}
      <${RowAction} id="approve-tool" label="Approve as it is now" sure="Press again: approve" why=${ctx.whyNot('admin')} act=${approve} />`}
        </details>`;
}

const Refused = ({ tools }) => tools.filter((tool) => ['denied', 'shadowed', 'refused'].includes(tool.standing)).map((tool) => html`<p class="dim">
  <span class="mono">${show(tool.tool)}</span> ${tool.standing}${tool.reason && html`: ${show(tool.reason)}`}</p>`);

function Agents({ ctx }) {
  const list = useList(ctx, '/agents');
  const tasks = useList(ctx, '/tasks');
  const openOf = (id) => (tasks.items ?? []).filter((task) => task.agentId === id && !TASK_OVER.has(task.status));
  return html`<${Section} name="Agents" from="[[agents]], POST /agents" list=${list} heads=${['', 'Agent', 'Tasks', 'Skills']}
    empty="No other agent is known. One can be given work here: see AGENTS.md.">
    ${list.items?.map((one) => {
      const open = openOf(one.id);
      const error = one.secretError ?? one.storedError;
      const status = error ? ['failed', 'unusable'] : open.length > 0 ? ['waiting', count(open.length, 'task')] : ['completed', 'known'];
      return html`<tr key=${one.id}><${Status} of=${status} /><td
          title=${plain(one.description ?? '')}>${show(one.id)}${one.name && one.name !== one.id && html` <span
          class="dim">${show(one.name)}</span>`}</td>
        <td>${error && html`<p class="wrong">${show(error)}</p>`}${open.length === 0 && !error ? '0' : open.map((task) => html`<${Task}
            key=${task.taskId} ctx=${ctx} task=${task} />`)}</td>
        <td>${show(one.skills.map((skill) => skill.name || skill.id).join(', ') || '–')}</td></tr>`;
    })}</${Section}>`;
}

function Task({ ctx, task }) {
  return html`<p><a href=${threadHash({ id: task.threadId, tab: 'item', sel: task.itemId })}>${show(task.status)}</a>,
    last change: <span title=${fullTime(task.updatedAt)} data-tick=${`age:${task.updatedAt}`}>${age(task.updatedAt, ctx.clock.now())}</span></p>`;
}

const MOST = 50;

const useDeliveries = (ctx) => useRead(ctx, [useAgain()], async (signal) => {
  const [{ items: hooks }, { items }] = await Promise.all([ctx.api.all('/webhooks', { signal }), ctx.api.get(`/deliveries?limit=${MOST}`, { signal })]);
  return { hooks, items };
});

const STANDING = { delivered: ['completed', 'delivered'], dead: ['failed', 'gave up'], pending: ['in_progress', 'due'] };

function Webhooks({ ctx }) {
  const list = useDeliveries(ctx);
  const hooks = list.hooks ?? [];
  const empty = hooks.length === 0 ? 'No webhook is set. One is told of runs and questions: POST /webhooks.'
    : `${count(hooks.length, 'webhook')}; nothing was sent yet.`;
  const urlOf = (id) => hooks.find((hook) => hook.webhookId === id)?.url || id;
  const broken = hooks.filter((hook) => hook.secretError ?? hook.storedError);
  const more = broken.map((hook) => html`<p class="wrong">${show(hostOf(urlOf(hook.webhookId)))}: ${show(hook.secretError ?? hook.storedError)}</p>`);
  return html`<${Section} name="Webhooks" from="[[webhooks]], POST /webhooks" list=${list} number=${hooks.length} heads=${['', 'Message', 'Where', 'Tries']}
      empty=${empty} more=${more}>
    ${list.items?.map((one) => html`<tr key=${one.deliveryId}><${Standing} ctx=${ctx} one=${one} />
      <td title=${plain(fullTime(one.createdAt))}>${show(one.event)} <span class="dim num">${age(one.createdAt, ctx.clock.now())}</span></td>
      <td title=${plain(urlOf(one.webhookId))}>${show(hostOf(urlOf(one.webhookId)))}</td>
      <td><span class="num">${one.attempts}</span>${one.said && html` · ${show(one.said)}`} ${one.finishedAt && html`<${RowAction}
          label="Send again"
        why=${ctx.whyNot('admin')} id="replay"
            act=${() => ctx.api.post(`/webhooks/deliveries/${enc(one.deliveryId)}/replay`, {}, { key: newKey() }).then(list.load)} />`}</td></tr>`)}</${Section}>`;
}

function Standing({ ctx, one }) {
  const now = ctx.clock.now();
  if (one.dueAt > now && !one.finishedAt) {
    return html`<td class="nowrap">due in <${Left} at=${one.dueAt} now=${now} /></td>`;
  }
  return html`<${Status} of=${STANDING[one.status] ?? ['idle', one.status]} />`;
}

function hostOf(url) {
  return URL.canParse(url) ? new URL(url).host : url;
}

const SCOPES = [['read', 'look'], ['run', 'ask and steer'], ['approve', 'answer questions'], ['admin', 'everything']];

const keyStatus = ({ revokedAt, expiresAt }, now) => (revokedAt ? ['cancelled', 'revoked']
  : expiresAt <= now ? ['cancelled', 'expired'] : ['completed', 'valid']);

function Keys({ ctx }) {
  const list = useList(ctx, '/keys', 1e6);
  return html`<${Section} name="Keys" from="PES_API_KEYS, POST /keys" list=${list} heads=${['', 'Name', 'Scopes', 'Made', '']}
    empty="No key was made here: this server is open to its own machine, or its keys stand in PES_API_KEYS."
        more=${html`<${Make} ctx=${ctx} load=${list.load} />`}>
    ${list.items?.map((one) => html`<tr key=${one.keyId}><${Status} of=${keyStatus(one, ctx.clock.now())} />
        <td>${show(one.name)}</td><td>${one.scopes.join(' ')}</td><td class="nowrap"
            title=${plain(fullTime(one.createdAt))}>${age(one.createdAt, ctx.clock.now())}</td>
        <td>${!one.revokedAt && html`<${RowAction} label="Revoke" sure="Press again: revoke" why=${ctx.whyNot('admin')} id="revoke"
          act=${() => ctx.api.delete(`/keys/${enc(one.keyId)}`).then(list.load)} />`}</td></tr>`)}</${Section}>`;
}

/** A new key is shown once, only here. The first one closes the server: this browser goes on with it. */
function Make({ ctx, load }) {
  const isFirst = ctx.me?.open === true;
  const fresh = { name: '', scopes: [isFirst ? 'admin' : 'read'], isOpen: false };
  const [state, set] = useState(fresh);
  const why = ctx.whyNot('admin');
  const put = (change) => set((before) => ({ ...before, ...change }));
  const toggle = (scope) => put({ scopes: state.scopes.includes(scope) ? state.scopes.filter((one) => one !== scope) : [...state.scopes, scope] });
  const make = async (event) => {
    event.preventDefault();
    put({ busy: true });
    try {
      const { key } = await ctx.api.post('/keys', { name: state.name.trim(), scopes: state.scopes, tenant: ctx.me?.tenant ?? 'default' });
      set({ ...fresh, made: { key, name: state.name.trim() } });
      if (isFirst) {
        await ctx.api.signIn(key);
        await ctx.signedIn();
      }
      await load();
    } catch (problem) {
      put({ busy: false, problem });
    }
  };
  return html`
    ${state.made && html`<div class="made" role="status" data-testid="made-key">
        <p>The key of ${show(state.made.name)}. It is shown now and never again:</p>
      <p class="row"><code class="grow">${show(state.made.key)}</code>
        <${Copy} text=${state.made.key} label="Copy" />
        <${Button} cls="small" label="I have it" onClick=${() => put({ made: null })} /></p></div>`}
    ${state.isOpen ? html`<form class="make" onSubmit=${make}>
      <label class="stack"><span>Whose it is</span><input class="f" required maxlength="64" value=${state.name} data-testid="key-name"
        onInput=${(event) => put({ name: event.currentTarget.value })} /></label>
      <fieldset class="options row wrap"><legend class="sr">What it may do</legend>${SCOPES.map(([scope, words]) => html`<label
          class="row" key=${scope} title=${words}>
        <input type="checkbox" checked=${state.scopes.includes(scope)} disabled=${isFirst && scope === 'admin'}
          onChange=${() => toggle(scope)} /> ${scope}</label>`)}</fieldset>
      ${isFirst && html`<p class="c-ask note" data-testid="first-key">With the first key this server closes: from then on every program and
        every person needs one. It must have admin, or nobody could make another. This browser goes on with it.</p>`}
      <${Refusal} problem=${state.problem} />
      <div class="row"><button type="submit" class="b small main"
          disabled=${why !== null || state.busy || state.scopes.length === 0 || state.name.trim() === ''}>Make it</button>
        <${Button} cls="small" label="Leave it" onClick=${() => put({ isOpen: false })} /></div></form>`
      : html`<p><${Button} cls="small" id="make-key" label="Make a key…" why=${why} onClick=${() => put({ isOpen: true, made: null, scopes: fresh.scopes })} />
        ${why && html` <span class="off-reason">${why}</span>`}</p>`}`;
}

const WHOSE = { server: 'All tenants', tenant: 'This tenant', key: 'This key' };

/** `tenantDayTokens` and its like; `held`: what calls under way may take. */
function capOf({ cap, capUsd, usedUsd, heldUsd, capTokens, usedTokens, heldTokens, endsAt }) {
  const [whose, period] = cap.split(/(?=[A-Z])/);
  const what = `${WHOSE[whose] ?? whose}, this ${period.toLowerCase()}`;
  return capUsd === undefined ? { what, used: usedTokens, held: heldTokens, most: capTokens, say: (n) => `${tokens(n)} tokens`, endsAt }
    : { what, used: usedUsd, held: heldUsd, most: capUsd, say: dollars, endsAt };
}

function Limits({ ctx }) {
  const list = useRead(ctx, [useAgain()], async (signal) => {
    const { spend, runs } = await ctx.api.get('/limits', { signal });
    const running = { what: 'Runs under way', used: runs.running, most: runs.runningMost };
    return { items: [...spend.map(capOf), running, { what: 'Runs in the queue', used: runs.queued, most: runs.queuedMost }] };
  });
  const now = ctx.clock.now();
  return html`<${Section} name="Limits" from="[limits], PUT /limits" list=${list} heads=${['What', 'Used', 'Of', 'Anew in']}>
    ${list.items?.map(({ what, used, held = 0, most, say = tokens, endsAt }, i) => html`<tr key=${i}><td>${what}
        ${most !== undefined && used > 0 && html`<div class="hbar ${used + held < most ? '' : 'full'}" ...${placed({ width: `${Math.min(1, used / most) * 100}%` })}></div>`}</td>
      <td>${say(used)}${held > 0 && html` <span class="dim nowrap">+ ${say(held)} held</span>`}</td><td>${most === undefined ? 'no limit' : say(most)}</td>
      <td>${endsAt && html`<${Left} at=${endsAt} now=${now} />`}</td></tr>`)}</${Section}>`;
}

function Tools({ ctx }) {
  const list = useList(ctx, '/tools');
  return html`<${Section} name="Tools" from="[[tools.http]], [mcp.servers.NAME], POST /http-tools" list=${list}
      heads=${['', 'Tool', 'Class', 'Idempotent', 'Risk']} cls="whole-line" empty="No tool is offered.">
    ${list.items?.map((one) => html`<tr key=${one.name}><${Status} of=${['completed', 'offered']} /><td class="mono"
        title=${plain(one.description)}>${show(one.name)}</td>
      <td class=${one.class === 'irreversible' ? 'c-ask nowrap' : ''}
          title=${CLASS[one.class] ?? null}>${one.class === 'irreversible' && html`<${Sign} name="once" /> `}${show(one.class)}</td>
      <td>${one.idempotent ? 'yes' : 'no'}</td><td>${one.riskLevel ? show(one.riskLevel) : '–'}</td></tr>`)}</${Section}>`;
}
