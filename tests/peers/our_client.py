"""The client in clients/python, installed from its wheel, against a server whose wire breaks and whose process is killed.

The server plays tests/it/support/script.toml. Ends with `done`; what it orders is in tests/it/our_clients/stories.rs.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from pes_client import Pes, PesError, PesUnreachable
from pes_client.types import AgentSuspendedObservation, HistoryMessage, LiveFrame, Observation

Decide = Callable[[AgentSuspendedObservation], Awaitable[Any]]
Look = Callable[[LiveFrame], Awaitable[Any]]


async def order(what: str) -> str:
    """Has something done to the wire or the server."""
    print(what, flush=True)
    answer: str = await asyncio.to_thread(sys.stdin.readline)
    return answer.strip()


async def fails(code: str, call: Awaitable[Any]) -> None:
    try:
        await call
    except PesError as error:
        assert error.code == code, error
        return
    raise AssertionError(f"no {code}")


async def follow(pes: Pes, thread: str, until: str, decide: Decide | None = None, look: Look | None = None) -> list[Observation]:
    """Everything up to the end of a run; each question is put to `decide`."""
    seen: list[Observation] = []
    said: dict[tuple[str, str], int] = {}
    async for frame in pes.events(thread, until=until):
        if frame["event"] == "token":
            token = frame["data"]
            stream = (token["streamId"], token["tokenType"])
            assert token["offset"] == said.get(stream, 0), "no token comes twice"
            said[stream] = token["offset"] + len(token["data"].encode())
        if look is not None:
            await look(frame)
        if frame["event"] == "observation":
            seen.append(frame["data"])
            if frame["data"]["type"] == "AGENT_SUSPENDED":
                assert decide is not None, frame
                await decide(frame["data"])
    return seen


async def is_whole(pes: Pes, thread: str, seen: list[Observation]) -> None:
    """Every observation of the log came, once and in its order."""
    page = await pes.request("GET", f"/threads/{thread}/events", query={"limit": 1000})
    assert seen == page["items"], thread
    assert [it["seq"] for it in seen] == list(range(1, len(seen) + 1)), thread


def outcomes(seen: list[Observation]) -> list[str]:
    """What each call of a tool came to: its status, or the code of its error."""
    ended = [it["content"] for it in seen if it["type"] == "TOOL_EXECUTION"]
    return [it["error"]["code"] if "error" in it else it["status"] for it in ended]


async def collected(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def turns(pes: Pes) -> None:
    for query, text in [("count", "Two and two are four."), ("hello", "Hello again.")]:
        receipt = await pes.process("turns", query)
        run = await pes.settled(receipt["runId"])
        assert run["result"]["response"]["content"] == text, run
    assert [it["role"] for it in await collected(pes.messages("turns"))] == ["USER", "AI", "USER", "AI"]


async def elsewhere(pes: Pes) -> None:
    earlier: list[HistoryMessage] = [{"role": "user", "content": "We are 14."}, {"role": "assistant", "content": "Noted."}]
    receipt = await pes.process(
        "elsewhere", "hello", history=earlier, user_id="u1", session_id="s1", trace_id="mine"
    )
    run = await pes.settled(receipt["runId"])
    assert (run["userId"], run["clientTraceId"]) == ("u1", "mine"), run
    said = await collected(pes.messages("elsewhere"))
    assert [it["content"] for it in said][:3] == ["We are 14.", "Noted.", "hello"], said
    receipt = await pes.process("elsewhere", "count", after=said[1]["messageId"])
    await pes.settled(receipt["runId"])
    again = await collected(pes.messages("elsewhere"))
    assert [it["content"] for it in again][1:] == ["Noted.", "count", "Two and two are four."], again


async def decisions(pes: Pes) -> None:
    other = {"to": "b@example.com", "subject": "S", "body": "B"}
    cases: list[tuple[str, str, Decide, str]] = [
        ("approve", "send", lambda it: pes.approve("approve", it["content"]), "success"),
        ("change", "send", lambda it: pes.approve("change", it["content"], modified_args=other, reason="this one"), "success"),
        ("reject", "send", lambda it: pes.reject("reject", it["content"], "not today"), "rejected"),
        ("answer", "ask", lambda it: pes.answer("answer", it["content"], "blue"), "success"),
    ]
    for thread, query, decide, outcome in cases:
        receipt = await pes.process(thread, query)
        seen = await follow(pes, thread, receipt["runId"], decide)
        assert outcomes(seen) == [outcome], (thread, seen)
        assert (await pes.run(receipt["runId"]))["status"] == "completed"
        await is_whole(pes, thread, seen)
    assert [item["status"] for item in await pes.plan("approve")] == ["completed"]
    assert not (await pes.state("approve"))["isPaused"]


async def refusals(pes: Pes) -> None:
    receipt = await pes.process("refusals", "send")
    await pes.settled(receipt["runId"])
    [question] = await collected(pes.questions("refusals"))
    wrong = pes.approve("refusals", {"suspensionId": question["suspensionId"], "digest": "0" * 64})
    await fails("approval_mismatch", wrong)
    await pes.reject("refusals", question)
    await fails("already_resolved", pes.approve("refusals", question))
    await fails("not_found", collected(pes.events("nowhere")))
    await fails("not_found", collected(pes.events("refusals", until="run_nowhere")))
    await fails("invalid", collected(pes.events("refusals", types=["NOTHING"])))  # type: ignore[list-item]
    await fails("invalid", collected(pes.events("refusals", after=-1)))
    await fails("invalid", pes.process("refusals", "hello", on_busy="later"))  # type: ignore[arg-type]


async def cancelled(pes: Pes) -> None:
    receipt = await pes.process("cancel", "hang")
    async with aclosing(pes.events("cancel")) as frames:
        async for frame in frames:
            if frame["event"] == "token":
                break
    async with aclosing(pes.events("cancel", after="latest", tokens=False)) as frames:
        assert (await anext(frames))["event"] == "caught_up"
        reading = asyncio.create_task(anext(frames))
        reading.cancel()
        assert isinstance((await asyncio.gather(reading, return_exceptions=True))[0], asyncio.CancelledError)
    assert (await pes.cancel("cancel"))["runIds"] == [receipt["runId"]]
    assert (await pes.settled(receipt["runId"]))["status"] == "cancelled"


async def broken(pes: Pes) -> None:
    await order("break 60")
    receipt = await pes.process("broken", "two mails")
    seen = await follow(pes, "broken", receipt["runId"], lambda it: pes.approve("broken", it["content"]))
    times = int(await order("break 0"))
    assert times > 6, f"it broke {times} times"
    await is_whole(pes, "broken", seen)
    assert outcomes(seen) == ["success", "success"], seen
    assert [it["type"] for it in seen].count("RUN_STARTED") == 1, "it was asked once"


async def breath(pes: Pes) -> None:
    receipt = await pes.process("breath", "hang")
    waits = await pes.process("breath", "hello", on_busy="enqueue")
    said = ""
    is_broken = False

    async def look(frame: LiveFrame) -> None:
        nonlocal said, is_broken
        if frame["event"] == "caught_up" and is_broken:
            await pes.cancel("breath")
        if frame["event"] == "token":
            said += frame["data"]["data"]
            if said == "one two three":
                await pes.request("POST", f"/runs/{waits['runId']}/cancel", idempotency_key="breath")
        if frame["event"] == "observation" and frame["data"]["type"] == "RUN_FINISHED" and not is_broken:
            assert frame["data"]["runId"] == waits["runId"], "it ends while the other one speaks"
            is_broken = True
            await order("break 0")

    seen = await follow(pes, "breath", receipt["runId"], look=look)
    assert said == "one two three", said
    await is_whole(pes, "breath", seen)


KEYS: list[str | None] = []


class Stopping(BaseHTTPRequestHandler):
    """Says to come back, but to the second who asks."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        KEYS.append(self.headers["idempotency-key"])
        problem = {"title": "Stopping", "status": 503, "detail": "…", "code": "draining", "retryable": True}
        is_second = len(KEYS) == 2
        body = json.dumps({"runId": "run_1"} if is_second else problem).encode()
        self.send_response(202 if is_second else 503)
        self.send_header("retry-after", "1")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


async def later(_: Pes) -> None:
    server = HTTPServer(("127.0.0.1", 0), Stopping)
    Thread(target=server.serve_forever, daemon=True).start()
    there = f"http://127.0.0.1:{server.server_port}"
    begun = time.monotonic()
    async with Pes(there) as patient:
        assert (await patient.process("later", "hello"))["runId"] == "run_1"
    assert time.monotonic() - begun >= 0.99, "not before the server said"
    assert KEYS[0] and KEYS[0] == KEYS[1], "under the same key"
    async with Pes(there, retry_for=0) as hasty:
        await fails("draining", hasty.process("later", "hello"))
        server.shutdown()
        server.server_close()
        try:
            await hasty.process("later", "hello")
            raise AssertionError("nobody is there")
        except PesUnreachable:
            pass


async def killed(pes: Pes) -> None:
    async def decide(question: AgentSuspendedObservation) -> None:
        await order("kill")
        await pes.approve("killed", question["content"])

    receipt = await pes.process("killed", "send")
    seen = await follow(pes, "killed", receipt["runId"], decide)
    await is_whole(pes, "killed", seen)
    assert outcomes(seen) == ["success"], seen


async def speaking(pes: Pes) -> None:
    receipt = await pes.process("speaking", "hang")
    said: dict[str, str] = {}

    async def look(frame: LiveFrame) -> None:
        if frame["event"] != "token":
            return
        stream = frame["data"]["streamId"]
        said[stream] = said.get(stream, "") + frame["data"]["data"]
        if said[stream] == "one two three":
            await (order("kill") if len(said) == 1 else pes.cancel("speaking"))

    seen = await follow(pes, "speaking", receipt["runId"], look=look)
    assert list(said.values()) == ["one two three"] * 2, said
    await is_whole(pes, "speaking", seen)
    assert any(it["type"] == "LLM_STREAM_ERROR" and it["content"]["code"] == "interrupted" for it in seen), seen


async def main() -> None:
    async with Pes(sys.argv[1]) as pes:
        for story in (turns, elsewhere, decisions, refusals, cancelled, broken, breath, later, killed, speaking):
            await story(pes)
    print("done")


asyncio.run(main())
