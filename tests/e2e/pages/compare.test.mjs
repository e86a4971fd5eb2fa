// Two running threads side by side.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../support/browser.mjs';
import { at, done } from '../support/people.mjs';
import { serve } from '../support/setup.mjs';

const server = await serve({ script: 'people.toml' });

test('a log that grows while it is compared is read on, and not from its start', async () => {
  for (const thread of ['one', 'two']) await server.run(thread, 'Answer at length.');
  const page = await open(server, '#/new');
  const asked = [];
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (/^\/threads\/.*\/events$/.test(pathname)) asked.push(`${pathname.split('/')[2]} ${searchParams.get('after')}`);
  });
  await page.evaluate(() => { location.hash = '#/compare/one/two'; });
  await page.getByRole('heading', { level: 1, name: 'Two branches' }).waitFor();
  for (let i = 0; i < 3; i++) {
    await server.run('two', 'Answer at length.');
    const { lastSeq } = await server.get('/threads/two');
    await at(page, 'side-b').locator('.bar', { hasText: `1 – ${lastSeq}` }).waitFor();
  }
  assert.deepEqual(asked.filter((one) => one.endsWith(' 0')).sort(), ['one 0', 'two 0']);
  assert.equal(new Set(asked).size, asked.length, asked.join());
  await done(page);
});
