// What the page uses of the browser: keys, sizes, and the polite live region.
//
// Keys: a view registers keys while it is shown; the last registration wins. Single keys can be switched off.

import { WORD } from './shapes.js';
import { plain } from './text.js';
import { useLayoutEffect, useRef, useState } from './vendor/preact-htm.js';

const SWITCH = 'pes.keys';
const layers = [];

/** `j`, `?`, `Escape`, `Mod+k` (⌘ or Ctrl), `Alt+ArrowUp`. */
export function nameOf(event) {
  if (event.metaKey || event.ctrlKey) return `Mod+${event.key.toLowerCase()}`;
  if (event.altKey) return `Alt+${event.key}`;
  return event.key === ' ' ? 'Space' : event.key;
}

/** A choice kept in this browser; where site data is blocked, until the page is left. */
export function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return unsaved.get(name);
  }
}

export function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    unsaved.set(name, value);
  }
}

const unsaved = new Map();

export const areKeysOn = () => stored(SWITCH) !== 'off';

export const switchKeys = (on) => store(SWITCH, on ? 'on' : 'off');

/** Registers `{key: fn(event)}`; returns the removal. A `fn` that returns `false` passes the key on. */
function onKeys(read) {
  const layer = { read };
  layers.push(layer);
  return () => layers.splice(layers.indexOf(layer), 1);
}

/** The keys of a component while it is shown: active as soon as its buttons are visible. */
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useLayoutEffect(() => onKeys(() => latest.current), []);
}

const FIELDS = 'input, textarea, select, [contenteditable]';
const fieldOf = (element) => element.closest?.(FIELDS) ?? null;

/** Keys that leave a field, or a removed one. */
const LEAVES = ['Tab', 'Escape', 'Mod+enter', 'Mod+s'];

/**
 * The rule: typed text is no command. Single keys do nothing in fields and dialogs, nor after a focused field was removed or
 * disabled, until the person leaves it: by one of `LEAVES`, a click or another page; nor while a dialog is still loading.
 * `closing()` closes the dialog, if any: what Escape does meanwhile.
 */
export function startKeyboard(closing, document = globalThis.document) {
  /** The focused field, also after its removal. */
  let field = null;
  const turned = ({ target }) => {
    field = fieldOf(target);
  };
  document.addEventListener('focusin', turned);
  document.addEventListener('click', turned, true);
  addEventListener('hashchange', () => {
    field = null;
  });
  document.addEventListener('keydown', (event) => {
    const name = nameOf(event);
    const inside = fieldOf(event.target);
    if (LEAVES.includes(name) || (name === 'Enter' && inside && !inside.matches('textarea'))) field = null;
    else field = inside ?? field;
    if (event.defaultPrevented || event.isComposing) return;
    const isSingle = !name.startsWith('Mod+');
    // The focus may be outside of it.
    const isInDialog = document.querySelector('dialog[open]');
    const close = isSingle && !isInDialog && closing();
    if (close) {
      if (name === 'Escape') close();
      else if (!inside && (name === 'Enter' || name === 'Space')) event.preventDefault();
      return;
    }
    const isTakenAway = field && (!field.isConnected || field.matches(':disabled'));
    if (isSingle && (inside || isInDialog || isTakenAway || !areKeysOn())) return;
    // A focused button handles its own keys.
    if ((name === 'Enter' || name === 'Space') && event.target.closest?.('button, a, summary, [role=button], [role=tab]')) return;
    for (const layer of [...layers].reverse()) {
      const fn = layer.read()[name];
      if (!fn || fn(event) === false) continue;
      event.preventDefault();
      return;
    }
  });
}

/** A menu is closed by Escape, by a press elsewhere, and by a choice. */
export function startMenus(document = globalThis.document) {
  const close = (event) => {
    const { type, target, key } = event;
    for (const menu of document.querySelectorAll('.menu[open]')) {
      const isOver = { pointerdown: !menu.contains(target), click: menu.lastElementChild.contains(target), keydown: key === 'Escape' }[type];
      if (!isOver) continue;
      if (menu.contains(document.activeElement)) menu.firstElementChild.focus();
      menu.open = false;
      if (key) event.preventDefault();
    }
  };
  for (const type of ['pointerdown', 'click', 'keydown']) document.addEventListener(type, close);
}

/* Sizes: of an element, and of words before they are drawn. */

export const isNarrow = () => innerWidth <= 860;

/** The height of a row of the timeline, and of the log. */
export const rowHeight = () => (isNarrow() ? 34 : 26);

let pen = null;

/** A text in at most `most` lines of at most `width` pixels; “…” replaces the rest. */
export function wrap(text, width, most, font) {
  pen ??= document.createElement('canvas').getContext('2d');
  pen.font = font;
  return wrapWith((part) => pen.measureText(part).width, text, width, most);
}

/** The same with a given measure, for tests. */
export function wrapWith(measure, text, width, most) {
  const fits = (part) => measure(part) <= width;
  const words = text.trim().split(/\s+/).reverse();
  const lines = [''];
  // One extra line shows that something is left.
  while (words.length > 0 && lines.length <= most) {
    const word = words.pop();
    const longer = `${lines.at(-1)} ${word}`.trim();
    // A word wider than the line is cut.
    const part = fits(longer) ? longer : lines.at(-1) === '' ? beginning(word, fits) || [...word][0] : null;
    if (part !== null) lines[lines.length - 1] = part;
    else lines.push('');
    if (part !== longer) words.push(word.slice(part?.length ?? 0));
  }
  if (lines.length <= most) return lines;
  const last = beginning(`${lines[most - 1]} ${words.at(-1)}`, (part) => fits(`${part}…`));
  return [...lines.slice(0, most - 1), `${last.trimEnd()}…`];
}

/** The longest beginning that fits, by bisection. */
function beginning(text, fits) {
  const letters = [...text];
  let [least, most] = [0, letters.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (fits(letters.slice(0, middle).join(''))) least = middle;
    else most = middle - 1;
  }
  return letters.slice(0, least).join('');
}

export function useSize(ref) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(([entry]) => {
      const { width, height } = entry.contentRect;
      setSize((had) => (had.width === width && had.height === height ? had : { width, height }));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [ref.current]);
  return size;
}

/* Screen reader messages: at most one polite line a second, about the shown thread. */

export function createAnnouncer(place, schedule = setTimeout) {
  const waiting = [];
  let isTelling = false;
  let last = null;

  function tell() {
    const line = waiting.shift();
    isTelling = line !== undefined;
    if (!isTelling) return;
    place.textContent = plain(line);
    schedule(tell, 1000);
  }

  function say(line) {
    if (waiting.length > 3) waiting.splice(0, waiting.length - 3);
    waiting.push(line);
    if (!isTelling) tell();
  }

  return {
    say,
    /** Compares with the last call; the first one of a thread is silent. */
    seen(thread) {
      if (!thread || thread.replay || thread.status !== 'ready') return;
      const before = last?.id === thread.id ? last : null;
      const { todoList, suspensions, status } = thread.core;
      const now = { id: thread.id, items: new Map(todoList.map((item) => [item.id, thread.shown(item)])), suspensions, status };
      last = now;
      if (!before) return;
      for (const item of todoList) {
        const shown = now.items.get(item.id);
        if (before.items.has(item.id) && before.items.get(item.id) !== shown) say(`${item.description}: ${WORD[shown]}`);
      }
      for (const { suspensionId, message } of suspensions) {
        if (!before.suspensions.some((one) => one.suspensionId === suspensionId)) say(`Question: ${message}`);
      }
      if (before.status !== status && (status === 'idle' || status === 'failed')) {
        say(`The run has ended: ${WORD[thread.newestRun?.resultStatus] ?? 'cancelled'}`);
      }
    },
  };
}
