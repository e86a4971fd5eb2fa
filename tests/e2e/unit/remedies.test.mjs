import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { REMEDIES } from '../../../console/remedies.js';
import { remedies, source } from './remedies.mjs';

test('the table of remedies is that of docs/ERRORS.md', () => {
  assert.deepEqual(REMEDIES, remedies(), 'make it anew: node tests/e2e/unit/remedies.mjs > console/remedies.js');
  const file = readFileSync(new URL('../../../console/remedies.js', import.meta.url), 'utf8');
  assert.equal(file, source());
});

test('each refusal says what to do, and no cell has marks of its table', () => {
  assert.equal(REMEDIES.model_failed[1], 'Run again');
  assert.equal(REMEDIES.budget_exceeded[0], "The run's budget is spent");
  for (const words of Object.values(REMEDIES)) assert.ok(words.every((text) => text && !text.includes('|')) && !words[0].includes('`'), words);
});
