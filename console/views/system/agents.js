import { enc } from '../../api.js';
import { age, fullTime } from '../../format.js';
import { plain, show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { Section, Status, useList } from './section.js';

const OVER = new Set(['completed', 'failed', 'rejected', 'canceled', 'lost']);

export function Agents({ ctx }) {
  const list = useList(ctx, '/agents');
  const tasks = useList(ctx, '/tasks');
  const openOf = (id) => (tasks.items ?? []).filter((task) => task.agentId === id && !OVER.has(task.status));
  return html`<${Section} name="Agents" from="[[a2a.agents]], POST /agents" list=${list} heads=${['', 'Agent', 'Tasks', 'Skills']}
    empty="No other agent is known. One can be given work here: see AGENTS.md.">
    ${list.items?.map((one) => {
      const open = openOf(one.id);
      const error = one.secretError ?? one.storedError;
      const [shape, word] = error ? ['failed', 'unusable'] : open.length > 0 ? ['waiting', open.length === 1 ? '1 task' : `${open.length} tasks`] : ['completed', 'known'];
      return html`<tr key=${one.id}><${Status} shape=${shape} word=${word} /><td
          title=${plain(one.description ?? '')}>${show(one.id)}${one.name && one.name !== one.id && html` <span
          class="dim">${show(one.name)}</span>`}</td>
        <td>${error && html`<p class="wrong">${show(error)}</p>`}${open.length === 0 && !error ? '0' : open.map((task) => html`<${Task}
            key=${task.taskId} ctx=${ctx} task=${task} />`)}</td>
        <td>${show(one.skills.map((skill) => skill.name || skill.id).join(', ') || '–')}</td></tr>`;
    })}</${Section}>`;
}

function Task({ ctx, task }) {
  return html`<p><a href=${`#/t/${enc(task.threadId)}?tab=item&sel=${enc(task.itemId ?? '')}`}>${show(task.status)}</a>,
    asked <span title=${fullTime(task.updatedAt)} data-tick=${`age:${task.updatedAt}`}>${age(task.updatedAt, ctx.clock.now())}</span> ago</p>`;
}
