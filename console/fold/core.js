// The state of a thread as of an observation, computed from the log alone: equal to `GET /threads/{id}/state?at=seq`.
//
// Pure: `fold` leaves its input untouched and shares what did not change. The server's own fold is
// `crates/engine/src/history/fold`; a test compares the two at every observation of recorded threads.

/** The statuses of an item that is over. */
export const OVER = new Set(['completed', 'failed', 'cancelled']);
export const TASK_OVER = new Set(['completed', 'failed', 'rejected', 'canceled', 'lost']);

export function empty(seq = 0) {
  return {
    seq, intent: '', title: '', plan: '', planVersion: 0,
    /** In execution order; open items without their calls, which are in `called`. */
    items: [],
    outputs: {},
    /** By item: `{made, earlier, results}`; `earlier` calls came before the last reply. */
    called: {},
    run: null,
    /** The last run that ended has failed, and none has begun since. */
    failed: false,
    /** Of the last run that began. */
    query: '',
    /** Open streams and calls. */
    begun: new Set(),
    suspensions: [],
    waits: [],
  };
}

/** Starts from a state of the server: if the log begins after 1, nothing is open. */
export function fromState(body) {
  return {
    ...empty(body.lastSeq), intent: body.intent, title: body.title, plan: body.plan, planVersion: body.planVersion,
    items: body.todoList.map(withoutCalls), outputs: body.stepOutputs, called: callsOf(body.todoList),
    failed: body.status === 'failed',
  };
}

/** Applies the next observation: `told`, as in all of `fold/`. */
export function fold(state, told) {
  const take = TAKE[told.type];
  const next = take ? take(state, told.content, told) : state;
  return { ...next, seq: told.seq };
}

const TAKE = {
  // Without a plan, the list is the last run's item.
  RUN_STARTED: (state, content, { runId }) => ({
    ...state, ...(state.planVersion === 0 ? { items: [], outputs: {}, called: {} } : {}), run: runId, query: content.query, failed: false, ...nothingOpen(),
  }),
  // The run that ends may also be a queued one.
  RUN_FINISHED: (state, content, { runId }) => ({
    ...state, ...(state.run === runId ? { run: null, ...nothingOpen() } : {}), failed: content.status === 'failed',
  }),
  INTENT: (state, content) => ({ ...state, intent: content.intent }),
  TITLE: (state, content) => ({ ...state, title: content.title }),
  PLAN: planned,
  PLAN_UPDATE: (state, content, told) => planned(forget(state, content.changes?.removed ?? []), content, told),
  ITEM_STATUS_CHANGE: moved,
  LLM_STREAM_START: (state, content) => begin(state, [content.streamId]),
  LLM_STREAM_END: (state, content) => end(state, content.streamId),
  LLM_STREAM_ERROR: (state, content) => end(state, content.streamId),
  TOOL_CALL: called,
  TOOL_EXECUTION: executed,
  AGENT_SUSPENDED: suspended,
  AGENT_RESUMED: (state, content) => resolved(state, content.suspensionId),
  // A reminder keeps the question open.
  SUSPENSION_TIMEOUT: (state, content) => (content.policy === 'remind' ? state : resolved(state, content.suspensionId)),
  A2A_TASK: task,
};

const nothingOpen = () => ({ begun: new Set(), suspensions: [], waits: [] });

function begin(state, ids) {
  const begun = new Set(state.begun);
  for (const id of ids) begun.add(id);
  return { ...state, begun };
}

function end(state, id) {
  if (!state.begun.has(id)) return state;
  const begun = new Set(state.begun);
  begun.delete(id);
  return { ...state, begun };
}

function planned(state, content, told) {
  const items = (content.todoList ?? []).map(withoutCalls);
  const listed = new Map(items.map((item) => [item.id, item]));
  // A copied history begins with a whole list, partly done, and a rewound one continues with it.
  const isFirst = state.items.length === 0 || (told.type === 'PLAN' && !told.runId);
  return {
    ...state,
    items,
    planVersion: content.planVersion,
    plan: content.plan ?? state.plan,
    called: isFirst ? callsOf(content.todoList ?? []) : only(state.called, (id) => listed.has(id)),
    outputs: content.stepOutputs ?? only(state.outputs, (id) => OVER.has(listed.get(id)?.status)),
  };
}

function only(object, keep) {
  return Object.fromEntries(Object.entries(object).filter(([id]) => keep(id)));
}

/** Drops a removed item's calls, also if an item of that name comes at once. */
function forget(state, removed) {
  const gone = new Set(removed.map((change) => change.itemId));
  if (gone.size === 0) return state;
  return { ...state, called: only(state.called, (id) => !gone.has(id)), outputs: only(state.outputs, (id) => !gone.has(id)) };
}

/** A property by id. Models name items: `constructor` is a valid name. */
const own = (object, id) => (Object.hasOwn(object, id) ? object[id] : undefined);

function clean(object) {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}

/** Of an open item the calls are in the log, one by one. */
function withoutCalls(item) {
  if (OVER.has(item.status) || !(item.toolCalls || item.actualToolCalls || item.toolResults)) return item;
  const { toolCalls, actualToolCalls, toolResults, ...bare } = item;
  return bare;
}

/** The calls of settled items in a whole list: such items may be started again. */
function callsOf(items) {
  const calling = items.filter((item) => item.toolCalls?.length);
  return Object.fromEntries(calling.map((item) => {
    const results = Object.fromEntries((item.toolResults ?? []).map((result) => [result.callId, result]));
    return [item.id, { made: item.toolCalls, earlier: item.toolCalls.length, results }];
  }));
}

function moved(state, content) {
  const { itemId, item: changed, stepOutput } = content;
  let { items, outputs, called: calls } = state;
  let index = items.findIndex((item) => item.id === itemId);
  if (index < 0) {
    // A core without plans: its list is this item, whose description is the query.
    const { updatedTimestamp: now } = changed;
    items = [{ id: itemId, description: state.query, status: 'pending', createdTimestamp: now, updatedTimestamp: now }];
    [outputs, calls, index] = [{}, {}, 0];
  }
  const { reason, ...before } = items[index];
  if (changed.status === 'in_progress') delete before.validationStatus;
  before.description ||= stepOutput?.description ?? '';
  items = items.slice();
  items[index] = withoutCalls({ ...before, ...changed });
  outputs = stepOutput ? { ...outputs, [itemId]: stepOutput } : only(outputs, (id) => id !== itemId);
  return { ...state, items, outputs, called: calls };
}

const NOTHING_CALLED = { made: [], earlier: 0, results: {} };

function called(state, content, { parentId }) {
  const next = begin(state, content.toolCalls.map((call) => call.callId));
  if (parentId == null) return next;
  const before = own(state.called, parentId) ?? NOTHING_CALLED;
  const made = [...before.made, ...content.toolCalls];
  return { ...next, called: { ...state.called, [parentId]: { ...before, made, earlier: before.made.length } } };
}

function executed(state, content, { parentId }) {
  const next = end(state, content.callId);
  if (parentId == null) return next;
  const before = own(state.called, parentId) ?? NOTHING_CALLED;
  const results = { ...before.results, [content.callId]: content };
  return { ...next, called: { ...state.called, [parentId]: { ...before, results } } };
}

function suspended(state, content, { runId, threadId, timestamp, parentId }) {
  const next = content.callId != null && !content.whileRunning ? end(state, content.callId) : state;
  const open = clean({ ...content, runId, threadId, createdAt: timestamp, status: 'pending', itemId: parentId ?? undefined });
  return { ...next, suspensions: put(state.suspensions, open, (one) => one.suspensionId === content.suspensionId) };
}

/** Replaces it, or appends it. */
function put(list, one, isIt) {
  const index = list.findIndex(isIt);
  return index < 0 ? [...list, one] : list.map((had, i) => (i === index ? one : had));
}

function resolved(state, suspensionId) {
  const open = state.suspensions.find((one) => one.suspensionId === suspensionId);
  if (!open) return state;
  const suspensions = state.suspensions.filter((one) => one !== open);
  // After the answer, its call runs or ends next.
  const next = open.callId == null ? state : begin(state, [open.callId]);
  return { ...next, suspensions };
}

/** A call at an agent is reported by its task until it ends. */
function task(state, content, { parentId }) {
  const next = content.status === 'sending' ? begin(state, [content.callId]) : end(state, content.callId);
  const isIt = (one) => one.taskId === content.taskId;
  if (TASK_OVER.has(content.status)) return { ...next, waits: state.waits.filter((one) => !isIt(one)) };
  return { ...next, waits: put(state.waits, clean({ ...content, itemId: parentId ?? undefined }), isIt) };
}

/** The state in the server's form; `threadId` and `minSeq` are the reader's. */
export function stateBody(state, { threadId, minSeq }) {
  const suspensions = state.suspensions.map((open) => asked(state, open));
  const waits = state.waits;
  const body = {
    threadId, minSeq, intent: state.intent, title: state.title, plan: state.plan, planVersion: state.planVersion,
    todoList: state.items.map((item) => complete(state, item)),
    currentStepId: state.items.find((item) => item.status === 'in_progress' || item.status === 'waiting')?.id ?? null,
    isPaused: suspensions.length > 0, stepOutputs: state.outputs, suspensions, a2aWaits: waits,
    lastSeq: state.seq, status: statusOf(state), runId: state.run,
  };
  if (suspensions.length) body.suspension = suspensions[0];
  if (waits.length) body.pendingA2ATasks = pending(waits);
  return body;
}

/** Open work makes the thread running; without a run it is failed if its last run was. */
function statusOf(state) {
  if (state.run == null) return state.failed ? 'failed' : 'idle';
  if (state.begun.size) return 'running';
  if (state.suspensions.length) return 'suspended';
  return state.waits.length ? 'waiting' : 'running';
}

/** The item with its calls, if it has none of its own. */
function complete(state, item) {
  const calls = own(state.called, item.id);
  if (!calls) return item;
  const whole = { ...item };
  if (!item.toolCalls?.length && calls.made.length) whole.toolCalls = calls.made;
  if (!item.toolResults?.length) {
    const results = resultsOf(calls, calls.made);
    if (results.length) whole.toolResults = results;
  }
  return whole;
}

const resultsOf = (calls, made) => made.map((call) => own(calls.results, call.callId)).filter((result) => result !== undefined);

/** The question with its call, and the results of its reply's other calls. */
function asked(state, open) {
  const whole = { ...open };
  if (open.callId != null && open.toolName != null) {
    whole.toolCall = { callId: open.callId, toolName: open.toolName, arguments: open.toolInput ?? null };
  }
  const calls = own(state.called, open.itemId);
  if (calls) whole.partialToolResults = resultsOf(calls, calls.made.slice(calls.earlier));
  return whole;
}

/** The item's oldest wait. */
function pending(waits) {
  const [oldest] = waits;
  const taskIds = waits.filter((wait) => wait.itemId === oldest.itemId).map((wait) => wait.taskId);
  return { taskIds, submittedAt: oldest.submittedAt, itemId: oldest.itemId ?? null };
}
