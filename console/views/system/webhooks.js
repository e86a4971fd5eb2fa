import { enc, newKey } from '../../api.js';
import { age, countdown, fullTime } from '../../format.js';
import { plain, show } from '../../text.js';
import { html, useEffect, useState } from '../../vendor/preact-htm.js';
import { RowAction, Section, Status } from './section.js';

const MOST = 50;

/** The latest deliveries of all webhooks: in one list, or where there is none, webhook by webhook. */
async function deliveriesOf(api, hooks) {
  try {
    return (await api.get(`/deliveries?limit=${MOST}`)).items;
  } catch (problem) {
    if (problem.status !== 404 && problem.status !== 405) throw problem;
  }
  const pages = await Promise.all(hooks.map(async (hook) => {
    const { items } = await api.get(`/webhooks/${enc(hook.webhookId)}/deliveries?limit=${MOST}`);
    return items.map((one) => ({ ...one, webhookId: hook.webhookId, url: hook.url }));
  }));
  return pages.flat().sort((a, b) => b.createdAt - a.createdAt).slice(0, MOST);
}

function useDeliveries(ctx) {
  const [state, set] = useState({});
  const load = async () => {
    try {
      const { items: hooks } = await ctx.api.all('/webhooks');
      const sent = await deliveriesOf(ctx.api, hooks);
      set({ hooks, items: sent.map((one) => ({ ...one, url: one.url ?? hooks.find((hook) => hook.webhookId === one.webhookId)?.url })) });
    } catch (problem) {
      set({ problem });
    }
  };
  useEffect(() => void load(), []);
  return { ...state, load };
}

const STANDING = { delivered: ['completed', 'delivered'], dead: ['failed', 'gave up'], pending: ['in_progress', 'due'] };

export function Webhooks({ ctx }) {
  const list = useDeliveries(ctx);
  const hooks = list.hooks ?? [];
  const empty = hooks.length === 0 ? 'No webhook is set. One is told of runs and questions: POST /webhooks.'
    : `${hooks.length === 1 ? '1 webhook' : `${hooks.length} webhooks`}; nothing was sent yet.`;
  const broken = hooks.filter((hook) => hook.secretError ?? hook.storedError);
  const more = broken.map((hook) => html`<p class="wrong">${show(hostOf(hook.url))}: ${show(hook.secretError ?? hook.storedError)}</p>`);
  return html`<${Section} name="Webhooks" from="[[webhooks]], POST /webhooks" list=${list} heads=${['', 'Message', 'Where', 'Tries']}
      empty=${empty} more=${more}>
    ${list.items?.map((one) => html`<tr key=${one.deliveryId}><${Standing} ctx=${ctx} one=${one} />
      <td title=${plain(fullTime(one.createdAt))}>${show(one.event)} <span class="dim num">${age(one.createdAt, ctx.clock.now())}</span></td>
      <td title=${plain(one.url ?? '')}>${show(hostOf(one.url ?? ''))}</td>
      <td><span class="num">${one.attempts}</span>${one.said && html` · ${show(one.said)}`} ${one.finishedAt && html`<${RowAction}
          label="Send again"
        why=${ctx.whyNot('admin')} id="replay"
            act=${() => ctx.api.post(`/webhooks/deliveries/${enc(one.deliveryId)}/replay`, {}, { key: newKey() }).then(list.load)} />`}</td></tr>`)}</${Section}>`;
}

function Standing({ ctx, one }) {
  const now = ctx.clock.now();
  if (one.dueAt > now && !one.finishedAt) {
    return html`<td class="nowrap">due in <span class="num" data-tick=${`left:${one.dueAt}`}>${countdown(one.dueAt - now)}</span></td>`;
  }
  const [shape, word] = STANDING[one.status] ?? ['idle', one.status];
  return html`<${Status} shape=${shape} word=${word} />`;
}

function hostOf(url) {
  return URL.canParse(url) ? new URL(url).host : url;
}
