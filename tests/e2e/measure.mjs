// Measures a thread of ten thousand observations in the page, in milliseconds on this machine; no test compares the figures.
//
//   scripts/bench --page [ITEMS], or PES_BIN=… node measure.mjs [ITEMS]
//
// The log is generated and sent as fast as a connection can: this measures the page, not the server.

import { launch, open, quit, showing } from './support/browser.mjs';
import { largeLog, tellLarge } from './support/large.mjs';
import { Server } from './support/server.mjs';

/** The longest task of the page's main thread while `act` goes on, in milliseconds: of a clock, and of the processor. */
async function longest(browser, page, act) {
  await browser.startTracing(page, { categories: ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'] });
  await act(page);
  const { traceEvents: events } = JSON.parse(await browser.stopTracing());
  const main = new Set(events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(({ pid, tid }) => `${pid} ${tid}`));
  const tasks = events.filter(({ name, pid, tid }) => name.endsWith('RunTask') && main.has(`${pid} ${tid}`));
  return ['dur', 'tdur'].map((of) => Math.round(Math.max(0, ...tasks.map((task) => task[of] ?? 0)) / 1000));
}

/** From the hash of the thread to all of it painted. */
async function opened(page, log) {
  await page.evaluate(() => {
    window.began = performance.now();
    location.hash = '#/t/large';
  });
  await showing(page, log.length);
  return page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => done(Math.round(performance.now() - window.began)));
  }));
}

async function scrolled(page) {
  for (let i = 1; i <= 20; i++) {
    await page.evaluate((part) => new Promise((done) => {
      const list = document.querySelector('[data-testid=plan-list]');
      list.scrollTop = part * list.scrollHeight;
      requestAnimationFrame(() => requestAnimationFrame(done));
    }), i / 20);
  }
}

async function replayed(page, length) {
  for (const part of [0.5, 0.1, 0.9, 0.3]) {
    const seq = Math.round(part * length);
    await page.evaluate((at) => { location.hash = `#/t/large?at=${at}`; }, seq);
    await showing(page, seq);
  }
  await page.evaluate(() => { location.hash = '#/t/large'; });
  await showing(page, length);
}

async function drawnAsGraph(page, items) {
  await page.evaluate(() => { location.hash = '#/t/large/graph'; });
  await page.locator('[data-node]').nth(items - 1).waitFor();
}

const items = Number(process.argv[2] ?? 500);
const log = largeLog(items);
const server = await Server.start();
try {
  const browser = await launch();
  const page = await open(server, '#/new');
  await page.locator('[data-testid=first-ask]').waitFor();
  const painted = await page.evaluate(() => Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime));
  console.log(`${log.length} observations, ${items} items`);
  console.log(`first paint of the page           ${painted} ms`);
  await tellLarge(page, log);
  let took = 0;
  const steps = [
    ['opening the thread', async () => { took = await opened(page, log); }], ['scrolling the list', scrolled],
    ['replay', () => replayed(page, log.length)], ['the graph', () => drawnAsGraph(page, items)],
  ];
  for (const [name, act] of steps) {
    const [clock, processor] = await longest(browser, page, act);
    console.log(`longest task, ${name}`.padEnd(33), `${clock} ms, of the processor ${processor} ms`);
  }
  console.log(`the thread is painted after       ${took} ms`);
} finally {
  await quit();
  await server.stop();
}
