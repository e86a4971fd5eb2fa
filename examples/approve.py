"""Asks, shows what happens, and puts every question to the person at the terminal. With the client in clients/python:

    pip install ./clients/python && python3 examples/approve.py "Send the team an invitation to the dinner."

PES_URL names the server (http://127.0.0.1:7070), PES_TOKEN a key if it wants one, PES_THREAD the conversation.
"""

import asyncio
import json
import os
import sys

from pes_client import Pes, PesError
from pes_client.types import AskedQuestion

URL = os.environ.get("PES_URL", "http://127.0.0.1:7070")
THREAD = os.environ.get("PES_THREAD", "example")


async def decide(pes: Pes, question: AskedQuestion) -> None:
    print(f"\n? {question['message']}\n{json.dumps(question.get('toolInput', {}), indent=2)}")
    said = (await asyncio.to_thread(input, "  approve? [y/N, or a reason against it] ")).strip()
    try:
        if said.lower() in ("y", "yes"):
            await pes.approve(THREAD, question)
        else:
            await pes.reject(THREAD, question, said or "The user said no.")
    except PesError as error:
        # Another answer came first; the stream reports the decision.
        if error.code != "already_resolved":
            raise


async def main(query: str) -> None:
    async with Pes(URL, os.environ.get("PES_TOKEN")) as pes:
        run = (await pes.process(THREAD, query))["runId"]
        async for frame in pes.events(THREAD, until=run):
            if frame["event"] == "token" and frame["data"]["tokenType"] == "SYNTHESIS_LLM_RESPONSE":
                print(frame["data"]["data"], end="", flush=True)
            elif frame["event"] == "run" and "result" in frame["data"]:
                print(f"\n= {frame['data']['status']}")
            # The stream begins with earlier runs of the thread.
            elif frame["event"] == "observation" and frame["data"]["runId"] == run:
                if frame["data"]["type"] == "ITEM_STATUS_CHANGE":
                    print(f"- {frame['data']['title']}")
                elif frame["data"]["type"] == "AGENT_SUSPENDED":
                    await decide(pes, frame["data"]["content"])


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:])))
