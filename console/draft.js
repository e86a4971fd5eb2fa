// A plan being edited: the wanted plan, its mistakes, the JSON Patch to reach it, and the edits that still fit a newer
// version of the plan. Pure.

import { same } from './diff.js';
import { listed } from './format.js';

const LOCKED = {
  completed: 'finished', failed: 'finished', cancelled: 'finished', in_progress: 'running', waiting: 'at an agent',
  ask: 'asks a person', doubt: 'in doubt',
};

/** Why an item is locked; null if it is not. `shown`: its drawn status. */
export const lockOf = (item) => LOCKED[item.shown ?? item.status] ?? null;

/** The ids in a text, separated by commas or blanks. */
export const ids = (text) => [...new Set(text.split(/[\s,]+/).filter(Boolean))];

/** `rows`: `{key, id, item (null: new), lock, removed, description, tools, after}`, in the order of the list. Edits go by key: ids of
 * new rows may be changed to one in use. */
export function begin(list, version) {
  return { version, base: list, rows: list.map(rowOf) };
}

function rowOf(item) {
  const { id, description } = item;
  const [tools, after] = [listed(item.requiredTools), listed(item.dependencies)];
  return { key: id, id, item, lock: lockOf(item), removed: false, description, tools, after };
}

/** Updates the locks during editing: `statusOf(id)` is the drawn status, or undefined. */
export function relock(draft, statusOf) {
  const locks = draft.rows.map((row) => (row.item ? lockOf({ ...row.item, shown: statusOf(row.id) }) : null));
  if (locks.every((lock, i) => lock === draft.rows[i].lock)) return draft;
  return { ...draft, rows: draft.rows.map((row, i) => ({ ...row, lock: locks[i], removed: row.removed && !locks[i] })) };
}

/** Whether an item of the plan is edited. */
export const isChanged = (row) => row.item !== null && changedFields(row, written(row)).length > 0;

/** An edit of an item that has begun since cannot be saved. */
export const cameTooLate = (row) => row.lock !== null && isChanged(row);

export const setRow = (draft, key, patch) => (
  { ...draft, rows: draft.rows.map((row) => (row.key === key ? { ...row, ...patch } : row)) });

export function addRow(draft) {
  let number = 1;
  while (draft.rows.some(({ key, id }) => key === `+${number}` || id === `new-${number}`)) number += 1;
  const row = { key: `+${number}`, id: `new-${number}`, item: null, lock: null, removed: false, description: '', tools: '', after: '' };
  return { ...draft, rows: [...draft.rows, row] };
}

/** Removes a new row; marks one of the plan, which can be restored. */
export function removeRow(draft, key) {
  const row = draft.rows.find((one) => one.key === key);
  if (row.item) return setRow(draft, key, { removed: !row.removed });
  return { ...draft, rows: draft.rows.filter((one) => one !== row) };
}

/** Moves a row past the next editable one in that direction. */
export function moveRow(draft, key, step) {
  const from = draft.rows.findIndex((row) => row.key === key);
  let to = from + step;
  while (draft.rows[to]?.lock) to += step;
  if (!draft.rows[to]) return draft;
  const rows = draft.rows.filter((_, i) => i !== from);
  rows.splice(to, 0, draft.rows[from]);
  return { ...draft, rows };
}

const wanted = (row) => (row.lock ? row.item : written(row));

/** The item as its row says. */
function written(row) {
  const item = row.item ?? { id: row.id };
  const kept = (known, text) => (same(known ?? [], ids(text)) ? known : ids(text));
  const members = {
    ...item, description: row.description.trim(), requiredTools: kept(item.requiredTools, row.tools), dependencies: kept(item.dependencies, row.after),
  };
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

const FIELDS = ['description', 'requiredTools', 'dependencies'];

/** The row's field that shows a member of an item, if not its description. */
const SHOWN_AS = { requiredTools: 'tools', dependencies: 'after', id: 'id' };

const sameField = (one, other, field) => same(one[field] ?? null, other[field] ?? null);

const changedFields = (row, now) => FIELDS.filter((field) => !sameField(row.item, now, field));

/** The edits: `{kind: changed|added|removed|moved, id, field?, was?, now?}`. */
export function edits(draft) {
  const found = draft.rows.flatMap((row) => {
    if (row.removed) return [{ kind: 'removed', id: row.id, was: row.item }];
    const now = wanted(row);
    if (!row.item) return [{ kind: 'added', id: row.id, now }];
    return changedFields(row, now).map((field) => ({ kind: 'changed', id: row.id, field, was: row.item[field], now: now[field] }));
  });
  const kept = draft.rows.filter((row) => row.item && !row.removed).map((row) => row.id);
  const before = draft.base.map((item) => item.id).filter((id) => kept.includes(id));
  return same(kept, before) ? found : [...found, { kind: 'moved', id: null, was: before, now: kept }];
}

/** What cannot be saved, by row: `{id, field: id|description|tools|after, message}`. `tools` are the known names; tools of
 * the plan may be gone since. */
export function mistakes(draft, tools) {
  const rows = draft.rows.filter((row) => !row.removed);
  const known = new Set(rows.map((row) => row.id));
  const gone = new Set(draft.rows.filter((row) => row.removed).map((row) => row.id));
  const had = new Set(draft.base.flatMap((item) => item.requiredTools ?? []));
  const found = rows.filter((row) => !row.lock).flatMap((row) => {
    const say = (field, message) => ({ id: row.id, field, message });
    const said = [];
    if (row.description.trim() === '') said.push(say('description', 'Say what to do.'));
    if (rows.filter((other) => other.id === row.id).length > 1) said.push(say('id', `There is another ${row.id}.`));
    for (const id of ids(row.after)) {
      if (gone.has(id)) said.push(say('after', `${id} is removed.`));
      else if (!known.has(id)) said.push(say('after', `There is no item ${id}.`));
    }
    const unknown = tools.size === 0 ? [] : ids(row.tools).filter((name) => !tools.has(name) && !had.has(name));
    said.push(...unknown.map((name) => say('tools', `There is no tool ${name}.`)));
    return said;
  });
  const circle = cycle(rows);
  if (!circle) return found;
  return [...found, { id: circle[0], field: 'after', message: `This goes in a circle: ${circle.join(' → ')}.` }];
}

/** A cycle of ids, with the first repeated at the end; null if there is none. */
function cycle(rows) {
  const after = new Map(rows.map((row) => [row.id, row.item && row.lock === 'finished' ? [] : ids(row.after)]));
  const done = new Set();
  const way = [];
  const on = new Set();
  const visit = (id) => {
    if (on.has(id)) return [...way.slice(way.indexOf(id)), id];
    if (done.has(id) || !after.has(id)) return null;
    on.add(id);
    way.push(id);
    for (const next of after.get(id)) {
      const found = visit(next);
      if (found) return found;
    }
    on.delete(id);
    way.pop();
    done.add(id);
    return null;
  };
  for (const id of after.keys()) {
    const found = visit(id);
    if (found) return found;
  }
  return null;
}

export function patchOf(draft) {
  const operations = [];
  const list = draft.base.map((item) => item.id);
  const rows = draft.rows.filter((row) => !row.removed);
  for (const id of draft.rows.filter((row) => row.removed).map((row) => row.id)) {
    operations.push({ op: 'remove', path: `/${list.indexOf(id)}` });
    list.splice(list.indexOf(id), 1);
  }
  rows.forEach((row, i) => {
    if (!row.item) {
      operations.push({ op: 'add', path: `/${i}`, value: wanted(row) });
      list.splice(i, 0, row.id);
    } else if (list[i] !== row.id) {
      const from = list.indexOf(row.id);
      operations.push({ op: 'move', from: `/${from}`, path: `/${i}` });
      list.splice(from, 1);
      list.splice(i, 0, row.id);
    }
  });
  rows.forEach((row, i) => operations.push(...fieldOperations(row, i)));
  return operations;
}

function fieldOperations(row, i) {
  if (!row.item || row.lock) return [];
  const now = wanted(row);
  return changedFields(row, now).map((field) => {
    const path = `/${i}/${field}`;
    return row.item[field] === undefined ? { op: 'add', path, value: now[field] } : { op: 'replace', path, value: now[field] };
  });
}

/** The row of a pointer into the wanted list: `/3/requiredTools` → `{id, field}`. */
export function rowAt(draft, pointer) {
  const [, index, member] = pointer.split('/');
  const row = draft.rows.filter((one) => !one.removed)[Number(index)];
  return row ? { id: row.id, field: SHOWN_AS[member] ?? 'description' } : null;
}

/**
 * Rebases the edits onto the current plan: `{draft, fit, all, lost: [{edit, why}]}`. An edit fits if its target is unchanged
 * since the edit, and may still be changed.
 */
export function rebase(draft, list, version) {
  const all = edits(draft);
  const lost = [];
  let next = begin(list, version);
  for (const edit of all) {
    const why = misfit(edit, next, draft);
    if (why) lost.push({ edit, why });
    else next = apply(edit, next, draft);
  }
  return { draft: next, fit: all.length - lost.length, all: all.length, lost };
}

function misfit(edit, next, draft) {
  if (edit.kind === 'moved') return misfitOrder(edit, next);
  const row = next.rows.find((one) => one.id === edit.id);
  if (edit.kind === 'added') return row ? 'an item of this name was added meanwhile' : null;
  if (!row) return 'the item is gone';
  if (row.lock) return `the item is ${row.lock} by now`;
  const was = draft.base.find((item) => item.id === edit.id);
  const fields = edit.kind === 'removed' ? FIELDS : [edit.field];
  return fields.every((field) => sameField(row.item, was, field)) ? null : 'it was changed otherwise meanwhile';
}

function misfitOrder(edit, next) {
  const known = next.base.map((item) => item.id).filter((id) => edit.was.includes(id));
  const before = edit.was.filter((id) => known.includes(id));
  return same(known, before) ? null : 'the order was changed meanwhile';
}

function apply(edit, next, draft) {
  const mine = draft.rows.find((row) => row.id === edit.id);
  switch (edit.kind) {
    case 'added': return { ...next, rows: [...next.rows, mine] };
    case 'removed': return setRow(next, edit.id, { removed: true });
    case 'moved': return { ...next, rows: inOrder(next.rows, edit.now) };
    default: {
      const field = SHOWN_AS[edit.field] ?? 'description';
      return setRow(next, edit.id, { [field]: mine[field] });
    }
  }
}

/** The ordered ones in this order, each other after its current predecessor. */
function inOrder(rows, order) {
  const sorted = order.map((id) => rows.find((row) => row.id === id)).filter(Boolean);
  rows.forEach((row, i) => {
    if (sorted.includes(row)) return;
    sorted.splice(i === 0 ? 0 : sorted.indexOf(rows[i - 1]) + 1, 0, row);
  });
  return sorted;
}
