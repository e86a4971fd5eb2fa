// Answers to questions: what is sent, and what a refusal of it means. Pure.

import { resolutionText } from './format.js';
import { changes, hasErrors } from './form.js';
import { EXPIRED } from './words.js';
import { REMEDIES } from './remedies.js';

/** Arguments of more bytes than this must have been looked at before they are approved. */
export const LARGE = 20_000;

/** High risk wants two presses. */
export const needsTwo = (question) => question.riskLevel === 'high' || question.riskLevel === 'critical';

/** An approval: edited arguments whole, or the digest of what is on the card. */
export function approval(question, form, reason) {
  const body = { suspensionId: question.suspensionId, approved: true };
  if (form && changes(form).length > 0) body.modifiedArgs = form.value;
  if (question.digest) body.digest = question.digest;
  if (reason.trim()) body.reason = reason.trim();
  return body;
}

export function rejection(question, reason) {
  const body = { suspensionId: question.suspensionId, approved: false };
  if (question.digest) body.digest = question.digest;
  if (reason.trim()) body.reason = reason.trim();
  return body;
}

/** An answer in another form: `value`, `action`. */
export const reply = (question, members) => (
  { suspensionId: question.suspensionId, ...(question.digest ? { digest: question.digest } : {}), ...members });

/** Why the approval cannot be sent as it is; null if it can. `seen`: large arguments were looked at. */
export function obstacle(question, { form, seen, size }) {
  if (form && hasErrors(form)) return 'Correct what is marked first.';
  if (size > LARGE && !seen) return 'The arguments are long: look at all of them first.';
  return null;
}

/**
 * What a refusal of an answer means: `{kind, text, todo?, errors?}`. Kinds: `over` (somebody or the time was faster),
 * `again` (the same press may be repeated), `other` (the question is another one by now), `fields` (see `errors`), `no`.
 */
export function refusal(problem, question, now) {
  const { code, body = {} } = problem;
  switch (code) {
    case 'already_resolved':
      return { kind: 'over', text: resolutionText(body.resolution ?? { decision: 'cancelled' }, now) };
    case 'expired':
      return { kind: 'over', text: EXPIRED[question.expiryPolicy] ?? 'Nobody answered in time.' };
    case 'run_cancelled':
      return { kind: 'over', text: 'The run was cancelled; nothing is asked any more.' };
    case 'run_finished':
      return { kind: 'over', text: 'The run is over; nothing is asked any more.' };
    case 'approval_mismatch':
      return { kind: 'other', text: 'The question has changed since you looked at it. This is the new one.' };
    case 'not_an_approver':
      return { kind: 'no', text: mayAnswer(body.approvers ?? question.policy?.approvers) };
    case 'four_eyes':
      return { kind: 'no', text: `${problem.detail ?? ''} ${mayAnswer(question.policy?.approvers, true)}`.trim() };
    case 'invalid':
      return { kind: 'fields', text: problem.detail ?? problem.title, errors: problem.errors };
    default:
      return undelivered(problem);
  }
}

function undelivered(problem) {
  const todo = REMEDIES[problem.code];
  if (problem.isUnreachable || problem.code === 'unreachable') {
    return { kind: 'again', text: 'Not sent: the server does not answer. Press again when it does; it counts once.' };
  }
  return { kind: problem.retryable ? 'again' : 'no', text: problem.detail ?? problem.title, todo };
}

/** Who may answer. */
export const who = (approvers, isForAnother = false) => (
  approvers?.length ? approvers.join(' or ') : `${isForAnother ? 'Somebody else with' : 'Whoever has'} the scope approve`);

const mayAnswer = (...of) => `${who(...of)} may answer.`;

const keyOf = (pointer) => pointer.match(/^\/(?:modifiedArgs|value)(|\/.*)$/s)?.[1];

/** Refused members of what was sent: `fields` by the key of that one of `keys` at which they are shown, and the `rest`. */
export function placed(errors = [], keys = []) {
  const isShown = ({ pointer }) => keys.includes(keyOf(pointer));
  return {
    fields: Object.fromEntries(errors.filter(isShown).map(({ pointer, detail }) => [keyOf(pointer), detail])),
    rest: errors.filter((one) => !isShown(one)),
  };
}
