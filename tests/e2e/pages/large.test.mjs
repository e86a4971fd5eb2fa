// Three hundred items, five thousand observations: only visible rows are drawn, and tokens render nothing.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { empty, fold, stateBody } from '../../../console/fold/core.js';
import { launch, open, shot, showing } from '../support/browser.mjs';
import { largeLog, tellLarge } from '../support/large.mjs';
import { serve } from '../support/setup.mjs';

const ITEMS = 300;
const LOG = largeLog(ITEMS);

const server = await serve();
await launch();

/** A page that is given the log, at a hash of that thread. */
async function large(hash, log = LOG) {
  const page = await open(server, '#/new');
  await tellLarge(page, log);
  await page.evaluate((to) => { location.hash = to; }, hash);
  return page;
}

const count = (page, selector) => page.locator(selector).count();
const stateAt = (seq) => {
  let state = empty();
  for (const observation of LOG.slice(0, seq)) state = fold(state, observation);
  return stateBody(state, { threadId: 'large', minSeq: 1 });
};

/** In the page: `nodesDrawn` has how many nodes of the graph each rendering added. */
function seeNodes() {
  window.nodesDrawn = [];
  const nodesIn = (element) => (element instanceof Element ? element.querySelectorAll('[data-node]').length : 0);
  new MutationObserver((changes) => {
    const added = changes.flatMap(({ addedNodes }) => [...addedNodes]).reduce((sum, element) => sum + nodesIn(element), 0);
    if (added) window.nodesDrawn.push(added);
  }).observe(document.body, { childList: true, subtree: true });
}

test('lanes stand beside the items, unless they would take the room of the words', async () => {
  const lanesOf = async (dependencies) => {
    const log = largeLog(100, 0);
    for (const { content: { todoList } } of log) todoList?.forEach((item, i) => { item.dependencies = dependencies(i); });
    const page = await large('#/t/large/list', log);
    await showing(page, log.length);
    const widths = await page.locator('.lanes').evaluateAll((all) => all.map((one) => one.style.width));
    assert.equal(widths.length, 100);
    assert.ok(await page.locator('.plan .what').first().evaluate((cell) => cell.offsetWidth > 150));
    return [...new Set(widths), await count(page, '.lane-svg path') > 0];
  };
  assert.deepEqual(await lanesOf((i) => (i < 5 ? [] : [`i${i - 5}`])), ['86px', true]);
  assert.deepEqual(await lanesOf((i) => (i ? [`i${(i - 1) >> 1}`] : [])), ['30px', false]);
});

test('five thousand observations are shown, and few of them drawn', async () => {
  assert.ok(LOG.length >= 5000);
  const page = await large('#/t/large');
  await showing(page, LOG.length);
  // Beyond eighty items the list shows more than the graph.
  await page.locator('[data-testid=plan-list]').waitFor();
  await shot(page, 'large-list');
  await page.evaluate(seeNodes);
  await page.keyboard.press('g');
  await page.locator('[data-node]').nth(ITEMS - 1).waitFor();
  assert.equal(await count(page, '[data-node]'), ITEMS);
  // A frame that draws all of them takes a quarter of a second.
  const steps = await page.evaluate(() => window.nodesDrawn);
  assert.ok(steps.length >= 3 && Math.max(...steps) <= 100, steps.join(' '));
  assert.ok(Number(await page.locator('[data-testid=timeline]').getAttribute('data-rows')) >= ITEMS);
  assert.ok(await count(page, '[role=treeitem]') < 100);
  await shot(page, 'large-graph');
  await page.locator('[data-testid=timeline-log]').click();
  await page.locator('.log-row').first().waitFor();
  assert.ok(await count(page, '.log-row') < 100);
  const all = await count(page, '*');
  assert.ok(all < 8000, `${all} elements`);
  assert.deepEqual(page.wrong, []);
});

test('replay goes anywhere in a large log', async () => {
  const page = await large('#/t/large/list?at=2500');
  await showing(page, 2500);
  for (const seq of [17, 4999, 2501, 1200, 3]) {
    await page.evaluate((at) => { location.hash = `#/t/large/list?at=${at}`; }, seq);
    await showing(page, seq);
    const wants = stateAt(seq).todoList.map(({ id, status }) => `${id} ${status}`);
    const has = await page.locator('tr[data-item]').evaluateAll((rows) => rows.map((row) => `${row.dataset.item} ${row.dataset.status}`));
    assert.ok(has.every((row) => wants.includes(row)), `${seq}`);
    if (wants.length) assert.ok(has.length > 0);
  }
  assert.deepEqual(page.wrong, []);
});

test('tokens are written into one text node: no element is made, changed or taken away for them', async () => {
  const start = LOG.find(({ type, parentId }) => type === 'LLM_STREAM_START' && parentId === 'i0');
  const page = await large('#/t/large/graph?tab=item&sel=i0', LOG.slice(0, start.seq));
  await showing(page, start.seq);
  await page.locator('[data-testid=tokens]').waitFor();
  await page.evaluate(() => {
    window.seen = { elements: [], texts: 0 };
    new MutationObserver((records) => {
      for (const { type, target } of records) {
        if (type === 'characterData') window.seen.texts += 1;
        else if (!target.closest?.('.tape')) window.seen.elements.push(`${type} ${target.className?.baseVal ?? target.className}`);
      }
    }).observe(document.querySelector('[data-testid=tokens]'), { subtree: true, childList: true, characterData: true, attributes: true });
  });
  await page.evaluate(() => {
    window.reads = 0;
    // Every access that makes a browser compute the layout at once.
    for (const [of, names] of [[Element.prototype, ['clientHeight', 'clientWidth', 'scrollHeight', 'scrollWidth', 'scrollTop']], [HTMLElement.prototype, ['offsetHeight', 'offsetWidth', 'offsetTop']]]) {
      for (const name of names) {
        const property = Object.getOwnPropertyDescriptor(of, name);
        Object.defineProperty(of, name, { ...property, get() { window.reads += 1; return property.get.call(this); } });
      }
    }
    for (const name of ['getBoundingClientRect', 'getClientRects']) {
      const read = Element.prototype[name];
      Element.prototype[name] = function () { window.reads += 1; return read.call(this); };
    }
  });
  await page.evaluate(async (streamId) => {
    let offset = 0;
    for (let i = 0; i < 200; i++) {
      const data = `word${i} `;
      window.tell('token', { type: 'TOKEN', data, tokenType: 'EXECUTION_LLM_RESPONSE', phase: 'execution', streamId, offset, threadId: 'large', runId: 'run_large' });
      offset += data.length;
      if (i % 10 === 9) await new Promise(requestAnimationFrame);
    }
  }, start.content.streamId);
  await page.waitForFunction(() => /word199/.test(document.querySelector('[data-testid=tokens]').textContent));
  const seen = await page.evaluate(() => window.seen);
  assert.deepEqual(seen.elements, []);
  // At most once a frame: far fewer writes than the two hundred tokens.
  assert.ok(seen.texts > 0 && seen.texts <= 40, `${seen.texts} writes`);
  assert.equal(await page.evaluate(() => window.reads), 0, 'layout is read for none of them');
  assert.deepEqual(page.wrong, []);
});
