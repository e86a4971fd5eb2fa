"""An MCP server that does what servers should not. `evil.py FOLDER [MODE]`; what must outlive a restart stands in FOLDER.

MODE `first`: `server/discover` ends it, as the library for Python before 1.9: nothing more is answered, and the next line is not
survived. MODE `late`: it answers nothing before the second request stands in its input; `late-modern`: nor does it know `initialize`.
MODE `unlistable`: asked for its tools it ends with an error; `unlistable-later`: it does so when its input ends, as FastMCP 2.
"""

import itertools
import json
import os
import select
import signal
import subprocess
import sys

folder = sys.argv[1]
mode = sys.argv[2] if len(sys.argv) > 2 else ""
path = lambda name: os.path.join(folder, name)
pending = {}


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(ask, text=None, **more):
    content = [{"type": "text", "text": text}] if text is not None else []
    say({"id": ask, "result": {"content": content, **more}})


def append(name, text):
    with open(path(name), "a") as file:
        file.write(text + "\n")


def lines(name):
    try:
        with open(path(name)) as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def nested(levels):
    schema = {}
    for _ in range(levels):
        schema = {"items": schema}
    return {"type": "object", **schema}


def tool(name, schema=None, **hints):
    version = "2" if name == "changing" and lines("changed") else "1"
    return {
        "name": name,
        "description": f"{name} {version}",
        "inputSchema": schema or {"type": "object"},
        "annotations": hints,
        **({"execution": {"taskSupport": "required"}} if name == "task_only" else {}),
    }


def tools():
    return [
        tool("echo", readOnlyHint=True),
        tool("structured", readOnlyHint=True),
        tool("picture", readOnlyHint=True),
        tool("fail"),
        tool("environment", readOnlyHint=True),
        tool("hang"),
        tool("cancelled", readOnlyHint=True),
        tool("crash"),
        tool("once", idempotentHint=True),
        tool("half"),
        tool("big"),
        tool("big_unread"),
        tool("deaf"),
        tool("flood"),
        tool("sample"),
        tool("elicit"),
        tool("elicit_optional"),
        tool("changing", destructiveHint=True),
        tool("change", openWorldHint=True),
        tool("odd.name"),
        tool("odd_name"),
        tool("ü/b c"),
        tool("denied"),
        tool("bomb", schema={"type": "object", "unevaluatedProperties": False}),
        tool("deep", schema=nested(70)),
        tool("task_only"),
        {"name": "unreadable"},
        tool("nameless_link"),
        tool("no_result"),
        tool("makes_a_task"),
        tool("unlist"),
        tool("gallery", readOnlyHint=True),
        tool("respell"),
        *mailers(),
    ]


def mailers():
    """A tool, and one whose name differs only in what is replaced, as it was last ordered."""
    first, second = tool("send_mail", destructiveHint=True), tool("send.mail", readOnlyHint=True)
    orders = {"before": [second, first, tool("sign_before")], "alone": [second, tool("sign_alone")]}
    return orders[lines("spelling")[-1]] if lines("spelling") else [first]


def call(ask, name, arguments, meta):
    if name == "echo":
        answer(ask, json.dumps({"arguments": arguments, "meta": meta}))
    elif name == "structured":
        answer(ask, "as text", structuredContent={"n": 1})
    elif name == "picture":
        answer(ask, None, content=[
            {"type": "text", "text": "Here:"},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
        ])
    elif name == "gallery":
        pictures = [{"type": "image", "data": data, "mimeType": "image/png"} for data in ("aGVsbG8=", "d29ybGQ=")]
        answer(ask, None, content=pictures[:1], structuredContent={"pictures": pictures, "n": 2})
    elif name == "nameless_link":
        answer(ask, None, content=[{"type": "text", "text": "booked 17"}, {"type": "resource_link", "uri": "shop:///17"}])
    elif name == "no_result":
        say({"id": ask, "result": None})
    elif name == "makes_a_task":
        now = "2026-07-28T00:00:00Z"
        say({"id": ask, "result": {"resultType": "task", "taskId": "t1", "status": "working", "createdAt": now,
                                   "lastUpdatedAt": now, "ttlMs": None}})
    elif name == "fail":
        answer(ask, "no such thing", isError=True)
    elif name == "environment":
        answer(ask, json.dumps(dict(os.environ)))
    elif name == "hang":
        pending["hang"] = ask
        say({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": 1}})
    elif name == "cancelled":
        answer(ask, " ".join(lines("cancelled")))
    elif name in ("crash", "once"):
        append("calls", f"{name} {meta['pes/idempotencyKey']}")
        if name == "crash" or len([line for line in lines("calls") if line.startswith("once")]) == 1:
            os._exit(7)
        answer(ask, "done at last")
    elif name == "half":
        sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "resu')
        sys.stdout.flush()
        os._exit(0)
    elif name == "big":
        answer(ask, "x" * (10 << 20))
    elif name == "big_unread":
        # Not before the beginning of another message stands in its input.
        select.select([sys.stdin], [], [])
        answer(ask, "x" * (10 << 20))
    elif name == "deaf":
        signal.pause()
    elif name == "flood":
        for _ in range(2000):
            sys.stderr.write("y" * 1000 + "\n")
        answer(ask, "still here")
    elif name == "sample":
        say({"id": "s", "method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 1}})
        pending["s"] = ask
    elif name in ("elicit", "elicit_optional"):
        colour = {"type": "string"} if name == "elicit" else {"anyOf": [{"type": "string"}, {"type": "null"}]}
        say({"id": "e", "method": "elicitation/create", "params": {
            "mode": "form", "message": "Your colour?",
            "requestedSchema": {"type": "object", "properties": {"colour": colour}}}})
        pending["e"] = ask
    elif name == "unlist":
        append("unlisted", "yes")
        say({"method": "notifications/tools/list_changed"})
        answer(ask, "unlisted")
    elif name == "respell":
        append("spelling", arguments["order"])
        say({"method": "notifications/tools/list_changed"})
        answer(ask, "respelled")
    elif name == "change":
        append("changed", "yes")
        say({"method": "notifications/tools/list_changed"})
        answer(ask, "changed")
    else:
        answer(ask, name)


def main():
    append("starts", str(os.getpid()))
    if os.path.exists(path("alive")):
        # Whoever reads the pipe hears of the end of all that hold it: of us, and of a child that heeds nothing.
        alive = os.open(path("alive"), os.O_WRONLY)
        os.set_inheritable(alive, True)
        # Another leaves the group, and its parent ends at once.
        stubborn = "trap '' HUP TERM INT; sleep 1000"
        subprocess.Popen(["sh", "-c", stubborn], pass_fds=[alive])
        subprocess.Popen(["setsid", "sh", "-c", f"({stubborn}) &"], pass_fds=[alive]).wait()
        os.write(alive, b"started\n")
    requests = iter(sys.stdin)
    if mode.startswith("late"):
        held = [next(requests), next(requests)]
        requests = itertools.chain(held, requests)
    for line in requests:
        message = json.loads(line)
        ask, method = message.get("id"), message.get("method")
        params = message.get("params") or {}
        if method == "server/discover" and mode == "first":
            print("pydantic_core._pydantic_core.ValidationError: 24 validation errors for ClientRequest", file=sys.stderr, flush=True)
            next(requests, None)
            sys.exit(1)
        elif method == "server/discover" and mode == "late-modern":
            say({"id": ask, "result": {
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private"}})
        elif method == "initialize" and mode != "late-modern":
            say({"id": ask, "result": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "evil", "version": "1"}}})
        elif method == "tools/list" and mode.startswith("unlistable"):
            if mode == "unlistable-later":
                list(requests)
            sys.exit("ValueError: Circular reference detected (id repeated)")
        elif method == "tools/list" and lines("unlisted"):
            append("cancelled", "unlisted")
            say({"id": ask, "error": {"code": -32603, "message": "not now"}})
        elif method == "tools/list":
            say({"id": ask, "result": {"tools": tools()}})
        elif method == "tools/call":
            call(ask, params["name"], params.get("arguments"), params.get("_meta"))
        elif method == "notifications/cancelled":
            append("cancelled", "one" if params["requestId"] == pending.get("hang") else "stray")
        elif method is None:
            answer(pending.pop(ask), json.dumps(message.get("error") or message.get("result")))
        elif ask is not None:
            say({"id": ask, "error": {"code": -32601, "message": "no such method"}})
    if os.path.exists(path("alive")):
        # The end of the input is not heeded either.
        while True:
            sys.stdin.close() if not sys.stdin.closed else os.wait()


main()
