// The questions of a thread, put together from its log and from the list of all questions.

import { byUrgency } from '../../answer.js';

/** A question of the fold, with what the list of questions knows besides. */
export function withRow(ctx, thread, question) {
  // The list is of now, and the past is shown as it was.
  const row = thread?.replay ? null : ctx.questions?.find((one) => one.suspensionId === question.suspensionId);
  const told = thread?.view.questions.get(question.suspensionId);
  return { ...told, ...question, ...row, seq: told?.seq, threadId: question.threadId ?? thread?.id };
}

/** Those that are open, the most urgent first; and those that are over, the latest first. */
export function questionsOf(ctx, thread) {
  const open = thread.core.suspensions.map((one) => withRow(ctx, thread, one)).sort(byUrgency);
  const over = [...thread.view.questions.values()].filter((one) => one.ended)
    .map((one) => ({ ...one, threadId: thread.id })).sort((a, b) => b.ended.seq - a.ended.seq);
  return { open, over };
}
