"""The client in clients/python, installed from its wheel, against servers of this program that fail as a real one may.

Ends with status 0; tests/it/our_clients/faults.rs runs it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pes_client import Pes


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


STORIES = (
    the_query_of_a_path_is_sent,
    a_failure_later_than_retry_for_is_repeated,
)


async def main() -> None:
    for story in STORIES:
        await story()
        print(story.__name__)


asyncio.run(main())
