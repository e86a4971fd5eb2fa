// A run as it happens: live, after a reload, through a lost connection and a restart, in two tabs.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connected, open, painted, seqOf, shot, showing } from '../support/browser.mjs';
import { DINNER, INVITE, MENU } from '../support/demo.mjs';
import { Server } from '../support/server.mjs';
import { serve } from '../support/setup.mjs';
import { proxyTo } from '../support/proxy.mjs';

const server = await serve({ script: 'cases.toml' });

const nothingWrong = (page) => assert.deepEqual(page.wrong, []);
const status = (page, name) => page.waitForSelector(`[data-testid=status][data-status=${name}]`);

/** Shows a run that has begun: a page that was open before needs none of its time to load. */
async function follow(page, hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
  await page.locator('[data-testid=head]').waitFor();
  await connected(page, 'live');
}

test('the three prompts of the demo are seen to their ends', async () => {
  const page = await open(server, '#/t/demo');
  await server.run('demo', DINNER);
  await page.reload();
  await painted(page, (await server.get('/threads/demo')).lastSeq);
  await status(page, 'success');
  assert.equal(await page.locator('[data-node]').count(), 4);
  assert.match(await page.locator('[data-testid=side], .side').innerText(), /Each guest pays 47\.60/);
  await server.run('demo', INVITE);
  await status(page, 'suspended');
  await page.locator('[data-node=send][data-status=ask]').waitFor();
  await shot(page, 'thread-light');
  const { items } = await server.get('/suspensions');
  await server.resume('demo', { suspensionId: items[0].suspensionId, approved: true });
  await status(page, 'success');
  await server.run('demo', MENU);
  await painted(page, (await server.get('/threads/demo')).lastSeq);
  assert.equal(await page.locator('[data-testid=plan-version]').innerText(), 'v3');
  // Beside the figures of an older run the items of the present plan do not stand.
  await page.locator('[data-testid=done]').waitFor();
  const [{ runId }] = await server.log('demo');
  await page.evaluate((run) => { location.hash = `#/t/demo?run=${run}`; }, runId);
  await page.locator('[data-testid=done]').waitFor({ state: 'detached' });
  nothingWrong(page);
});

test('a reload in the middle shows the same and goes on', async () => {
  await server.startRun('reload', DINNER);
  await server.until('reload', ({ type, parentId }) => type === 'LLM_STREAM_START' && parentId === 'tip');
  const page = await open(server, '#/t/reload');
  await painted(page, 20);
  await page.reload();
  await painted(page, 20);
  const { seq } = await server.runEnded('reload');
  await painted(page, seq);
  await status(page, 'success');
  assert.deepEqual(await page.locator('[data-node]').evaluateAll((nodes) => nodes.map((node) => node.dataset.status)), Array(4).fill('completed'));
  nothingWrong(page);
});

test('what is marked in an answer that is being written stays marked', async (t) => {
  const slow = await Server.start({ env: { PES_DEMO_PACE: '40' } });
  t.after(() => slow.stop());
  const page = await open(slow, '#/new');
  await slow.startRun('marked', DINNER);
  await page.evaluate(() => { location.hash = '#/t/marked?tab=talk'; });
  const [marked, after_] = await page.evaluate(() => new Promise((resolve) => {
    let first = null;
    const look = (_, observer) => {
      const node = document.querySelector('[data-testid=talk] bdi.arg:has(+ .caret)')?.firstChild;
      if (!node?.data) return;
      if (first === null) {
        first = node.data;
        getSelection().setBaseAndExtent(node, 0, node, node.length);
      } else if (node.data !== first) {
        observer.disconnect();
        resolve([first, getSelection().getRangeAt(0).toString()]);
      }
    };
    new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
  }));
  assert.equal(after_, marked);
  nothingWrong(page);
});

test('a connection that is cut in the middle of a token comes back by itself, and nothing is missing', async (t) => {
  const slow = await Server.start({ env: { PES_DEMO_PACE: '40' } });
  const proxy = await proxyTo(slow);
  t.after(() => proxy.close());
  t.after(() => slow.stop());
  const page = await open(proxy, '#/new');
  await connected(page, 'live');
  await slow.startRun('cut', DINNER);
  await follow(page, '#/t/cut');
  await page.evaluate(() => { window.isTheSame = true; });
  await proxy.cutIn('"event":"token"');
  await connected(page, 'held');
  const seq = await seqOf(page);
  await connected(page, 'live');
  const { seq: last } = await slow.runEnded('cut');
  await painted(page, last);
  assert.ok(seq < last, 'the run went on meanwhile');
  await status(page, 'success');
  assert.match(await page.locator('[data-testid=answer]').innerText(), /Each guest pays 47\.60/);
  assert.equal(await page.evaluate(() => window.isTheSame), true, 'the page was not loaded again');
  nothingWrong(page);
});

test('a page whose browser goes offline says so at once, and sends nothing', async () => {
  const page = await open(server, '#/t/demo?tab=talk');
  await connected(page, 'live');
  await page.locator('[data-testid=message-field]').fill('Hello');
  await page.context().setOffline(true);
  await page.locator('[data-testid=held]').waitFor();
  assert.equal(await page.locator('[data-testid=send]').isDisabled(), true);
  await page.context().setOffline(false);
  await connected(page, 'live');
  nothingWrong(page);
});

test('a server that is killed and started again: the page says so, and the run goes on', async (t) => {
  const slow = await Server.start({ env: { PES_DEMO_PACE: '40' } });
  t.after(() => slow.stop());
  const page = await open(slow, '#/new');
  await slow.startRun('killed', DINNER);
  await follow(page, '#/t/killed');
  await slow.until('killed', ({ type, parentId }) => type === 'LLM_STREAM_START' && parentId === 'tip');
  await painted(page, 20);
  await slow.kill();
  await connected(page, 'held');
  assert.match(await page.locator('[data-testid=held]').innerText(), /The server does not answer\.\s+What you see is as of observation \d+/);
  assert.equal(await page.locator('[data-testid=pause]').first().isDisabled(), true);
  await shot(page, 'disconnected');
  await slow.launch();
  const { seq } = await slow.runEnded('killed');
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2000 }).catch(() => {});
  await painted(page, seq);
  await connected(page, 'live');
  await status(page, 'success');
  await page.locator('.lanebox .restart').first().waitFor();
  nothingWrong(page);
});

test('beside a thread and among the questions stands what happens elsewhere', async (t) => {
  const other = await Server.start();
  t.after(() => other.stop());
  const page = await open(other, '#/new');
  await page.locator('[data-testid=threads]').waitFor();
  // A search stays current, too.
  await other.post('/threads', { threadId: 'elsewhere' });
  await other.post('/threads', { threadId: 'elsewhere-too' });
  const searched = page.waitForResponse(/[?&]q=elsewhere/);
  await page.getByLabel('Search threads').fill('elsewhere');
  await (await searched).finished();
  await page.locator('[data-thread=elsewhere-too]').waitFor();
  await other.ask('DELETE', '/threads/elsewhere-too');
  await page.locator('[data-thread=elsewhere-too]').waitFor({ state: 'detached' });
  await other.run('elsewhere', INVITE);
  await page.locator('[data-thread=elsewhere] svg[aria-label="asks a person"]').waitFor();
  await page.locator('[data-thread=elsewhere] .beads .ask').waitFor();
  assert.match(await page.locator('[data-thread=elsewhere] .beads').getAttribute('aria-label'), /^\d of \d items done, 1 asks a person$/);
  assert.equal(await page.locator('.nav [data-testid=question-count]').innerText(), '1');
  await page.evaluate(() => { location.hash = '#/questions'; });
  await page.locator('[data-testid=question-row]').waitFor();
  const { items } = await other.get('/suspensions');
  await other.resume('elsewhere', { suspensionId: items[0].suspensionId, approved: true });
  await page.locator('.nav [data-testid=question-count]').waitFor({ state: 'detached' });
  await other.kill();
  await connected(page, 'held');
  await other.launch();
  await page.getByRole('button', { name: 'Try now' }).click({ timeout: 2000 }).catch(() => {});
  await connected(page, 'live');
  nothingWrong(page);
});

test('two tabs and one answer: the other tab is told at once', async () => {
  await server.run('tabs', INVITE);
  const one = await open(server, '#/t/tabs');
  const two = await open(server, '#/t/tabs');
  await Promise.all([status(one, 'suspended'), status(two, 'suspended')]);
  const approve = one.getByRole('button', { name: /^Approve/ });
  await approve.click();
  await one.getByRole('button', { name: /Press again|Approve/ }).first().click().catch(() => {});
  await Promise.all([status(one, 'success'), status(two, 'success')]);
  const answers = (await server.log('tabs')).filter(({ type }) => type === 'AGENT_RESUMED');
  assert.equal(answers.length, 1);
  nothingWrong(one);
  nothingWrong(two);
});

test('the past shows nothing that came later, and a fork goes on from there', async () => {
  await server.run('past', DINNER);
  const page = await open(server, '#/t/past?at=30');
  await showing(page, 30);
  await connected(page, 'replay');
  const seqs = await page.locator('[data-seq]').evaluateAll((all) => all.filter((one) => one !== document.documentElement).map((one) => Number(one.dataset.seq)));
  assert.ok(seqs.length > 3 && seqs.every((seq) => seq <= 30), `${seqs}`);
  assert.equal(await page.locator('[data-testid=pause]').count(), 0);
  await shot(page, 'replay');
  await page.keyboard.press('.');
  await showing(page, 31);
  await page.keyboard.press('<');
  await showing(page, 20);
  await page.locator('[data-testid=fork-here]').click();
  await page.waitForFunction(() => !/t\/past/.test(location.hash));
  await page.waitForSelector('[data-node=bill][data-status=completed]');
  const forked = await page.evaluate(() => decodeURIComponent(location.hash.slice(4)));
  assert.deepEqual((await server.log(forked))[0].content.forkedFrom, { threadId: 'past', seq: 20 });
  nothingWrong(page);
});

test('the log is played in its order, up to where it is live', async () => {
  await server.run('played', DINNER);
  const { lastSeq } = await server.get('/threads/played');
  const page = await open(server, '#/t/played');
  // The answer and the list are loaded before the replay starts: it would wait for them, and skip observations meanwhile.
  await page.locator('[data-testid=answer] .md').waitFor();
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  await page.evaluate(() => { location.hash = '#/t/played?at=1'; });
  await showing(page, 1);
  await page.evaluate(() => {
    window.seqs = [];
    const seen = () => window.seqs.push(Number(document.documentElement.dataset.seq));
    new MutationObserver(seen).observe(document.documentElement, { attributes: true, attributeFilter: ['data-seq'] });
  });
  await page.getByLabel('Speed').selectOption('16');
  await page.locator('[data-testid=play]').click();
  await painted(page, 10);
  await page.keyboard.press('Space');
  await page.locator('[data-testid=play][aria-label=Play]').waitFor();
  const stopped = await seqOf(page);
  assert.ok(stopped < lastSeq);
  await page.keyboard.press('.');
  await showing(page, stopped + 1);
  await page.keyboard.press('Space');
  await page.keyboard.press('l');
  await page.locator('[data-testid=plan-list]').waitFor();
  await connected(page, 'live');
  await page.locator('[data-testid=play][aria-label=Play]').waitFor();
  await page.waitForFunction(() => location.hash === '#/t/played/list');
  await page.locator('[data-testid=plan-list]').waitFor();
  const seqs = await page.evaluate(() => window.seqs.filter((seq, i, all) => seq !== all[i - 1]));
  assert.deepEqual(seqs.filter((seq) => seq > 1), Array.from({ length: lastSeq - 1 }, (_, i) => i + 2));
  nothingWrong(page);
});

test('the lines beside the list go from row to row', async () => {
  await server.run('listed', DINNER);
  const page = await open(server, '#/t/listed/list');
  await page.locator('[data-testid=plan-list]').waitFor();
  const heights = await page.locator('tr[data-item]').evaluateAll((rows) => rows.map((row) => [row, row.querySelector('svg')].map((one) => Math.round(one.getBoundingClientRect().height))));
  assert.equal(heights.length, 4);
  for (const [row, lines] of heights) assert.ok(lines > 40 && Math.abs(row - lines) <= 1, `${lines} of ${row}`);
  nothingWrong(page);
});

test('a forecast is of what is still to be done, also when the plan stays as it is', async () => {
  await server.run('foreseen', INVITE);
  const page = await open(server, '#/t/foreseen/forecast');
  await page.locator('[data-testid=forecast]').getByText('1 item will ask a person').waitFor();
  const { items } = await server.get('/suspensions');
  await server.resume('foreseen', { suspensionId: items.find(({ threadId }) => threadId === 'foreseen').suspensionId, approved: true });
  await server.runEnded('foreseen');
  await page.locator('[data-testid=forecast]').getByText('Nothing is left to be done.').waitFor();
  nothingWrong(page);
});

test('every state that is shown is the server’s, at every observation', async () => {
  await server.run('states', DINNER);
  const { lastSeq } = await server.get('/threads/states');
  const page = await open(server, '#/t/states/graph?at=1');
  for (let seq = 1; seq < lastSeq; seq++) {
    await page.evaluate((at) => { location.hash = `#/t/states/graph?at=${at}`; }, seq);
    await showing(page, seq);
    const state = await server.get(`/threads/states/state?at=${seq}`);
    const shown = await page.locator('[data-node]').evaluateAll((nodes) => nodes.map((node) => `${node.dataset.node} ${node.dataset.status}`));
    assert.deepEqual(shown, state.todoList.map(({ id, status: word }) => `${id} ${word}`), `${seq}`);
  }
  nothingWrong(page);
});

test('a cancel is asked about once, says what it keeps, and says that it is under way', async () => {
  await server.startRun('cancel', 'Stand still.');
  await server.until('cancel', ({ type, parentId }) => type === 'LLM_STREAM_START' && parentId === 'wait');
  const page = await open(server, '#/t/cancel');
  await painted(page, 10);
  await page.locator('[data-testid=cancel]').first().click();
  const dialog = page.locator('dialog[aria-label="Cancel this run?"]');
  assert.match(await dialog.innerText(), /0 finished items stay\./);
  await dialog.getByRole('button', { name: 'Keep it running' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.keyboard.press('c');
  await page.locator('[data-testid=cancel-yes]').click();
  await status(page, 'cancelled');
  const ends = (await server.log('cancel')).filter(({ type }) => type === 'RUN_FINISHED');
  assert.deepEqual(ends.map(({ content }) => content.status), ['cancelled']);
  nothingWrong(page);
});

test('a pause is a question, and the run goes on from it', async () => {
  const slow = await Server.start({ env: { PES_DEMO_PACE: '60' } });
  try {
    const page = await open(slow, '#/new');
    await slow.startRun('pause', DINNER);
    await follow(page, '#/t/pause');
    await slow.until('pause', ({ type, parentId }) => type === 'LLM_STREAM_START' && parentId === 'bill');
    await page.locator('[data-testid=pause]:visible:enabled').waitFor();
    await page.keyboard.press('p');
    await status(page, 'suspended');
    await page.locator('[data-testid=question][data-kind=pause]').getByRole('button', { name: /Continue/ }).click();
    await status(page, 'success');
    nothingWrong(page);
  } finally {
    await slow.stop();
  }
});
