// A real browser, driven by playwright-core: the distribution's Chromium, or with PES_BROWSER=firefox its Firefox.

import { existsSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import { chromium, firefox } from 'playwright-core';

const CHROMIUM = {
  name: 'Chromium', type: chromium,
  places: [process.env.PES_CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
  options: { args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] },
};
/** Over WebDriver BiDi. Without a screen there is a mouse, too, which hovers. */
const FIREFOX = {
  name: 'Firefox', type: firefox,
  places: [process.env.PES_FIREFOX, '/usr/bin/firefox-esr', '/usr/bin/firefox'],
  options: { channel: 'moz-firefox', firefoxUserPrefs: { 'ui.primaryPointerCapabilities': 6, 'ui.allPointerCapabilities': 6 } },
};
const SHOTS = fileURLToPath(new URL('../shots', import.meta.url));
const CONSOLE = fileURLToPath(new URL('../../../console', import.meta.url));

let browser = null;

export async function launch() {
  const { name, type, places, options } = process.env.PES_BROWSER === 'firefox' ? FIREFOX : CHROMIUM;
  const executablePath = places.find((place) => place && existsSync(place));
  if (!executablePath) throw new Error(`no ${name}: install it, or set PES_${name.toUpperCase()}`);
  browser ??= await type.launch({ executablePath, ...options });
  return browser;
}

export async function quit() {
  await browser?.close();
  browser = null;
}

/** A page of the server with what went wrong on it: errors of scripts, refusals of the policy, files that are not there. */
export async function open(server, hash = '#/', { width = 1440, height = 900, dark = false, ...more } = {}) {
  const context = await (await launch()).newContext({ viewport: { width, height }, colorScheme: dark ? 'dark' : 'light', ...more });
  if (process.env.PES_CONSOLE === 'folder') await fromFolder(context);
  const page = await context.newPage();
  page.wrong = [];
  page.on('pageerror', ({ message }) => {
    // Firefox reports connections that are refused or cut as errors, too.
    if (!/ wss?:\/\//.test(message)) page.wrong.push(`error: ${message}`);
  });
  page.on('console', (message) => {
    if (/Content Security Policy|Trusted/i.test(message.text())) page.wrong.push(`refused: ${message.text()}`);
  });
  page.on('response', (response) => {
    if (response.status() >= 400 && response.url().includes('/console/')) page.wrong.push(`missing: ${response.url()}`);
  });
  await page.goto(`${server.url}/${hash}`);
  return page;
}

/** The page's files as they are now, in place of those in the program: it need not be built for each change of the page. */
const fromFolder = (context) => context.route(/\/console\/[^?]+$/, (route) => {
  const [, file] = new URL(route.request().url()).pathname.split('/console/');
  return existsSync(path.join(CONSOLE, file)) ? route.fulfill({ path: path.join(CONSOLE, file) }) : route.continue();
});

/** Waits until the page has painted an observation, or a later one. */
export const painted = (page, seq) => page.waitForFunction((least) => Number(document.documentElement.dataset.seq) >= least, seq);

/** Waits until exactly this one is painted. */
export const showing = (page, seq) => page.waitForFunction((one) => Number(document.documentElement.dataset.seq) === one, seq);

export const connected = (page, conn) => page.waitForFunction((wants) => document.documentElement.dataset.conn === wants, conn);

export const seqOf = (page) => page.evaluate(() => Number(document.documentElement.dataset.seq));

/** Of less impact, and kept nevertheless. */
const KEPT = ['landmark-unique', 'empty-table-header'];

/** What axe finds that is serious or critical, or breaks one of these rules, in words. */
export async function serious(page) {
  // The page's policy refuses foreign scripts, so this one is evaluated from outside.
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'], rules: { 'color-contrast': { enabled: true } } }));
  return found.violations.filter(({ id, impact }) => impact === 'serious' || impact === 'critical' || KEPT.includes(id))
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary?.split('\n')[1] ?? ''}`).join(' | ')}`);
}

/** Keeps a picture, if somebody wants to look; not in Firefox, where the page's policy refuses a style that playwright-core needs for it. */
export async function shot(page, name) {
  if (!process.env.PES_SHOTS || process.env.PES_BROWSER === 'firefox') return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: path.join(SHOTS, `${name}.png`) });
}
