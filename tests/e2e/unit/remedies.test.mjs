import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { REMEDIES, TITLES } from '../../../console/remedies.js';
import { remedies, source } from './remedies.mjs';

test('the table of remedies is that of docs/ERRORS.md', () => {
  assert.deepEqual({ todo: REMEDIES, titles: TITLES }, remedies(), 'make it anew: node tests/e2e/unit/remedies.mjs > console/remedies.js');
  const file = readFileSync(new URL('../../../console/remedies.js', import.meta.url), 'utf8');
  assert.equal(file, source());
});

test('each refusal says what to do, and no cell has marks of its table', () => {
  assert.equal(REMEDIES.model_failed, 'Run again');
  assert.equal(TITLES.budget_exceeded, "The run's budget is spent");
  assert.equal(TITLES.model_refused, 'The provider refused the call');
  for (const [code, words] of [...Object.entries(REMEDIES), ...Object.entries(TITLES)]) assert.ok(words && !words.includes('|'), code);
  assert.ok(Object.keys(REMEDIES).length > 50);
});
