"""Requests: repeated where that does nothing twice, and refused with a typed error."""

import asyncio
import json
import random
import re
import time
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from .errors import PesError, PesUnreachable
from .types import Problem

TIMEOUT = 30.0
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 5.0
PASSING = (408, 429, 502, 503, 504)
# What the value of a header may be.
SENDABLE = re.compile(r"([!-~]([ -~]*[!-~])?)?")


def backoff(attempt: int) -> float:
    """The pause before another attempt: it doubles, and differs between clients."""
    return min(FIRST_PAUSE * 2.0 ** min(attempt, 10), LONGEST_PAUSE) * random.uniform(0.5, 1.0)


class Failed(Exception):
    """One attempt that brought no answer: why, and whether and when another may."""

    def __init__(self, error: Exception, may_repeat: bool, after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.may_repeat = may_repeat
        self.after = after


class Http:
    def __init__(self, url: str, key: str | None, retry_for: float) -> None:
        self.base = address(url)
        self.headers = {"accept": "application/json"}
        self.key = sendable(key)
        if self.key is not None:
            self.headers["authorization"] = f"Bearer {self.key}"
        self.retry_for = retry_for
        # No limit: requests that wait for a run would keep all others waiting.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self.client = httpx.AsyncClient(headers=self.headers, limits=limits)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        idempotency_key: str | None = None,
        timeout: float = TIMEOUT,
        may_be_text: bool = False,
    ) -> Any:
        """`may_be_text`: an answer of a content type that is not JSON is returned as text; else it is none of this server."""
        # Names of any case: a second `content-type` beside the caller's own would be refused.
        sent = {name.lower(): value for name, value in (headers or {}).items()}
        if idempotency_key is not None:
            sent["idempotency-key"] = idempotency_key
        for name, value in sent.items():
            if not SENDABLE.fullmatch(value):
                raise ValueError(f"the header {name} has characters that cannot be sent")
        content = None
        if isinstance(body, str) and is_other_than_json(sent.get("content-type")):
            content = body.encode()
        elif body is not None:
            content = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        url = httpx.URL(self.base + path)
        params = {name: value for name, value in (query or {}).items() if value is not None}
        if params:
            # Given as `params` of the request they would replace the query of `path`.
            url = url.copy_merge_params(params)
        is_repeatable = method == "GET" or idempotency_key is not None
        until: float | None = None
        attempt = 0
        while True:
            try:
                return await self._attempt(method, url, may_be_text, content=content, headers=sent, timeout=timeout)
            except Failed as failed:
                now = time.monotonic()
                # An attempt may take longer than `retry_for`, and is repeated nevertheless.
                until = now + self.retry_for if until is None else until
                pause = backoff(attempt) if failed.after is None else failed.after
                if not is_repeatable or not failed.may_repeat or now + pause >= until:
                    raise failed.error from failed.error.__cause__
            await asyncio.sleep(pause)
            attempt += 1

    async def _attempt(self, method: str, url: httpx.URL, may_be_text: bool, **sent: Any) -> Any:
        try:
            response = await self.client.request(method, url, **sent)
        except httpx.TransportError as cause:
            error = PesUnreachable(f"{method} {shown(url)}: {self.without_key(reason(cause))}")
            error.__cause__ = cause
            raise Failed(error, may_repeat=True) from cause
        if may_be_text and response.is_success and is_other_than_json(response.headers.get("content-type")):
            return response.text
        return self.read(response.status_code, response.headers.get("retry-after"), response.content)

    def read(self, status: int, retry_after: str | None, content: bytes) -> Any:
        """What an answer holds. Raises `Failed` where it is a refusal, or none of this server."""
        after = float(retry_after) if retry_after is not None and retry_after.isdigit() else None
        try:
            said = json.loads(content) if content else None
            is_json = True
        except ValueError:
            said, is_json = None, False
        if is_json and 200 <= status < 300:
            return said
        if isinstance(said, dict) and {"code", "title", "detail", "retryable"} <= said.keys():
            problem = cast(Problem, said)
            is_passing = status in PASSING or problem["code"] == "request_in_progress"
            raise Failed(PesError(problem), problem["retryable"] and is_passing, after)
        text = self.without_key(content.decode(errors="replace"))[:200]
        error = PesUnreachable(f"the answer {status} is none of a PES server: {text!r}")
        raise Failed(error, status in (502, 503, 504), after)

    def without_key(self, said: str) -> str:
        """What another program says, which may repeat the headers that it was sent."""
        return said if self.key is None else said.replace(self.key, "…")


def address(url: str) -> str:
    """The server's address, to which paths are added."""
    mistake = ValueError(f"the address of a server is http://HOST:PORT or https://HOST, not {url!r}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise mistake from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or parts.query or parts.fragment:
        raise mistake
    return parts.geturl().rstrip("/")


def shown(url: httpx.URL | str) -> str:
    """The address as a message may show it: without a user and a password."""
    return str(httpx.URL(url).copy_with(userinfo=b""))


def reason(error: Exception) -> str:
    """Why a request brought no answer: what the library says, then what lies behind it.

    As "All connection attempts failed: [Errno 111] Connect call failed ('127.0.0.1', 7070)".
    """
    said = [str(error) or type(error).__name__]
    cause = error.__cause__ or error.__context__
    # What is no `Exception` is how a timeout stopped its task.
    while isinstance(cause, Exception):
        # One for each address of the host, where it has several.
        for inner in cause.exceptions if isinstance(cause, ExceptionGroup) else (cause,):
            if str(inner) and str(inner) not in said:
                said.append(str(inner))
        cause = cause.__cause__ or cause.__context__
    return ": ".join(said)


def sendable(key: str | None) -> str | None:
    """The key without white space around it, as files have it; an empty one is none."""
    key = (key or "").strip() or None
    if key is not None and not SENDABLE.fullmatch(key):
        raise ValueError("the key has characters that no key has")
    return key


def is_other_than_json(content_type: str | None) -> bool:
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    return kind != "application/json" and not kind.endswith("+json")
