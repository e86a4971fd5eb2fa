// What an operator acts on: models, servers, agents, deliveries, keys, tools. Nothing of the settings file is edited here.

import { html, useEffect, useState } from '../vendor/preact-htm.js';
import { show } from '../text.js';
import { Agents } from './system/agents.js';
import { Keys } from './system/keys.js';
import { McpServers } from './system/mcp.js';
import { Models } from './system/models.js';
import { Tools } from './system/tools.js';
import { Webhooks } from './system/webhooks.js';
import { useQuestionKey } from './question/key.js';

export function System({ ctx }) {
  useQuestionKey(ctx);
  const [about, set] = useState({});
  useEffect(() => {
    ctx.api.get('/version').then((version) => set((before) => ({ ...before, version })), () => {});
    // A server that is not ready answers 503, and says why.
    ctx.api.get('/readyz').then((ready) => set((before) => ({ ...before, ready })), (problem) => set((before) => ({ ...before, ready: problem.body })));
  }, []);
  const { version, ready } = about;
  return html`<main class="stage wide"><div class="page scroll" data-testid="system">
    <div class="title"><h1>System</h1><span class="mid" data-testid="ready">${version && `${version.name} ${version.version}`}
      ${ready && html` · ${show(ready.status ?? ready.detail ?? 'not ready')}${ready.durability && ` · durability ${ready.durability.status}`}
        ${ready.durability?.detail && html` (${show(ready.durability.detail)})`}`}</span></div>
    <div class="grid2">
      <${Models} ctx=${ctx} /><${McpServers} ctx=${ctx} /><${Agents} ctx=${ctx} />
      <${Webhooks} ctx=${ctx} /><${Keys} ctx=${ctx} /><${Tools} ctx=${ctx} />
    </div></div></main>`;
}
