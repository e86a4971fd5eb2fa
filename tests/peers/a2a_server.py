"""Agents of the protocol's own library (a2a-sdk, PyPI): a2a_server.py PORT

One agent for every binding, version and way to behave: its card is at /BINDING-VERSION/WAY/.well-known/agent-card.json.
Each offers one interface only, so a client speaks to it as the path says.
"""

import asyncio
import sys

import httpx
import uvicorn
from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.helpers.proto_helpers import get_message_text, new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON"}
VERSIONS = ("1.0", "0.3")
CARD = "/.well-known/agent-card.json"

RESULT = [
    Part(text="done by the library"),
    Part(raw=b"\x00\x01", filename="two.bin", media_type="application/octet-stream"),
    Part(data=ParseDict({"n": 7}, Value())),
]


class Agent(AgentExecutor):
    def __init__(self, way):
        self.way = way

    async def execute(self, context, event_queue):
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if self.way == "says":
            reply = Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text="said by the library")])
            return await event_queue.enqueue_event(reply)
        is_new = context.current_task is None
        if is_new:
            begun = new_task_from_user_message(context.message)
            begun.id, begun.context_id = context.task_id, context.context_id
            await event_queue.enqueue_event(begun)
        if self.way == "fails":
            return await task.failed(task.new_agent_message([Part(text="the library cannot")]))
        if self.way == "asks" and is_new:
            return await task.requires_input(task.new_agent_message([Part(text="which one?")]))
        await task.start_work()
        if self.way == "hangs":
            await asyncio.Event().wait()
        if self.way in ("works", "streams"):
            # As long as a first look at it takes.
            await asyncio.sleep(0.5)
        told = [Part(text=f"told {get_message_text(context.message)}")] if self.way == "asks" else RESULT
        await task.add_artifact(told, name="result")
        await task.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def routes(base, binding, version, way, http):
    path = f"/{binding}-{version}/{way}"
    card = AgentCard(
        name="Library",
        description="Does as it is told.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=base + path, protocol_binding=BINDINGS[binding], protocol_version=version)
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=way != "streams"),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="do", name="Do", description="Does it.", tags=["do"])],
    )
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=Agent(way),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=configs,
        push_sender=BasePushNotificationSender(http, configs),
    )
    is_old = version == "0.3"
    if is_old:
        # What a server that never heard of 1.0 says of itself.
        old = to_compat_agent_card(card).model_dump(mode="json", by_alias=True, exclude_none=True)
        yield Route(path + CARD, lambda _: JSONResponse(old))
    else:
        yield from create_agent_card_routes(card, card_url=path + CARD)
    if binding == "jsonrpc":
        yield from create_jsonrpc_routes(handler, path, enable_v0_3_compat=is_old)
    else:
        # The last one of them serves tenants, of which there are none.
        yield from create_rest_routes(handler, path_prefix=path, enable_v0_3_compat=is_old)[:-1]


def main(port):
    base, http = f"http://127.0.0.1:{port}", httpx.AsyncClient(timeout=10)
    ways = ("does", "works", "streams", "asks", "fails", "hangs", "says")
    offered = [
        route
        for binding in BINDINGS
        for version in VERSIONS
        for way in ways
        for route in routes(base, binding, version, way, http)
    ]
    uvicorn.run(Starlette(routes=offered), host="127.0.0.1", port=port, log_level="warning")


main(int(sys.argv[1]))
