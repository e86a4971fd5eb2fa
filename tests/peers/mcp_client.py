"""The protocol's client library for Python (mcp, PyPI) against a server's tools: mcp_client.py URL

Both ways of beginning: `initialize`, and 2026-07-28 without it. Prints what fails, and ends with the number of checks.
"""

import asyncio
import sys

from mcp import Client
from mcp_types import ElicitResult

checks, failures = 0, []


def check(where, what, holds, seen=None):
    global checks
    checks += 1
    if not holds:
        failures.append(f"{where}: {what}: {seen!r}")


def said(result):
    return result.content[0].text


async def scene(url, mode):
    asked, told = [], []

    async def person(_, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"approved": True})

    async def progress(done, total, message):
        told.append((done, total, message))

    async with Client(url, mode=mode, elicitation_callback=person) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        check(mode, "all tools are listed", tools == ["ask", "start", "status", "cancel", "answer"], tools)

        answer = await client.call_tool("ask", {"query": "count"})
        check(mode, "ask is answered", said(answer) == "Two and two are four.", answer)
        check(mode, "with data", answer.structured_content["status"] == "completed", answer)

        thread = answer.structured_content["threadId"]
        second = await client.call_tool("ask", {"query": "hello", "thread": thread})
        check(mode, "a second turn goes on", said(second) == "Hello again.", second)

        stuck = await client.call_tool("ask", {"query": "stuck", "wait": 2}, progress_callback=progress)
        check(mode, "what takes long goes on", stuck.structured_content["status"] == "running", stuck)
        check(mode, "progress was told", told and told[-1][1:] == (4.0, "Think for ever"), told)
        run = {"runId": stuck.structured_content["runId"]}
        status = await client.call_tool("status", run)
        check(mode, "status has the plan", len(status.structured_content["plan"]) == 3, status)
        cancelled = await client.call_tool("cancel", run)
        check(mode, "cancel stops it", cancelled.structured_content["status"] == "cancelled", cancelled)

        mail = await client.call_tool("ask", {"query": "send"})
        if mode == "legacy":
            check(mode, "an older client is told", mail.structured_content["status"] == "suspended", mail)
            question = mail.structured_content["suspensions"][0]
            decision = {"suspensionId": question["suspensionId"], "approved": False, "digest": question["digest"]}
            await client.call_tool("answer", decision)
            mail = await client.call_tool("status", {"runId": mail.structured_content["runId"], "wait": 30})
            twice = await client.call_tool("answer", decision)
            check(mode, "twice is told", twice.is_error, twice)
        else:
            check(mode, "the person was asked once", len(asked) == 1 and "demo_send_email" in asked[0], asked)
        check(mode, "what was asked is dealt with", said(mail) == "The mail is dealt with.", mail)

        wrong = await client.call_tool("status", {"runId": "run_x"})
        check(mode, "an unknown run is an error of the tool", wrong.is_error and "no such run" in said(wrong), wrong)
        eight = await asyncio.gather(*(client.call_tool("ask", {"query": "count"}) for _ in range(8)))
        check(mode, "eight at once", all(said(one) == "Two and two are four." for one in eight), eight)


async def main(url):
    for mode in ["legacy", "auto", "2026-07-28"]:
        await asyncio.wait_for(scene(url, mode), 60)


asyncio.run(main(sys.argv[1]))
print("\n".join(failures))
print(f"{checks - len(failures)} passed, {len(failures)} failed")
sys.exit(bool(failures))
