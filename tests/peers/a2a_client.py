"""The protocol's own client library (a2a-sdk, PyPI) against a server: a2a_client.py URL

Every binding and version that the card offers, streaming and not, with pushes to a listener of ours. The server plays
examples/a2a-scenarios.toml. Prints what fails, and ends with the number of checks.
"""

import asyncio
import json
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)

checks, failures = 0, []


def check(where, what, holds, seen=None):
    global checks
    checks += 1
    if not holds:
        failures.append(f"{where}: {what}: {seen!r}")


class Listener(BaseHTTPRequestHandler):
    posts = []
    came = threading.Condition()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.came:
            self.posts.append((self.headers.get("x-a2a-notification-token"), body))
            self.came.notify_all()
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def message(prefix, text="Hello", **more):
    return Message(message_id=f"{prefix}-{uuid.uuid4().hex[:8]}", role=Role.ROLE_USER, parts=[Part(text=text)], **more)


def request(prefix, **more):
    return SendMessageRequest(message=message(prefix, **more))


async def ended(client, asked):
    """The last task of what `send_message` yields, and everything that it yielded."""
    seen, task = [], None
    async for event in client.send_message(asked):
        seen.append(event)
        if event.HasField("task"):
            task = event.task
        elif event.HasField("status_update"):
            task.status.CopyFrom(event.status_update.status)
    return task, seen


async def one(card, interface, streaming, listener):
    where = f"{interface.protocol_binding} {interface.protocol_version}{' streaming' if streaming else ''}"
    only = AgentCard()
    only.CopyFrom(card)
    del only.supported_interfaces[:]
    only.supported_interfaces.append(interface)
    config = ClientConfig(streaming=streaming, supported_protocol_bindings=[interface.protocol_binding])
    async with ClientFactory(config).create(only) as client:
        is_new = interface.protocol_version == "1.0"

        task, seen = await ended(client, request("tck-complete-task"))
        check(where, "completes", task.status.state == TaskState.TASK_STATE_COMPLETED, task)
        if streaming:
            check(where, "a task comes first", seen[0].HasField("task"), seen[0])
            pieces = [e.artifact_update for e in seen if e.HasField("artifact_update")]
            said = ""
            for piece in pieces:
                said = (said if piece.append else "") + piece.artifact.parts[0].text
            check(where, "the answer is streamed", said == "Hello from TCK", pieces)
            check(where, "the last piece is the whole", pieces[-1].last_chunk and not pieces[-1].append, pieces)
        got = await client.get_task(GetTaskRequest(id=task.id))
        check(where, "get", got.id == task.id and got.artifacts[-1].parts[0].text == "Hello from TCK", got)

        task, _ = await ended(client, request("tck-reject-task"))
        check(where, "rejects", task.status.state == TaskState.TASK_STATE_REJECTED, task)

        task, _ = await ended(client, request("tck-artifact-file"))
        got = await client.get_task(GetTaskRequest(id=task.id))
        part = got.artifacts[0].parts[0]
        check(where, "delivers a file", (part.raw, part.filename) == (b"tck", "output.txt"), got)

        task, _ = await ended(client, request("tck-input-required"))
        check(where, "asks", task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task)
        told = []

        async def subscribed():
            async for event in client.subscribe(SubscribeToTaskRequest(id=task.id)):
                told.append(event)
                begun.set()

        begun = asyncio.Event()
        if streaming:
            listening = asyncio.create_task(subscribed())
            await asyncio.wait_for(begun.wait(), 20)
        again, _ = await ended(client, request("tck-complete-task", task_id=task.id, context_id=task.context_id))
        check(where, "an answer completes it", again.status.state == TaskState.TASK_STATE_COMPLETED, again)
        if streaming:
            await asyncio.wait_for(listening, 20)
            last = told[-1].status_update.status.state if told[-1].HasField("status_update") else None
            check(where, "the subscriber begins with the task", told[0].HasField("task"), told)
            check(where, "and sees the end", last == TaskState.TASK_STATE_COMPLETED, told)

        task, _ = await ended(client, request("tck-input-required"))
        gone = await client.cancel_task(CancelTaskRequest(id=task.id))
        check(where, "cancels", gone.status.state == TaskState.TASK_STATE_CANCELED, gone)

        if is_new:
            page = await client.list_tasks(ListTasksRequest(page_size=2))
            check(where, "lists", len(page.tasks) == 2 and page.next_page_token != "", page)

        task, _ = await ended(client, request("tck-input-required"))
        made = await client.create_task_push_notification_config(
            TaskPushNotificationConfig(task_id=task.id, id="mine", url=listener, token=f"token-{task.id}")
        )
        check(where, "a push configuration is made", made.url == listener, made)
        if is_new or interface.protocol_binding == "JSONRPC":
            known = await client.list_task_push_notification_configs(
                ListTaskPushNotificationConfigsRequest(task_id=task.id)
            )
            check(where, "and listed", [config.id for config in known.configs] == ["mine"], known)
        await ended(client, request("tck-complete-task", task_id=task.id, context_id=task.context_id))

        def ours():
            return [body for token, body in Listener.posts if token == f"token-{task.id}"]

        def is_end(body):
            status = body["statusUpdate"]["status"] if "statusUpdate" in body else body.get("status", {})
            return status.get("state") in ("TASK_STATE_COMPLETED", "completed")

        def wait():
            with Listener.came:
                return Listener.came.wait_for(lambda: any(is_end(body) for body in ours()), timeout=20)

        check(where, "the end is pushed", await asyncio.to_thread(wait), ours())
        check(where, "last", is_end(ours()[-1]), ours())


async def main(base):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    listener = f"http://127.0.0.1:{server.server_port}/pushed"
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
    check("card", "both bindings", {i.protocol_binding for i in card.supported_interfaces} >= {"JSONRPC", "HTTP+JSON"})
    check("card", "both versions", {i.protocol_version[:3] for i in card.supported_interfaces} >= {"1.0", "0.3"})
    for interface in card.supported_interfaces:
        for streaming in (True, False):
            try:
                await one(card, interface, streaming, listener)
            except Exception as error:  # noqa: BLE001
                where = f"{interface.protocol_binding} {interface.protocol_version} streaming={streaming}"
                check(where, "no exception", False, f"{type(error).__name__}: {error}")


asyncio.run(main(sys.argv[1]))
print("\n".join(failures))
print(f"{checks} checks, {len(failures)} failed")
sys.exit(bool(failures))
