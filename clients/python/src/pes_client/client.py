"""The client: one method for each thing that one asks of a thread."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any, Literal, NotRequired, Self, TypedDict
from urllib.parse import quote

from .events import events
from .http import TIMEOUT, Http
from .types import (
    AgentProps,
    CallOptions,
    CancelReceipt,
    ConversationMessage,
    HistoryMessage,
    ListedSuspension,
    LiveFrame,
    ObservationType,
    OnBusy,
    PESAgentStateData,
    Receipt,
    ResumeRequest,
    RunResource,
    TodoItem,
)

# Seconds that one request waits for a run; then the next one does.
WAIT = 50
SETTLED = ("completed", "failed", "cancelled", "suspended")


class Question(TypedDict):
    """What a decision is about: a question as an observation, a receipt or a list shows it.

    The digest binds the answer to it.
    """

    suspensionId: str
    digest: NotRequired[str]


class Pes:
    """`async with Pes(url, key) as pes`. `retry_for`: how many seconds after its first failure a request is repeated.

    A `ValueError`: `url` is no address of a server, or `key` cannot be a key.
    """

    def __init__(self, url: str, key: str | None = None, *, retry_for: float = 30.0) -> None:
        self._http = Http(url, key, retry_for)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.client.aclose()

    async def process(
        self,
        thread: str,
        query: str,
        *,
        after: str | None = None,
        history: list[HistoryMessage] | None = None,
        on_busy: OnBusy | None = None,
        options: CallOptions | None = None,
        session_id: str | None = None,
        trace_id: str | None = None,
        user_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Asks. Returns when the request is durable: from then on the run goes on, whatever happens to this client.

        `after` names a message to which the thread goes back first, or `start`; `history` is a conversation from
        elsewhere with which a new thread begins.
        """
        ask: AgentProps = {"query": query}
        if after is not None:
            ask["after"] = after
        if history is not None:
            ask["history"] = history
        if on_busy is not None:
            ask["onBusy"] = on_busy
        if options is not None:
            ask["options"] = options
        if session_id is not None:
            ask["sessionId"] = session_id
        if trace_id is not None:
            ask["traceId"] = trace_id
        if user_id is not None:
            ask["userId"] = user_id
        receipt: Receipt = await self._post(f"{at(thread)}/process", ask, idempotency_key)
        return receipt

    def events(
        self,
        thread: str,
        *,
        after: int | Literal["latest"] = 0,
        types: list[ObservationType] | None = None,
        tokens: bool = True,
        until: str | None = None,
    ) -> AsyncGenerator[LiveFrame, None]:
        """What happens on a thread, each observation exactly once, across broken connections and restarts of the server.

        `until` names the run with which it ends.
        """
        return events(self._http, thread, after, types, tokens, until)

    async def run(self, run_id: str) -> RunResource:
        run: RunResource = await self._http.request("GET", f"/runs/{quote(run_id, safe='')}")
        return run

    async def settled(self, run_id: str) -> RunResource:
        """The run, when it is over or waits for a person."""
        path = f"/runs/{quote(run_id, safe='')}"
        while True:
            run: RunResource = await self._http.request("GET", path, query={"wait": WAIT}, timeout=WAIT + 20)
            if run["status"] in SETTLED:
                return run

    async def approve(
        self,
        thread: str,
        question: Question,
        *,
        modified_args: dict[str, Any] | None = None,
        reason: str | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Says yes, or yes to other arguments."""
        said: ResumeRequest = {**named(question), "approved": True}
        if modified_args is not None:
            said["modifiedArgs"] = modified_args
        if reason is not None:
            said["reason"] = reason
        return await self.resume(thread, said, idempotency_key=idempotency_key)

    async def reject(
        self, thread: str, question: Question, reason: str | None = None, *, idempotency_key: str | None = None
    ) -> Receipt:
        """Says no; the model is told the reason."""
        said: ResumeRequest = {**named(question), "approved": False}
        if reason is not None:
            said["reason"] = reason
        return await self.resume(thread, said, idempotency_key=idempotency_key)

    async def answer(
        self, thread: str, question: Question, value: Any, *, idempotency_key: str | None = None
    ) -> Receipt:
        """Answers a question that wants a value, or gives the result of a tool that this client carries out."""
        return await self.resume(thread, {**named(question), "value": value}, idempotency_key=idempotency_key)

    async def resume(self, thread: str, answer: ResumeRequest, *, idempotency_key: str | None = None) -> Receipt:
        """Any answer, as the API takes it."""
        receipt: Receipt = await self._post(f"{at(thread)}/resume", answer, idempotency_key)
        return receipt

    async def cancel(self, thread: str, *, idempotency_key: str | None = None) -> CancelReceipt:
        """Ends the active run and those that wait behind it."""
        receipt: CancelReceipt = await self._post(f"{at(thread)}/cancel", None, idempotency_key)
        return receipt

    async def plan(self, thread: str) -> list[TodoItem]:
        plan: list[TodoItem] = await self._http.request("GET", f"{at(thread)}/plan")
        return plan

    async def state(self, thread: str) -> PESAgentStateData:
        state: PESAgentStateData = await self._http.request("GET", f"{at(thread)}/state")
        return state

    def messages(self, thread: str) -> AsyncGenerator[ConversationMessage, None]:
        """The conversation from its beginning, read page by page."""
        return self._pages(f"{at(thread)}/messages", {})

    def questions(self, thread: str | None = None) -> AsyncGenerator[ListedSuspension, None]:
        """Open questions, of one thread or of all."""
        return self._pages("/suspensions", {"threadId": thread})

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
    ) -> Any:
        """Anything else of the API that is answered at once; an answer that is not JSON, such as an export, is returned as text.

        A `body` of text is sent as it is if `headers` name its content type, which is not JSON. Only what has an
        `idempotency_key`, or is a GET, is repeated when an answer is lost.
        """
        return await self._http.request(
            method,
            path,
            body=body,
            query=query,
            headers=headers,
            idempotency_key=idempotency_key,
            timeout=timeout,
            may_be_text=True,
        )

    async def _post(self, path: str, body: object, idempotency_key: str | None) -> Any:
        return await self._http.request("POST", path, body=body, idempotency_key=idempotency_key or uuid.uuid4().hex)

    async def _pages(self, path: str, query: dict[str, Any]) -> AsyncGenerator[Any, None]:
        cursor = None
        while True:
            page = await self._http.request("GET", path, query={**query, "cursor": cursor, "limit": 200})
            for item in page["items"]:
                yield item
            cursor = page.get("nextCursor")
            if cursor is None:
                return


def at(thread: str) -> str:
    return f"/threads/{quote(thread, safe='')}"


def named(question: Question) -> ResumeRequest:
    said: ResumeRequest = {"suspensionId": question["suspensionId"]}
    if "digest" in question:
        said["digest"] = question["digest"]
    return said
