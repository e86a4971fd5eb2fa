import { enc } from '../../api.js';
import { countdown, duration } from '../../format.js';
import { show } from '../../text.js';
import { html, useState } from '../../vendor/preact-htm.js';
import { Button } from '../parts.js';
import { Section, Status, useList } from './section.js';

const CHECKED = {
  ok: ['completed', 'answers'], key_refused: ['failed', 'key refused'], model_unknown: ['failed', 'unknown model'],
  unreachable: ['failed', 'cannot be reached'], busy: ['ask', 'busy'], failed: ['failed', 'failed'],
};

/** What is known of a model: its check, else its breaker and its queue. */
function statusOf({ check, health }) {
  if (check) return CHECKED[check.status] ?? ['idle', check.status];
  if (health?.breaker === 'open') return ['failed', 'left alone'];
  if (health?.breaker === 'half_open') return ['ask', 'tried again'];
  if (health?.waiting > 0) return ['ask', 'busy'];
  return health ? ['completed', 'in use'] : ['idle', 'not called yet'];
}

export function Models({ ctx }) {
  const list = useList(ctx, '/models');
  const [asking, setAsking] = useState(false);
  const [refused, setRefused] = useState(null);
  const check = async () => {
    setAsking(true);
    setRefused(null);
    try {
      list.set((await ctx.api.get('/models?check=true')).items);
    } catch (problem) {
      setRefused(problem);
    }
    setAsking(false);
  };
  const more = html`<p class="row wrap"><${Button} cls="small" id="check-models" label=${asking ? 'Asking …' : 'Ask every model for a word'}
      why=${asking ? 'They are being asked.' : ctx.whyNot('run')} onClick=${check} /><span class="dim t1">costs a few tokens each</span>
    ${refused && html`<span class="wrong" role="alert">${show(refused.detail ?? refused.title)}</span>`}</p>`;
  return html`<${Section} name="Models" from="[models] and keys of providers" list=${list}
      heads=${['', 'Model', 'In use', 'Waiting', 'Last answer']}
    empty="No model is named: set PES_MODEL, or a provider’s key." more=${more}>
    ${list.items?.map((one) => html`<tr key=${enc(`${one.provider}:${one.model}`)}><${Status} shape=${statusOf(one)[0]} word=${statusOf(one)[1]} />
      <td>${show(`${one.provider}:${one.model}`)}${one.isDefault && html` <span class="tag">default</span>`}</td>
      <td class="num">${one.health?.running ?? '–'}</td><td class="num">${one.health?.waiting ?? '–'}</td>
      <td><${Last} ctx=${ctx} one=${one} /></td></tr>`)}</${Section}>`;
}

function Last({ ctx, one: { check, health } }) {
  const now = ctx.clock.now();
  const again = health?.retryAt > now && html` again in <span class="num"
      data-tick=${`left:${health.retryAt}`}>${countdown(health.retryAt - now)}</span>`;
  const words = check?.warning ?? check?.detail ?? health?.lastError;
  return html`${check && duration(check.tookMs)} ${words && show(typeof words === 'string' ? words : words.message ?? JSON.stringify(words))}${again}`;
}
