"""How long settled questions are kept, holds, and erasing a person after a typed confirmation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form
from starlette.responses import Response

from handraise.desk.retention_admin import FOREVER, concerned, erase, place_hold, read_rule
from handraise.model.errors import InvalidRequest, NotFound, PreconditionFailed, UnsafeStore
from handraise.model.json_values import text_problem
from handraise.model.seals import Rule
from handraise.model.visible import visible_line
from handraise.presentation.error_text import error_text
from handraise.presentation.names import person_name
from handraise.presentation.translation import gettext, grouped, ngettext
from handraise.server.api.config_routes import retention_text
from handraise.server.api.etags import check_match, etag_of
from handraise.server.auth.authenticator import Context, CurrentAdmin, PersonCaller
from handraise.server.context import ServerContext
from handraise.server.web.admin.admin_views import admin_page, confirm_page, field_problems, to
from handraise.server.web.admin.people_pages import CHANGED_SINCE, Done, Sure, Version
from handraise.server.web.inbox.page_texts import since
from handraise.server.web.pages import PageRoute

pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATH = "/admin/retention"

Text = Annotated[str, Form(max_length=400)]


@pages.get(PATH)
async def show_retention(ctx: Context, admin: CurrentAdmin, done: Done = "") -> Response:
    """Show the rule of the workspace, its holds, and the form to erase somebody."""
    return await _page(ctx, admin, done=done)


@pages.post(PATH)
async def set_rule_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    keep: Text = "default",
    days: Text = "",
    sure: Sure = False,
    version: Version = "",
) -> Response:
    """Set the rule of the workspace, or remove it. Ask whether it is meant if questions are then kept for less time."""
    typed = {"keep": keep, "days": days.strip()}
    try:
        rule = None if keep == "default" else read_rule(FOREVER if keep == FOREVER else typed["days"])
    except ValueError:
        problems = {"days": gettext("Write a number of days from 0 to 36500.")}
        return await _page(ctx, admin, typed=typed, problems=problems, status=422)
    default = ctx.settings.keep_settled_days
    before, after = _days_kept(await ctx.ledger.rules(admin.workspace), default), _days_kept(rule, default)
    if after is not None and (before is None or after < before) and not sure:
        return confirm_page(
            admin,
            "retention",
            title=gettext("Keep settled questions {span}?").format(span=_span_text(after)),
            text=gettext(
                "They are now kept {span}. What is past its new time is removed soon after, and cannot be brought back."
            ).format(span=_span_text(before)),
            action=PATH,
            button=gettext("Save the rule"),
            back=PATH,
            kept=typed | {"version": version},
        )
    try:
        check_match(version or None, retention_text(ctx, await ctx.ledger.rules(admin.workspace)))
        await ctx.ledger.put_rule(admin.workspace, rule, by=admin.person.id)
    except PreconditionFailed:
        changed = {"": gettext(CHANGED_SINCE)}
        return await _page(ctx, admin, typed=typed, problems=changed, status=409)
    except UnsafeStore as refusal:
        return await _page(ctx, admin, typed=typed, problems=_not_here(refusal), status=403)
    return to(PATH, "saved")


@pages.post(PATH + "/holds")
async def hold_here(
    ctx: Context,
    admin: CurrentAdmin,
    *,
    name: Text = "",
    reason: Annotated[str, Form(max_length=2_000)] = "",
    question: Text = "",
) -> Response:
    """Place a hold on the workspace or on one question."""
    typed = {"name": name.strip(), "reason": reason.strip(), "question": question.strip()}
    problems: dict[str, str] = {}
    try:
        if typed["question"] and not text_problem(typed["question"]):
            await ctx.desk.scoped(admin.workspace).get(typed["question"])
        placed = await place_hold(
            ctx.ledger,
            admin.workspace,
            typed["name"],
            question=typed["question"] or None,
            reason=typed["reason"],
            by=admin.person.id,
        )
    except InvalidRequest as error:
        problems = field_problems(error)
    except NotFound:
        problems["question"] = gettext("There is no such question here. Copy its id from its page.")
    else:
        if placed is None:
            problems["name"] = gettext("There is another hold with this name. Choose another one.")
    if problems:
        return await _page(ctx, admin, typed=typed, problems=problems, status=422)
    return to(PATH, "held", "holds")


@pages.post(PATH + "/holds/lift")
async def lift_here(ctx: Context, admin: CurrentAdmin, *, name: Text = "", sure: Sure = False) -> Response:
    """Ask whether it is meant, then lift a hold."""
    if not sure:
        return confirm_page(
            admin,
            "retention",
            title=gettext("Lift this hold?"),
            text=gettext("What is past its time is removed soon after, and cannot be brought back."),
            action=f"{PATH}/holds/lift",
            button=gettext("Lift the hold"),
            back=PATH,
            kept={"name": name},
        )
    try:
        lifted = not text_problem(name) and await ctx.ledger.lift(admin.workspace, name, by=admin.person.id)
    except UnsafeStore as refusal:
        return await _page(ctx, admin, problems=_not_here(refusal), status=403)
    if not lifted:
        raise NotFound("There is no such hold here.")
    return to(PATH, "lifted", "holds")


@pages.post(PATH + "/erase")
async def erase_here(
    ctx: Context, admin: CurrentAdmin, *, who: Text = "", typed_name: Text = "", step: Text = "look"
) -> Response:
    """Say what would be erased, then erase it if the name is typed once more."""
    who = who.strip()
    problem = _may_not_erase(admin, who)
    if problem:
        return await _page(ctx, admin, typed={"who": who}, problems={"who": problem}, status=422)
    ids = await concerned(ctx.ledger, admin.workspace, person=who)
    known = await ctx.directory.find_person(admin.workspace, who) is not None
    if not ids and not known:
        problem = gettext("Nothing here concerns anybody with this name.")
        return await _page(ctx, admin, typed={"who": who}, problems={"who": problem}, status=422)
    if step != "erase" or typed_name.strip() != who:
        problems = {} if step != "erase" else {"typed_name": gettext("That is not the same name.")}
        return admin_page(
            "erase",
            admin,
            "retention",
            who=who,
            shown=visible_line(who),
            count=len(ids),
            is_held=await _is_held(ctx, admin),
            typed={"typed_name": typed_name},
            problems=problems,
            status=422 if problems else 200,
        )
    try:
        done = await erase(
            ctx.ledger, ctx.engine.attachments, admin.workspace, person=who, by=admin.person.id
        )
    except UnsafeStore as refusal:
        return await _page(ctx, admin, typed={"who": who}, problems=_not_here(refusal), status=403)
    return admin_page(
        "erased",
        admin,
        "retention",
        count=len(done.erased),
        left=len(done.left),
        is_overwritten=done.is_overwritten,
    )


def _may_not_erase(admin: PersonCaller, who: str) -> str | None:
    if not who or text_problem(who):
        return gettext("Write the name under which agents ask the person, such as ann.")
    if who == admin.person.id:
        return gettext("You cannot erase yourself. Another administrator can.")
    return None


async def _is_held(ctx: ServerContext, admin: PersonCaller) -> bool:
    return bool(await ctx.ledger.holds(admin.workspace))


def _not_here(refusal: UnsafeStore) -> dict[str, str]:
    return {
        "": gettext(
            "Nothing was changed: this server's login may not remove history, so that nobody can do it with its password. "
            "Use the command on a host with a login that may. {why}"
        ).format(why=error_text(str(refusal)))
    }


async def _page(
    ctx: ServerContext, admin: PersonCaller, *, typed: dict[str, str] | None = None, **values: Any
) -> Response:
    rule, default = await ctx.ledger.rules(admin.workspace), ctx.settings.keep_settled_days
    now = datetime.now(UTC)
    days = "" if rule is None or rule.keep is None else f"{rule.keep / timedelta(days=1):g}"
    stored = {"keep": "default" if rule is None else "days" if days else FOREVER, "days": days}
    return admin_page(
        "retention",
        admin,
        "retention",
        rule=_rule_text(rule, default),
        version=etag_of(retention_text(ctx, rule)),
        default=_span_text(default),
        holds=[
            {
                "name": each.name,
                "shown": visible_line(each.name),
                "what": gettext("everything")
                if each.question_id is None
                else gettext("the question {id}").format(id=visible_line(each.question_id)),
                "reason": visible_line(each.reason),
                "by": person_name(each.by),
                "at": since(each.since, now),
            }
            for each in await ctx.ledger.holds(admin.workspace)
        ],
        typed={**stored, **(typed or {})},
        **values,
    )


def _rule_text(rule: Rule | None, default: float | None) -> str:
    kept = _span_text(_days_kept(rule, default))
    if rule is None:
        return gettext("This workspace has no rule of its own. Settled questions are kept {span}.").format(
            span=kept
        )
    return gettext("This workspace keeps settled questions {span}.").format(span=kept)


def _days_kept(rule: Rule | None, default: float | None) -> float | None:
    """For how many days settled questions are kept; None is for ever."""
    if rule is None:
        return default
    return None if rule.keep is None else rule.keep / timedelta(days=1)


def _span_text(days: float | None) -> str:
    if days is None:
        return gettext("for ever")
    number = grouped(int(days)) if days == int(days) else f"{days:g}"
    return ngettext("for {count} day", "for {count} days", int(days)).format(count=number)
