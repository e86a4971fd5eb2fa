"""A client in Python, as openapi-python-client makes it of tests/openapi.json: it asks, is asked, answers, and reads what came
of it."""

import sys

sys.path.insert(0, "target/peers/client-py")

from generated import Client  # noqa: E402
from generated.api.events import list_events  # noqa: E402
from generated.api.runs import get_run, list_suspensions, process_thread, resume_thread  # noqa: E402
from generated.api.server import get_health, list_models  # noqa: E402
from generated.api.threads import create_thread, get_state, list_messages  # noqa: E402
from generated.models import (  # noqa: E402
    AgentFinalResponse,
    AgentProps,
    Code,
    NewThread,
    ObservationType,
    Problem,
    Receipt,
    ResumeRequest,
    RunStatus,
    SuspensionKind,
)


def check(what, holds, seen):
    if not holds:
        raise SystemExit(f"{what}: {seen}")


def main():
    client = Client(base_url=sys.argv[1])
    made = create_thread.sync(client=client, body=NewThread(thread_id="story"))
    check("a thread", made.thread_id == "story", made)

    receipt = process_thread.sync("story", client=client, body=AgentProps(query="send"), prefer="wait=30")
    check("a receipt", isinstance(receipt, Receipt) and receipt.status is RunStatus.SUSPENDED, receipt)
    question = receipt.suspensions[0]
    check("a question", question.kind is SuspensionKind.APPROVAL, question)

    state = get_state.sync("story", client=client)
    check("the state", state.is_paused and state.todo_list[0].status == "in_progress", state)
    inbox = list_suspensions.sync(client=client, limit=1000)
    check("the inbox", inbox.items[0].suspension_id == question.suspension_id, inbox)

    answer = ResumeRequest(suspension_id=question.suspension_id, approved=True)
    done = resume_thread.sync("story", client=client, body=answer, prefer="wait=30")
    check("the result", isinstance(done, AgentFinalResponse) and done.metadata.status == "success", done)
    again = resume_thread.sync("story", client=client, body=answer)
    check("a problem", isinstance(again, Problem) and again.code is Code.ALREADY_RESOLVED, again)

    run = get_run.sync(receipt.run_id, client=client)
    check("the run", run.status is RunStatus.COMPLETED and run.result, run)
    page = list_events.sync("story", client=client, types="RUN_FINISHED")
    check("the log", [it.type_ for it in page.items] == [ObservationType.RUN_FINISHED], page)
    messages = list_messages.sync("story", client=client)
    check("the conversation", [it.role for it in messages.items] == ["USER", "AI"], messages)
    models = list_models.sync(client=client)
    check("models", models.items[0].is_default, models)
    health = get_health.sync(client=client)
    check("health", health.status == "ok", health)
    print("done")


main()
