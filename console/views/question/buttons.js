// Buttons that decide. Their words are ours; only one press counts, held-down keys and double clicks are none.

import { html } from '../../vendor/preact-htm.js';

/** `armed`: a first press was made where two are needed. */
export function Decide({ name, label, keys, cls = '', draft, off, onPress }) {
  const press = (event) => {
    if (event.detail > 1) return;
    onPress();
  };
  const hold = (event) => {
    if (event.repeat && (event.key === 'Enter' || event.key === ' ')) event.preventDefault();
  };
  return html`<button type="button" class=${`b ${cls}`} data-testid=${name} disabled=${Boolean(off) || draft.busy !== null}
      aria-busy=${draft.busy === name ? 'true' : undefined} onClick=${press} onKeyDown=${hold}>
    <span>${draft.busy === name ? 'Sending …' : label}</span>${keys && html`<kbd aria-hidden="true">${keys}</kbd>`}
  </button>`;
}

/** The same for a key: `off` says why it does nothing. */
export function pressed(draft, off, act) {
  return (event) => {
    if (off || draft.busy !== null) return false;
    if (!event.repeat) act();
    return true;
  };
}

/** Why nothing can be pressed. */
export const Reason = ({ text }) => text && html`<p class="off-reason" data-testid="why-not">${text}</p>`;

/** The reason that goes with an answer. */
export function ReasonField({ draft, set, needed, hint = 'Reason (needed to reject; the model reads it)' }) {
  return html`<label><span class="sr">Reason</span>
    <input class="f" data-testid="reason" placeholder=${hint} value=${draft.reason} aria-invalid=${needed ? 'true' : undefined}
      onInput=${(event) => set({ reason: event.currentTarget.value, needsReason: false })} /></label>
    ${needed && html`<p class="wrong" role="alert" data-testid="needs-reason">Say why: the model reads it and goes on from there.</p>`}`;
}
