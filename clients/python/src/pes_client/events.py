"""A thread's events over a WebSocket: what happened, then what happens, each observation exactly once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal, cast
from urllib.parse import quote, urlencode

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from .errors import PesUnreachable
from .http import Failed, Http, backoff, shown
from .types import EventsPage, GapFrame, LiveFrame, ObservationType, Token

# Connections in a row that bring nothing, after which nothing is expected any more.
MOST_FAILURES = 8
OVER = ("completed", "failed", "cancelled")


async def events(
    http: Http,
    thread: str,
    after: int | Literal["latest"],
    types: list[ObservationType] | None,
    tokens: bool,
    until: str | None,
) -> AsyncGenerator[LiveFrame, None]:
    """Frames of a thread.

    A connection that breaks is opened again behind the last observation that was yielded, so none is missed and none comes
    twice; of tokens that come again only the new part is yielded. A `gap` is yielded only where observations are gone for
    good; if its `fromSeq` was yielded before, the log went back to an earlier state and comes again from there. Ends with
    the run of `until`, and with the thread; a refusal is a `PesError`.
    """
    path = f"/threads/{quote(thread, safe='')}/events"
    if after == "latest":
        page: EventsPage = await http.request("GET", path, query={"after": "latest", "limit": 1})
        after = page["lastSeq"]
    heard = Heard(after, is_whole=not types)
    failures = 0
    error: Exception | None = None
    while failures < MOST_FAILURES:
        wanted = {"after": heard.last, "types": ",".join(types or []), "tokens": str(tokens).lower(), "until": until}
        query = urlencode({name: value for name, value in wanted.items() if value not in (None, "")})
        error, pause, is_cut = None, None, False
        heard.connects()
        try:
            async with aclosing(connection(http, f"{path}?{query}")) as frames:
                async for frame in frames:
                    if frame["event"] == "draining":
                        pause = frame["data"]["retryInMs"] / 1000
                    if heard.is_broken(frame):
                        break
                    for fresh in heard.take(frame):
                        failures = 0
                        yield fresh
                        if fresh["event"] == "run" and fresh["data"]["runId"] == until and fresh["data"]["status"] in OVER:
                            return
                else:
                    return
        except Failed as failed:
            if not failed.may_repeat:
                raise failed.error from failed.error.__cause__
            error, pause, is_cut = failed.error, failed.after, True
        except (ConnectionClosed, InvalidHandshake, EOFError, OSError, TimeoutError):
            is_cut = True
        await asyncio.sleep(backoff(failures) if pause is None else pause)
        if is_cut:
            # Waits while nobody answers or the server says to come back, and tells what is refused. Without a place in the
            # log, as a page from a place that is gone is refused, while the stream goes on behind a `gap`.
            await http.request("GET", path, query={"after": "latest", "limit": 1})
        failures += 1
    raise error or PesUnreachable(f"{shown(http.base + path)}: the server answers, but no WebSocket holds. Does a proxy pass it on?")


async def connection(http: Http, path: str) -> AsyncGenerator[LiveFrame, None]:
    """What arrives on one connection. Ends where the server says that this is the end; raises where it breaks.

    The library asks every 20 seconds whether the other side lives, and reads no faster than this is read.
    """
    uri = http.base.replace("http", "ws", 1) + path
    headers = {name: value for name, value in http.headers.items() if name == "authorization"}
    try:
        async with connect(uri, additional_headers=headers, max_size=None) as socket:
            # Ends with 1000 and 1001; the latter says that the server goes away.
            async for text in socket:
                yield cast(LiveFrame, json.loads(text))
            if socket.close_code != 1000:
                raise EOFError
    except InvalidStatus as refused:
        said = refused.response
        http.read(said.status_code, said.headers.get("retry-after"), bytes(said.body or b""))
        raise


class Heard:
    """What was yielded so far."""

    def __init__(self, last: int, is_whole: bool) -> None:
        self.last = last
        self.is_whole = is_whole
        # Bytes of each stream of tokens, by run.
        self.said: dict[str, dict[tuple[str, str], int]] = {}
        # The next frame is the first one of its connection.
        self.is_first = True
        # A gap that may say only that this reader was too slow.
        self.held: GapFrame | None = None

    def is_broken(self, frame: LiveFrame) -> bool:
        """Whether an observation is missing before this one that nobody said is gone."""
        return self.is_whole and frame["event"] == "observation" and frame["data"]["seq"] > self.last + 1

    def connects(self) -> None:
        """A connection is opened, behind `last`.

        A gap that ended the one before is forgotten: where observations are gone, it comes again.
        """
        self.is_first, self.held = True, None

    def take(self, frame: LiveFrame) -> list[LiveFrame]:
        """The frame as far as it is new, behind the gap that was held back."""
        held, is_first = self.held, self.is_first
        self.held, self.is_first = None, False
        if held is not None:
            self.last = held["data"]["fromSeq"] - 1
        return [fresh for fresh in (held, self.fresh(frame, is_first)) if fresh is not None]

    def fresh(self, frame: LiveFrame, is_first: bool) -> LiveFrame | None:
        if frame["event"] == "observation":
            if frame["data"]["seq"] <= self.last:
                return None
            self.last = frame["data"]["seq"]
            if frame["data"]["type"] == "RUN_FINISHED":
                self.said.pop(frame["data"]["runId"], None)
        elif frame["event"] == "run":
            if frame["data"]["status"] in OVER:
                self.said.pop(frame["data"]["runId"], None)
        elif frame["event"] == "caught_up":
            self.last = max(self.last, frame["data"]["seq"])
        elif frame["event"] == "gap":
            from_seq = frame["data"]["fromSeq"]
            if from_seq == self.last + 1:
                return None
            # Later in a connection, what lies between may be there, but of types that are not wanted. Then this reader was too
            # slow, and nothing follows; what was removed while it was read is followed by the rest.
            if not self.is_whole and not is_first and from_seq > self.last:
                self.held = frame
                return None
            self.last = from_seq - 1
        elif frame["event"] == "token":
            rest = self.rest(frame["data"])
            return None if rest is None else {"event": "token", "data": rest}
        elif frame["event"] == "draining":
            return None
        return frame

    def rest(self, token: Token) -> Token | None:
        said = self.said.setdefault(token["runId"], {})
        stream = (token["streamId"], token["tokenType"])
        known = said.get(stream, 0)
        data = token["data"].encode()
        end = token["offset"] + len(data)
        if end <= known:
            return None
        said[stream] = end
        if token["offset"] >= known:
            return token
        return {**token, "offset": known, "data": data[known - token["offset"] :].decode()}
