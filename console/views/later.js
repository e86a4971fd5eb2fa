// Views whose modules are loaded when first shown, to keep the first load small.

import { html, useLayoutEffect, useState } from '../vendor/preact-htm.js';
import { Button, Loading } from './parts.js';

const sheets = {};

/** Styles that are read once, after all others. */
const read = (file) => sheets[file] ??= new Promise((onload, onerror) => {
  document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: `console/${file}`, onload, onerror }));
});

const withStyles = (...files) => (load) => () => Promise.all([load(), ...files.map(read)]).then(([module]) => module);
const written = withStyles('css/text.css');
const styled = withStyles('css/text.css', 'css/pages.css');

let reading = 0;

/** Whether a view to be shown is still loading. */
export const isReading = () => reading > 0;

const nothing = () => null;

/** What closes the dialogs that are loading. */
const closing = new Set();

export const loadingDialog = () => [...closing].at(-1);

function later(name, load, meanwhile = (shown) => shown) {
  let View = null;
  function Later(props) {
    const [state, set] = useState(View ? 'read' : 'reading');
    const { close, ctx: { conn, paint } } = props;
    const isAwaited = state === 'reading' && conn !== 'held';
    useLayoutEffect(() => {
      // A dialog that cannot be shown now would take the keys.
      if (!isAwaited && !View) close?.();
      if (!isAwaited) return undefined;
      reading += 1;
      const leave = () => closing.delete(leave) && close();
      if (close) closing.add(leave);
      load().then((module) => {
        View = module[name];
        set('read');
      }, () => set('missing'));
      return () => {
        reading -= 1;
        closing.delete(leave);
        paint();
      };
    }, [isAwaited]);
    if (View) return html`<${View} ...${props} />`;
    if (isAwaited) return meanwhile(html`<${Loading} rows=${8} />`);
    return meanwhile(state === 'missing' ? html`<${Missing} />` : html`<p class="fact dim" data-testid="not-yet">This part of the page
      is read as soon as the server answers.</p>`);
  }
  /** Requests it early. */
  Later.early = () => load().catch(nothing);
  return Later;
}

/** Browsers do not retry a failed import, and parts of two versions may not fit. */
const Reload = () => html`<${Button} cls="small" label="Load the page again" onClick=${() => location.reload()} />`;

const Missing = () => html`<p class="fact" role="alert" data-testid="not-read">This part of the page could not be read: the server
  did not answer, or was upgraded. <${Reload} /></p>`;

export const Upgraded = () => html`<div class="strip bad" role="status" data-testid="upgraded"><b>The server was upgraded.</b><${Reload} /></div>`;

export const stage = (shown) => html`<main class="stage">${shown}</main>`;
export const wide = (shown) => html`<main class="stage wide">${shown}</main>`;

/* Pages. */
export const Compare = later('Compare', styled(() => import('./compare.js')), stage);
export const Inbox = later('Inbox', styled(() => import('./inbox.js')), wide);
export const Login = later('Login', styled(() => import('./begin.js')), wide);
export const NewThread = later('NewThread', styled(() => import('./begin.js')), stage);
export const Policy = later('Policy', styled(() => import('./policy.js')), wide);
export const System = later('System', styled(() => import('./system.js')), wide);
export const Usage = later('Usage', styled(() => import('./usage.js')), wide);

/* Parts of a thread, and of the rail. */
export const Answered = later('Answered', styled(() => import('./question/answered.js')), nothing);
export const Changes = later('Changes', styled(() => import('./record.js')));
export const ContextTab = later('ContextTab', styled(() => import('./modelcall.js')));
export const EditPlan = later('EditPlan', styled(() => import('./edit.js')));
export const Extras = later('Extras', written(() => import('../markdown.js')), nothing);
export const FailurePanel = later('FailurePanel', styled(() => import('./failure.js')));
export const Notice = later('Notice', () => import('./failure.js'), nothing);
export const Forecast = later('Forecast', styled(() => import('./forecast.js')));
export const ItemTab = later('ItemTab', styled(() => import('./item.js')));
export const Log = later('Log', styled(() => import('./record.js')));
export const Markdown = later('Markdown', written(() => import('../markdown.js')), nothing);
export const OlderThreads = later('OlderThreads', () => import('./palette.js'));
export const PlanList = later('PlanList', styled(() => import('./list.js')));
export const Sums = later('Sums', () => import('./timeline/sums.js'), nothing);
export const QuestionTab = later('QuestionTab', styled(() => import('./question/tab.js')));

/** In place of a thread that cannot be read. */
export const NotRead = (props) => stage(html`<div class="page"><${FailurePanel} ...${props} /><p><a href="#/">Go to the threads</a></p></div>`);

/* Dialogs. */
export const CancelDialog = later('CancelDialog', styled(() => import('./dialog.js')), nothing);
export const KeysDialog = later('KeysDialog', styled(() => import('./dialog.js')), nothing);
export const Palette = later('Palette', styled(() => import('./palette.js')), nothing);
export const ThreadDialog = later('ThreadDialog', styled(() => import('./dialog.js')), nothing);
export const RawDialog = later('RawDialog', styled(() => import('./dialog.js')), nothing);
