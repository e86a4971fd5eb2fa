import { enc } from '../../api.js';
import { show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { RowAction, Section, Status, useList } from './section.js';

const HEALTH = { ready: ['completed', 'ready'], starting: ['in_progress', 'starting'], down: ['failed', 'down'], disabled: ['cancelled', 'off'] };

export function McpServers({ ctx }) {
  const list = useList(ctx, '/mcp-servers');
  return html`<${Section} name="MCP servers" from="[[mcp.servers]], POST /mcp-servers" list=${list} heads=${['', 'Server', 'Tools', 'Note']}
    empty="No MCP server is known. One adds its tools here: see TOOLS.md.">
    ${list.items?.map((one) => {
      const changed = one.tools.filter((tool) => tool.standing === 'changed');
      const [shape, word] = changed.length > 0 && one.health === 'ready' ? ['ask', 'ready'] : HEALTH[one.health] ?? ['idle', one.health];
      return html`<tr key=${one.name}><${Status} shape=${shape} word=${word} /><td>${show(one.name)}</td><td
          class="num">${one.tools.length}${one.hasMoreTools ? '+' : ''}</td>
        <td>${one.reason && html`<p>${show(one.reason)}</p>`}${one.restarts > 0 && html`<p>${one.restarts} ${one.restarts === 1 ? 'restart' : 'restarts'}</p>`}
          ${changed.map((tool) => html`<${Changed} key=${tool.tool} ctx=${ctx} server=${one} tool=${tool} load=${list.load} />`)}
          <${Refused} tools=${one.tools} /></td></tr>`;
    })}</${Section}>`;
}

/** A tool that describes itself otherwise than when it was approved: off until somebody has looked at it. */
function Changed({ ctx, server, tool, load }) {
  const approve = async () => {
    await ctx.api.post(`/mcp-servers/${enc(server.name)}/tools/${enc(tool.name)}/approve`, { hash: tool.hash });
    await load();
  };
  const { approvedDescription: was, description: now } = tool;
  return html`<details class="part" data-testid="changed-tool"><summary><b
      class="mono">${show(tool.tool)}</b> describes itself otherwise: off. <span class="link">See and approve</span></summary>
    ${tool.reason && html`<p class="mid">${show(tool.reason)}</p>`}
    ${was !== undefined || now !== undefined ? html`<div class="diff"><del>${show(was ?? '')}</del><ins>${show(now ?? '')}</ins></div>`
      : html`<p class="dim">Its present description is known by its hash: <span class="mono">${show(tool.hash)}</span></p>`}
    <${RowAction} label="Approve as it is now" sure="Press again: approve" why=${ctx.whyNot('admin')} act=${approve} id="approve-tool" />
        </details>`;
}

const Refused = ({ tools }) => tools.filter((tool) => ['denied', 'shadowed', 'refused'].includes(tool.standing)).map((tool) => html`<p class="dim">
  <span class="mono">${show(tool.tool)}</span> ${tool.standing}${tool.reason && html`: ${show(tool.reason)}`}</p>`);
