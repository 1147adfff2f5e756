"""Fill a database with past questions by SQL: faster than asking and answering each of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import asyncpg

from handraise.model.forms import Approval, form_to_json

_PLACE = "$AMOUNT$"
_FILL = """
with made as (
    select
        n, 'old-' || lpad(n::text, 9, '0') as id, n % 1000 as amount, n % 10 = 0 as denied,
        now() - interval '1 day' * $3 * (1 - n::float8 / $2) as asked_at
    from generate_series(1, $2::integer) as n
), asked as (
    insert into handraise.questions (
        asked_at, settled_at, quorum, veto, workspace, id, status, asker, recipients, prompt, form, outcome
    )
    select
        asked_at, asked_at + interval '20 minutes', 1, false, $1, id, 'answered', 'agent ' || n % 20, '["ann"]',
        'Refund ' || amount || ' EUR to the customer of order ' || n || '?',
        replace($4::text, '"amount":{place}', '"amount":' || amount)::json,
        json_build_object(
            'value', json_build_object('decision', case when denied then 'deny' else 'approve' end, 'digest', 'x'),
            'by', 'person ' || n % 7
        )
    from made
)
insert into handraise.events (at, workspace, question_id, kind, actor)
select asked_at + case kind when 'asked' then interval '0' else interval '20 minutes' end, $1, id, kind, 'ann'
from made, unnest(array['asked', 'answered']) as kind
order by n, kind
"""
_MADE_IN_FILE = """
with recursive made (n) as (select 1 union all select n + 1 from made where n < :count),
old as (
    select
        n, 'old-' || printf('%09d', n) as id, n % 1000 as amount,
        cast((unixepoch() - 86400.0 * :days * (1 - n * 1.0 / :count)) * 1000000 as integer) as asked_at
    from made
)
"""
_FILL_FILE = """
insert into questions (asked_at, settled_at, quorum, veto, workspace, id, status, asker, recipients, prompt, form, outcome)
{made}
select
    asked_at, asked_at + 1200000000, 1, 0, :workspace, id, 'answered', 'agent ' || (n % 20), '["ann"]',
    'Refund ' || amount || ' EUR to the customer of order ' || n || '?',
    replace(:form, '"amount":' || :place, '"amount":' || amount),
    json_object(
        'value', json_object('decision', iif(n % 10 = 0, 'deny', 'approve'), 'digest', 'x'), 'by', 'person ' || (n % 7)
    )
from old;
insert into events (at, workspace, question_id, kind, actor)
{made}
select old.asked_at + e.value * 1200000000, :workspace, old.id, iif(e.value, 'answered', 'asked'), 'ann'
from old, json_each('[0, 1]') as e
order by old.n, e.value
"""


async def fill_with_past_questions(
    database: asyncpg.Connection, workspace: str, count: int, *, days: int = 30
) -> None:
    """Make so many settled approvals, one of ten denied, evenly over the days until now."""
    form = form_to_json(Approval.of("refund", {"amount": 1, "order": "A-1", "reason": "late delivery"}))
    text = form.replace('"amount":1', f'"amount":{_PLACE}')
    async with database.transaction():
        await database.execute("select handraise.set_workspace($1)", workspace)
        await database.execute(_FILL.format(place=_PLACE), workspace, count, float(days), text)
    await database.execute("analyze handraise.questions, handraise.events")


def fill_file_with_past_questions(file: Path, workspace: str, count: int, *, days: int = 30) -> None:
    """The same in a SQLite file whose tables are there."""
    form = form_to_json(Approval.of("refund", {"amount": 1, "order": "A-1", "reason": "late delivery"}))
    text = form.replace('"amount":1', f'"amount":{_PLACE}')
    with closing(sqlite3.connect(file)) as database, database:
        values = {"workspace": workspace, "count": count, "days": days, "form": text, "place": _PLACE}
        for statement in _FILL_FILE.format(made=_MADE_IN_FILE).split(";\n"):
            database.execute(statement, values)
