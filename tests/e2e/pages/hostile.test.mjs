// What models, tools and people write is text: it runs nothing, and what cannot be seen is shown as its code.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { open, painted, quit, shot } from '../support/browser.mjs';
import { Server } from '../support/server.mjs';

let server;
before(async () => {
  server = await Server.start({ script: 'cases.toml' });
  await server.run('</script><img src=x onerror=alert(1)>'.replace(/[^\w-]/g, '-').slice(0, 40), 'Be hostile.');
  await server.run('hostile', 'Be hostile.');
});
after(async () => {
  await quit();
  await server?.stop();
});

for (const hash of ['#/t/hostile', '#/t/hostile/list', '#/t/hostile/changes', '#/t/hostile?sel=evil&tab=item', '#/t/hostile?tab=talk', '#/questions', '#/t/hostile/forecast']) {
  test(`nothing runs at ${hash}`, async () => {
    const page = await open(server, hash);
    await page.waitForSelector('main');
    if (hash.startsWith('#/t/')) await painted(page, 10);
    await page.waitForFunction(() => !document.querySelector('[aria-busy=true]'));
    await shot(page, `hostile-${hash.replace(/\W+/g, '-')}`);
    assert.equal(await page.locator('img, script:not([type=module]), iframe').count(), 0);
    assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
    assert.notEqual(await page.title(), 'taken');
    const text = await page.locator('body').innerText();
    assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069\u001b]/);
    assert.deepEqual(page.wrong, []);
  });
}

test('a character that would turn the text around is named where it stands', async () => {
  const page = await open(server, '#/t/hostile');
  await painted(page, 10);
  await page.locator('mark', { hasText: 'U+202E' }).first().waitFor();
  assert.match(await page.locator('.side').innerText(), /hidden characters? (is|are) shown/);
});
