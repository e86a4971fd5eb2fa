// One answer on its way: its key, its refusals, and what the card shows of them.

import { fieldErrors, refusal } from '../../answer.js';
import { enc, newKey } from '../../api.js';
import { useKept } from '../kept.js';

export const draftKey = (question) => `question ${question.suspensionId}`;

const fresh = () => ({
  view: 'form', form: null, asJson: false, seen: false, reason: '', value: undefined, armed: false,
  busy: null, sent: null, note: null, refused: {}, over: null, newer: null,
});

/** `{draft, set, press}`. `press(name, body)` sends the body once, however often it is pressed. */
export function useAnswer(ctx, question, onDone) {
  const [draft, set] = useKept(draftKey(question), fresh);
  const press = async (name, body) => {
    if (draft.busy) return;
    const text = JSON.stringify(body);
    // A retry of the same press has the same key; another answer is another press.
    const key = draft.sent?.text === text ? draft.sent.key : newKey();
    set({ busy: name, note: null, refused: {}, sent: { text, key }, armed: false });
    try {
      await ctx.api.post(`/threads/${enc(question.threadId)}/resume`, body, { key });
      set({ busy: null, over: { text: 'Your answer was accepted.', mine: true } });
      ctx.say('Your answer was accepted.');
      ctx.refresh();
      onDone?.(question);
    } catch (problem) {
      await refused(problem, { ctx, question, set });
    }
  };
  return { draft, set, press };
}

async function refused(problem, { ctx, question, set }) {
  const { kind, text, todo, errors } = refusal(problem, question, ctx.clock.now());
  const note = { kind, text, todo, traceId: problem.traceId ?? null };
  ctx.say(text);
  if (kind === 'over') {
    set({ busy: null, over: { text, mine: false } });
    ctx.refresh();
  } else if (kind === 'other') {
    const newer = await readAgain(ctx, question);
    set(newer ? { busy: null, note, newer, form: null, view: 'form', seen: false, sent: null } : { busy: null, note });
  } else {
    set({ busy: null, note, refused: fieldErrors(errors), ...(kind === 'again' ? {} : { sent: null }) });
  }
}

/** The question as it is asked now; null if it cannot be read. */
async function readAgain(ctx, question) {
  try {
    const { items } = await ctx.api.all('/suspensions?status=pending');
    return items.find((one) => one.suspensionId === question.suspensionId) ?? null;
  } catch {
    return null;
  }
}
