"""A model that says what it is told to, instead of one that costs money."""

from typing import Any

from agents import set_tracing_disabled
from agents.testing import ModelCall, ModelStep, ScriptedModel, assistant_message, function_call

set_tracing_disabled(True)


def think(call: ModelCall) -> list[Any]:
    """Ask for the reason and refund in one turn, then tell what came of it."""
    results = [str(each["output"]) for each in call.input if "output" in each]
    if results:
        return [assistant_message("\n".join(results))]
    return [
        function_call("ask_human", {"question": "Why do they want it back?"}, call_id="call_1"),
        function_call("send_refund", {"order": "A-17", "amount": 40}, call_id="call_2"),
    ]


model = ScriptedModel([ModelStep.respond(think)] * 3)
