// What a person must know beside the arguments: why it is asked, who may answer, what if it breaks, how long there is.

import { mayAnswer } from '../../answer.js';
import { fullTime, placed } from '../../format.js';
import { plain, show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { barredText, breakText, conditionText, grouped, ON_EXPIRY, SCOPE } from '../../words.js';

export function Why({ ctx, question }) {
  const { policy, digest, toolName, kind } = question;
  const tool = ctx.tools.get(toolName);
  return html`<dl class="why" data-testid="why">
    ${asker(question) && html`<dt>Asked by</dt><dd>${asker(question)}</dd>`}
    ${policy && html`<dt>${kind === 'approval' ? 'Asked by' : 'Ruled by'}</dt><dd><${Rule} policy=${policy} /></dd>`}
    <dt>May answer</dt><dd data-testid="may-answer"><${Who} question=${question} /></dd>
    ${toolName && (kind === 'approval' || kind === 'in_doubt') && html`<dt>If it breaks</dt>
      <dd>${breakText(question.class ?? tool?.class, question.idempotent ?? tool?.idempotent)}</dd>`}
    ${digest && html`<dt>Digest</dt><dd class="mono digest" data-testid="digest">${grouped(digest)}</dd>`}
  </dl>`;
}

/** Who wants to know, where no rule asks. */
function asker({ kind, toolName, toolInput }) {
  if (kind === 'input') return toolName === 'ask_user' ? 'the model' : 'the tool, in the middle of its call';
  if (kind === 'peer_input' || kind === 'peer_auth') return html`the agent ${show(toolInput?.agentId ?? '')}`;
  return null;
}

function Rule({ policy }) {
  const conditions = (policy.when ?? []).map((when) => conditionText(when));
  return html`rule <a href="#/policy" class="mono">${show(policy.rule)}</a> ${SCOPE[policy.scope] ?? ''}
    ${conditions.map((text, i) => html`${i === 0 ? ': ' : ' and '}<code>${show(text)}</code>`)}
    ${policy.reason && html`. ${show(policy.reason)}`}`;
}

function Who({ question: { policy, askedBy, mayAnswer: mine } }) {
  const by = [askedBy ?? []].flat();
  return html`${show(mayAnswer(policy?.approvers))}
    ${policy?.fourEyes && html` Four eyes: ${by.length ? show(by.join(', ')) : 'who'} asked for the run,
      so ${by.length ? show(by.join(', ')) : 'they'} may only say no.`}
    ${mine?.why && html`<p class="c-ask" data-testid="why-not-you">${show(barredText(mine.why, policy))}</p>`}`;
}

/** How much time is left, and what happens then. The text is written anew by the clock. */
export function Countdown({ ctx, question }) {
  const { expiresAt, expiryPolicy, createdAt, expiresAfterMs } = question;
  if (expiresAt == null) return null;
  const whole = expiresAfterMs ?? expiresAt - createdAt;
  const part = Math.max(0, Math.min(1, (expiresAt - ctx.clock.now()) / whole));
  return html`<div class="left" data-testid="countdown" title=${plain(fullTime(expiresAt))}>
    <span class="num"><b data-tick=${`left:${expiresAt}`}></b> left, ${ON_EXPIRY[expiryPolicy] ?? 'then it expires'}</span>
    ${whole > 0 && html`<span class="meter" role="presentation"><i ...${placed({ width: `${part * 100}%` })}></i></span>`}
  </div>`;
}
