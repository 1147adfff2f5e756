"""One tool: which agents use it, how that was answered, with which arguments, what applies to it, and a switch to stop it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from fastapi import APIRouter, Request
from starlette.responses import Response

from handraise.model.errors import NotFound
from handraise.model.forms import Approval
from handraise.model.json_values import canonical_json
from handraise.model.lookalike_names import mixes_alphabets
from handraise.model.questions import Question
from handraise.model.visible import visible_line
from handraise.presentation.translation import gettext, grouped, ngettext
from handraise.server.api.question_routes import desk_of
from handraise.server.auth.authenticator import Context, CurrentPerson
from handraise.server.web.inbox.active_grants import active_grants
from handraise.server.web.inbox.agent_page import Name
from handraise.server.web.inbox.back_links import query_of_list
from handraise.server.web.inbox.name_links import agent_href
from handraise.server.web.inbox.naming_rules import naming_rules
from handraise.server.web.inbox.question_figures import Count, counts_of, figures_of
from handraise.server.web.inbox.question_rows import failed_rows, list_address, newest_rows
from handraise.server.web.inbox.recent_questions import recent_questions
from handraise.server.web.inbox.stops_page import stop_views
from handraise.server.web.pages import PageRoute, live_page

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

_MOST_ARGUMENTS = 50
"""How many arguments of one action are counted: an agent may have written thousands."""


@pages.get("/tool")
async def show_tool(request: Request, ctx: Context, caller: CurrentPerson, name: Name = "") -> Response:
    """What this person may see of a tool; an administrator sees everything, and can stop it."""
    if not name:
        raise NotFound("There is no such tool here.")
    now, me = datetime.now(UTC), caller.person.id
    recipient = None if caller.is_admin else caller.person.responder
    found = await recent_questions(desk_of(ctx, caller), recipient, now, tool=name)
    stops = [
        each
        for each in await ctx.policies.stops(caller.workspace)
        if each.tool == name or (each.agent is None and each.tool is None)
    ]
    current = await ctx.policies.current(caller.workspace) if caller.is_admin else None
    return live_page(
        "inbox/tool.html",
        person=caller.person,
        is_admin=caller.is_admin,
        here=query_of_list(request),
        raw_name=name,
        name=visible_line(name),
        mixed=mixes_alphabets(name),
        figures=figures_of(found.settled),
        is_cut=found.is_cut,
        agents=counts_of(
            Count(visible_line(each.asker), 1, 0, agent_href(each.asker), mixed=mixes_alphabets(each.asker))
            for each in found.all
        ),
        arguments=_arguments(found.all),
        waiting=newest_rows(found.pending, me, now),
        ended=newest_rows(found.settled, me, now),
        failures=failed_rows(found.settled, me, now),
        all_waiting=list_address("/", caller, tool=name),
        all_settled=list_address("/settled", caller, tool=name),
        grants=await active_grants(ctx, caller, tool=name),
        rules=naming_rules(current, name),
        stops=stop_views(stops, me),
        may_stop=caller.is_admin and not any(each.tool == name and each.agent is None for each in stops),
    )


def _arguments(questions: Iterable[Question]) -> Sequence[Count]:
    """The names of arguments, each with how many values it had."""
    times, values = Counter[str](), defaultdict[str, set[int]](set)
    for question in questions:
        if isinstance(question.form, Approval):
            for name, value in islice(question.form.action.arguments.items(), _MOST_ARGUMENTS):
                times[name] += 1
                values[name].add(hash(canonical_json(value)))
    return counts_of(
        Count(visible_line(name), number, 0, note=_different(len(values[name])), mixed=mixes_alphabets(name))
        for name, number in times.most_common(_MOST_ARGUMENTS)
    )


def _different(number: int) -> str:
    if number == 1:
        return gettext("always the same value")
    return ngettext("{count} value", "{count} different values", number).format(count=grouped(number))
