// Keys. A view says what its keys do while it is shown; of several the one shown last counts.
//
// Single keys never fire in fields and dialogs, and can be switched off.

import { useLayoutEffect, useRef } from './vendor/preact-htm.js';

const SWITCH = 'pes.keys';
const layers = [];

/** `j`, `?`, `Escape`, `Mod+k` (⌘ or Ctrl), `Alt+ArrowUp`. */
export function nameOf(event) {
  if (event.metaKey || event.ctrlKey) return `Mod+${event.key.toLowerCase()}`;
  if (event.altKey) return `Alt+${event.key}`;
  return event.key === ' ' ? 'Space' : event.key;
}

export const areKeysOn = () => localStorage.getItem(SWITCH) !== 'off';

export function switchKeys(on) {
  if (on) localStorage.removeItem(SWITCH);
  else localStorage.setItem(SWITCH, 'off');
}

/** Registers `{key: fn(event)}`; gives back how to stop. A `fn` that returns `false` did not want the key. */
export function onKeys(read) {
  const layer = { read };
  layers.push(layer);
  return () => layers.splice(layers.indexOf(layer), 1);
}

/** The keys of a component while it is shown: they work as soon as its buttons are seen. */
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  useLayoutEffect(() => onKeys(() => latest.current), []);
}

const FIELDS = 'input, textarea, select, dialog, [contenteditable]';

export function startKeyboard(document = globalThis.document) {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameOf(event);
    const isSingle = !name.startsWith('Mod+');
    if (isSingle && (event.target.closest?.(FIELDS) || !areKeysOn())) return;
    // A focused button takes its own keys.
    if ((name === 'Enter' || name === 'Space') && event.target.closest?.('button, a, summary, [role=button], [role=tab]')) return;
    for (const layer of [...layers].reverse()) {
      const fn = layer.read()[name];
      if (!fn || fn(event) === false) continue;
      event.preventDefault();
      return;
    }
  });
}
