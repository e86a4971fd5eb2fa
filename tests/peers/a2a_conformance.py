"""What the protocol's public conformance kit looks at, over JSON-RPC and HTTP+JSON: a2a_conformance.py URL

The server plays examples/a2a-scenarios.toml. Only the standard library is needed. Prints what fails, and ends with the number
of checks.
"""

import json
import re
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
import uuid

BASE = sys.argv[1].rstrip("/")
SESSION = uuid.uuid4().hex[:8]
checks, failures = 0, []
INFO = "type.googleapis.com/google.rpc.ErrorInfo"
TERMINAL = {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"}


def check(where, what, holds, seen=None):
    global checks
    checks += 1
    if not holds:
        failures.append(f"{where}: {what}: {json.dumps(seen)[:600]}")


def http(verb, url, body=None, headers=None):
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    sent = {"A2A-Version": "1.0", **({"Content-Type": "application/json"} if data is not None else {}), **(headers or {})}
    asked = urllib.request.Request(url, data=data, headers={k: v for k, v in sent.items() if v is not None}, method=verb)
    try:
        return urllib.request.urlopen(asked, timeout=30)
    except urllib.error.HTTPError as error:
        return error


def events(answer):
    for line in answer:
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


class Rpc:
    name = "jsonrpc"
    METHODS = {
        "send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask", "list": "ListTasks",
        "cancel": "CancelTask", "subscribe": "SubscribeToTask", "push_create": "CreateTaskPushNotificationConfig",
        "push_get": "GetTaskPushNotificationConfig", "push_list": "ListTaskPushNotificationConfigs",
        "push_delete": "DeleteTaskPushNotificationConfig", "card": "GetExtendedAgentCard",
    }

    def __init__(self, url):
        self.url = url

    def call(self, op, params, headers=None):
        body = {"jsonrpc": "2.0", "id": "c-1", "method": self.METHODS[op], "params": params}
        answer = http("POST", self.url, body, headers)
        if "text/event-stream" in answer.headers.get("content-type", ""):
            return None, self.unwrapped(answer)
        said = json.load(answer)
        check(self.name, f"{op}: an envelope", said.get("jsonrpc") == "2.0" and said.get("id") == "c-1", said)
        return (said["error"], None) if "error" in said else (None, said["result"])

    def unwrapped(self, answer):
        for event in events(answer):
            check(self.name, "events are responses", event.get("jsonrpc") == "2.0" and event.get("id") == "c-1", event)
            yield event.get("result", {})

    def refused(self, where, error, code, _status, reason):
        check(where, f"error {code}", error is not None and error["code"] == code, error)
        if error and reason:
            data = error.get("data") or []
            info = [item for item in data if item.get("@type") == INFO]
            check(where, f"reason {reason}", bool(info) and info[0]["reason"] == reason, error)


class Rest:
    name = "http+json"

    def __init__(self, url):
        self.url = url

    def call(self, op, params, headers=None):
        params = dict(params)
        task = params.pop("taskId", None) or (params.pop("id", None) if op in ("get", "cancel", "subscribe") else None)
        configs = f"/tasks/{task}/pushNotificationConfigs"
        verb, path = {
            "send": ("POST", "/message:send"), "stream": ("POST", "/message:stream"), "get": ("GET", f"/tasks/{task}"),
            "list": ("GET", "/tasks"), "cancel": ("POST", f"/tasks/{task}:cancel"),
            "subscribe": ("POST", f"/tasks/{task}:subscribe"), "push_create": ("POST", configs), "push_list": ("GET", configs),
            "push_get": ("GET", f"{configs}/{params.get('id')}"), "push_delete": ("DELETE", f"{configs}/{params.get('id')}"),
            "card": ("GET", "/extendedAgentCard"),
        }[op]
        if verb != "POST" and op != "push_get" and op != "push_delete" and params:
            said = {k: str(v).lower() if isinstance(v, bool) else v for k, v in params.items()}
            path += "?" + urllib.parse.urlencode(said)
        answer = http(verb, self.url + path, params if verb == "POST" else None, headers)
        kind = answer.headers.get("content-type", "")
        if "text/event-stream" in kind:
            return None, events(answer)
        check(self.name, f"{op}: application/json", kind.startswith("application/json"), kind)
        said = json.loads(answer.read() or b"{}")
        return (None, said) if answer.status < 400 else ({**said.get("error", {}), "http": answer.status}, None)

    def refused(self, where, error, _code, status, reason):
        check(where, f"status {status}", error is not None and error["http"] in status, error)
        if error and reason:
            info = [item for item in error.get("details", []) if item.get("@type") == INFO]
            check(where, f"reason {reason}", bool(info) and info[0]["reason"] == reason, error)


def message(name, text="TCK", **more):
    return {"message": {"role": "ROLE_USER", "parts": [{"text": text}], "messageId": f"{name}-{SESSION}", **more}}


def state(task):
    return (task or {}).get("status", {}).get("state")


def sent(door, name, text="TCK", configuration=None, **more):
    params = message(name, text, **more)
    if configuration:
        params["configuration"] = configuration
    error, result = door.call("send", params)
    check(door.name, f"{name} is taken", error is None, error)
    return (result or {}).get("task") or {}


def cores(door):
    where = door.name
    task = sent(door, "tck-complete-task")
    check(where, "a blocking send waits for the end", state(task) == "TASK_STATE_COMPLETED", task)
    check(where, "contextId is made", bool(task.get("contextId")), task)
    stamp = task.get("status", {}).get("timestamp", "")
    check(where, "timestamps", bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", stamp)), stamp)
    check(where, "no snake_case", not re.search(r'"[a-z]+(_[a-z]+)+":', json.dumps(task)), task)
    error, got = door.call("get", {"id": task["id"]})
    check(where, "get", error is None and got["id"] == task["id"], error or got)
    error, got = door.call("get", {"id": task["id"], "historyLength": 0})
    check(where, "historyLength 0", not (got or {}).get("history"), got)
    error, got = door.call("get", {"id": task["id"], "historyLength": 1})
    check(where, "historyLength 1", len((got or {}).get("history", [])) <= 1, got)
    door.refused(where, door.call("get", {"id": "tck-none"})[0], -32001, (404,), "TASK_NOT_FOUND")
    door.refused(where, door.call("cancel", {"id": "tck-none"})[0], -32001, (404,), "TASK_NOT_FOUND")
    door.refused(where, door.call("cancel", {"id": task["id"]})[0], -32002, (400, 409), "TASK_NOT_CANCELABLE")
    door.refused(where, door.call("subscribe", {"id": task["id"]})[0], -32004, (400,), "UNSUPPORTED_OPERATION")
    door.refused(where, door.call("subscribe", {"id": "tck-none"})[0], -32001, (404,), "TASK_NOT_FOUND")
    late = message("tck-late", taskId=task["id"])
    door.refused(where, door.call("send", late)[0], -32004, (400,), "UNSUPPORTED_OPERATION")
    unknown = message("tck-unknown", taskId="tck-none")
    door.refused(where, door.call("send", unknown)[0], -32001, (404,), "TASK_NOT_FOUND")
    wrong = message("tck-wrong", taskId=task["id"], contextId="tck-wrong-context")
    check(where, "a wrong context is refused", door.call("send", wrong)[0] is not None)
    again = sent(door, "tck-complete-task", "again", contextId=task["contextId"])
    check(where, "the same context", again.get("contextId") == task["contextId"] and again["id"] != task["id"], again)
    odd = message("tck-odd")
    odd["message"]["parts"] = [{"raw": "dGNr", "mediaType": "application/x-unsupported-tck-type"}]
    door.refused(where, door.call("send", odd)[0], -32005, (400, 415), "CONTENT_TYPE_NOT_SUPPORTED")
    extra = message("tck-extra")
    extra["tckExtra"] = extra["message"]["tckUnknown"] = 42
    check(where, "unknown members are ignored", door.call("send", extra)[0] is None)
    door.refused(where, door.call("send", {"message": {"role": "ROLE_USER"}})[0], -32602, (400,), None)
    door.refused(where, door.call("get", {"id": task["id"]}, {"A2A-Version": "99.0"})[0], -32009, (400,), "VERSION_NOT_SUPPORTED")


def scenarios(door):
    where = door.name
    check(where, "refused", state(sent(door, "tck-reject-task")) == "TASK_STATE_REJECTED")
    _, result = door.call("send", message("tck-message-response"))
    check(where, "a bare message", (result or {}).get("message", {}).get("parts") == [{"text": "Direct message response"}], result)
    check(where, "of the agent", (result or {}).get("message", {}).get("role") == "ROLE_AGENT", result)
    for name, wanted in {
        "text": {"text": "Generated text content"},
        "file": {"raw": "dGNr", "mediaType": "text/plain", "filename": "output.txt"},
        "file-url": {"url": "https://example.com/output.txt", "mediaType": "text/plain", "filename": "output.txt"},
        "data": {"data": {"key": "value", "count": 42}},
    }.items():
        task = sent(door, f"tck-artifact-{name}")
        first = (task.get("artifacts") or [{}])[0]
        check(where, f"artifact {name}", first.get("parts") == [wanted] and first.get("artifactId"), task)
    task = sent(door, "tck-delayed-complete", configuration={"returnImmediately": True})
    check(where, "returnImmediately", state(task) not in TERMINAL, task)
    task = sent(door, "tck-delayed-complete", configuration={"returnImmediately": False})
    check(where, "blocking", state(task) == "TASK_STATE_COMPLETED", task)
    for _ in range(2):
        task = sent(door, "tck-input-required")
        check(where, "input is required, every time", state(task) == "TASK_STATE_INPUT_REQUIRED", task)
        done = sent(door, "tck-complete-task", "Complete", taskId=task["id"])
        check(where, "and given", state(done) == "TASK_STATE_COMPLETED" and done["contextId"] == task["contextId"], done)
    check(where, "history", len(done.get("history", [])) >= 2, done)
    task = sent(door, "tck-input-required")
    error, gone = door.call("cancel", {"id": task["id"]})
    check(where, "cancelled", state(gone) == "TASK_STATE_CANCELED" and gone["id"] == task["id"], error or gone)


def lists(door):
    where = door.name
    context = sent(door, "tck-complete-task", "one")["contextId"]
    for n in range(2):
        sent(door, "tck-complete-task", f"more {n}", contextId=context)
    error, page = door.call("list", {"contextId": context, "pageSize": 2})
    ok = error is None and len(page["tasks"]) == 2 and page["nextPageToken"] and page["pageSize"] == 2 and page["totalSize"] == 3
    check(where, "a page", bool(ok), error or page)
    error, rest = door.call("list", {"contextId": context, "pageSize": 2, "pageToken": (page or {}).get("nextPageToken", "")})
    check(where, "the last page", error is None and len(rest["tasks"]) == 1 and rest["nextPageToken"] == "", error or rest)
    times = [task["status"]["timestamp"] for task in (page or {}).get("tasks", [])]
    check(where, "newest first", times == sorted(times, reverse=True), times)
    check(where, "no artifacts unless asked", all("artifacts" not in task for task in (page or {}).get("tasks", [])), page)
    error, whole = door.call("list", {"contextId": context, "includeArtifacts": True})
    check(where, "artifacts when asked", error is None and all(task.get("artifacts") for task in whole["tasks"]), error)
    error, none = door.call("list", {"contextId": "tck-no-context"})
    check(where, "nobody's context is empty", error is None and none["tasks"] == [], error or none)
    door.refused(where, door.call("list", {"pageSize": 150})[0], -32602, (400,), None)
    door.refused(where, door.call("list", {"pageToken": "nonsense"})[0], -32602, (400,), None)


def streams(door):
    where = door.name
    for name, text in {
        "tck-stream-001": "Stream hello from TCK", "tck-stream-003": "Stream task lifecycle",
        "tck-stream-ordering-001": "Ordered output", "tck-stream-artifact-text": "Streamed text content",
        "tck-stream-artifact-chunked": "chunk-1 chunk-2", "tck-stream-002": "Done.",
    }.items():
        error, told = door.call("stream", message(name))
        seen = list(told or [])
        check(where, f"{name}: one thing an event", all(len(e) == 1 for e in seen), error or seen)
        check(where, f"{name}: the task first", bool(seen) and "task" in seen[0], seen[:1])
        states = [e["statusUpdate"]["status"]["state"] for e in seen if "statusUpdate" in e]
        check(where, f"{name}: working, then completed", states == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"], states)
        check(where, f"{name}: the end is last", bool(seen) and "statusUpdate" in seen[-1], seen[-1:])
        pieces = [e["artifactUpdate"] for e in seen if "artifactUpdate" in e]
        said = ""
        for piece in pieces:
            said = (said if piece.get("append") else "") + piece["artifact"]["parts"][0].get("text", "")
        check(where, f"{name}: what it says", said == text, pieces)
        check(where, f"{name}: chunks", bool(pieces) and not pieces[0].get("append") and pieces[-1].get("lastChunk") is True, pieces)
    _, told = door.call("stream", message("tck-stream-artifact-file"))
    files = [e["artifactUpdate"]["artifact"]["parts"][0] for e in told or [] if "artifactUpdate" in e]
    check(where, "a file is streamed", any(part.get("raw") == "dGNr" for part in files), files)

    task = sent(door, "tck-input-required")
    opened = [door.call("subscribe", {"id": task["id"]})[1] for _ in range(3)]
    first = [next(stream) for stream in opened]
    check(where, "subscribers begin with the task", all(e.get("task", {}).get("id") == task["id"] for e in first), first)
    opened.pop().close()
    answering = threading.Thread(target=sent, args=(door, "tck-complete-task", "Complete"), kwargs={"taskId": task["id"]})
    answering.start()
    seen = [list(stream) for stream in opened]
    answering.join()
    check(where, "and see the same", seen[0] == seen[1] and len(seen[0]) > 1, seen)
    check(where, "to the end", seen[0][-1].get("statusUpdate", {}).get("status", {}).get("state") == "TASK_STATE_COMPLETED", seen)

    _, told = door.call("stream", message("test-resubscribe-message-id"))
    task = next(told)["task"]
    _, again = door.call("subscribe", {"id": task["id"]})
    early = next(again)
    check(where, "resubscribed while it works", state(early.get("task")) not in TERMINAL, early)
    told.close()
    last = list(again)[-1:]
    check(where, "told the end", bool(last) and last[0]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED", last)


def pushes(door):
    where = door.name
    task = sent(door, "tck-complete-task")
    config = {"taskId": task["id"], "id": f"tck-push-{SESSION}", "url": "https://example.com/tck-push-webhook"}
    error, made = door.call("push_create", config)
    check(where, "push: created on a finished task", error is None and made["url"] == config["url"], error or made)
    named = {"taskId": task["id"], "id": config["id"]}
    error, got = door.call("push_get", named)
    check(where, "push: got", error is None and got["id"] == config["id"], error or got)
    error, page = door.call("push_list", {"taskId": task["id"]})
    check(where, "push: listed", error is None and [c["id"] for c in page["configs"]] == [config["id"]], error or page)
    check(where, "push: no other is there", door.call("push_get", {**named, "id": "tck-none"})[0] is not None)
    for _ in range(2):
        error, _ = door.call("push_delete", named)
        check(where, "push: deleted, and again", error is None, error)
    door.refused(where, door.call("push_get", named)[0], -32001, (404,), "TASK_NOT_FOUND")
    door.refused(where, door.call("push_create", {**config, "url": "http://169.254.169.254/"})[0], -32602, (400,), None)


def card():
    answer = http("GET", f"{BASE}/.well-known/agent-card.json")
    said = json.load(answer)
    needed = ["name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"]
    check("card", "has all", all(name in said for name in needed), said)
    check("card", "skills have tags", all(skill.get("tags") for skill in said["skills"]), said["skills"])
    for name in ("cache-control", "etag", "last-modified"):
        check("card", name, bool(answer.headers.get(name)), dict(answer.headers))
    check("card", "304", http("GET", f"{BASE}/.well-known/agent-card.json", headers={"If-None-Match": answer.headers.get("etag")}).status == 304)
    check("card", "streams and pushes", said["capabilities"].get("streaming") and said["capabilities"].get("pushNotifications"), said["capabilities"])
    first = lambda binding: next(i["url"] for i in said["supportedInterfaces"] if i["protocolBinding"] == binding and i["protocolVersion"] == "1.0")
    return first("JSONRPC"), first("HTTP+JSON")


def envelopes(url):
    def error(body, headers=None):
        return json.load(http("POST", url, body, headers)).get("error", {}).get("code")

    check("jsonrpc", "no JSON", error(b"{nonsense") == -32700)
    check("jsonrpc", "no request", error({"jsonrpc": "2.0", "id": 1}) == -32600)
    check("jsonrpc", "no 2.0", error({"jsonrpc": "1.0", "id": 1, "method": "GetTask", "params": {}}) == -32600)
    check("jsonrpc", "no method", error({"jsonrpc": "2.0", "id": 1, "method": "Nonsense", "params": {}}) == -32601)
    check("jsonrpc", "no params", error({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {}}) == -32602)


rpc, rest = card()
envelopes(rpc)
for door in (Rpc(rpc), Rest(rest)):
    for part in (cores, scenarios, lists, streams, pushes):
        try:
            part(door)
        except Exception as error:  # noqa: BLE001
            check(door.name, f"{part.__name__} ends", False, f"{type(error).__name__}: {error}")
print("\n".join(failures))
print(f"{checks} checks, {len(failures)} failed")
sys.exit(bool(failures))
