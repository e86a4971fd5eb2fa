import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { REMEDIES, TITLES } from '../../../console/remedies.js';
import { NOT_SHOWN, remedies, source } from './remedies.mjs';

test('the table of remedies is that of docs/ERRORS.md', () => {
  assert.deepEqual({ todo: REMEDIES, titles: TITLES }, remedies(), 'make it anew: node tests/e2e/unit/remedies.mjs > console/remedies.js');
  const file = readFileSync(new URL('../../../console/remedies.js', import.meta.url), 'utf8');
  assert.equal(file, source());
});

test('each refusal says what to do, and no cell has marks of its table', () => {
  assert.equal(REMEDIES.model_failed, 'Run again');
  assert.equal(REMEDIES.model_refused, 'Correct what the message names');
  assert.equal(REMEDIES.forbidden, 'Use a key with the scope that the message names');
  assert.equal(REMEDIES.invalid, 'Correct each mistake');
  assert.deepEqual(Object.values(REMEDIES).filter((words) => /`(detail|message|errors)`/.test(words)), []);
  assert.equal(TITLES.budget_exceeded, "The run's budget is spent");
  assert.equal(TITLES.model_refused, 'The provider refused the call');
  for (const [code, words] of [...Object.entries(REMEDIES), ...Object.entries(TITLES)]) assert.ok(words && !words.includes('|'), code);
  assert.ok(Object.keys(REMEDIES).length > 30);
});

test('what no view shows is left out, and is a code of docs/ERRORS.md', () => {
  const text = readFileSync(new URL('../../../docs/ERRORS.md', import.meta.url), 'utf8');
  assert.deepEqual([...NOT_SHOWN].filter((code) => !text.includes(`\n| \`${code}\` |`)), []);
  assert.deepEqual([...NOT_SHOWN].filter((code) => Object.hasOwn(REMEDIES, code)), []);
  // Refused answers that the page has no words of its own for, and runs.
  for (const code of ['idempotency_mismatch', 'request_in_progress', 'thread_quarantined', ...Object.keys(TITLES)]) assert.ok(REMEDIES[code], code);
});
