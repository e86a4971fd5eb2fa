"""OpenAI's Agents SDK (openai-agents, PyPI) against a server: openai_agents.py URL

Turns, a stream, a function, approvals by callback and by interruption, chat completions, errors, eight at once. The server plays
tests/it/support/script.toml. Nothing is traced: the SDK would send its traces to OpenAI. Ends with `done`.
"""

import asyncio
import os
import sys

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import openai  # noqa: E402
from agents import (  # noqa: E402
    Agent,
    HostedMCPTool,
    OpenAIChatCompletionsModel,
    Runner,
    function_tool,
    set_default_openai_client,
)

client = openai.AsyncOpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none")
set_default_openai_client(client, use_for_tracing=False)
SERVER = {"type": "mcp", "server_label": "pes", "server_url": "https://unused.example", "require_approval": "always"}
ANSWER = "Two and two are four."


async def turns():
    agent = Agent(name="PES", model="pes")
    first = await Runner.run(agent, "count")
    assert first.final_output == ANSWER, first
    items = first.to_input_list() + [{"role": "user", "content": "hello"}]
    assert (await Runner.run(agent, items)).final_output == "Hello again."
    after = await Runner.run(agent, "count")
    second = await Runner.run(agent, "hello", previous_response_id=after.last_response_id)
    assert second.final_output == "Hello again.", second
    streamed = Runner.run_streamed(agent, "count")
    kinds = {event.data.type async for event in streamed.stream_events() if event.type == "raw_response_event"}
    assert streamed.final_output == ANSWER and "response.output_text.delta" in kinds, kinds
    assert streamed.context_wrapper.usage.total_tokens > 0


async def function_and_callback():
    called = []

    @function_tool
    def get_location(precision: str) -> str:
        """Where the user is."""
        called.append(precision)
        return "Rome"

    asked = []

    def decide(request):
        asked.append(request.data.name)
        return {"approve": False, "reason": "late"}

    hosted = HostedMCPTool(tool_config=SERVER, on_approval_request=decide)
    agent = Agent(name="PES", model="pes", tools=[get_location, hosted])
    result = await Runner.run(agent, "locate")
    assert result.final_output == "You are here.", result
    assert (called, asked) == (["city", "street"], ["demo_send_email"]), (called, asked)


async def interruption():
    agent = Agent(name="PES", model="pes", tools=[HostedMCPTool(tool_config=SERVER)])
    for approve in (True, False):
        asked = await Runner.run(agent, "send")
        [interrupted] = asked.interruptions
        state = asked.to_state()
        (state.approve if approve else state.reject)(interrupted)
        done = await Runner.run(agent, state)
        assert done.final_output == "The mail is dealt with." and not done.interruptions, done
        [call] = [item.raw_item for item in done.new_items if getattr(item.raw_item, "type", None) == "mcp_call"]
        assert (call.error is None) is approve, call


async def chat():
    agent = Agent(name="PES", model=OpenAIChatCompletionsModel(model="pes", openai_client=client))
    assert (await Runner.run(agent, "count")).final_output == ANSWER
    streamed = Runner.run_streamed(agent, "count")
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == ANSWER


async def errors():
    try:
        await Runner.run(Agent(name="PES", model="gpt-5"), "hello")
        raise AssertionError("there is no such model")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    agent = Agent(name="PES", model="pes")
    results = await asyncio.gather(*(Runner.run(agent, "count") for _ in range(8)))
    assert {result.final_output for result in results} == {ANSWER}


async def main():
    for story in (turns, function_and_callback, interruption, chat, errors):
        await story()
    print("done")


asyncio.run(main())
