// The API's short words as sentences. Pure.

import { age } from './format.js';

const OP = { eq: '=', ne: '≠', lt: '<', le: '≤', gt: '>', ge: '≥' };
const BOUND = { eq: '=', ne: '≠', min: '≥', max: '≤', above: '>', below: '<' };

const value = (given) => (typeof given === 'string' ? given : JSON.stringify(given));

/** A condition of a rule: `/amountEur ≥ 200`. */
export function conditionText(condition) {
  const { pointer, op, value: given } = condition ?? {};
  const where = pointer || 'the arguments';
  if (OP[op]) return `${where} ${OP[op]} ${value(given)}`;
  switch (op) {
    case 'number': return Object.entries(given ?? {}).map(([bound, n]) => `${where} ${BOUND[bound] ?? bound} ${value(n)}`).join(' and ');
    case 'exists': return given === false ? `${where} is not there` : `${where} is there`;
    case 'in': return `${where} is one of ${[given ?? []].flat().map(value).join(', ')}`;
    case 'starts_with': return `${where} begins with ${value(given)}`;
    case 'email_domain': return `${where} is at ${[given].flat().map(value).join(' or ')}`;
    case 'host': return `${where} leads to ${[given].flat().map(value).join(' or ')}`;
    default: return `${where} ${op} ${value(given)}`;
  }
}

/** The owner of a rule. */
export const SCOPE = { default: '', server: 'of this server', tenant: 'of this tenant', thread: 'of this thread' };

/** The effect of a question's expiry. */
export const ON_EXPIRY = { deny: 'then it is refused', fail: 'then it fails', remind: 'then you are reminded' };

export const EXPIRED = {
  deny: 'Nobody answered in time: it was refused, and the model was told.',
  fail: 'Nobody answered in time: it failed.',
  remind: 'Nobody answered in time: it is asked again.',
};

export const KIND = {
  approval: 'approval', input: 'question', in_doubt: 'in doubt', client_tool: 'your program', budget: 'budget',
  peer_input: 'agent asks', peer_auth: 'agent wants a sign-in', plan_review: 'plan review', pause: 'paused',
};

/** The last change of the plan that brought the item, as it may be removed and added again; going back makes no item. */
export const addedBy = (view, itemId) => view.revisions.findLast(({ source, changes }) => (
  source !== 'rewind' && changes.added.some((change) => change.itemId === itemId)));

/** Who changed the plan: of `view.revisions`. */
export function authorText({ source, by, itemId }) {
  switch (source) {
    case 'planner': return 'the planner';
    case 'agent': return `the model, in ${itemId ?? 'an item'}`;
    case 'refinement': return by ?? 'a message';
    case 'rewind': return 'going back';
    case 'copy': return 'the fork';
    default: return by ?? 'a person';
  }
}

export const isHigh = (risk) => risk === 'high' || risk === 'critical';

/** Why somebody may not answer: the refusal's code in words. */
export function barredText(why, policy) {
  if (why === 'not_an_approver') return `Only ${policy?.approvers?.join(' or ') || 'those whom the rule names'} may answer.`;
  if (why === 'four_eyes') return 'You asked for this run, steered it, or edited its instructions, plan or arguments: somebody else must approve it.';
  return 'This key may not answer: use one with the scope approve.';
}

/** The effect of a crash during the call. */
export function breakText(toolClass, idempotent) {
  if (idempotent) return 'Idempotent: after a crash it is made again, and has its effect once.';
  if (toolClass === 'read') return 'It only reads: after a crash it is made again.';
  if (toolClass === undefined && idempotent === undefined) return 'Not known: nothing is said of this tool here.';
  return 'Not idempotent: it is never repeated blindly, you would be asked.';
}

export const CLASS = {
  read: 'only reads', write: 'writes', external: 'leaves this server', irreversible: 'cannot be undone',
};

/** A digest in groups of four, to be read aloud. */
export const grouped = (digest) => digest.replace(/(.{4})(?=.)/g, '$1 ');

const DECIDED = {
  approved: 'approved this', modified: 'approved this with other arguments', rejected: 'rejected this', answered: 'answered this',
  retry: 'had the call made again', done: 'said that it was done', skip: 'skipped this call', abort: 'ended the item',
  resumed: 'let the run go on',
};

/** The outcome of a question, from the API or the log: `treasurer approved this 4 s ago`. */
export function resolutionText({ decision, decidedBy, at, decidedAt = at, reason, timedOut }, now) {
  if (timedOut || decision === 'expired') return 'Nobody answered in time.';
  if (decision === 'cancelled') return reason ? `It was withdrawn: ${reason}.` : 'It was withdrawn.';
  const ago = decidedAt == null ? '' : agoText(decidedAt, now);
  return `${decidedBy} ${DECIDED[decision] ?? decision}${ago}.`;
}

/** The same in a word or two. */
export const endText = ({ decision, decidedBy, timedOut }) => (timedOut ? 'nobody answered in time' : `${decision} by ${decidedBy}`);

/** ` 4 s ago`, ` yesterday`, ` on 3 Nov`. */
function agoText(time, now) {
  const text = age(time, now);
  if (text === 'now') return ' just now';
  if (text === 'yesterday') return ' yesterday';
  return /^\d+ (s|min|h|d)$/.test(text) ? ` ${text} ago` : ` on ${text}`;
}
