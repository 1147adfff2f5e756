"""Requests to a server. Unknown fields are refused, because the sender means something by them."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal, cast

import pydantic

from handraise.model.attachments import Attachment
from handraise.model.bulk_answers import MOST_ANSWERS
from handraise.model.callbacks import Callback
from handraise.model.drafting import IfExists, QuestionOptions
from handraise.model.forms import Action, AnyForm, Option
from handraise.model.identities import Role
from handraise.model.json_values import text_problem
from handraise.model.problems import InvalidQuestion, Problem
from handraise.model.questions import Draft, Replies
from handraise.model.standing_answers import SPOT_CHECK
from handraise.wire.records import Seconds, TimelineRecord

QUESTION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:~-]{0,199}")
"""The format of a question's id over HTTP: it is part of paths."""


def _keepable(text: str) -> str:
    if why := text_problem(text):
        raise ValueError(why)
    return text


Name = Annotated[str, pydantic.Field(min_length=1, max_length=200), pydantic.AfterValidator(_keepable)]


class Request(pydantic.BaseModel):
    """The body of a request."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _form_or_schema(value: Any) -> str:
    return "schema" if isinstance(value, dict) and "kind" not in value else "any_form"


AnyFormOrSchema = Annotated[
    Annotated[AnyForm, pydantic.Tag("any_form")] | Annotated[dict[str, Any], pydantic.Tag("schema")],
    pydantic.Discriminator(_form_or_schema),
]


class CallbackRequest(Request):
    """Where the agent is told that its question has ended, by a signed webhook. It is never given back."""

    url: Annotated[str, pydantic.Field(repr=False)]
    secret: Annotated[str, pydantic.Field(repr=False, json_schema_extra={"writeOnly": True})]


class PostQuestion(Request):
    """A question to ask. Say what a valid answer is with `choices` or `form`; else it is free text.

    `form` is one of Handraise's forms or a flat JSON Schema; an approval's digest may be left out. If you
    give your own `id`, posting it again is safe. `if_exists` says what is returned if the `key` is taken: the
    stored question if it is the same (`equal`), or always (`keep`). A key belongs to the agent, unless it is
    `shared` with others that say so too. With `check_recipients` false, recipients whom the directory does
    not know are accepted too.
    """

    prompt: str
    id: Annotated[str, pydantic.Field(pattern=f"^{QUESTION_ID.pattern}$")] | None = None
    choices: tuple[str | Option, ...] | None = None
    form: AnyFormOrSchema | None = None
    context: Any = None
    state: Any = None
    key: str | None = None
    conversation: str | None = None
    tool_call: str | None = None
    trace: str | None = None
    recipients: tuple[str, ...] = ()
    quorum: int = 1
    veto: bool = False
    max_attempts: int | None = None
    undo_for: Seconds = 0.0
    heartbeat: Seconds | None = None
    expires_in: Seconds | None = None
    timeline: TimelineRecord | None = None
    if_exists: IfExists = "equal"
    shared: bool = False
    check_recipients: bool = True
    replies: Replies | None = None
    replaces: str | None = None
    topic: str | None = None
    attachments: tuple[Attachment, ...] = ()
    callback: CallbackRequest | None = None

    @pydantic.field_validator("form", mode="before")
    @classmethod
    def _with_digest(cls, form: Any) -> Any:
        """You need not compute the digest of an approval that you write by hand."""
        if isinstance(form, dict) and form.get("kind") == "approval" and "digest" not in form:
            return {**form, "digest": Action.model_validate(form.get("action")).digest}
        return form

    @classmethod
    def of(cls, draft: Draft) -> PostQuestion:
        """The request that posts a draft."""
        names = [
            "id",
            "prompt",
            "form",
            "context",
            "state",
            "key",
            "conversation",
            "tool_call",
            "trace",
            "recipients",
            "quorum",
            "veto",
            "max_attempts",
            "undo_for",
            "heartbeat",
            "shared",
            "replies",
            "replaces",
            "topic",
            "attachments",
        ]
        timeline, callback = draft.timeline, draft.callback
        return cls(
            **{name: getattr(draft, name) for name in names},
            callback=callback and CallbackRequest(url=callback.url, secret=callback.secret),
            timeline=None if timeline is None else TimelineRecord.of(timeline),
        )

    def options(self) -> QuestionOptions:
        """The options of `post` besides the prompt."""
        options: dict[str, Any] = {
            name: getattr(self, name) for name in self.model_fields_set & set(QuestionOptions.__annotations__)
        }
        options = {name: value for name, value in options.items() if value is not None}
        if self.callback is not None:
            options["callback"] = Callback(self.callback.url, self.callback.secret)
        if self.timeline is not None:
            try:
                options["timeline"] = self.timeline.timeline()
            except (OverflowError, ValueError):
                raise InvalidQuestion([Problem("timeline", "has a span that no clock knows")]) from None
        return cast("QuestionOptions", options)


MOST_QUESTIONS = 100
"""The most questions in one request."""


class PostQuestions(Request):
    """Several questions to ask. Each is asked by itself, as if it had come in its own request."""

    questions: Annotated[tuple[PostQuestion, ...], pydantic.Field(min_length=1, max_length=MOST_QUESTIONS)]


class ResponseRequest(Request):
    """Details of an answer. `by` may only be the person who is signed in.

    `channel` is where they answered. `evidence` may be weaker than what the server knows, never stronger.
    `shown_digest` is the SHA-256 of the question as they saw it there, in hexadecimal. `seen` is how many messages of its
    thread they saw: an approval is refused if there are others.
    """

    by: str | None = None
    channel: str | None = None
    evidence: str | None = None
    shown_digest: str | None = None
    seen: Annotated[int, pydantic.Field(ge=0, le=1_000_000)] | None = None
    details: Any = None


class AnswerQuestion(ResponseRequest):
    """An answer."""

    value: Any


class DeclineQuestion(ResponseRequest):
    """A refusal to answer."""

    reason: str | None = None


class SendBack(ResponseRequest):
    """Send a question back: `reason` says what to change before it is asked again."""

    reason: str


class ShareQuestion(ResponseRequest):
    """Take a question, release it, or put it back into your inbox."""


class BringIn(ResponseRequest):
    """People and groups who are asked too, and why."""

    people: tuple[str, ...]
    reason: str | None = None


class SetAside(ResponseRequest):
    """Take a question out of your inbox until a time, or for good."""

    until: datetime | None = None


class KeepAnswer(Request):
    """Keep your answer for its topic until a time. `spot_check` is the share of new questions that people still get."""

    until: datetime
    spot_check: Annotated[float, pydantic.Field(ge=0, le=1)] = SPOT_CHECK


class AnswerItem(AnswerQuestion):
    """One of several answers."""

    question_id: Annotated[str, pydantic.Field(pattern=f"^{QUESTION_ID.pattern}$")]


class DeclineItem(DeclineQuestion):
    """Declines to answer one of several questions."""

    question_id: Annotated[str, pydantic.Field(pattern=f"^{QUESTION_ID.pattern}$")]
    decline: Literal[True]


def _answer_or_decline(item: Any) -> str:
    declines = "decline" in item if isinstance(item, dict) else isinstance(item, DeclineItem)
    return "decline" if declines else "answer"


class AnswerAll(Request):
    """Answers to several questions, at most one to each: a `value`, or `"decline": true`."""

    answers: Annotated[
        tuple[
            Annotated[
                Annotated[AnswerItem, pydantic.Tag("answer")]
                | Annotated[DeclineItem, pydantic.Tag("decline")],
                pydantic.Discriminator(_answer_or_decline),
            ],
            ...,
        ],
        pydantic.Field(min_length=1, max_length=MOST_ANSWERS),
    ]

    @pydantic.field_validator("answers")
    @classmethod
    def _one_each(cls, answers: tuple[AnswerItem | DeclineItem, ...]) -> tuple[AnswerItem | DeclineItem, ...]:
        if len({each.question_id for each in answers}) < len(answers):
            raise ValueError("there are two answers to one question")
        return answers


class TakeBack(Request):
    """Take back an approval."""

    by: str | None = None
    reason: str | None = None


class WriteMessage(ResponseRequest):
    """A message of a person: to the asker, or a note for the other people."""

    text: str


class ReplyToPeople(Request):
    """A reply of the asker to the message with the number `to` and all before it; without it, to all so far."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    to: Annotated[int, pydantic.Field(ge=0, le=1_000_000)] | None = None


class ReportQuestion(Request):
    """Report what came of an answer. `text` is for people, `link` begins with https:// or http://, `details` is any JSON."""

    ok: pydantic.StrictBool
    text: str
    link: str | None = None
    details: Any = None


class ProblemRecord(Request):
    """One problem and its path."""

    path: str = ""
    message: str


class RejectAnswer(ResponseRequest):
    """An answer that fits the form but not the asker's needs, with the reasons."""

    value: Any
    problems: Annotated[tuple[ProblemRecord, ...], pydantic.Field(min_length=1, max_length=100)]


class WithdrawQuestion(Request):
    """Withdraw a question; `by` is the administrator who does so for its asker."""

    reason: str | None = None
    by: str | None = None


class WithdrawAll(Request):
    """Withdraw all pending questions of an agent."""

    asker: Annotated[str, pydantic.Field(min_length=1, max_length=200)]
    reason: str | None = None


class ConsumeQuestion(Request):
    """Consume an approval. The same `request` again returns the same action again."""

    request: str | None = None


class ClaimSending(Request):
    """Claim the task of showing a question in your own chat, for `lease` seconds."""

    lease: Annotated[float, pydantic.Field(gt=0, le=3_600)] = 30


class MarkSent(Request):
    """Record that a question was shown in a chat."""

    channel: str | None = None


class JoinQuestion(Request):
    """Another key that names a question."""

    key: str


class Recover(Request):
    """At an agent's start-up: expire the questions that it asked longer ago than this many seconds."""

    max_age: Annotated[Seconds, pydantic.Field(ge=0, le=3_155_760_000)]


class GiveHeartbeat(Request):
    """The ids of questions that their agent still waits for, at most 1,000."""

    ids: Annotated[
        tuple[Annotated[str, pydantic.Field(max_length=200)], ...], pydantic.Field(max_length=1_000)
    ]


class CreateKey(Request):
    """A new key for an agent. With `reads` it is for a program that only reads settled questions and cannot ask.

    With `scim` it is for an identity provider that adds, disables and removes people and groups over SCIM. With
    `administers` it is for a program that changes the configuration of the workspace, and can neither ask nor answer.
    """

    agent: Name
    reads: bool = False
    scim: bool = False
    administers: bool = False

    @pydantic.model_validator(mode="after")
    def _is_for_one_use(self) -> CreateKey:
        if self.reads + self.scim + self.administers > 1:
            raise ValueError("a key is for one use: for reading, for SCIM or for administering")
        return self


class PutPerson(Request):
    """A person to add or change."""

    name: Name
    email: Annotated[str, pydantic.Field(max_length=320, pattern=r"^[^@\s]+@[^@\s]+$")] | None = None
    role: Role = Role.MEMBER


class PutGroup(Request):
    """All people of a group."""

    people: Annotated[tuple[Name, ...], pydantic.Field(max_length=10_000)]


class CreateQuestionLink(Request):
    """A link with which a person answers one question: you, unless `person` names somebody else.

    It ends after `expires_in` seconds: a week by default, at most 30 days. `channel` is how it reaches the
    person, and is stored with the answer.
    """

    person: Name | None = None
    expires_in: Annotated[Seconds, pydantic.Field(gt=0, le=2_592_000)] = 604_800
    channel: Name = "link"


class OpenSession(Request):
    """A sign-in link's token, to be exchanged for a session."""

    link: str
