// What became of a question: in a sentence, and what was answered or changed.

import { enc } from '../../api.js';
import { brief, show } from '../../text.js';
import { html } from '../../vendor/preact-htm.js';
import { resolutionText } from '../../words.js';
import { Diff } from '../code.js';
import { useRead } from '../section.js';

export function Answered({ ctx, thread, question }) {
  const { ended } = question;
  return html`<p class="mid">${show(resolutionText(ended, ctx.clock.now()))}
      ${ended.reason && ended.decision !== 'cancelled' && html` “${show(ended.reason)}”`}</p>
    <${Given} ctx=${ctx} thread=${thread} question=${question} />`;
}

/** The answer is the result of its call. A thread's log has it, but not the arguments of an edited call. */
export function Given({ ctx, thread, question: { kind, threadId = thread?.id, callId, toolName, toolInput, ended, resolution } }) {
  const { decision } = ended ?? resolution ?? {};
  const isEdited = decision === 'modified';
  const isAnswer = decision === 'done' || (decision === 'answered' && (kind === 'client_tool' || toolName === 'ask_user'));
  const isRead = isEdited || (isAnswer && !thread);
  const { modifiedArguments, result = thread?.view.spans.get(`call ${callId}`) } = useRead(ctx, [isRead && callId],
    async (signal) => isRead && ctx.api.get(`/threads/${enc(threadId)}/tool-calls/${enc(callId)}`, { signal }));
  if (isEdited) return modifiedArguments && html`<${Diff} was=${toolInput} now=${modifiedArguments} />`;
  return isAnswer && result?.output != null && html`<p data-testid="given"><b>${show(brief(result.output))}</b></p>`;
}
