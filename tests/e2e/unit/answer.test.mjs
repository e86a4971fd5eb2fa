import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Problem } from '../../../console/api.js';
import * as answer from '../../../console/answer.js';
import { byUrgency } from '../../../console/lists.js';
import * as form from '../../../console/form.js';
import { resolutionText } from '../../../console/words.js';
import { conditionText, grouped } from '../../../console/words.js';

const NOW = 1_795_449_600_000;
const question = {
  suspensionId: 'sus_1', digest: 'abcd1234', toolInput: { amountEur: 214.5 }, riskLevel: 'high', expiryPolicy: 'deny', createdAt: NOW,
  policy: { action: 'ask', rule: 'large', approvers: ['treasurer', 'mara'] },
};
const refused = (status, body) => answer.refusal(new Problem(status, body), question, NOW);

test('an approval without edits sends the digest back, one with edits the arguments whole', () => {
  assert.deepEqual(answer.approval(question, null, ' '), { suspensionId: 'sus_1', approved: true, digest: 'abcd1234' });
  const begun = form.begin({}, question.toolInput);
  assert.equal('modifiedArgs' in answer.approval(question, begun, ''), false);
  const edited = form.type(begun, form.fieldsOf({}, begun.value)[0], '199.00');
  assert.deepEqual(answer.approval(question, edited, 'ok'), {
    suspensionId: 'sus_1', approved: true, modifiedArgs: { amountEur: 199 }, digest: 'abcd1234', reason: 'ok' });
  assert.deepEqual(answer.rejection(question, 'no'), { suspensionId: 'sus_1', approved: false, digest: 'abcd1234', reason: 'no' });
});

test('what stands in the way of an approval is said', () => {
  const wrong = form.type(form.begin({}, { n: 1 }), form.fieldsOf({}, { n: 1 })[0], 'x');
  assert.match(answer.obstacle(question, { form: wrong, seen: true, size: 10 }), /Correct/);
  assert.match(answer.obstacle(question, { form: null, seen: false, size: answer.LARGE + 1 }), /look at all/);
  assert.equal(answer.obstacle(question, { form: null, seen: true, size: answer.LARGE + 1 }), null);
  assert.deepEqual(['low', 'medium', 'high', 'critical', undefined].map((riskLevel) => answer.needsTwo({ riskLevel })), [false, false, true, true, false]);
});

test('each refusal has its meaning', () => {
  const resolution = { decision: 'approved', decidedBy: 'treasurer', decidedAt: NOW - 40_000 };
  assert.deepEqual(refused(409, { code: 'already_resolved', resolution }), { kind: 'over', text: 'treasurer approved this 40 s ago.' });
  assert.match(refused(409, { code: 'already_resolved' }).text, /withdrawn/);
  assert.deepEqual(refused(410, { code: 'expired' }), { kind: 'over', text: 'Nobody answered in time: it was refused, and the model was told.' });
  assert.equal(refused(409, { code: 'run_cancelled' }).kind, 'over');
  assert.equal(refused(409, { code: 'approval_mismatch' }).kind, 'other');
  assert.deepEqual(refused(403, { code: 'not_an_approver', approvers: ['treasurer'] }), { kind: 'no', text: 'treasurer may answer.' });
  assert.match(refused(403, { code: 'four_eyes', detail: 'You asked for this run.' }).text, /You asked for this run\. treasurer or mara may answer\./);
  assert.equal(refused(503, { code: 'store_unavailable', title: 'x', retryable: true }).kind, 'again');
  assert.equal(refused(503, { code: 'store_unavailable', title: 'x', retryable: true }).todo, 'Send it again');
  assert.equal(refused(0, {}).kind, 'again');
  assert.equal(refused(500, { code: 'internal', title: 'A defect', retryable: false }).kind, 'no');
});

test('refused members of an answer lead to their fields; what no field shows is left to be said', () => {
  const wrong = (pointer) => ({ pointer, detail: `${pointer} is wrong` });
  const sent = ['/modifiedArgs/amountEur', '/value/address/city', '/value', '/valued/city', '/reason'].map(wrong);
  const { kind, errors } = refused(422, { code: 'invalid', detail: 'x', errors: sent });
  assert.equal(kind, 'fields');
  const { fields, rest } = answer.placed(errors, ['/amountEur', '/address/city', '/reason']);
  assert.deepEqual(fields, { '/amountEur': '/modifiedArgs/amountEur is wrong', '/address/city': '/value/address/city is wrong' });
  assert.deepEqual(rest, ['/value', '/valued/city', '/reason'].map(wrong));
  assert.deepEqual(answer.placed(undefined), { fields: {}, rest: [] });
});

test('a field shows what is refused of it where it has a value', () => {
  const schema = { properties: { city: { type: 'string' }, to: { type: 'object', properties: { zip: { type: 'string' } } } } };
  const fields = form.fieldsOf(schema, { to: { zip: '' } });
  assert.deepEqual(form.keysOf(fields), ['/to/zip']);
});

test('questions are sorted by expiry, then risk, then age', () => {
  const list = [{ id: 'old', createdAt: 1 }, { id: 'new', createdAt: 2 }, { id: 'risky', createdAt: 3, riskLevel: 'critical' }, { id: 'soon', createdAt: 4, expiresAt: 9 }];
  assert.deepEqual(list.sort(byUrgency).map((one) => one.id), ['soon', 'risky', 'old', 'new']);
});

test('conditions, resolutions and digests in words', () => {
  assert.equal(conditionText({ pointer: '/amountEur', op: 'ge', value: 200 }), '/amountEur ≥ 200');
  assert.equal(conditionText({ pointer: '/n', op: 'number', value: { min: 1, below: 5 } }), '/n ≥ 1 and /n < 5');
  assert.equal(conditionText({ pointer: '/to', op: 'email_domain', value: ['a.example', 'b.example'] }), '/to is at a.example or b.example');
  assert.equal(conditionText({ pointer: '', op: 'exists' }), 'the arguments is there');
  assert.equal(conditionText({ pointer: '/x', op: 'a_new_one', value: { a: 1 } }), '/x a_new_one {"a":1}');
  assert.equal(resolutionText({ decision: 'cancelled', reason: 'the plan was changed' }, NOW), 'It was withdrawn: the plan was changed.');
  assert.equal(resolutionText({ decision: 'retry', decidedBy: 'mara', decidedAt: NOW }, NOW), 'mara had the call made again just now.');
  // As the log has it.
  assert.equal(resolutionText({ decision: 'retry', decidedBy: 'mara', at: NOW - 40_000, timedOut: false }, NOW), 'mara had the call made again 40 s ago.');
  assert.equal(resolutionText({ decision: 'deny', at: NOW, timedOut: true }, NOW), 'Nobody answered in time.');
  assert.equal(grouped('0bb1160d34'), '0bb1 160d 34');
});
