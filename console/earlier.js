// Replaces what a shortened log lacks.

import { enc } from './api.js';

/** `{minSeq, base, messages}`: the state before the log begins, and the messages until then. */
export async function readEarlier(api, id, minSeq, options) {
  const path = `/threads/${enc(id)}`;
  const [base, { items }] = await Promise.all([
    api.get(`${path}/state?at=${minSeq - 1}`, options), api.all(`${path}/messages?limit=200`, { most: Infinity, ...options }),
  ]);
  const [first] = (await api.get(`${path}/events?after=${minSeq - 1}&limit=1`, options)).items;
  // A run's end and the next start may share a commit.
  const isBefore = ({ timestamp, runId }) => !first || timestamp < first.timestamp || (timestamp === first.timestamp && runId !== first.runId);
  return { minSeq, base, messages: items.filter(isBefore).map((message) => saidBefore(minSeq - 1, message)) };
}

function saidBefore(seq, { timestamp: at, runId, messageId, role, content, metadata = null, requestedBy }) {
  return { seq, at, runId, messageId, role, content, metadata, by: requestedBy ?? metadata?.userId ?? null, kind: 'earlier' };
}
