"""The protocol's own client library as it was before 1.0 (a2a-sdk 0.3, PyPI) against a server: a2a_old_client.py URL

Both bindings, streaming and not. The server plays examples/a2a-scenarios.toml. Prints what fails, and ends with the number
of checks.
"""

import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
    TextPart,
    TransportProtocol,
)

checks, failures = 0, []


def check(where, what, holds, seen=None):
    global checks
    checks += 1
    if not holds:
        failures.append(f"{where}: {what}: {seen!r}")


def message(prefix, **more):
    parts = [Part(root=TextPart(text="Hello"))]
    return Message(message_id=f"{prefix}-{uuid.uuid4().hex[:8]}", role=Role.user, parts=parts, **more)


async def ended(client, asked):
    """The task as it was told last."""
    task = None
    async for event in client.send_message(asked):
        task = event[0]
    return task


async def one(card, transport, streaming, http):
    where = f"{transport} {'streaming' if streaming else ''}"
    config = ClientConfig(
        streaming=streaming, httpx_client=http, supported_transports=[transport], use_client_preference=True
    )
    client = ClientFactory(config).create(card)

    task = await ended(client, message("tck-complete-task"))
    check(where, "completes", task.status.state == TaskState.completed, task)
    check(where, "answers", task.artifacts[-1].parts[0].root.text == "Hello from TCK", task)
    got = await client.get_task(TaskQueryParams(id=task.id))
    check(where, "get", got.id == task.id and got.history[0].parts[0].root.text == "Hello", got)

    task = await ended(client, message("tck-artifact-file"))
    got = await client.get_task(TaskQueryParams(id=task.id))
    file = got.artifacts[0].parts[0].root.file
    check(where, "delivers a file", isinstance(file, FileWithBytes) and (file.bytes, file.name) == ("dGNr", "output.txt"), got)

    task = await ended(client, message("tck-input-required"))
    check(where, "asks", task.status.state == TaskState.input_required and task.status.message.parts, task)
    told, begun = [], asyncio.Event()

    async def subscribed():
        async for event in client.resubscribe(TaskIdParams(id=task.id)):
            told.append(event[0].status.state)
            begun.set()

    if streaming:
        listening = asyncio.create_task(subscribed())
        await asyncio.wait_for(begun.wait(), 20)
    again = await ended(client, message("tck-complete-task", task_id=task.id, context_id=task.context_id))
    check(where, "an answer completes it", again.status.state == TaskState.completed, again)
    if streaming:
        await asyncio.wait_for(listening, 20)
        check(where, "the subscriber sees the end", told[-1] == TaskState.completed, told)

    task = await ended(client, message("tck-input-required"))
    push = PushNotificationConfig(id="mine", url="https://example.com/pushed", token="token")
    made = await client.set_task_callback(TaskPushNotificationConfig(task_id=task.id, push_notification_config=push))
    check(where, "a push configuration is made", (made.task_id, made.push_notification_config.id) == (task.id, "mine"), made)
    asked = GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="mine")
    known = await client.get_task_callback(asked)
    check(where, "and known", known.push_notification_config.url == push.url, known)
    gone = await client.cancel_task(TaskIdParams(id=task.id))
    check(where, "cancels", gone.status.state == TaskState.canceled, gone)


async def main(base):
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        offered = {card.preferred_transport, *(it.transport for it in card.additional_interfaces or [])}
        check("card", "both bindings", offered >= {"JSONRPC", "HTTP+JSON"}, offered)
        for transport in (TransportProtocol.jsonrpc, TransportProtocol.http_json):
            for streaming in (True, False):
                try:
                    await one(card, transport, streaming, http)
                except Exception as error:  # noqa: BLE001
                    check(f"{transport} streaming={streaming}", "no exception", False, f"{type(error).__name__}: {error}")


asyncio.run(main(sys.argv[1]))
print("\n".join(failures))
print(f"{checks} checks, {len(failures)} failed")
sys.exit(bool(failures))
