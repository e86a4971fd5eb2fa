// A generated log of any size: a plan of many items, each with some calls. The page gets it in place of the server's log, which a
// debug build sends slowly.

const BEGIN = 1_795_000_000_000;

/** About 20 observations for each item. */
export function largeLog(items, calls = 3) {
  const log = [];
  const runId = 'run_large';
  const threadId = 'large';
  let time = BEGIN;
  const tell = (type, content, parentId) => {
    time += 7;
    const seq = log.length + 1;
    log.push({ seq, id: `obs_${seq}`, threadId, runId, ...(parentId ? { parentId } : {}), traceId: 't', timestamp: time, type, title: type, content });
  };
  const plan = Array.from({ length: items }, (_, i) => ({
    id: `i${i}`, description: `Step ${i} of the large plan`, status: 'pending', stepType: 'tool', requiredTools: ['calculator'],
    dependencies: i < 10 ? [] : [`i${i - 10}`, ...(i % 3 ? [] : [`i${i - 7}`])], createdTimestamp: BEGIN, updatedTimestamp: BEGIN,
  }));
  const added = plan.map((item) => ({ type: 'added', itemId: item.id, timestamp: BEGIN, item }));
  const stream = (id, parent, iteration) => {
    tell('LLM_STREAM_START', { streamId: id, phase: parent ? 'execution' : 'planning', provider: 'demo', model: 'demo', attempt: 1, iteration }, parent);
    tell('LLM_STREAM_METADATA', {
      streamId: id, provider: 'demo', model: 'demo', inputTokens: 400, outputTokens: 20, thinkingTokens: 0, cachedInputTokens: 0, timeToFirstTokenMs: 1, totalGenerationTimeMs: 7, stopReason: 'end_turn',
    }, parent);
    tell('LLM_STREAM_END', { streamId: id, text: 'Once more.' }, parent);
  };
  const message = { messageId: 'm1', threadId, role: 'USER', content: 'Large.', timestamp: BEGIN, runId };
  tell('RUN_STARTED', { query: 'Large.', message, provider: 'demo', model: 'demo' });
  stream('plan', null, null);
  tell('TITLE', { title: 'Large' });
  tell('PLAN', { plan: 'Many.', planVersion: 1, todoList: plan, rawOutput: '' });
  tell('PLAN_UPDATE', { planVersion: 1, source: 'planner', todoList: plan, changes: { timestamp: BEGIN, changes: added, added, modified: [], removed: [] } });
  for (const { id } of plan) {
    const move = (from, status, more) => tell('ITEM_STATUS_CHANGE', { itemId: id, from, status, attempt: 1, item: { status, updatedTimestamp: time, runId }, ...more }, id);
    move('pending', 'in_progress');
    for (let i = 0; i < calls; i++) {
      stream(`${id}.${i}`, id, i + 1);
      tell('TOOL_CALL', { streamId: `${id}.${i}`, iteration: i + 1, toolCalls: [{ callId: `${id}.c${i}`, toolName: 'calculator', arguments: { expression: '1 + 1' } }] }, id);
      tell('TOOL_EXECUTION', { callId: `${id}.c${i}`, toolName: 'calculator', status: 'success', output: { result: 2 }, durationMs: 3 }, id);
    }
    stream(`${id}.end`, id, calls + 1);
    move('in_progress', 'completed', { stepOutput: { stepId: id, description: '', stepType: 'tool', status: 'completed', rawResult: 'Done.' } });
  }
  return log;
}

/** Lets a page see this log as the thread `large`: before it is opened. `window.tell(event, data)` tells more, `window.cut(code)` ends the socket. */
export async function tellLarge(page, log) {
  await page.route(/\/threads\/large$/, (route) => route.fulfill({ json: { threadId: 'large', status: 'running', title: 'Large', lastSeq: log.length, config: {}, metadata: {} } }));
  await page.route(/\/runs\?threadId=large/, (route) => route.fulfill({ json: { items: [] } }));
  await page.evaluate((all) => {
    const Socket = window.WebSocket;
    window.WebSocket = class {
      constructor(url, protocols) {
        if (!url.includes('/threads/large/')) return new Socket(url, protocols);
        const after = Number(new URL(url).searchParams.get('after'));
        const frames = [...all.slice(after).map((data) => ({ event: 'observation', data })), { event: 'caught_up', data: { seq: all.length } }];
        const texts = frames.map((frame) => JSON.stringify(frame));
        window.sockets = (window.sockets ?? 0) + 1;
        window.cut = (code) => this.onclose({ code });
        window.tell = (event, data) => this.onmessage({ data: JSON.stringify({ event, data }) });
        // Fifty per turn of the event loop, about as many as a fast connection delivers.
        const bring = () => {
          for (const data of texts.splice(0, 50)) this.onmessage({ data });
          if (texts.length) setTimeout(bring);
        };
        setTimeout(() => {
          this.onopen();
          bring();
        });
      }

      send() {
        window.tell('pong', { id: 0 });
      }

      close() {}
    };
  }, log);
}
