// The shape of every status, and small signs. A status has a shape, a colour and a word.

import { html } from './vendor/preact-htm.js';

export const WORD = {
  pending: 'pending', in_progress: 'running', running: 'running', completed: 'done', success: 'done', failed: 'failed',
  error: 'failed', partial: 'partly done', cancelled: 'cancelled', ask: 'asks a person', suspended: 'asks a person',
  doubt: 'in doubt', waiting: 'waits for an agent', idle: 'idle', queued: 'queued', quarantined: 'set aside', none: 'new',
};

const RING = 'M8 2.2a5.8 5.8 0 1 0 0 11.6a5.8 5.8 0 1 0 0-11.6';

/** Outlines. */
const LINES = {
  pending: RING,
  cancelled: `${RING}M4 8h8`,
  waiting: 'M4.6 2h6.8l3.4 6-3.4 6H4.6L1.2 8zM5 8h6M8.8 5.8 11 8 8.8 10.2',
  queued: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  idle: 'M3 8h10',
};

/** A filled shape with a sign cut out. */
const FILLED = {
  completed: ['M8 1.6a6.4 6.4 0 1 0 0 12.8a6.4 6.4 0 1 0 0-12.8', 'M4.9 8.2l2.3 2.3 4.1-4.6'],
  failed: ['M2.4 2.4h11.2v11.2H2.4z', 'M5.4 5.4l5.2 5.2M10.6 5.4l-5.2 5.2'],
  ask: ['M8 1 15 8 8 15 1 8z', 'M8 4.8v3.6M8 10.6v.6'],
  partial: ['M8 1.6a6.4 6.4 0 1 0 0 12.8a6.4 6.4 0 1 0 0-12.8', 'M4.8 8h6.4'],
  doubt: ['M5.2 1.5h5.6l4 4v5.6l-4 4H5.2l-4-4V5.5z', 'M6.2 6.2c0-2.6 3.8-2.4 3.6-.2c-.1 1.3-1.8 1.3-1.8 2.7M8 11.3v.3'],
};

const SAME = {
  running: 'in_progress', suspended: 'ask', quarantined: 'failed', success: 'completed', error: 'failed', none: 'idle',
};

/** What all drawings have: a label, or they are decoration; `at`: x, y, size within another one. */
const drawn = (label, at) => ({
  viewBox: '0 0 16 16', ...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': 'true' }), ...(at && { x: at.x, y: at.y, width: at.size, height: at.size }),
});

export const KIND_SHAPE = { in_doubt: 'doubt', peer_input: 'waiting', peer_auth: 'waiting' };

/** The shape of a status. */
export function Shape({ status, small, at, label = true }) {
  const name = SAME[status] ?? status;
  return html`<svg class="i ${small ? 's' : ''} c-${name}" ...${drawn(label && (WORD[status] ?? String(status)), at)}>${inside(name)}</svg>`;
}

function inside(name) {
  if (name === 'in_progress') {
    return html`<circle cx="8" cy="8" r="5.8" fill="none" stroke="currentColor" stroke-width="1.5" />
      <path d="M8 2.2a5.8 5.8 0 0 1 0 11.6z" fill="currentColor" />`;
  }
  if (FILLED[name]) {
    const [body, sign] = FILLED[name];
    return html`<path d=${body} fill="currentColor" />
      <path d=${sign} class="cut" fill="none" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />`;
  }
  const dash = name === 'pending' ? '2.6 2.2' : null;
  return html`<path d=${LINES[name] ?? LINES.idle} fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"
    stroke-dasharray=${dash} />`;
}

const SIGN = {
  model: 'M3 12V4l5 5 5-5v8',
  call: 'M10 2.5a3.6 3.6 0 0 0-3.2 5L2.4 12l1.8 1.8 4.4-4.4a3.6 3.6 0 0 0 5-3.2L11.2 8.4 8.4 7.6 7.6 4.8z',
  once: 'M8 1.8 14.6 13.6H1.4zM8 6v3.4M8 11.4v.3',
  person: 'M8 2.5a2.6 2.6 0 1 0 0 5.2a2.6 2.6 0 1 0 0-5.2M3 14c.4-3 2.4-4.4 5-4.4s4.6 1.4 5 4.4',
  fork: 'M4 14V2M4 9c0-3.5 8-1.5 8-6M9.8 4.6 12 2.5l2 2.2',
  play: 'M4 2.5v11l9-5.5z',
  stop: 'M4 3h8v10H4z',
  prev: 'M12 3 6 8l6 5zM4 3v10',
  next: 'M4 3l6 5-6 5zM12 3v10',
  sun: 'M8 5a3 3 0 1 0 0 6a3 3 0 1 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1',
  plan: 'M2 6h4v4H2zM10 1.5h4v4h-4zM10 10.5h4v4h-4zM6 8h2M8 3.5v9M8 3.5h2M8 12.5h2',
  time: 'M2 3h6M5 8h8M8 13h6M2 1v14',
  talk: 'M2 3h12v8H7l-3 3v-3H2z',
  menu: 'M2 4h12M2 8h12M2 12h12',
  more: 'M3 8h.1M8 8h.1M13 8h.1',
  task: 'M2 8h9M8 4.5 11.5 8 8 11.5M14 3v10',
  lock: 'M4 7.5h8V14H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5',
};

/** A sign; without a label it is decoration. */
export function Sign({ name, label, at, cls = '' }) {
  return html`<svg class="i s ${cls}" ...${drawn(label, at)}>
    ${label && html`<title>${label}</title>`}
    <path d=${SIGN[name]} fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
  </svg>`;
}
