// Untrusted text of models, tools and people. It becomes only text nodes, inside <bdi>; characters that are invisible or
// shown elsewhere become their code in a <mark>.

import { Component, html } from './vendor/preact-htm.js';

// A terminal's control sequence; else control, order or joining characters, or invisible ones, unless needed; else combining
// marks from the fifth on one letter; else half a surrogate pair.
const SEQUENCE = '\\u001b\\[[0-?]*[ -/]*[@-~]';
const CONTROL = '\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f';
const ORDER = '\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069';
const NOTHING = '\\u00ad\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200d\\u2028\\u2029\\u2060-\\u2065'
  + '\\u206a-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff\\uffa0\\ufff0-\\ufffb\\u{1bca0}-\\u{1bca3}'
  + '\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}';
// A joiner between letters of scripts that join or form clusters, and between the parts of an emoji.
const JOINED = `(?=[\\p{L}\\p{M}])[${'Arab Syrc Mong Nkoo Deva Beng Guru Gujr Orya Taml Telu Knda Mlym Sinh Khmr Mymr Tibt'.replace(/(\w+) ?/g, '\\p{scx=$1}')}]`;
const PART = '\\p{ExtPict}';
const NEEDED = `${JOINED}[\\u200c\\u200d](?=${JOINED})|${PART}[\\ufe0f\\p{EMod}]?\\u200d(?=${PART})`;
const HIDDEN = new RegExp(
  `${SEQUENCE}|([${CONTROL}${ORDER}${NOTHING}])|(${NEEDED})|(?<=\\p{M}{4})\\p{M}+|[\\ud800-\\udfff]`, 'gu');

const code = (character) => `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}`;

// `U+202E`, `ESC[31m` or `U+0301 ×12`, and the count.
function markOf(hidden) {
  if (hidden.startsWith('\u001b[')) return { mark: `ESC${hidden.slice(1)}`, count: 1 };
  const count = [...hidden].length;
  return { mark: count === 1 ? code(hidden) : `${code(hidden)} ×${count}`, count };
}

/** Strings to show, and `{mark, count}` for what is hidden. CR LF is one line break. */
export function pieces(text) {
  const whole = String(text).replace(/\r\n/g, '\n');
  const found = [];
  let at = 0;
  for (let match; (match = HIDDEN.exec(whole));) {
    const { 1: one, 2: needed, index } = match;
    if (needed) continue;
    if (index > at) found.push(whole.slice(at, index));
    at = HIDDEN.lastIndex;
    // Safari gets `\1*` wrong.
    while (one && whole.startsWith(one, at)) at += one.length;
    HIDDEN.lastIndex = at;
    found.push(markOf(whole.slice(index, at)));
  }
  if (at < whole.length) found.push(whole.slice(at));
  return found;
}

// The marks of a text with elements of their own; the rest as `[U+202E]`, as more are slow in browsers.
const MOST_MARKS = 300;
const bracketed = (piece) => (typeof piece === 'string' ? piece : `[${piece.mark}]`);

/** The pieces as children, for callers with their own <bdi>. */
export function shown(text) {
  const all = pieces(text);
  const isMore = all.length > 2 * MOST_MARKS;
  const first = (isMore ? all.slice(0, 2 * MOST_MARKS) : all).map((piece) => (typeof piece === 'string'
    ? piece
    : html`<mark title="A character that is not visible">${piece.mark}</mark>`));
  return isMore ? [...first, all.slice(2 * MOST_MARKS).map(bracketed).join('')] : first;
}

const LONG = 2_000;

export function show(text, name = 'arg') {
  if (String(text ?? '').length > LONG) return html`<${Long} text=${text} name=${name} />`;
  return html`<bdi class=${name}>${shown(text ?? '')}</bdi>`;
}

/** A long text is not scanned again when its parent renders. */
class Long extends Component {
  shouldComponentUpdate(next) {
    return next.text !== this.props.text || next.name !== this.props.name;
  }

  render({ text, name }) {
    return html`<bdi class=${name}>${shown(text)}</bdi>`;
  }
}

export const showStart = (text, most = 200) => show(brief(text, most));

/** A value in a few words. */
export function brief(value, most = 300) {
  const text = typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** For attributes (`title`, `aria-label`), without elements: `[U+202E]`. */
export const plain = (text) => pieces(text ?? '').map(bracketed).join('');
