#!/usr/bin/env python3
"""A client in a hundred lines: asks, watches the plan and the tokens, answers questions, and survives a lost connection.

    python3 examples/client.py "Send the team an invitation to the dinner."

PES_URL names the server (http://127.0.0.1:7070), PES_TOKEN a key if it wants one, PES_THREAD the conversation. Only the
standard library is needed.
"""
import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("PES_URL", "http://127.0.0.1:7070")
THREAD = os.environ.get("PES_THREAD", "example")
HEADERS = {"content-type": "application/json"}
if "PES_TOKEN" in os.environ:
    HEADERS["authorization"] = "Bearer " + os.environ["PES_TOKEN"]


def call(method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, HEADERS | headers, method=method)
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        give_up(error)


def give_up(refused):
    problem = json.load(refused)
    wrong = [f"\n  {error['pointer']}: {error['detail']}" for error in problem.get("errors", [])]
    sys.exit(f"{problem['title']}: {problem['detail']}" + "".join(wrong))


def frames(run, after):
    """Every frame of the run after that seq, each once: a stream that breaks is opened again where it broke."""
    while True:
        path = f"{URL}/threads/{THREAD}/events?after={after}&until={run}"
        pause = ""
        request = urllib.request.Request(path, headers=HEADERS | {"accept": "text/event-stream"})
        try:
            with urllib.request.urlopen(request) as stream:
                event = None
                for line in stream:
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    if name == "event":
                        event = value
                    elif name == "data":
                        frame = json.loads(value)
                        if event == "observation":
                            after = frame["seq"]
                        yield event, frame
                        if event == "run" and frame["status"] in ("completed", "failed", "cancelled"):
                            return
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code not in (408, 429):
                give_up(error)
            pause = error.headers.get("retry-after", "")
            print(f"(the server answers {error.code}; trying again)", file=sys.stderr)
        except (OSError, http.client.HTTPException):
            print("(the connection is lost; trying again)", file=sys.stderr)
        time.sleep(int(pause) if pause.isdigit() else 1)


def answer(suspension):
    print(f"\n? {suspension['message']}")
    if "toolInput" in suspension:
        print(json.dumps(suspension["toolInput"], indent=2))
    try:
        said = input("  approve? [y/N, or a reason against it] ").strip()
    except EOFError:
        sys.exit("\n(nobody answers here: the question stays open; `pes questions` lists it)")
    body = {"suspensionId": suspension["suspensionId"], "approved": said.lower() in ("y", "yes")}
    if not body["approved"] and said.lower() not in ("", "n", "no"):
        body["reason"] = said
    call("POST", f"/threads/{THREAD}/resume", body)


def main(query):
    run = call("POST", f"/threads/{THREAD}/process", {"query": query})["runId"]
    told = ""
    for event, frame in frames(run, 0):
        if event == "token" and frame["tokenType"] == "SYNTHESIS_LLM_RESPONSE":
            print(frame["data"], end="", flush=True)
            told += frame["data"]
        elif event == "observation" and frame["runId"] == run:
            if frame["type"] == "ITEM_STATUS_CHANGE":
                print(f"- {frame['title']}")
            elif frame["type"] == "AGENT_SUSPENDED":
                answer(frame["content"])
        elif event == "run" and "result" in frame:
            answered = frame["result"]["response"]["content"]
            # Tokens are not replayed: a client that connects late or again may have missed some.
            if told.strip() != answered.strip():
                print(f"\n{answered}", end="")
            print(f"\n= {frame['status']}")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or sys.exit(__doc__))
