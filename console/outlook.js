// What a plan will do, counted from its forecast, and what its items may cost, from what items cost before. Pure.

import { count, dollars } from './format.js';
import { conditionText } from './words.js';

const OPEN = new Set(['pending', 'in_progress', 'waiting']);

/** The items that are still to be done. */
export const openItems = (forecast) => forecast.items.filter((item) => OPEN.has(item.status));

const rulings = (tool) => [tool.policy, ...(tool.conditions ?? []).map((one) => one.policy)];

/** What one item will come to: `{asks: 'yes'|'maybe'|'no', undo, leaves, denied}`. */
export function outlookOf(item, forecast) {
  const may = item.mayCall ?? [];
  const tools = may.map((call) => forecast.tools.find((tool) => tool.toolName === call.toolName)).filter(Boolean);
  const actions = may.map((call) => [call.action, call.conditional]);
  const always = actions.some(([action, conditional]) => action === 'ask' && !conditional);
  const sometimes = tools.some((tool) => rulings(tool).some((ruling) => ruling.action === 'ask'));
  return {
    asks: always ? 'yes' : sometimes || item.mayCallAny ? 'maybe' : 'no',
    undo: may.some((call) => call.class === 'irreversible'),
    leaves: may.some((call) => call.class === 'external'),
    denied: actions.some(([action, conditional]) => action === 'deny' && !conditional),
  };
}

/** `2 items will ask a person, 1 may ask, 2 can do what cannot be undone. Nothing is denied.` as parts: `{text, strong}`. */
export function sentence(forecast, cost = null) {
  const all = openItems(forecast).map((item) => outlookOf(item, forecast));
  const number = (test) => all.filter(test).length;
  const [will, may] = [number((one) => one.asks === 'yes'), number((one) => one.asks === 'maybe')];
  const [undo, leaves, denied] = [number((one) => one.undo), number((one) => one.leaves), number((one) => one.denied)];
  if (all.length === 0) return 'Nothing is left to be done.';
  const parts = [
    will && `${count(will, 'item')} will ask a person`,
    may && `${count(may, 'item')} may ask a person`,
    undo && `${count(undo, 'item')} can do what cannot be undone`,
    leaves && `${count(leaves, 'item')} ${leaves === 1 ? 'calls' : 'call'} what is not of this server`,
    cost,
  ].filter(Boolean);
  const first = parts.length === 0 ? `${count(all.length, 'item')}, of which none asks a person` : parts.join(', ');
  return `${first}. ${denied ? `${count(denied, 'item')} will be denied a tool.` : 'Nothing is denied.'}`;
}

/** Who decides about a tool, in words: `asks treasurer if /amountEur ≥ 200, else runs`. */
export function decides(tool) {
  const word = ({ action, approvers }) => {
    if (action === 'ask') return `asks ${approvers?.length ? approvers.join(' or ') : 'a person'}`;
    return action === 'deny' ? 'is denied' : 'runs';
  };
  const conditions = (tool.conditions ?? []).map(({ policy, when }) => `${word(policy)} if ${when.map(conditionText).join(' and ')}`);
  const rest = word(tool.policy);
  if (conditions.length === 0) return rest;
  return `${conditions.join('; ')}${tool.moreConditions ? '; or others' : ''}; else ${rest}`;
}

/** The strictest word of a tool's rulings, for its colour. */
export function strictest(tool) {
  const actions = rulings(tool).map((ruling) => ruling.action);
  return ['deny', 'ask', 'auto'].find((action) => actions.includes(action));
}

/**
 * What `items` items may cost, from rows of `GET /usage?groupBy=item`: `{low, high, n}`; `unpriced` where no price is known;
 * null where there is nothing to go by.
 */
export function costRange(rows, items) {
  const known = rows.filter((row) => row.itemId !== undefined);
  const priced = known.filter((row) => row.unpricedCalls === 0).map((row) => row.costUsd).sort((a, b) => a - b);
  if (priced.length === 0) return known.length > 0 ? { unpriced: true, n: known.length } : null;
  const at = (part) => priced[Math.min(priced.length - 1, Math.floor(part * priced.length))];
  return { low: at(0.1) * items, high: at(0.9) * items, n: priced.length };
}

/** `$0.12 – $0.21`, `no price`. */
export function costText(range) {
  if (!range) return null;
  if (range.unpriced) return 'no price';
  const [low, high] = [dollars(range.low), dollars(range.high)];
  return low === high ? `about ${low}` : `${low} – ${high}`;
}
