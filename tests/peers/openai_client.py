"""OpenAI's own library for Python (openai, PyPI) against a server: openai_client.py URL

Two turns, functions of the client, a rejection, a cut and what follows it, answers as JSON, errors, eight at once. The server plays
tests/it/support/script.toml. Every object and event is checked against the library's own models. Ends with `done`.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import openai
import pydantic
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

EVENT = TypeAdapter(ResponseStreamEvent)
client = OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="none")
LOCATION = {
    "name": "get_location",
    "description": "Where the user is.",
    "parameters": {"type": "object", "properties": {"precision": {"enum": ["city", "street"]}}},
}


def strict(model, value):
    """The value, which must be what the library's model says."""
    return model.model_validate(value.model_dump(warnings="error"), strict=False)


def chat():
    models = [model.id for model in client.models.list()]
    assert "pes" in models and client.models.retrieve("pes").id == "pes", models
    say = lambda text: [{"role": "user", "content": text}]
    headers = {"X-PES-Thread": "talk"}
    for _ in range(2):
        answer = client.chat.completions.create(model="pes", messages=say("hello"), extra_headers=headers)
        strict(ChatCompletion, answer)
        assert answer.choices[0].message.content == "Hello there." and answer._request_id, answer
    chunks = list(
        client.chat.completions.create(
            model="pes", messages=say("count"), stream=True, stream_options={"include_usage": True}
        )
    )
    for chunk in chunks:
        strict(ChatCompletionChunk, chunk)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "Two and two are four." and chunks[-1].usage.total_tokens > 0, text

    tools = [{"type": "function", "function": LOCATION}]
    asked = client.chat.completions.create(model="pes", messages=say("locate"), tools=tools)
    assert asked.choices[0].finish_reason == "tool_calls", asked
    message = asked.choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": "Rome"} for call in message.tool_calls]
    question = client.chat.completions.create(model="pes", messages=[*say("locate"), message, *results], tools=tools)
    assert "demo_send_email" in question.choices[0].message.content, question


def responses():
    first = client.responses.create(model="pes", input="hello")
    strict(Response, first)
    assert first.output_text == "Hello there.", first
    second = client.responses.create(model="pes", input="count", previous_response_id=first.id)
    assert second.output_text == "Two and two are four.", second
    assert client.responses.retrieve(second.id).output_text == second.output_text

    live = list(client.responses.create(model="pes", input="count", stream=True, background=True))
    for event in live:
        EVENT.validate_python(event.model_dump(warnings="error"))
    numbers = [event.sequence_number for event in live]
    assert numbers == list(range(len(live))) and live[-1].type == "response.completed", numbers
    id = live[0].response.id
    for cut in range(len(live)):
        rest = list(client.responses.retrieve(id, stream=True, starting_after=cut))
        assert [event.sequence_number for event in rest] == numbers[cut + 1 :], cut

    with client.responses.stream(model="pes", input="count") as stream:
        final = stream.get_final_response()
    assert final.output_text == "Two and two are four.", final

    own = [{"type": "function", **LOCATION}, {"type": "mcp", "server_label": "pes", "server_url": "https://unused.example"}]
    asked = client.responses.create(model="pes", input="locate", tools=own)
    answers = []
    for item in asked.output:
        if item.type == "function_call":
            answers.append({"type": "function_call_output", "call_id": item.call_id, "output": "Rome"})
        if item.type == "mcp_approval_request":
            answer = {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": False, "reason": "late"}
            answers.append(answer)
    assert len(answers) == 3, asked
    done = client.responses.create(model="pes", input=answers, previous_response_id=asked.id, tools=own)
    assert done.output_text == "You are here." and done.output[0].error, done
    try:
        client.responses.create(model="pes", input=answers, previous_response_id=asked.id, tools=own)
        raise AssertionError("it was answered twice")
    except openai.ConflictError as error:
        assert error.code == "already_resolved", error

    hanging = client.responses.create(model="pes", input="hang", background=True)
    assert hanging.status == "in_progress" and client.responses.cancel(hanging.id).status == "cancelled", hanging
    try:
        client.responses.create(model="pes", input="fail")
        raise AssertionError("a failed run is no answer")
    except openai.BadRequestError as error:
        assert error.code == "task_refused", error


def json_answers():
    class Place(pydantic.BaseModel):
        city: str

    say = [{"role": "user", "content": "where"}]
    completion = client.chat.completions.parse(model="pes", messages=say, response_format=Place)
    assert completion.choices[0].message.parsed == Place(city="Rome"), completion
    with client.chat.completions.stream(model="pes", messages=say, response_format=Place) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == Place(city="Rome")
    response = client.responses.parse(model="pes", input="where", text_format=Place)
    assert response.output_parsed == Place(city="Rome") and response.text.format.type == "json_schema", response
    any_object = {"type": "json_object"}
    completion = client.chat.completions.create(model="pes", messages=say, response_format=any_object)
    assert json.loads(completion.choices[0].message.content) == {"city": "Rome"}, completion


def errors():
    for call, kind, code in [
        (lambda: client.chat.completions.create(model="gpt-5", messages=[]), openai.NotFoundError, "model_not_found"),
        (lambda: client.responses.create(model="pes", input=[]), openai.BadRequestError, "invalid"),
        (lambda: client.responses.retrieve("resp_x_1"), openai.NotFoundError, "not_found"),
    ]:
        try:
            call()
            raise AssertionError(f"no {code}")
        except kind as error:
            assert error.code == code and error.request_id, error
    try:
        list(client.chat.completions.create(model="pes", messages=[{"role": "user", "content": "fail"}], stream=True))
        raise AssertionError("a failed run is no answer")
    except openai.APIError as error:
        assert error.code == "task_refused", error


def many():
    ask = lambda _: client.responses.create(model="pes", input="count").output_text
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"Two and two are four."}


chat()
responses()
json_answers()
errors()
many()
print("done")
