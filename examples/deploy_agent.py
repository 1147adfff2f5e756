"""A model loop that is killed while a person thinks, and carries on with their answer.

The model calls two tools in one turn; one of them asks a person. The loop is killed with SIGKILL while it
waits. Somebody answers in another process, as a client would. The loop is started again, finds its messages in
a file and its question on the desk, and continues the same conversation. The model is played by
`scripted_openai.py`, which refuses any request that the real API would refuse.

Run it with: python examples/deploy_agent.py [sqlite:///file.db | postgresql://…]
It needs: pip install openai
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import openai

import handraise
from handraise import tools

HERE = Path(__file__).parent
CONVERSATION = "deploy shop"
RUNNING_VERSION: Any = {
    "type": "function",
    "function": {
        "name": "running_version",
        "description": "The version of a service that is running.",
        "parameters": {"type": "object", "properties": {"service": {"type": "string"}}},
    },
}


async def agent(url: str, model_url: str, folder: Path) -> None:
    """The loop. It does not know whether this is its first run: messages and questions are both stored."""
    messages = load(folder)
    client = openai.AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)
    async with handraise.open_desk(url, asker="deployer") as desk, client:

        async def show(event: tools.AskEvent) -> None:
            """Put what a client draws into the transcript, beside what the model says."""
            messages.append(tools.client_message(await desk.get(event.question_id)))
            save(folder, messages)
            print(f"asks as {event.question_id}: {event.prompt}", flush=True)

        asking = tools.human_intervention_request(desk, conversation=CONVERSATION, emit=show)
        offered: Any = [RUNNING_VERSION, asking.spec.for_openai_chat()]
        while True:
            for call in open_calls(tools.filter_client_messages(messages)):
                messages.append(await execute(asking, call))
                save(folder, messages)
            response = await client.chat.completions.create(
                model="scripted", messages=tools.filter_client_messages(messages), tools=offered
            )
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            save(folder, messages)
            if not message.tool_calls:
                print(message.content, flush=True)
                return


async def execute(asking: tools.AskTool, call: dict[str, Any]) -> dict[str, Any]:
    """Run one call of the model and get its result as a message."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if asking.answers_to(name):
        result = await asking.execute(arguments, call_id=call["id"])
        return result.for_openai_chat(call["id"])
    print("looked up the running version", flush=True)
    return {"role": "tool", "tool_call_id": call["id"], "content": "v1"}


def open_calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The model's calls that have no result yet."""
    done = {each["tool_call_id"] for each in messages if each["role"] == "tool"}
    calls = [call for each in messages for call in each.get("tool_calls", ())]
    return [call for call in calls if call["id"] not in done]


def load(folder: Path) -> list[dict[str, Any]]:
    """The conversation so far."""
    file = folder / "messages.json"
    if not file.exists():
        return [{"role": "user", "content": "Deploy shop v2."}]
    messages: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return messages


def save(folder: Path, messages: list[dict[str, Any]]) -> None:
    """Replace the file in one step: a kill leaves the old messages or the new ones."""
    file = folder / "messages.new"
    file.write_text(json.dumps(messages), encoding="utf-8")
    file.replace(folder / "messages.json")


async def person(url: str) -> None:
    """What a client does: draw what is pending in the conversation, and submit a choice."""
    async with handraise.open_desk(url) as desk:
        [drawn] = await tools.pending_client_messages(desk, CONVERSATION)
        call = drawn["tool_calls"][0]
        options = json.loads(call["function"]["arguments"])["options"]
        chosen = {
            "agent": "deployer",
            "tool_call_id": call["id"],
            "decision": "approve",
            "choice": options[1],
            "conversation": CONVERSATION,
        }
        message = await tools.submit_tool_result(desk, chosen, by="ana")
        print(f"{call['function']['name']} of {options} -> {message}", flush=True)


def start(*line: str) -> "subprocess.Popen[str]":
    """Another process, whose output we read."""
    return subprocess.Popen([sys.executable, *line], stdout=subprocess.PIPE, text=True)


def next_line(process: "subprocess.Popen[str]") -> str:
    """The next line that the process prints."""
    if process.stdout is None or not (line := process.stdout.readline()):
        raise SystemExit("a process ended before it should")
    return line.strip()


def main(url: str, folder: Path) -> None:
    """Play all parts."""
    server = start(str(HERE / "scripted_openai.py"))
    try:
        model_url = next_line(server)
        loop = (__file__, "agent", url, model_url, str(folder))

        first = start(*loop)
        print("1. the model's first turn:  ", next_line(server))
        print("2. the loop works:          ", next_line(first))
        print("3. and asks a person:       ", next_line(first))
        first.kill()
        print("4. it is killed:             exit code", first.wait())

        client = start(__file__, "person", url)
        print("5. ana answers elsewhere:   ", next_line(client))
        client.wait()

        again = start(*loop)
        print("6. the model's second turn: ", next_line(server))
        print("7. the loop carries on:     ", next_line(again))
        print("8. and ends:                 exit code", again.wait())
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["agent", url, model_url, folder]:
            asyncio.run(agent(url, model_url, Path(folder)))
        case ["person", url]:
            asyncio.run(person(url))
        case [url]:
            main(url, Path(tempfile.mkdtemp()))
        case _:
            here = Path(tempfile.mkdtemp())
            main(f"sqlite:///{here / 'questions.db'}", here)
