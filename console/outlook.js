// A plan's forecast in words. Pure.

import { count, dollars } from './format.js';
import { conditionText } from './words.js';

const OPEN = new Set(['pending', 'in_progress', 'waiting']);

export const openItems = (forecast) => forecast.items.filter((item) => OPEN.has(item.status));

/** What the forecast says of a call's tool. */
export const toolOf = (forecast, call) => forecast.tools.find((tool) => tool.toolName === call.toolName);

const rulings = (tool) => [tool.policy, ...(tool.conditions ?? []).map((one) => one.policy)];

/** The outlook of one item: `{asks: 'yes'|'maybe'|'no', undo, leaves, denied, maybeDenied}`. */
export function outlookOf(item, forecast) {
  const may = item.mayCall ?? [];
  const tools = may.map((call) => toolOf(forecast, call)).filter(Boolean);
  const actions = may.map((call) => [call.action, call.conditional]);
  const always = actions.some(([action, conditional]) => action === 'ask' && !conditional);
  const sometimes = tools.some((tool) => rulings(tool).some((ruling) => ruling.action === 'ask'));
  const denied = actions.some(([action, conditional]) => action === 'deny' && !conditional);
  return {
    asks: always ? 'yes' : sometimes || item.mayCallAny ? 'maybe' : 'no',
    undo: may.some((call) => call.class === 'irreversible'),
    leaves: may.some((call) => call.class === 'external'),
    denied,
    maybeDenied: !denied && (item.mayCallAny ? forecast.tools : tools).some((tool) => tool.moreConditions || rulings(tool).some((ruling) => ruling.action === 'deny')),
  };
}

/** `2 items will ask a person, 1 may ask, 2 can do what cannot be undone. Nothing is denied.` */
export function sentence(forecast, cost = null) {
  const all = openItems(forecast).map((item) => outlookOf(item, forecast));
  const number = (test) => all.filter(test).length;
  const [will, may] = [number((one) => one.asks === 'yes'), number((one) => one.asks === 'maybe')];
  const [undo, leaves] = [number((one) => one.undo), number((one) => one.leaves)];
  const denials = [['denied', 'will'], ['maybeDenied', 'may']].map(([name, word]) => [number((one) => one[name]), word]).filter(([n]) => n > 0);
  if (all.length === 0) return 'Nothing is left to be done.';
  const parts = [
    will && `${count(will, 'item')} will ask a person`,
    may && `${count(may, 'item')} may ask a person`,
    undo && `${count(undo, 'item')} can do what cannot be undone`,
    leaves && `${count(leaves, 'item')} ${leaves === 1 ? 'calls' : 'call'} what is not of this server`,
    cost,
  ].filter(Boolean);
  const first = parts.length === 0 ? `${count(all.length, 'item')}, of which none asks a person` : parts.join(', ');
  return `${first}. ${denials.map(([n, word]) => `${count(n, 'item')} ${word} be denied a tool.`).join(' ') || 'Nothing is denied.'}`;
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

/** The strictest of a tool's rulings, for its colour. */
export function strictest(tool) {
  const actions = rulings(tool).map((ruling) => ruling.action);
  return ['deny', 'ask', 'auto'].find((action) => actions.includes(action));
}

/** The expected cost, from a forecast's `cost`: `$0.12 – $0.21`, `at most $0.40`, `no price known`; null without data. */
export function costText({ lowUsd, highUsd, atMostUsd, basis }) {
  if (highUsd == null) return atMostUsd != null ? `at most ${dollars(atMostUsd)}` : basis.unpricedItems ? 'no price known' : null;
  const [low, high] = [lowUsd, highUsd].map((usd) => dollars(Math.min(usd, atMostUsd ?? usd)));
  return low === high ? `about ${low}` : `${low} – ${high}`;
}

export function basisText({ provider, model, items, highUsd, atMostUsd, basis }) {
  const name = `${provider}:${model}`;
  const within = `in the last ${basis.days} days`;
  const by = highUsd != null
    ? `by ${count(basis.items, 'item')} (${count(basis.calls, 'call')}) of ${name} ${within}, without the cheapest and the dearest tenth, times ${items}`
    : basis.unpricedItems ? `items of ${name} had no price: add one under prices` : `no item of ${name} ran ${within}`;
  return `Cost: ${by}.${atMostUsd == null ? '' : ` At most ${dollars(atMostUsd)}: what is left of the budget.`}`;
}
