"""What a model is told about `ask_human` and its presets."""

from __future__ import annotations

import copy

from handraise.model.json_values import Json
from handraise.tools.tool_arguments import MAX_CHOICES, MAX_QUESTIONS
from handraise.tools.tool_spec import ToolSpec

REPLACES: dict[str, Json] = {
    "type": "string",
    "description": "If a person sent your question back: its question_id. You ask it again, changed. Else leave it out.",
}
"""The parameter that names the question that is asked again."""

TOPIC: dict[str, Json] = {
    "type": "string",
    "description": "If other agents may need to know the same: a short name of what you want to know, such as vat-rate:DE. "
    "Agents that ask the same question with the same topic get one answer. Else leave it out.",
}
"""The parameter that names what is asked, across agents."""


def with_topic(spec: ToolSpec) -> ToolSpec:
    """The same tool, whose model may give a topic, also for each question of a batch."""
    parameters = copy.deepcopy(spec.parameters)
    properties = parameters["properties"]
    properties["topic"] = TOPIC
    if "questions" in properties:
        properties["questions"]["items"]["properties"]["topic"] = TOPIC
    return ToolSpec(spec.name, spec.description, parameters)


_CHOICES = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": MAX_CHOICES,
    "description": "What the user can choose from. Leave it out for an open question.",
}
_MULTI_SELECT = {"type": "boolean", "description": "Whether the user may choose several of the choices."}

OPTION = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "properties": {
                "label": {"type": "string", "description": "What is chosen, in a few words."},
                "description": {"type": "string", "description": "What it means."},
                "preview": {
                    "type": "string",
                    "description": "What they would get, in Markdown: a draft, some code, a sketch.",
                },
                "recommended": {
                    "type": "boolean",
                    "description": "Whether you recommend it. At most one, unless several can be chosen.",
                },
                "reason": {"type": "string", "description": "Why you recommend it."},
            },
            "required": ["label"],
            "additionalProperties": False,
        },
    ]
}
"""What a model may give for one choice: its text, or more about it."""

_CONTEXT = {"type": "string", "description": "Why you need to know, for the person to answer well."}
_ANY_CHOICES = {
    "type": "array",
    "items": OPTION,
    "description": "What the person can choose from. Leave it out for an open question.",
}

ASK_HUMAN = ToolSpec(
    "ask_human",
    "Ask a person if you cannot go on without their answer. Be specific and brief, and ask only what you cannot "
    "find out yourself. Put what can be chosen into choices, never into the text of the question. Ask several "
    "questions at once only if none depends on another. This is not an approval: do not use it before a "
    "dangerous action.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "One question. Not together with questions."},
            "choices": _ANY_CHOICES,
            "multi_select": _MULTI_SELECT,
            "context": _CONTEXT,
            "replaces": REPLACES,
            "questions": {
                "type": "array",
                "maxItems": MAX_QUESTIONS,
                "description": "Several independent questions instead of one.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Comes back with the answer."},
                        "question": {"type": "string"},
                        "choices": _ANY_CHOICES,
                        "multi_select": _MULTI_SELECT,
                        "context": _CONTEXT,
                        "replaces": REPLACES,
                    },
                    "required": ["question"],
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    },
)

CLARIFY = ToolSpec(
    "clarify",
    "Ask the user when you cannot go on without knowing. Put what can be chosen into choices, never into the "
    "text of the question. Ask several questions at once only if none depends on another. If little "
    "depends on it, decide yourself. This is not an approval: do not use it before a dangerous action.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "One question. Not together with questions."},
            "choices": _CHOICES,
            "multi_select": _MULTI_SELECT,
            "replaces": REPLACES,
            "questions": {
                "type": "array",
                "maxItems": MAX_QUESTIONS,
                "description": "Several independent questions instead of one.",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Comes back with the answer."},
                        "question": {"type": "string"},
                        "choices": _CHOICES,
                        "multi_select": _MULTI_SELECT,
                        "replaces": REPLACES,
                    },
                    "required": ["question"],
                    "additionalProperties": False,
                },
            },
        },
        "additionalProperties": False,
    },
)

ASK_CLARIFYING_QUESTION = ToolSpec(
    "ask_clarifying_question",
    "Ask the user one question that is answered in their own words. Be specific and brief, and ask only what "
    "you cannot find out.",
    {
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "What you ask the user."},
            "context": {
                "type": "string",
                "description": "Why you need to know, for the user to answer well.",
            },
            "replaces": REPLACES,
        },
        "required": ["question"],
        "additionalProperties": False,
    },
)

HUMAN_INTERVENTION_REQUEST = ToolSpec(
    "human_intervention_request",
    "Let a person decide between options before you go on. You get the option that was chosen.",
    {
        "type": "object",
        "properties": {
            "prompt": {"type": "string", "description": "What is to be decided."},
            "options": {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "description": "What can be chosen, one short text each.",
            },
            "context": {
                "type": "object",
                "description": "What helps to decide.",
                "additionalProperties": True,
            },
            "replaces": REPLACES,
        },
        "required": ["prompt", "options"],
        "additionalProperties": False,
    },
)
