// The keys, and whether single ones work.

import { areKeysOn, switchKeys } from '../browser.js';
import { html, useState } from '../vendor/preact-htm.js';
import { Dialog } from './dialog.js';
import { Button } from './parts.js';

const KEYS = [
  ['Next, previous row', 'j k'], ['Open, close branch', '→ ←'], ['Open details', '↵'], ['Plan as graph, list', 'g l'],
  ['Changes, forecast', 'd o'], ['Edit plan', 'E'], ['Approve (twice on high risk)', 'a'], ['Edit arguments', 'e'], ['Reject', 'x'],
  ['Take up the question, the next one', 'q'], ['Pause, cancel', 'p c'], ['Fork from the row', 'f'], ['Context of the call', 'v'], ['Raw observation', 'r'],
  ['Copy as curl', 'y'], ['Play, stop the tape', 'Space'], ['One observation', ', .'], ['One status change', '< >'], ['Live', '0'],
  ['Search threads', '/'], ['Find or do', '⌘K'], ['New thread', 'n'], ['Light, dark', 't'], ['Close, back', 'Esc'], ['These keys', '?'],
];

export function KeysDialog({ close }) {
  const [isOn, setOn] = useState(areKeysOn());
  const change = (event) => {
    switchKeys(event.target.checked);
    setOn(event.target.checked);
  };
  return html`<${Dialog} label="Keys" close=${close}>
    <div class="row"><h1>Keys</h1><span class="right"><${Button} cls="small" label="Close" onClick=${close} /></span></div>
    <div class="keys">${KEYS.map(([what, keys]) => html`<div key=${what}><span>${what}</span><span class="row">${keys.split(' ').map((k) => html`<kbd key=${k}>${k}</kbd>`)}</span></div>`)}</div>
    <label class="row"><input type="checkbox" checked=${isOn} onChange=${change} />Single keys work (they never do in fields and dialogs)</label>
  </${Dialog}>`;
}
