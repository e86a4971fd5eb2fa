// The frame: bar, strips, rail, the page of the route, dock and dialogs.

import { useKeys } from '../keyboard.js';
import { html } from '../vendor/preact-htm.js';
import { Compare } from './compare.js';
import { Dock } from './dock.js';
import { FailurePanel } from './failure.js';
import { Inbox } from './inbox.js';
import { KeysDialog } from './keys.js';
import { Login } from './login.js';
import { NewThread } from './new.js';
import { Palette } from './palette.js';
import { Loading } from './parts.js';
import { Policy } from './policy.js';
import { Rail, ThreadsPage } from './rail.js';
import { Strips } from './strips.js';
import { System } from './system.js';
import { ThreadPage } from './thread.js';
import { TopBar } from './top.js';
import { Usage } from './usage.js';

/** Pages without the rail. */
const WIDE = { questions: Inbox, usage: Usage, policy: Policy, system: System, login: Login };

export function Shell({ ctx, route, thread, dialog, closeDialog }) {
  useKeys({
    '?': ctx.openKeys,
    'Mod+k': ctx.openPalette,
    q: () => nextQuestion(ctx, route),
  });
  return html`<${TopBar} ctx=${ctx} route=${route} />
    <${Strips} ctx=${ctx} route=${route} thread=${thread} />
    ${pageOf(ctx, route, thread)}
    ${route.page === 'login' ? null : html`<${Dock} ctx=${ctx} route=${route} thread=${thread} />`}
    ${dialog === 'palette' ? html`<${Palette} ctx=${ctx} route=${route} thread=${thread} close=${closeDialog} />` : null}
    ${dialog === 'keys' ? html`<${KeysDialog} ctx=${ctx} close=${closeDialog} />` : null}`;
}

function pageOf(ctx, route, thread) {
  const Wide = WIDE[route.page];
  if (Wide) return html`<${Wide} ctx=${ctx} route=${route} />`;
  if (route.page === 'threads') return html`<${ThreadsPage} ctx=${ctx} route=${route} />`;
  return html`<${Rail} ctx=${ctx} route=${route} />${beside(ctx, route, thread)}`;
}

function beside(ctx, route, thread) {
  switch (route.page) {
    case 'thread':
      return html`<${ThreadPage} key=${route.id} ctx=${ctx} route=${route} thread=${thread} />`;
    case 'new':
      return html`<${NewThread} ctx=${ctx} route=${route} />`;
    case 'compare':
      return html`<${Compare} key=${`${route.a} ${route.b}`} ctx=${ctx} route=${route} />`;
    case 'unknown':
      return html`<main class="stage"><div class="page"><h1>There is no page “${route.path}”.</h1><p><a href="#/">Go to the threads</a></p></div></main>`;
    default:
      return ctx.listsProblem && !ctx.threads
        ? html`<main class="stage"><div class="page"><${FailurePanel} ctx=${ctx} problem=${ctx.listsProblem} /></div></main>`
        : html`<main class="stage"><${Loading} rows=${8} /></main>`;
  }
}

/** From anywhere: the question that ends first, but not the one that is shown. */
function nextQuestion(ctx, route) {
  const open = [...(ctx.questions ?? [])].sort((a, b) => (a.expiresAt ?? Infinity) - (b.expiresAt ?? Infinity) || a.createdAt - b.createdAt);
  const now = open.findIndex((one) => one.suspensionId === route.id);
  const next = open[(now + 1) % open.length];
  return next ? ctx.go(`#/questions/${encodeURIComponent(next.suspensionId)}`) : ctx.go('#/questions');
}
