// Answers to questions: the request, and the meaning of a refusal. Pure.

import { changes, hasErrors } from './form.js';
import { REMEDIES } from './remedies.js';
import { EXPIRED, isHigh, resolutionText } from './words.js';

/** Arguments of more bytes must be looked at before approval. */
export const LARGE = 20_000;

/** High risk needs two presses. */
export const needsTwo = (question) => isHigh(question.riskLevel);

/** An approval: with the edited arguments, or with the digest of the shown ones. */
export const approval = (question, form, reason) => reply(question, {
  approved: true, ...(form && changes(form).length > 0 ? { modifiedArgs: form.value } : {}), ...reasonOf(reason) });

export const rejection = (question, reason) => reply(question, { approved: false, ...reasonOf(reason) });

export const reasonOf = (reason) => (reason.trim() ? { reason: reason.trim() } : {});

/** An answer by other members: `value`, `action`. */
export const reply = (question, members) => (
  { suspensionId: question.suspensionId, ...(question.digest ? { digest: question.digest } : {}), ...members });

/** Why the approval cannot be sent; null if it can. `seen`: large arguments were looked at. */
export function obstacle(question, { form, seen, size }) {
  if (form && hasErrors(form)) return 'Correct what is marked first.';
  if (size > LARGE && !seen) return 'The arguments are long: look at all of them first.';
  return null;
}

/**
 * A refused answer: `{kind, text, todo?, errors?}`. Kinds: `over` (already answered or expired), `again` (the same
 * press may be retried), `other` (the question has changed), `fields` (see `errors`), `no`.
 */
export function refusal(problem, question, now) {
  const { code, body = {} } = problem;
  switch (code) {
    case 'already_resolved':
      return over(resolutionText(body.resolution ?? { decision: 'cancelled' }, now));
    case 'expired':
      return over(EXPIRED[question.expiryPolicy] ?? 'Nobody answered in time.');
    case 'run_cancelled':
      return over('The run was cancelled; nothing is asked any more.');
    case 'run_finished':
      return over('The run is over; nothing is asked any more.');
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

const over = (text) => ({ kind: 'over', text });

function undelivered(problem) {
  const todo = REMEDIES[problem.code];
  if (problem.isUnreachable) {
    return { kind: 'again', text: 'Not sent: the server does not answer. Press again when it does; it counts once.' };
  }
  return { kind: problem.retryable ? 'again' : 'no', text: problem.detail ?? problem.title, todo };
}

export const who = (approvers, isForAnother = false) => (
  approvers?.length ? approvers.join(' or ') : `${isForAnother ? 'Somebody else with' : 'Whoever has'} the scope approve`);

const mayAnswer = (...of) => `${who(...of)} may answer.`;

const keyOf = (pointer) => pointer.match(/^\/(?:modifiedArgs|value)(|\/.*)$/s)?.[1];

/** Refused members: `fields` by that one of `keys` where they are shown, and the `rest`. */
export function placed(errors = [], keys = []) {
  const isShown = ({ pointer }) => keys.includes(keyOf(pointer));
  return {
    fields: Object.fromEntries(errors.filter(isShown).map(({ pointer, detail }) => [keyOf(pointer), detail])),
    rest: errors.filter((one) => !isShown(one)),
  };
}
