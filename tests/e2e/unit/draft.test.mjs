import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as plan from '../../../console/draft.js';

const item = (id, status, dependencies, requiredTools) => (
  { id, description: `Do ${id}`, status, dependencies, requiredTools, createdTimestamp: 1, updatedTimestamp: 1 });
const list = [item('orders', 'completed', [], ['get']), item('refund', 'in_progress', ['orders'], ['pay']),
  item('notify', 'pending', ['refund'], ['mail']), item('report', 'pending', ['notify'], [])];
const tools = new Set(['get', 'pay', 'mail']);
const start = () => plan.begin(list, '3');

/** JSON Patch, as far as drafts use it. */
function applied(before, operations) {
  const value = structuredClone(before);
  for (const { op, path, from, value: given } of operations) {
    const [, index, member] = path.split('/');
    if (member) value[index][member] = given;
    else if (op === 'remove') value.splice(index, 1);
    else if (op === 'add') value.splice(index, 0, given);
    else value.splice(index, 0, ...value.splice(from.slice(1), 1));
  }
  return value;
}

test('what is finished or under way is locked, with the reason', () => {
  assert.deepEqual(start().rows.map((row) => row.lock), ['finished', 'running', null, null]);
  assert.equal(plan.lockOf({ status: 'in_progress', shown: 'ask' }), 'asks a person');
});

test('nothing changed is no operation', () => {
  assert.deepEqual(plan.patchOf(start()), []);
  assert.deepEqual(plan.edits(start()), []);
});

test('the patch makes the list that is wanted', () => {
  let draft = plan.setRow(start(), 'notify', { description: 'Write, in Finnish', after: 'refund, orders', tools: '' });
  draft = plan.addRow(draft);
  draft = plan.setRow(draft, '+1', { description: 'Check', after: 'notify', tools: 'get' });
  draft = plan.moveRow(draft, '+1', -1);
  draft = plan.removeRow(draft, 'report');
  const after = applied(list, plan.patchOf(draft));
  assert.deepEqual(after.map((one) => one.id), ['orders', 'refund', 'notify', 'new-1']);
  assert.deepEqual(after[2], { ...list[2], description: 'Write, in Finnish', dependencies: ['refund', 'orders'], requiredTools: [] });
  assert.deepEqual(after[3], { id: 'new-1', description: 'Check', requiredTools: ['get'], dependencies: ['notify'] });
  assert.deepEqual(after.slice(0, 2), list.slice(0, 2));
  assert.deepEqual(plan.edits(draft).map((edit) => edit.kind), ['changed', 'changed', 'changed', 'added', 'removed']);
});

test('rows move past locked ones', () => {
  const draft = plan.moveRow(start(), 'report', -1);
  assert.deepEqual(applied(list, plan.patchOf(draft)).map((one) => one.id), ['orders', 'refund', 'report', 'notify']);
  assert.equal(plan.moveRow(draft, 'report', -1), draft, 'before it there are locked ones only');
  assert.deepEqual(plan.moveRow(draft, 'report', 1).rows, start().rows);
});

test('a removed item comes back, a new one does not', () => {
  const draft = plan.removeRow(plan.removeRow(start(), 'report'), 'report');
  assert.deepEqual(plan.patchOf(draft), []);
  assert.equal(plan.removeRow(plan.addRow(start()), '+1').rows.length, 4);
});

test('mistakes are said while typing', () => {
  const say = (draft) => plan.mistakes(draft, tools).map((one) => `${one.id} ${one.field}: ${one.message}`);
  assert.deepEqual(say(start()), []);
  assert.deepEqual(say(plan.setRow(start(), 'notify', { after: 'report' })), ['notify after: This goes in a circle: notify → report → notify.']);
  assert.deepEqual(say(plan.setRow(start(), 'report', { after: 'report' })), ['report after: This goes in a circle: report → report.']);
  assert.deepEqual(say(plan.setRow(start(), 'report', { after: 'nothing', tools: 'rm' })),
    ['report after: There is no item nothing.', 'report tools: There is no tool rm.']);
  assert.deepEqual(say(plan.removeRow(start(), 'notify')), ['report after: notify is removed.']);
  assert.deepEqual(say(plan.setRow(start(), 'report', { description: ' ' })), ['report description: Say what to do.']);
  assert.deepEqual(say(plan.setRow(plan.addRow(start()), '+1', { id: 'notify', description: 'x' })),
    ['notify id: There is another notify.', 'notify id: There is another notify.']);
});

test('a pointer of a refusal leads to its row and field', () => {
  const draft = plan.removeRow(start(), 'notify');
  assert.deepEqual(plan.rowAt(draft, '/2/dependencies'), { id: 'report', field: 'after' });
  assert.equal(plan.rowAt(draft, '/9/id'), null);
});

test('edits are laid on a plan that has moved on', () => {
  let draft = plan.setRow(start(), 'notify', { description: 'Write, in Finnish' });
  draft = plan.setRow(draft, 'report', { tools: 'get' });
  draft = plan.setRow(plan.addRow(draft), '+1', { description: 'Check' });
  draft = plan.removeRow(plan.addRow(draft), '+2');
  const now = [list[0], { ...list[1], status: 'completed' }, { ...list[2], status: 'in_progress' }, list[3], item('extra', 'pending', [], [])];
  const { draft: next, fit, all, lost } = plan.rebase(draft, now, '4');
  assert.deepEqual([fit, all, next.version], [2, 3, '4']);
  assert.deepEqual(lost.map(({ edit, why }) => [edit.id, why]), [['notify', 'the item is running by now']]);
  assert.deepEqual(applied(now, plan.patchOf(next)).map((one) => [one.id, one.requiredTools]),
    [['orders', ['get']], ['refund', ['pay']], ['notify', ['mail']], ['report', ['get']], ['extra', []], ['new-1', undefined]]);
});

test('what somebody else changed, removed or added under the same name does not fit', () => {
  let draft = plan.setRow(start(), 'notify', { description: 'Mine' });
  draft = plan.removeRow(draft, 'report');
  draft = plan.addRow(draft);
  const now = [list[0], list[1], { ...list[2], description: 'Theirs' }, item('new-1', 'pending', [], [])];
  assert.deepEqual(plan.rebase(draft, now, '4').lost.map(({ why }) => why),
    ['it was changed otherwise meanwhile', 'the item is gone', 'an item of this name was added meanwhile']);
});

test('a changed order is kept around what is new', () => {
  const draft = plan.moveRow(start(), 'report', -1);
  const now = [...list.slice(0, 3), item('extra', 'pending', [], []), list[3]];
  const { draft: next, fit } = plan.rebase(draft, now, '4');
  assert.equal(fit, 1);
  assert.deepEqual(next.rows.map((row) => row.id), ['orders', 'refund', 'report', 'notify', 'extra']);
});

test('a tool that the plan names is no mistake, though it has gone since', () => {
  const draft = plan.begin([item('one', 'pending', [], ['gone_since']), item('two', 'pending', ['one'], [])], '3');
  assert.deepEqual(plan.mistakes(plan.setRow(draft, 'two', { tools: 'gone_since' }), tools), []);
  assert.equal(plan.mistakes(plan.setRow(draft, 'two', { tools: 'gone_since, rm' }), tools)[0].message, 'There is no tool rm.');
});

test('a new item that is given a name in use changes no other, and can be renamed', () => {
  let draft = plan.setRow(plan.addRow(start()), '+1', { id: 'report' });
  draft = plan.setRow(draft, '+1', { description: 'Check' });
  assert.deepEqual(draft.rows.slice(0, 4), start().rows);
  assert.deepEqual(plan.moveRow(draft, '+1', -1).rows.map(({ key }) => key), ['orders', 'refund', 'notify', '+1', 'report']);
  assert.deepEqual(plan.removeRow(draft, '+1').rows, start().rows);
  draft = plan.setRow(draft, '+1', { id: 'terms' });
  assert.deepEqual(plan.mistakes(draft, tools), []);
  assert.deepEqual(plan.patchOf(draft), [{ op: 'add', path: '/4', value: { id: 'terms', description: 'Check' } }]);
  assert.deepEqual(plan.addRow(draft).rows.slice(4).map(({ key, id }) => [key, id]), [['+1', 'terms'], ['+2', 'new-2']]);
});

test('an item with an odd name is no harm', () => {
  const odd = [item('__proto__', 'pending', [], []), item('<img onerror=1>', 'pending', ['__proto__'], [])];
  const draft = plan.setRow(plan.begin(odd, '1'), '__proto__', { description: 'x' });
  assert.deepEqual(plan.mistakes(draft, tools), []);
  assert.deepEqual(plan.patchOf(draft), [{ op: 'replace', path: '/0/description', value: 'x' }]);
});
