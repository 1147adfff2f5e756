"""What the page of a question shows: what is asked, what has happened, and the form with what was typed into it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from handraise.channels.push_subscriptions import NAME as WEBPUSH
from handraise.desk.everybody import active_groups
from handraise.desk.local_desk import LocalDesk
from handraise.model.agreement import has_voted
from handraise.model.attachments import Attachment, attached_in
from handraise.model.events import Event
from handraise.model.forms import Approval, Confirm, Scope, takes_files
from handraise.model.handovers import handovers
from handraise.model.identities import Person, Role
from handraise.model.json_values import Json, canonical_json
from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.outcomes import Answered
from handraise.model.people import may_respond, may_take_back
from handraise.model.problems import Problem
from handraise.model.questions import Question
from handraise.model.stops import stop_for, tool_of
from handraise.model.thread_messages import messages_of, thread_digest
from handraise.model.urgency import is_escalated, is_soon
from handraise.model.visible import visible, visible_line
from handraise.ports import Directory, Outbox, Policies
from handraise.presentation.answer_text import AnswerPart, answer_parts
from handraise.presentation.brief_text import (
    brief_links,
    brief_rows,
    brief_title,
    preview_title,
    previews_of,
)
from handraise.presentation.error_text import error_text
from handraise.presentation.heartbeat_text import orphan_text
from handraise.presentation.markdown import one_line
from handraise.presentation.names import display_name, listed
from handraise.presentation.one_press import can_wait, notification_digest, takes_one_press
from handraise.presentation.risk_text import risk_text
from handraise.presentation.ruling_text import ruling_lines
from handraise.presentation.times import span
from handraise.presentation.translation import gettext
from handraise.server.passkeys.passkey_use import PasskeyUse
from handraise.server.web.inbox.agent_text import formatted
from handraise.server.web.inbox.away_view import away_lines
from handraise.server.web.inbox.earlier_view import MaySee, earlier_of, later_of
from handraise.server.web.inbox.file_view import FilePlaces, files_of
from handraise.server.web.inbox.form_controls import (
    ZONES,
    Submitted,
    controls_of,
    frozen_arguments,
    general_problems,
    read_answer,
)
from handraise.server.web.inbox.keep_view import keep_offer
from handraise.server.web.inbox.name_links import (
    agent_href,
    answerer_link,
    conversation_href_of,
    tool_href_of,
)
from handraise.server.web.inbox.page_texts import (
    audience_of,
    delivery_lines,
    end_at,
    history_lines,
    scope_text,
    since,
)
from handraise.server.web.inbox.print_view import print_facts
from handraise.server.web.inbox.question_kind import kind_in_words
from handraise.server.web.inbox.sharing_view import SHARING, SharingView, names_to_bring_in, sharing_of
from handraise.server.web.inbox.status_view import (
    action_heading,
    ahead_of,
    settled_of,
    status_name,
    verdict_of,
)
from handraise.server.web.inbox.stops_page import StopView, stop_view
from handraise.server.web.inbox.thread_view import thread_of, without_message
from handraise.server.web.inbox.typed_names import PEOPLE_AT_ONCE, display_names
from handraise.server.web.inbox.value_view import arguments_of, changed, has_difference, shown
from handraise.server.web.inbox.vote_view import Votes, votes_of
from handraise.server.web.pages import TEMPLATES, live_page

CHANNEL = "web"
ONCE: Scope = "once"

_LONG_TEXT = 1_500
_LONG_LINES = 15
_LONG_CONTEXT = 2_000
_LONGEST_OPEN = 20_000
_LONGEST_NAMES = 80
_LONGEST_TITLE = 60
_MOST_FOLLOWERS = 20


@dataclass(frozen=True, slots=True)
class OtherPage:
    """The page where a person can answer a question that they may not answer here."""

    href: str
    lead: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyNeed:
    """A passkey that the policy requires, or that approves what the session is too weak for. A denial needs none."""

    use: PasskeyUse | None
    """How passkeys are used, if this server can."""
    has_one: bool
    """Whether the person has one that works here."""
    is_required: bool
    """Whether the policy requires it. If not, the session is too weak."""
    address: str
    """Where a browser asks what to sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """Who answers a question and how: the person, the evidence that is recorded, and what the page shows."""

    desk: LocalDesk
    person: Person
    here: str
    then: str | None = None
    """The page that follows when the question is done, if it is not this one."""
    directory: Directory
    """Who is in which group."""
    policies: Policies
    """What is stopped."""
    channel: str = CHANNEL
    evidence: str
    details: Json = None
    other_page: OtherPage | None = None
    """Where it must be answered, if not here."""
    passkey: PasskeyNeed | None = None
    too_weak: str | None = None
    """Why the session is too weak to agree. It can still refuse, ask and hand over."""
    shares: bool = False
    """Whether this page can share the question with others: only with a session."""
    may_see: MaySee | None = None
    """Which other questions this person may see; None if the page is for this one only."""
    files: FilePlaces | None = None
    """Where files can be downloaded, if this person is signed in."""
    outbox: Outbox | None = None
    """The deliveries of the question, if this person may see them."""
    layout: str = "app.html"
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Other values of the layout."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What a person has just sent, and what is wrong with it."""

    submitted: Submitted
    problems: Sequence[Problem] = ()
    counted: bool = False
    """Whether it is recorded as an attempt."""
    covered: int | None = None
    """How many messages of the conversation an approval covers that was refused for that; None otherwise."""

    @property
    def do(self) -> str:
        """What the person wants to do besides answering; empty if they answer."""
        return next(iter(self.submitted.get("do", ())), "")

    @property
    def message(self) -> str | None:
        """What the person wrote to the agent or to the other people; None if they sent something else."""
        if self.submitted.get("do") not in (["ask-back"], ["note"]):
            return None
        return next(iter(self.submitted.get("message", ())), "")

    @property
    def typed(self) -> Submitted | None:
        """What the person typed into the form; None if they sent another one."""
        is_other = (
            self.message is not None or "agree" in self.submitted or self.do in SHARING or self.do == "close"
        )
        return None if is_other or not self.submitted else self.submitted


async def show(
    context: AnswerContext, question: Question, submission: Submission | None = None, *, status: int = 200
) -> Response:
    """Show the page of a question, with what the person has just sent."""
    me, now = context.person.id, datetime.now(UTC)
    events = await context.desk.history(question.id)
    covered = None if submission is None else submission.covered
    thread = thread_of(question, messages_of(events), me=me, now=now, covered=covered, files=context.files)
    story = history_lines(question, list(map(without_message, events)), me)
    if context.outbox is not None:
        admin = context.person.role is Role.ADMIN
        told = delivery_lines(await context.outbox.deliveries(question.ref), me, why=admin)
        story = tuple(sorted((*story, *told), key=lambda said: said.at))
    form = question.form
    pending = question.outcome is None
    may_answer = pending and context.other_page is None and may_respond(question, context.person.responder)
    problems = () if submission is None else tuple(map(_translated, submission.problems))
    message = None if submission is None else submission.message
    typed = None if submission is None else submission.typed
    do = "" if submission is None else submission.do
    is_answer = message is None and do not in ("send back", "keep", "close") and do not in SHARING
    misfits = problems if is_answer else ()
    refuses = do in ("decline", "send back")
    values = _common_values(context, question) | _agent_content(context, question)
    values |= {
        "previews": () if may_answer else _previews(question),
        "may_answer": may_answer,
        "shown_digest": (
            digest_shown(context, question, thread_digest(messages_of(events))) if may_answer else None
        ),
        "thread": thread,
        "message": message,
        "message_problems": () if message is None else tuple(each.message for each in problems),
        "controls": controls_of(form, typed=typed if may_answer and not refuses else None, problems=misfits),
        "general": general_problems(form, misfits),
        "problem_count": len(misfits),
        "counted": submission is not None and submission.counted,
        "attempts_left": None if question.max_attempts is None else question.max_attempts - question.attempts,
        "approval": _approval(question, form, now, typed) if isinstance(form, Approval) else None,
        "typed": may_answer and typed is not None and not refuses,
        "quick": may_answer and _is_quick(context, question),
        "why": next(iter(({} if submission is None else submission.submitted).get("why", ())), ""),
        "doing": do,
        "doing_problems": ()
        if is_answer or message is not None
        else tuple(each.message for each in problems),
        "sent": {} if submission is None else submission.submitted,
        "sharing": await _sharing(context, question, events, now) if may_answer else None,
        "shares": context.shares,
        "earlier": await earlier_of(context.desk, question, context.may_see, me=me, now=now),
        "later": await later_of(context.desk, question, context.may_see),
        "asked": since(question.asked_at, now),
        "expires": None if question.expires_at is None or not pending else end_at(question.expires_at, now),
        "ahead": ahead_of(question, now) if pending else (),
        "audience": audience_of(question, me),
        "other_agents": await _other_agents(context, question),
        "followed": _followed(context, question),
        "away": await away_lines(context.directory, question, me, now),
        "votes": await votes_in(context, question, events, now),
        "takes_votes": question.takes_votes,
        "ruling": ruling_lines(question),
        "escalated": is_escalated(question),
        "soon": pending and is_soon(question, now),
        "print_facts": print_facts(question, now),
        "story": [(since(each.at, now), each) for each in story],
        "kept": () if pending or submission is None or do == "keep" else _unsent_answer(question, submission),
        "keep": keep_offer(question, context.person.responder)
        if context.shares and (may_answer or not pending)
        else None,
        "settled": settled_of(question, now, me),
        "answerer": answerer_link(question, context.person) if context.layout == "app.html" else None,
        "takes_files": may_answer and takes_files(form),
        "answer_files": files_of(_answer_files(question), context.files),
        "stop": await _stop(context, question, now),
        "orphan": orphan_text(question, now),
        "may_close": may_close(context, question, now),
        "may_take_back": bool(question.decision)
        and question.consumed_at is None
        and question.taken_back_at is None
        and context.other_page is None
        and may_take_back(question, me, administrator=context.person.role is Role.ADMIN),
    }
    return live_page("inbox/question.html", status=status, **values)


def may_close(context: AnswerContext, question: Question, now: datetime) -> bool:
    """Whether this person may withdraw a question that nobody waits for: an administrator, who is signed in."""
    return context.shares and context.person.role is Role.ADMIN and question.is_orphaned(now)


def _is_quick(context: AnswerContext, question: Question) -> bool:
    """Whether one key may answer it: nothing is folded away, and nothing else is needed."""
    is_whole = _fold(question) is None and _context_fold(question) is None
    return (
        is_whole
        and takes_one_press(question.form)
        and context.passkey is None
        and not has_voted(question, context.person.id)
    )


def show_edits(
    context: AnswerContext, question: Question, form: Approval, submitted: Submitted, edited: dict[str, Json]
) -> Response:
    """Show the difference that a person's edits make, before it is approved."""
    kept = [
        (name, value)
        for name, values in submitted.items()
        for value in values
        if name not in ("digest", "do")
    ]
    return live_page(
        "inbox/confirm.html",
        **_common_values(context, question),
        title=_title(question),
        changes=changed(form.action.arguments, edited["arguments"]),
        action=_action_of(form, edited["arguments"]),
        digest=edited["digest"],
        kept=kept,
        seen=question.thread,
    )


async def votes_in(
    context: AnswerContext, question: Question, events: Sequence[Event], now: datetime
) -> Votes | None:
    """How people voted, if several must agree."""
    if not question.takes_votes:
        return None
    groups = await active_groups(context.directory, question.workspace)
    return votes_of(question, events, groups, me=context.person.id, now=now)


async def _sharing(
    context: AnswerContext, question: Question, events: Sequence[Event], now: datetime
) -> SharingView:
    """How the question is shared, with the people and groups who can be brought in."""
    people = (
        await context.directory.people(question.workspace, after=None, limit=PEOPLE_AT_ONCE)
        if context.shares
        else ()
    )
    view = sharing_of(question, events, context.person, now, {each.id: each.name for each in people})
    to = handovers(events).get(context.person.id, ()) if view.aside else ()
    if to:
        names = await display_names(context.directory, question.workspace, to, me=context.person.id)
        said = gettext("You handed this over to {people}: it is not in your inbox.").format(people=names)
        view = replace(view, aside=said)
    if view.fixed or not context.shares:
        return view
    groups = await context.directory.groups(question.workspace)
    return replace(view, names=names_to_bring_in(question, people, groups, context.person.id))


async def _other_agents(context: AnswerContext, question: Question) -> str | None:
    """The other agents that get the same answer, because they have asked the same."""
    if question.topic is None or question.outcome is not None or question.follows is not None:
        return None
    found = await context.desk.list_followers(question.id, limit=_MOST_FOLLOWERS)
    names = [display_name(each) for each in dict.fromkeys(each.asker for each in found)]
    return listed(names) if names else None


def _followed(context: AnswerContext, question: Question) -> str | None:
    """The page of the question that people are asked instead, if this person may see it."""
    is_pending = question.outcome is None and context.may_see is not None
    return f"/questions/{quote(question.follows)}" if is_pending and question.follows else None


async def _stop(context: AnswerContext, question: Question, now: datetime) -> StopView | None:
    """What stops this question, if it waits or its approval is not used yet."""
    if question.outcome is not None and not (question.decision and question.consumed_at is None):
        return None
    stop = stop_for(await context.policies.stops(question.workspace), question)
    return None if stop is None else stop_view(stop, context.person.id, now)


def _translated(problem: Problem) -> Problem:
    path = gettext("decision") if problem.path == "decision" else problem.path
    return Problem(path, error_text(problem.message))


def _agent_content(context: AnswerContext, question: Question) -> dict[str, Any]:
    """What the agent wrote, as it is shown."""
    return {
        "title": _title(question),
        "unfolded": question.risk == "high",
        "prompt": formatted(question.prompt),
        "prompt_fold": _fold(question),
        "context": None if question.context is None else shown(question.context),
        "context_fold": _context_fold(question),
        "brief": _brief(question),
        "yes_no": isinstance(question.form, Confirm),
        "zones": ZONES,
        "files": files_of(question.attachments, context.files),
    }


def _title(question: Question) -> str:
    """What the question is called where there is room for a few words."""
    return one_line(question.prompt, _LONGEST_TITLE) or kind_in_words(question.form)


def _previews(question: Question) -> list[dict[str, Any]]:
    """The previews of options, for a page without the options."""
    return [
        {"title": preview_title(each), "text": formatted(each.text)} for each in previews_of(question.form)
    ]


def _brief(question: Question) -> dict[str, Any] | None:
    """What the agent says about an action."""
    form = question.form
    if not isinstance(form, Approval) or form.brief is None:
        return None
    return {
        "title": brief_title(),
        "source": gettext("Nobody has checked it."),
        "rows": brief_rows(form.brief),
        "links": brief_links(form.brief),
    }


def _answer_files(question: Question) -> Sequence[Attachment]:
    outcome = question.outcome
    if not isinstance(outcome, Answered) or not takes_files(question.form):
        return ()
    return attached_in(outcome.value)


def digest_shown(context: AnswerContext, question: Question, thread: str | None) -> str:
    """The digest of what the page shows of a question before a person writes anything.

    It covers the agent's part of the page as HTML: what was asked, and the action to approve. `thread` is the digest of the
    conversation on it, if there is one.
    """
    rendered = seen_html(context, question)
    return hashlib.sha256((rendered + (thread or "")).encode()).hexdigest()


def seen_html(context: AnswerContext, question: Question, *, with_fields: bool = True) -> str:
    """The agent's part of a question's page: what was asked, and the action to approve."""
    form = question.form
    return TEMPLATES.get_template("inbox/seen.html").render(
        **_common_values(context, question) | _agent_content(context, question),
        may_answer=with_fields,
        votes=None,
        thread=None,
        controls=controls_of(form, typed=None, problems=()),
        approval=_action_of(form, form.action.arguments) if isinstance(form, Approval) else None,
    )


def confirmed_digest(
    context: AnswerContext, question: Question, thread: str | None, submitted: Submitted
) -> str | None:
    """The digest that came with the person's page or notification, if this release still shows the same."""
    if context.channel == WEBPUSH:
        seen = notification_digest(question)
    else:
        seen = digest_shown(context, question, thread)
    return seen if submitted.get("shown") == [seen] else None


def _common_values(context: AnswerContext, question: Question) -> dict[str, Any]:
    """The values of every page about a question."""
    is_page = context.layout == "app.html"  # a frame and a link are for this one question
    return {
        "person": context.person,
        "id": question.id,
        "here": context.here,
        "standing": question.status.value,
        "verdict": verdict_of(question),
        "verdict_name": status_name(verdict_of(question)),
        "asker": visible_line(question.asker),
        "asker_href": agent_href(question.asker) if is_page else None,
        "tool": None if (tool := tool_of(question)) is None else one_line(tool, 60),
        "tool_href": tool_href_of(question) if is_page else None,
        "conversation_href": conversation_href_of(question) if is_page else None,
        "asker_mixed": mixes_alphabets(question.asker),
        "what": kind_in_words(question.form),
        "is_approval": isinstance(question.form, Approval),
        "conversation_shown": None if question.conversation is None else visible_line(question.conversation),
        "undo_for": question.undo_for,
        "left": seconds_left(question),
        "can_wait": context.shares and can_wait(question) and not has_voted(question, context.person.id),
        "other_page": context.other_page,
        "passkey": context.passkey if question.outcome is None else None,
        "too_weak": context.too_weak if question.outcome is None else None,
        "layout": context.layout,
        **context.shown,
    }


def seconds_left(question: Question) -> float | None:
    """The seconds until it expires, for scripts: the clock of a browser may be wrong."""
    if question.outcome is not None or question.expires_at is None:
        return None
    return round(max(0.0, (question.expires_at - datetime.now(UTC)).total_seconds()), 1)


def _action_of(form: Approval, arguments: dict[str, Json]) -> dict[str, Any]:
    return {
        "tool": visible_line(form.action.tool),
        "arguments": arguments_of(arguments),
        "json": visible(canonical_json({"tool": form.action.tool, "arguments": arguments})),
        "risk": risk_text(form),
        "valid_for": None if form.valid_for is None else span(timedelta(seconds=form.valid_for)),
    }


def _approval(question: Question, form: Approval, now: datetime, typed: Submitted | None) -> dict[str, Any]:
    decision = question.decision
    approved = decision if decision is not None and decision.approved else None
    chosen = next(iter((typed or {}).get("scope", ())), "once")
    scopes = [
        {"value": scope, "reach": scope_text(form, scope, now), "ticked": scope == chosen}
        for scope in dict.fromkeys((ONCE, *form.scopes))
    ]
    return {
        **_action_of(form, form.action.arguments if approved is None else approved.action.arguments),
        "heading": action_heading(question),
        "digest": form.digest,
        "scopes": scopes,
        "reason": next(iter((typed or {}).get("reason", ())), ""),
        "unseen": sorted(visible_line(each) for each in frozen_arguments(form)),
    }


def _unsent_answer(question: Question, submission: Submission) -> tuple[Any, ...]:
    """What a person had written when the question was settled meanwhile."""
    if submission.message is not None:
        return (AnswerPart(gettext("Your message"), visible(submission.message)),)
    why = next(iter(submission.submitted.get("why", ())), "")
    if submission.do in SHARING or submission.do == "close":
        return ()
    if submission.do == "send back":
        return (AnswerPart(gettext("What should change"), visible(why)),) if why.strip() else ()
    if submission.submitted.get("do") == ["decline"]:
        return answer_parts(question.form, why)
    return answer_parts(question.form, read_answer(question.form, submission.submitted).value)


def _fold(question: Question) -> dict[str, Any] | None:
    """How a long text is folded, so that the form stays visible. At high risk, nothing is folded."""
    lines = question.prompt.count("\n") + 1
    if question.risk == "high" or (len(question.prompt) <= _LONG_TEXT and lines <= _LONG_LINES):
        return None
    return {"excerpt": one_line(question.prompt, 300), "length": len(question.prompt), "lines": lines}


def _context_fold(question: Question) -> dict[str, Any] | None:
    """How a long context is folded. With a difference in it, it starts unfolded. At high risk, nothing is folded."""
    context = question.context
    length = 0 if context is None else len(canonical_json(context))
    if length <= _LONG_CONTEXT or question.risk == "high":
        return None
    names = ", ".join(map(visible_line, context)) if isinstance(context, dict) else ""
    return {
        "length": length,
        "names": f"{names[:_LONGEST_NAMES]}…" if len(names) > _LONGEST_NAMES else names,
        "open": has_difference(context) and length <= _LONGEST_OPEN,
    }
