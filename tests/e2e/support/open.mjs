// A real Chromium for a test file, with what tests of the page ask of it. Nothing waits for time: what is waited for is an
// observation that was painted, or something that stands on the page.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';
import { front } from './front.mjs';
import { Server } from './server.mjs';

const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const PROGRAM = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'].find((one) => one && existsSync(one));

/** What a page must not say: errors of scripts, refusals of its Content-Security-Policy. */
const FAULT = /Content Security Policy|Trusted ?Type|TypeError|ReferenceError|is not a function/;

/** Starts a server and a browser for it. `run(bed)` has `{server, open, close}`; see below. */
export async function bed({ env, script } = {}) {
  const server = await Server.start({ env, script });
  const place = await front(server);
  const browser = await chromium.launch({ executablePath: PROGRAM, headless: true, args: FLAGS });
  return {
    server,
    url: place.url,
    /** A page of its own, with cookies of its own. `faults` are what it must not have said. */
    async open(hash, { dark = false, narrow = false, headers, context } = {}) {
      const own = context ?? await browser.newContext({
        viewport: narrow ? { width: 390, height: 800 } : { width: 1440, height: 900 }, hasTouch: narrow, colorScheme: dark ? 'dark' : 'light', extraHTTPHeaders: headers,
      });
      const page = await own.newPage();
      page.setDefaultTimeout(15_000);
      page.faults = [];
      page.on('pageerror', (error) => page.faults.push(error.stack ?? error.message));
      page.on('console', (message) => FAULT.test(message.text()) && page.faults.push(message.text()));
      page.on('dialog', (dialog) => page.answers?.(dialog) ?? dialog.dismiss());
      await page.goto(`${place.url}/${hash}`);
      return page;
    },
    async close() {
      await browser.close();
      place.close();
      await server.stop();
    },
  };
}

export const at = (page, id) => page.locator(`[data-testid="${id}"]`);

/** Until the page has painted this observation. */
export const painted = (page, seq) => page.waitForFunction((least) => Number(document.documentElement.dataset.seq) >= least, seq);

/** The open question of a thread, as the server tells it. */
export async function question(server, thread, kind) {
  const { items } = await server.get('/suspensions?limit=200');
  return items.find((one) => one.threadId === thread && (!kind || one.kind === kind));
}

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** What axe finds serious or critical, as `rule: places`. It is evaluated, as the page lets no script in. */
export async function serious(page) {
  const { readFileSync } = await import('node:fs');
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: readFileSync(axe, 'utf8') });
  const { result } = await session.send('Runtime.evaluate', {
    expression: "axe.run(document, {resultTypes: ['violations']}).then((told) => JSON.stringify(told.violations))", awaitPromise: true,
  });
  await session.detach();
  return JSON.parse(result.value).filter((one) => ['serious', 'critical'].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(' ')).join(', ')}`);
}
