"""The client in clients/python, installed from its wheel, against servers of this program that fail as a real one may.

Ends with status 0; tests/it/our_clients/faults.rs runs it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pes_client import Pes, PesError, PesUnreachable
from websockets.asyncio.server import ServerConnection, serve as serve_sockets
from websockets.datastructures import Headers
from websockets.http11 import Request, Response


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]


# The body of a 200 and its content type; `None` closes the connection without an answer.
Answer = Callable[[Asked], Awaitable[tuple[str, str] | None]]


@asynccontextmanager
async def server(answer: Answer) -> AsyncGenerator[str]:
    """The URL of a server that answers one request on each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            lines = [line.split(": ", 1) for line in head[1:] if line]
            headers = [(name.lower(), value) for name, value in lines]
            method, target, _ = head[0].split(" ")
            body = await reader.readexactly(int(dict(headers).get("content-length", "0")))
            said = await answer(Asked(method, target, headers, body))
            if said is not None:
                content = said[0].encode()
                start = f"HTTP/1.1 200 OK\r\ncontent-type: {said[1]}\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
                writer.write(start.encode() + content)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


# The status and the problem with which a request is refused.
Refuse = Callable[[Request], tuple[int, Any] | None]
UNAVAILABLE = {"title": "Unavailable", "status": 503, "detail": "…", "code": "store_unavailable", "retryable": True}
COMPACTED = {"title": "Gone", "status": 410, "detail": "…", "code": "history_compacted", "retryable": False}
PAGE = {"items": [], "lastSeq": 9, "minSeq": 9}


@asynccontextmanager
async def sockets(connections: list[list[Any]], refuse: Refuse = lambda _: None) -> AsyncGenerator[str]:
    """The URL of a server whose nth WebSocket sends the nth frames and breaks then; the last one closes with 1000."""
    opened = 0

    def answer(_: ServerConnection, request: Request) -> Response | None:
        refused = refuse(request)
        if refused is None and "upgrade" in request.headers:
            return None
        status, content = refused or (200, PAGE)
        body = json.dumps(content).encode()
        headers = Headers({"content-type": "application/json", "content-length": str(len(body)), "retry-after": "0"})
        return Response(status, "", headers, body)

    async def speak(socket: ServerConnection) -> None:
        nonlocal opened
        opened += 1
        for frame in connections[opened - 1]:
            await socket.send(json.dumps(frame))
        if opened < len(connections):
            socket.transport.close()

    async with serve_sockets(speak, "127.0.0.1", 0, process_request=answer) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


def observation(seq: int, run: str, kind: str) -> Any:
    return {"event": "observation", "data": {"seq": seq, "runId": run, "type": kind}}


def token(run: str, offset: int, text: str) -> Any:
    data = {"runId": run, "streamId": f"stream of {run}", "tokenType": "PLANNING_LLM_RESPONSE", "offset": offset, "data": text}
    return {"event": "token", "data": data}


def run(run: str, status: str) -> Any:
    return {"event": "run", "data": {"runId": run, "status": status}}


async def the_query_of_a_path_is_sent() -> None:
    async def echo(asked: Asked) -> tuple[str, str]:
        return json.dumps(f"{asked.method} {asked.target}"), "application/json"

    async with server(echo) as url, Pes(url) as pes:
        assert await pes.request("PUT", "/limits?tenant=acme", body={}) == "PUT /limits?tenant=acme"
        assert await pes.request("GET", "/models?check=true", query={"tenant": None}) == "GET /models?check=true"
        both = await pes.request("GET", "/runs?status=failed&limit=1", query={"limit": 5})
        assert both == "GET /runs?status=failed&limit=5", both


async def a_failure_later_than_retry_for_is_repeated() -> None:
    retry_for = 0.5
    attempts = 0

    async def fails_late(_: Asked) -> tuple[str, str] | None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await asyncio.sleep(retry_for + 0.1)
            return None
        return '{"runId": "run_1", "status": "completed"}', "application/json"

    async with server(fails_late) as url, Pes(url, retry_for=retry_for) as pes:
        assert (await pes.settled("run_1"))["status"] == "completed"
    assert attempts == 2, attempts


async def tokens_come_once_whichever_other_run_ends() -> None:
    first = [observation(1, "b", "RUN_STARTED"), token("b", 0, "one two "), observation(2, "c", "RUN_FINISHED"), run("c", "cancelled")]
    second = [token("b", 0, "one two three"), observation(3, "b", "RUN_FINISHED"), run("b", "completed")]
    async with sockets([first, second]) as url, Pes(url) as pes:
        frames = [frame async for frame in pes.events("t", until="b")]
    said = [(frame["data"]["offset"], frame["data"]["data"]) for frame in frames if frame["event"] == "token"]
    assert said == [(0, "one two "), (8, "three")], said


async def whoever_waits_for_runs_keeps_no_other_request_waiting() -> None:
    most = 101
    waiting = 0
    all_wait = asyncio.Event()
    over = asyncio.Event()

    async def holds(asked: Asked) -> tuple[str, str]:
        nonlocal waiting
        if asked.method == "GET":
            waiting += 1
            if waiting == most:
                all_wait.set()
            await over.wait()
        return '{"runIds": [], "status": "completed"}', "application/json"

    async with server(holds) as url, Pes(url) as pes, asyncio.timeout(20), asyncio.TaskGroup() as group:
        for number in range(most):
            group.create_task(pes.settled(f"run_{number}"))
        await all_wait.wait()
        assert (await pes.cancel("t"))["runIds"] == []
        over.set()


async def a_refusal_of_a_websocket_that_passes_is_waited_out() -> None:
    refused = 0

    def refuse(_: Request) -> tuple[int, Any] | None:
        nonlocal refused
        refused += 1
        return None if refused > 9 else (503, UNAVAILABLE)

    end = [observation(1, "a", "RUN_FINISHED"), run("a", "completed")]
    async with sockets([end], refuse) as url, Pes(url) as pes:
        assert [frame async for frame in pes.events("t", until="a")] == end


async def a_refusal_of_every_websocket_is_told() -> None:
    async with sockets([], lambda asked: (503, UNAVAILABLE) if "upgrade" in asked.headers else None) as url, Pes(url) as pes:
        try:
            await anext(pes.events("t"))
            raise AssertionError("no WebSocket opens")
        except PesError as error:
            assert error.code == "store_unavailable", error


async def what_cannot_be_sent_is_refused_at_once() -> None:
    async with Pes("http://127.0.0.1:9", retry_for=0) as pes:
        for value, key, mistake in (({1}, None, TypeError), (1, "€", ValueError), (1, "a\n", ValueError)):
            try:
                await pes.answer("t", {"suspensionId": "sus_1"}, value, idempotency_key=key)
                raise AssertionError("it is sent")
            except mistake:
                pass
    wrong = ("127.0.0.1:7070", "localhost:7070", "", "ftp://127.0.0.1", "http:///threads", "http://:7070")
    for url in (*wrong, "http://127.0.0.1:70000", "http://127.0.0.1:x", "http://[::1", "http://127.0.0.1:7070?a=1"):
        try:
            Pes(url)
            raise AssertionError(f"{url} is no address")
        except ValueError as error:
            assert repr(url) in str(error), error
    try:
        Pes("http://127.0.0.1:9", "pes_a\nb")
        raise AssertionError("it is no key")
    except ValueError as error:
        assert "pes_a" not in str(error), error


async def a_key_is_sent_as_a_file_has_it_and_an_empty_one_is_none() -> None:
    async def echo(asked: Asked) -> tuple[str, str]:
        return json.dumps(asked.all("authorization")), "application/json"

    async with server(echo) as url:
        for key, sent in (("pes_a\n", ["Bearer pes_a"]), (" ", []), ("", []), (None, [])):
            async with Pes(url, key) as pes:
                assert await pes.request("GET", "/whoami") == sent, key


async def whoever_comes_again_behind_a_shortened_log_gets_a_gap() -> None:
    is_first = True

    def shortened(asked: Request) -> tuple[int, Any] | None:
        nonlocal is_first
        if "upgrade" not in asked.headers:
            return None if "after=latest" in asked.path else (410, COMPACTED)
        is_first, was_first = False, is_first
        return (503, UNAVAILABLE) if was_first else None

    rest = [{"event": "gap", "data": {"fromSeq": 9}}, observation(9, "a", "RUN_FINISHED"), run("a", "completed")]
    async with sockets([rest], shortened) as url, Pes(url) as pes:
        assert [frame async for frame in pes.events("t", after=3, until="a")] == rest


async def whoever_wants_some_types_and_was_too_slow_lost_none_of_them() -> None:
    slow = [observation(3, "a", "PLAN"), {"event": "gap", "data": {"fromSeq": 9}}]
    shortened = [{"event": "gap", "data": {"fromSeq": 20}}, observation(21, "a", "PLAN")]
    rest = [observation(30, "a", "RUN_FINISHED"), run("a", "completed")]
    async with sockets([slow, shortened, rest]) as url, Pes(url) as pes:
        frames = [frame async for frame in pes.events("t", types=["PLAN", "RUN_FINISHED"], until="a")]
    assert frames == [slow[0], *shortened, *rest], frames


async def whoever_wants_some_types_is_told_what_was_removed_while_they_were_read() -> None:
    first = [observation(3, "a", "PLAN"), {"event": "gap", "data": {"fromSeq": 9}}, observation(21, "a", "PLAN")]
    rest = [observation(30, "a", "RUN_FINISHED"), run("a", "completed")]
    async with sockets([first, rest]) as url, Pes(url) as pes:
        frames = [frame async for frame in pes.events("t", types=["PLAN", "RUN_FINISHED"], until="a")]
    assert frames == first + rest, frames


async def whoever_has_more_than_a_restored_log_is_told_to_begin_anew() -> None:
    again = [{"event": "gap", "data": {"fromSeq": 1}}, observation(1, "a", "RUN_STARTED")]
    rest = [observation(2, "a", "RUN_FINISHED"), run("a", "completed")]
    async with sockets([again, rest]) as url, Pes(url) as pes:
        assert [frame async for frame in pes.events("t", after=71, until="a")] == again + rest


async def text_is_passed_through_where_it_is_asked_for() -> None:
    lines = '{"a": 1}\n'

    async def exports(asked: Asked) -> tuple[str, str]:
        if asked.method == "GET":
            return lines, "application/x-ndjson"
        return json.dumps([asked.body.decode(), *asked.all("content-type")]), "application/json; charset=utf-8"

    async with server(exports) as url, Pes(url, retry_for=0) as pes:
        assert await pes.request("GET", "/threads/t/export") == lines
        for body, kind, sent in (
            (lines, "application/x-ndjson", lines),
            ("a", "application/json", '"a"'),
            ({"a": 1}, "application/merge-patch+json", '{"a": 1}'),
        ):
            said = await pes.request("POST", "/imports", body=body, headers={"content-type": kind})
            assert said == [sent, kind], said

    async def portal(_: Asked) -> tuple[str, str]:
        return "<p>Sign in</p>", "text/html"

    async with server(portal) as url, Pes(url, retry_for=0) as pes:
        try:
            await pes.process("t", "hello")
            raise AssertionError("it is no server")
        except PesUnreachable:
            pass


async def whoever_cannot_be_reached_is_told_why_without_the_key() -> None:
    async def repeat(asked: Asked) -> tuple[str, str]:
        return f"You sent {asked.all('authorization')[0]}", "text/plain"

    async def said(url: str) -> str:
        async with Pes(url, "pes_secret", retry_for=0) as pes:
            try:
                await pes.plan("t")
                raise AssertionError("it is no server")
            except PesUnreachable as error:
                assert "pes_secret" not in str(error) and "hidden" not in str(error), error
                return str(error)

    async with server(repeat) as url:
        assert "You sent Bearer …" in await said(url)
    async with await asyncio.start_server(lambda _, writer: writer.write(b"HTTP/1.1 400 Bad Request"), "127.0.0.1", 0) as plain:
        assert "WRONG_VERSION_NUMBER" in await said(f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}")
    for address in (url, url.replace("//", "//user:hidden@")):
        told = await said(address)
        assert f"GET {url}/threads/t/plan: " in told and f"Connect call failed ('127.0.0.1', {url.rpartition(':')[2]})" in told, told


async def each_header_is_sent_once_in_any_case() -> None:
    async def echo(asked: Asked) -> tuple[str, str]:
        return json.dumps([asked.all("accept"), asked.all("content-type"), asked.all("idempotency-key")]), "application/json"

    own = {"Accept": "application/xml", "Content-Type": "application/json-patch+json", "Idempotency-Key": "mine"}
    async with server(echo) as url, Pes(url) as pes:
        said = await pes.request("PATCH", "/threads/t/plan", body=[], headers=own, idempotency_key="yours")
        assert said == [["application/xml"], ["application/json-patch+json"], ["yours"]], said
        said = await pes.request("PATCH", "/threads/t/plan", body=[])
        assert said == [["application/json"], ["application/json"], []], said


STORIES = (
    the_query_of_a_path_is_sent,
    a_failure_later_than_retry_for_is_repeated,
    tokens_come_once_whichever_other_run_ends,
    whoever_waits_for_runs_keeps_no_other_request_waiting,
    a_refusal_of_a_websocket_that_passes_is_waited_out,
    a_refusal_of_every_websocket_is_told,
    what_cannot_be_sent_is_refused_at_once,
    a_key_is_sent_as_a_file_has_it_and_an_empty_one_is_none,
    whoever_comes_again_behind_a_shortened_log_gets_a_gap,
    whoever_wants_some_types_and_was_too_slow_lost_none_of_them,
    whoever_wants_some_types_is_told_what_was_removed_while_they_were_read,
    whoever_has_more_than_a_restored_log_is_told_to_begin_anew,
    text_is_passed_through_where_it_is_asked_for,
    whoever_cannot_be_reached_is_told_why_without_the_key,
    each_header_is_sent_once_in_any_case,
)


async def main() -> None:
    for story in STORIES:
        await story()
        print(story.__name__)


asyncio.run(main())
