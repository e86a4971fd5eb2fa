// Common parts of question cards: the buttons, who may answer, and why it is asked.

import { rejection, who } from '../../answer.js';
import { fullTime, placed, ruleName } from '../../format.js';
import { plain, show } from '../../text.js';
import { html, useEffect, useState } from '../../vendor/preact-htm.js';
import { barredText, breakText, conditionText, grouped, ON_EXPIRY, SCOPE } from '../../words.js';
import { Left } from '../parts.js';

/** A double click and a held key press a button once: they confirm nothing. */
export const pressedOnce = (act) => ({
  onClick(event) {
    if (event.detail <= 1) act(event);
  },
  onKeyDown(event) {
    if (event.repeat && (event.key === 'Enter' || event.key === ' ')) event.preventDefault();
  },
});

/** `[isArmed, arm, disarm]`: a first press. It expires after three seconds, or with its view, and is for `aim`: what is sent. */
export function useArmed(aim) {
  const mine = aim ?? true;
  const [armed, set] = useState(null);
  useEffect(() => {
    const timer = armed !== null && setTimeout(() => set(null), 3_000);
    return () => clearTimeout(timer);
  }, [armed]);
  return [armed === mine, () => set(mine), () => set(null)];
}

const NEAR = 24;
/** Where the pointer last pressed, for which question. A press there may not be meant for another one that appeared. */
let last = null;

/** The pointer was elsewhere, or a key was pressed. */
const turned = ({ key, clientX, clientY }) => {
  if (key || Math.hypot(clientX - last?.x, clientY - last?.y) > NEAR) last = null;
};

for (const type of ['pointermove', 'pointerdown', 'keydown']) globalThis.addEventListener?.(type, turned, true);

function isForAnother({ detail, clientX: x, clientY: y }, id) {
  if (detail && last && last.id !== id) return true;
  last = detail ? { x, y, id } : null;
  return false;
}

/** A press that was held says so beside the button; after two seconds the place counts no more. */
export function Decide({ name, label, keys, cls = '', draft, off, onPress }) {
  const [isHeld, setHeld] = useState(false);
  useEffect(() => {
    const timer = isHeld && setTimeout(() => {
      last = null;
      setHeld(false);
    }, 2_000);
    return () => clearTimeout(timer);
  }, [isHeld]);
  const press = (event) => {
    const isOther = isForAnother(event, draft.id);
    setHeld(isOther);
    if (!isOther) onPress();
  };
  return html`<button type="button" class="b ${cls}" data-testid=${name} disabled=${Boolean(off) || draft.busy !== null}
      aria-busy=${draft.busy === name ? 'true' : undefined} ...${pressedOnce(press)}>
    <span>${draft.busy === name ? 'Sending …' : label}</span>${keys && html`<kbd aria-hidden="true">${keys}</kbd>`}
  </button><span role="status" class=${isHeld ? 'off-reason' : 'sr'}>${isHeld && 'Another question: move away, or wait'}</span>`;
}

/** Its keys: a question that is not at hand is selected first. */
export const keysOf = (hand, keys) => (hand?.isHere ? keys : hand && `q ${keys}`);

/** The same for a key: `off` is why it is disabled. */
export function pressed(draft, off, act) {
  return (event) => {
    if (off || draft.busy !== null) return false;
    if (!event.repeat) act();
    return true;
  };
}

export const Reason = ({ text }) => text && html`<p class="off-reason" data-testid="why-not">${text}</p>`;

/**
 * The usual two buttons: `yes` and `no` are `[name, label, act]`. `wrong`: mistakes that prevent a yes; `told`: those
 * shown at once.
 */
export function YesNo({ draft, whyNot, yes, no, wrong = null, told = wrong }) {
  return html`<div class="acts">
    <${Decide} name=${yes[0]} cls="main" label=${yes[1]} draft=${draft} off=${whyNot.approve ?? wrong} onPress=${yes[2]} />
    ${no && html`<${Decide} name=${no[0]} cls="bad" label=${no[1]} draft=${draft} off=${whyNot.reject} onPress=${no[2]} />`}
    <${Reason} text=${whyNot.approve ?? told} /></div>`;
}

/** A rejection that needs a reason asks for a missing one. */
export const withReason = ({ question, draft, set, press }, name) => () => (
  draft.reason.trim() === '' ? set({ needsReason: true }) : press(name, rejection(question, draft.reason)));

export const ResultField = ({ label, draft, set }) => html`<label class="stack"><span>${label}</span>
  <textarea class="f mono" rows="3" data-testid="result" value=${draft.result ?? ''}
    onInput=${(event) => set({ result: event.currentTarget.value })}></textarea></label>`;

export function ReasonField({ draft, set, needed, hint = 'Reason (needed to reject; the model reads it)' }) {
  return html`<label><span class="sr">Reason</span>
    <input class="f" data-testid="reason" placeholder=${hint} value=${draft.reason} aria-invalid=${needed ? 'true' : undefined}
      onInput=${(event) => set({ reason: event.currentTarget.value, needsReason: false })} /></label>
    ${needed && html`<p class="wrong" role="alert" data-testid="needs-reason">Say why: the model reads it and goes on from there.</p>`}`;
}

/* Context of a question: why it is asked, who may answer, the effect of a crash, the time left. */

export function Why({ question }) {
  const { policy, digest, toolName, kind, remote } = question;
  return html`<dl class="why" data-testid="why">
    ${asker(question) && html`<dt>Asked by</dt><dd>${asker(question)}</dd>`}
    ${policy && html`<dt>${kind === 'approval' && !remote ? 'Asked by' : 'Ruled by'}</dt><dd><${Rule} policy=${policy} /></dd>`}
    <dt>May answer</dt><dd data-testid="may-answer"><${Who} question=${question} /></dd>
    ${toolName && (kind === 'approval' || kind === 'in_doubt') && html`<dt>If it breaks</dt>
      <dd>${breakText(question.class, question.idempotent)}</dd>`}
    ${digest && html`<dt>Digest</dt><dd class="mono digest" data-testid="digest">${grouped(digest)}</dd>`}
  </dl>`;
}

/** Who asks, if no rule does. */
function asker({ kind, toolName, toolInput, remote }) {
  if (remote) return html`the agent ${show(remote.agentId)}, about a call or a plan of its own`;
  if (kind === 'input') return toolName === 'ask_user' ? 'the model' : 'the tool, in the middle of its call';
  if (kind === 'peer_input' || kind === 'peer_auth') return html`the agent ${show(toolInput?.agentId ?? '')}`;
  return null;
}

function Rule({ policy }) {
  const conditions = (policy.when ?? []).map((when) => conditionText(when));
  return html`rule <a href="#/policy" class="mono">${show(ruleName(policy))}</a> ${SCOPE[policy.scope] ?? ''}
    ${conditions.map((text, i) => html`${i === 0 ? ': ' : ' and '}<code>${show(text)}</code>`)}
    ${policy.reason && html`. ${show(policy.reason)}`}`;
}

function Who({ question: { policy, askedBy, mayAnswer: mine } }) {
  const by = [askedBy ?? []].flat();
  return html`${show(who(policy?.approvers))}.
    ${policy?.fourEyes && html` Four eyes: ${by.length ? show(by.join(', ')) : 'who'} asked for the run${mine?.reject !== false
      && html`, so ${by.length ? show(by.join(', ')) : 'they'} may only say no`}.`}
    ${mine?.why && html`<p class="c-ask">${show(barredText(mine.why, policy))}</p>`}`;
}

export function Countdown({ ctx, question }) {
  const { expiresAt, expiryPolicy, createdAt, expiresAfterMs } = question;
  if (expiresAt == null) return null;
  const whole = expiresAfterMs ?? expiresAt - createdAt;
  const now = ctx.clock.now();
  const part = Math.max(0, Math.min(1, (expiresAt - now) / whole));
  return html`<div class="left row t1" data-testid="countdown" title=${plain(fullTime(expiresAt))}>
    <span><b><${Left} at=${expiresAt} now=${now} /></b> left, ${ON_EXPIRY[expiryPolicy] ?? 'then it expires'}</span>
    ${whole > 0 && html`<span class="meter" role="presentation"><i ...${placed({ width: `${part * 100}%` })}></i></span>`}
  </div>`;
}
