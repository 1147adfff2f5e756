"""What can go wrong in a product like this, each as one small change of its text, with the tests that see it.

Each has been seen in a product of this kind, or is one slip away from a line of ours. `good` is in `file` exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass

_SRC = "src/handraise"
_POSTGRES = f"{_SRC}/backends/postgres"
_SQLITE = f"{_SRC}/backends/sqlite"
_SHARED = f"{_SRC}/backends/sql/statements"

ON_POSTGRES = "tests/contract/test_postgres_confined.py::TestPostgresConfined"
ON_SQLITE = "tests/contract/test_sqlite.py::TestSqlite"
IN_MEMORY = "tests/contract/test_memory.py::TestMemory"
ROW_SECURITY = "tests/backends/test_postgres_row_security.py"
FACTS = "tests/backends/test_postgres_facts.py"
RETENTION = "tests/backends/test_postgres_retention.py"
WEBHOOK = "tests/channels/test_webhook_inbound.py"
CALLBACKS = "tests/channels/test_callbacks.py::TestOut"
OUTBOX = "tests/contract/test_outbox.py::TestPostgresConfinedOutbox"
SLIPS = "tests/desk/test_slips.py"


_ONE_ENGINE = "the gate runs the contract case of this rule in memory, and this is SQL"


@dataclass(frozen=True, slots=True)
class Bug:
    """One change for the worse."""

    name: str
    says: str
    file: str
    good: str
    bad: str
    tests: tuple[str, ...]
    only_nightly: str = ""
    """Why the gate need not catch it."""


_STANDING_ANSWERS = (
    Bug(
        "revoked-answer-stands",
        "a standing answer that was revoked while a question was posted answers it all the same",
        f"{_SRC}/model/standing_answers.py",
        "        return self.revoked_at is None and self.expires_at > now\n",
        "        return self.expires_at > now\n",
        ("tests/model/test_ask_decisions.py::test_a_question_that_may_not_be_asked_says_why",),
    ),
    Bug(
        "answer-kept-by-anybody",
        "anybody can keep the answer that another person gave",
        f"{_SRC}/model/standing_answers.py",
        "    elif outcome.by != responder.id:\n",
        "    elif outcome.by is None:\n",
        (f"{IN_MEMORY}::test_only_who_answered_can_keep_it",),
    ),
    Bug(
        "spot-check-for-show",
        "a standing answer stays in use when a spot check of it is answered differently",
        f"{_SRC}/model/move_decisions.py",
        "    return None if is_same else standing\n",
        "    return None\n",
        (f"{IN_MEMORY}::test_a_spot_check_that_ends_otherwise_ends_it",),
    ),
    Bug(
        "answer-of-somebody-who-left",
        "a standing answer holds although its giver may no longer answer such questions",
        f"{_SRC}/model/ask_decisions.py",
        "    return still_may_respond(question, given, backed=right.backed, known=facts.known.get(giver))\n",
        "    return bool(question and given)\n",
        (
            "tests/contract/test_rights.py::TestSqliteRights::test_a_standing_answer_ends_with_the_right_of_its_giver",
        ),
    ),
)

_SWEEP = """\
    for update of q skip locked
),
moved as (
    update handraise.questions as q
    set steps_taken = q.steps_taken + (step ->> 'do' not in ('expire', 'default'))::int,
        status = case step ->> 'do' when 'expire' then 'expired' when 'default' then 'answered' else q.status end,
        settled_at = case when step ->> 'do' in ('expire', 'default') then coalesce(:now::timestamptz, now()) end,
        outcome = case when step ->> 'do' in ('expire', 'default') then coalesce(step ->> 'record', '{}')::json end,
        stepped_at = case when step ->> 'do' in ('expire', 'default') then q.stepped_at
            else coalesce(:now::timestamptz, now()) end
    from due
    where q.workspace = due.workspace and q.id = due.id and q.status = 'pending'
        and q.steps_taken = due.steps_taken
"""
_RACES = (
    Bug(
        "check-then-act",
        "an answer is not decided by the statement: two that read `pending` are both recorded",
        f"{_SHARED}/questions.sql",
        "from ${rows(t, workspace text, id text, actor text)}\n${locked(q, questions, no key update)}\nwhere q.status = 'pending';",
        "from ${rows(t, workspace text, id text, actor text)}\njoin handraise.questions as q on q.workspace = t.workspace and q.id = t.id\nwhere q.status = 'pending';",
        (f"{ON_POSTGRES}::test_of_many_racing_answers_one_wins_and_the_others_learn_which",),
    ),
    Bug(
        "check-then-act-sqlite",
        "the same on SQLite",
        f"{_SRC}/model/lifecycle.py",
        "    return question.status is Status.PENDING and (question.expires_at is None or question.expires_at > now)",
        "    return question.expires_at is None or question.expires_at > now",
        (f"{ON_SQLITE}::test_of_many_racing_answers_one_wins_and_the_others_learn_which",),
    ),
    Bug(
        "key-not-unique",
        "two processes that post the same key at once leave two questions",
        f"{_POSTGRES}/migrations/0001_schema.sql",
        "create unique index events_by_key",
        "create index events_by_key",
        (f"{ON_POSTGRES}::test_concurrent_posts_with_one_key_are_one_question",),
    ),
    Bug(
        "facts-not-locked",
        "a person leaves a group while a vote for it is saved, and the vote counts",
        f"{_SRC}/backends/sql/decided_changes.py",
        '    await work.fetch_each("lock_people", named)\n    await work.fetch_each("share_groups", in_groups)\n',
        "",
        (f"{FACTS}::test_who_changes_what_was_decided_by_waits_until_it_is_saved",),
    ),
    Bug(
        "facts-before-the-lock",
        "what the directory says is read before it is locked: what changes while the lock is waited for is overlooked",
        f"{_SRC}/backends/sql/decided_changes.py",
        '    await work.fetch_each("lock_people", named)\n    await work.fetch_each("share_groups", in_groups)\n'
        '    rights: dict[str, Rights] = {}\n    for row in await work.fetch_each("rights", named):\n',
        '    read = await work.fetch_each("rights", named)\n    await work.fetch_each("lock_people", named)\n'
        '    await work.fetch_each("share_groups", in_groups)\n    rights: dict[str, Rights] = {}\n    for row in read:\n',
        (f"{FACTS}::test_who_leaves_a_group_while_the_lock_on_it_is_waited_for_has_left",),
    ),
    Bug(
        "locks-in-any-order",
        "two batches lock the same questions in different orders, and one of them is undone",
        f"{_SRC}/backends/sql/decided_changes.py",
        "        places.sort(key=touched.__getitem__)\n",
        "        places.sort()\n",
        (
            "tests/backends/test_sql_ports.py::test_questions_are_locked_in_one_order_and_each_once_in_a_round",
        ),
    ),
    Bug(
        "consume-twice",
        "an approval is executed as often as it is consumed",
        f"{_SRC}/model/approval_uses.py",
        "    if question.consumed_at is not None:\n        return refused(UseRefusal.USED)\n",
        "",
        (f"{IN_MEMORY}::test_an_approved_action_is_given_out_once",),
    ),
    Bug(
        "consume-twice-on-postgres",
        "the same on PostgreSQL",
        f"{_SHARED}/questions.sql",
        "-- Questions that may have ended, locked.\nselect q.*, ${now} as now from ${rows(t, workspace text, id text)} ${locked(q, questions, no key update)};",
        "-- Questions that may have ended, locked.\nselect q.*, ${now} as now\nfrom ${rows(t, workspace text, id text)}\njoin handraise.questions as q on q.workspace = t.workspace and q.id = t.id;",
        (f"{ON_POSTGRES}::test_of_racing_consumers_one_gets_the_action",),
    ),
    Bug(
        "sweep-over-an-answer",
        "a sweep ends what was answered since it looked",
        f"{_SHARED}/questions.sql",
        "order by i.due_at\nlimit :limit\n${lock(for no key update of q skip locked)};",
        "order by i.due_at\nlimit :limit;",
        (
            "tests/chaos/test_races.py::test_answers_race_with_the_clock_and_with_withdrawals_to_one_outcome_each",
        ),
    ),
    Bug(
        "used-after-taken-back",
        "an approval is executed that was taken back",
        f"{_SRC}/model/approval_uses.py",
        "    if question.taken_back_at is not None:\n        return refused(UseRefusal.TAKEN_BACK)\n",
        "",
        (f"{IN_MEMORY}::test_an_approval_can_be_taken_back_until_it_is_consumed",),
    ),
    Bug(
        "taken-back-after-use",
        "an approval is taken back whose action was given out",
        f"{_SRC}/model/approval_uses.py",
        "    is_unused = question.consumed_at is None and question.taken_back_at is None\n",
        "    is_unused = question.taken_back_at is None\n",
        (f"{IN_MEMORY}::test_what_is_not_approved_or_used_cannot_be_taken_back",),
    ),
    Bug(
        "reported-twice",
        "a second report replaces the first one",
        f"{_SRC}/model/approval_uses.py",
        " or question.report is not None:",
        ":",
        (f"{IN_MEMORY}::test_another_report_is_refused_and_the_first_one_kept",),
    ),
    Bug(
        "reported-without-use",
        "an approval that nobody used is reported as done",
        f"{_SRC}/model/approval_uses.py",
        "    return not isinstance(question.form, Approval) or question.consumed_at is not None\n",
        "    return True\n",
        (f"{IN_MEMORY}::test_an_approval_that_was_not_used_has_no_report",),
    ),
    Bug(
        "approval-of-an-older-conversation",
        "an approval counts, although somebody has written something since",
        f"{_SRC}/model/move_decisions.py",
        '    if move.kind != "reply" and move.seen not in (None, question.thread):\n        return Refused(why=Refusal.THREAD_MOVED_ON, question=question)\n',
        "",
        (f"{ON_SQLITE}::test_an_approval_of_another_conversation_is_refused",),
    ),
    Bug(
        "approval-and-message-at-once",
        "an approval counts that was given while somebody wrote something",
        f"{_SRC}/backends/sql/rows.py",
        '        thread=row["thread"],\n',
        "        thread=question.thread,\n",
        (f"{ON_POSTGRES}::test_of_an_approval_and_a_message_at_once_the_approval_saw_what_came_first",),
    ),
    Bug(
        "vote-outlives-reply",
        "a vote counts that was given before the asker said something else",
        f"{_SRC}/model/move_decisions.py",
        "        is_outdated = ballot.seen is not None and ballot.seen < question.replied\n",
        "        is_outdated = False\n",
        (f"{IN_MEMORY}::test_a_vote_before_a_reply_does_not_count_any_more",),
    ),
    Bug(
        "refusal-forgotten-by-reply",
        "an asker gets rid of a refusal by replying",
        "src/handraise/model/lifecycle.py",
        "seen=(provenance.seen or 0) if is_approval(question.form, value) else None,",
        "seen=provenance.seen or 0,",
        ("tests/contract/test_memory.py::TestMemory::test_a_refusal_before_a_reply_still_counts",),
    ),
    Bug(
        "grant-over-a-conversation",
        "a grant answers what people are talking about",
        "src/handraise/model/lifecycle.py",
        "        seen=0,  # nobody has said anything about this one\n",
        "",
        (f"{ON_SQLITE}::test_no_grant_answers_what_people_talk_about",),
    ),
    Bug(
        "reply-to-nobody",
        "an asker writes to people who have asked nothing",
        f"{_SRC}/model/lifecycle.py",
        "    if not question.asked_back or move.seen is None:\n",
        "    if move.seen is None:\n",
        (f"{IN_MEMORY}::test_nobody_replies_before_somebody_asked",),
    ),
    Bug(
        "later-message-lost",
        "a reply to one message ends the turn, although another one waits",
        f"{_SRC}/model/lifecycle.py",
        "    waiting = question.asked_back if question.asked_back > move.seen else 0\n",
        "    waiting = 0\n",
        (f"{IN_MEMORY}::test_a_reply_to_an_earlier_message_leaves_the_later_one_open",),
    ),
    Bug(
        "reminded-in-the-askers-turn",
        "people are reminded of what waits for the asker",
        f"{_SRC}/model/questions.py",
        "        return self.is_askers_turn or (self.status is Status.PENDING and self.follows is not None)\n",
        "        return self.status is Status.PENDING and self.follows is not None\n",
        (f"{IN_MEMORY}::test_reminders_and_escalations_pause",),
    ),
    Bug(
        "expiry-pauses",
        "an asker that never replies keeps a question open for ever",
        f"{_POSTGRES}/migrations/0001_schema.sql",
        "return case when asked_back > 0 or follows is not null then expires_at else",
        "return case when follows is not null then expires_at when asked_back > 0 then null else",
        (f"{ON_POSTGRES}::test_the_expiry_does_not_pause",),
    ),
    Bug(
        "follower-left-waiting",
        "an answer for several agents reaches only one of them",
        f"{_SRC}/model/due_changes.py",
        '        isinstance(outcome, Answered) and outcome.source == "person"\n',
        '        isinstance(outcome, Answered) and outcome.source == "grant"\n',
        (f"{IN_MEMORY}::test_one_answer_is_for_all_who_ask",),
    ),
    Bug(
        "follower-never-asked",
        "nobody is asked what the first of several agents has withdrawn",
        f"{_SRC}/model/due_changes.py",
        "follows=None if place == 0 else left[0].id)",
        "follows=left[0].id)",
        (f"{IN_MEMORY}::test_if_the_first_expires_the_next_is_asked",),
    ),
    Bug(
        "answer-shared-with-everybody",
        "an agent gets the answer of people whom it has not asked",
        "src/handraise/model/questions.py",
        "            form_to_json(self.form),\n            list(self.recipients),\n",
        "            form_to_json(self.form),\n",
        (f"{IN_MEMORY}::test_other_questions_are_asked_by_themselves[other3]",),
    ),
    Bug(
        "two-are-asked",
        "of equal questions that come at the same time, people are asked several",
        f"{_SRC}/backends/sql/new_questions.py",
        "posted(draft, question.asked_at, follows=leader)",
        "posted(draft, question.asked_at, follows=leader and None)",
        (f"{IN_MEMORY}::test_one_answer_is_for_all_who_ask",),
    ),
    Bug(
        "replaced-stays-open",
        "a question that was replaced can still be answered",
        f"{_SRC}/model/due_changes.py",
        "    if not is_open(old, now):\n        return Change(question=old, kind=EventKind.REPLACED",
        "    if old.asker:\n        return Change(question=old, kind=EventKind.REPLACED",
        (f"{IN_MEMORY}::test_a_pending_one_is_withdrawn",),
    ),
    Bug(
        "others-replace",
        "an agent replaces a question of another agent",
        f"{_SRC}/desk/local_desk.py",
        '            question = await self._own_question(replaced, "only the asker can replace it")',
        "            question = await self.get(replaced)",
        (f"{IN_MEMORY}::test_nobody_replaces_what_is_not_theirs",),
    ),
    Bug(
        "policy-handed-away",
        "people let others answer what the policy reserves for them",
        "src/handraise/model/sharing_rules.py",
        "    if question.ruling is not None and question.ruling.names_people:",
        "    if question.ruling is not None and not question.ruling.names_people:",
        (f"{IN_MEMORY}::test_a_policy_names_who_answers",),
    ),
    Bug(
        "set-aside-for-everybody",
        "what one person sets aside is in nobody's inbox",
        f"{_SQLITE}/statements.sql",
        "        and exists (select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now) = :aside\n",
        "        and exists (select 1 from json_each(i.aside) as a where a.value > :now) = :aside\n",
        (f"{ON_SQLITE}::test_a_question_is_not_for_one_of_several",),
        only_nightly=_ONE_ENGINE,
    ),
    Bug(
        "handed-back-to-nobody",
        "what is handed back to somebody is in nobody's inbox",
        "src/handraise/model/lifecycle.py",
        "        aside=tuple(each for each in question.aside if each.person not in people),\n",
        "",
        (f"{IN_MEMORY}::test_it_can_come_back",),
    ),
    Bug(
        "taken-from-another",
        "two people work on the same answer",
        f"{_SRC}/model/lifecycle.py",
        "    if question.taker(now) not in (None, move.by):\n        return Refusal.TAKEN\n",
        "",
        (f"{IN_MEMORY}::test_of_many_at_once_one_takes_it",),
    ),
    Bug(
        "vote-outlives-right",
        "the vote of somebody who may not answer any more counts",
        "src/handraise/model/lifecycle.py",
        "if vote.by != move.by and counts(vote))",
        "if vote.by != move.by)",
        (
            "tests/contract/test_rights.py::TestMemoryRights::test_a_vote_of_somebody_who_was_removed_does_not_count",
        ),
    ),
    Bug(
        "sent-by-two",
        "two processes send the same question at once",
        f"{_SHARED}/questions.sql",
        " and (sending_until is null or sending_until <= ${now})\nreturning id;",
        "\nreturning id;",
        (f"{ON_SQLITE}::test_of_many_who_would_send_a_question_one_does",),
    ),
    Bug(
        "orphan-closed-unchecked",
        "a question is closed although its asker was heard from since it was planned",
        f"{_SRC}/model/due_changes.py",
        "    if question.closes_at is None or question.closes_at > now or not is_open(question, now):\n",
        "    if question.closes_at is None or not is_open(question, now):\n",
        (f"{IN_MEMORY}::test_a_sign_just_before_it_is_closed_puts_that_off",),
    ),
    Bug(
        "heartbeat-of-another",
        "an asker says that another one still waits",
        f"{_SHARED}/questions.sql",
        "where q.asker = t.actor and q.status = 'pending' and q.heartbeat is not null and q.heard_at is not null;",
        "where q.status = 'pending' and q.heartbeat is not null and q.heard_at is not null;",
        (f"{IN_MEMORY}::test_nobody_gives_a_sign_for_another_asker_or_workspace",),
    ),
    Bug(
        "person-waits-as-agent",
        "the wait of a person counts as a sign of the agent that has the server's default name",
        f"{_SRC}/server/live/long_polls.py",
        "asker = caller.agent if isinstance(caller, AgentCaller) else caller.name",
        "asker = None",
        ("tests/server/test_heartbeat_routes.py::test_only_the_wait_of_the_agent_is_a_sign",),
    ),
    Bug(
        "late-answer-counts",
        "an answer after the expiry counts until somebody sweeps",
        f"{_SRC}/model/lifecycle.py",
        "    return question.status is Status.PENDING and (question.expires_at is None or question.expires_at > now)",
        "    return question.status is Status.PENDING",
        (f"{ON_SQLITE}::test_a_late_answer_is_refused_even_before_a_sweep",),
    ),
    Bug(
        "expiry-by-the-wrong-clock",
        "when a question expires is decided by the clock of whichever process answers",
        f"{_POSTGRES}/database.py",
        'return {"now": self._clock.now() if self._clock else None, **values}',
        'return {"now": self._clock.now() if self._clock else datetime.now().astimezone(), **values}',
        (f"{SLIPS}::test_the_clock_of_the_database_decides_what_has_expired",),
    ),
    Bug(
        "vote-twice",
        "whoever votes twice counts as two people",
        f"{_SRC}/model/lifecycle.py",
        "    others = tuple(vote for vote in question.votes if vote.by != move.by and counts(vote))",
        "    others = tuple(vote for vote in question.votes if counts(vote))",
        (f"{ON_SQLITE}::test_one_person_cannot_agree_with_themselves",),
    ),
    Bug(
        "veto-ignored",
        "one denial does not end a question with a veto",
        f"{_SRC}/model/lifecycle.py",
        "    if agreed or (question.veto and move.negative):\n",
        "    if agreed:\n",
        (f"{IN_MEMORY}::test_with_a_veto_one_denial_ends_it",),
    ),
    Bug(
        "old-policy-decides",
        "a server that has an older version of the policy goes on deciding by it",
        f"{_SRC}/model/ask_decisions.py",
        "    if version != facts.policy_version or",
        "    if version > facts.policy_version or",
        ("tests/model/test_ask_decisions.py::test_a_question_that_may_not_be_asked_says_why",),
    ),
    Bug(
        "stop-does-not-hold-an-approval",
        "an approval that was given before a stop is executed after it",
        f"{_SRC}/model/approval_uses.py",
        "    if (stop := stop_for(facts.stops, question)) is not None:\n        return refused(UseRefusal.STOPPED, stop)\n",
        "",
        (f"{IN_MEMORY}::test_what_is_stopped_is_not_asked_approved_or_consumed",),
    ),
    Bug(
        "need-ignored",
        "a question is settled without somebody of the group that must agree",
        f"{_SRC}/model/lifecycle.py",
        " and tally.are_needs_met(move.ballot)\n",
        "\n",
        (f"{IN_MEMORY}::test_a_group_of_which_nobody_agrees_is_missed",),
    ),
    Bug(
        "stage-ignored",
        "people of a later stage answer before it is their turn",
        f"{_SRC}/model/people.py",
        "    return _is_among(question.audience, question, responder)",
        "    return _is_among(question.eligible, question, responder)",
        (f"{ON_SQLITE}::test_a_stage_that_is_over_takes_no_vote_of_somebody_who_saw_it_open",),
    ),
    Bug(
        "event-lost",
        "a vote that settles nothing leaves no event",
        f"{_SRC}/backends/sql/decided_changes.py",
        "for each in changes if each.kind is not None)",
        "for each in changes if each.kind and each.kind is not EventKind.VOTED)",
        (f"{IN_MEMORY}::test_every_transition_leaves_exactly_one_event",),
    ),
    Bug(
        "feed-skips-late-commits",
        "whoever follows the feed never sees what was committed late",
        f"{_SRC}/backends/sql/dialects.py",
        '        "and {0}.transaction < (select handraise.feed_edge()) order by {0}.transaction, {0}.number",\n',
        '        "order by {0}.transaction, {0}.number",\n',
        ("tests/backends/test_postgres.py::test_a_late_commit_is_not_skipped_by_the_feed",),
    ),
    Bug(
        "retention-removes-what-waits",
        "a pending question is removed once it is as old as what is settled may become",
        f"{_POSTGRES}/migrations/0001_schema.sql",
        "q.id = any (ids) and q.settled_at < due.before",
        "q.id = any (ids)",
        (f"{RETENTION}::test_every_workspace_keeps_by_its_rule_however_little_is_looked_at_at_once",),
    ),
)

_DURABILITY = (
    Bug(
        "synchronous-commit-off",
        "a database that forgets acknowledged answers in a crash is taken as it is",
        f"{_POSTGRES}/durability.py",
        'if commit == "off":',
        'if commit == "never":',
        ("tests/backends/test_postgres.py::test_settings_that_lose_answers_are_refused",),
    ),
    Bug(
        "synchronous-commit-off-by-us",
        "our own connections do not wait for the disk",
        f"{_POSTGRES}/connections.py",
        '    "jit": "off",\n',
        '    "jit": "off",\n    "synchronous_commit": "off",\n',
        (f"{SLIPS}::test_every_connection_of_ours_waits_for_the_disk[postgres]",),
    ),
    Bug(
        "sqlite-does-not-sync",
        "SQLite acknowledges what is not on the disk yet",
        f"{_SQLITE}/connections.py",
        '"synchronous = full"',
        '"synchronous = off"',
        (f"{SLIPS}::test_every_connection_of_ours_waits_for_the_disk[sqlite]",),
    ),
    Bug(
        "told-before-it-is-recorded",
        "whoever waits is told an answer that the store has not taken yet",
        f"{_SRC}/desk/question_access.py",
        "        while isinstance(moved := await self._shared.settle.submit(move), Refused):\n",
        "        from handraise.model.lifecycle import transition\n\n        early = transition(move.question, move, move.question.asked_at, counts=bool, groups_of=list)\n        if isinstance(early, tuple) and early[0].outcome is not None:\n            self._shared.waiters.resolve(move.question.ref, early[0].outcome)\n        while isinstance(moved := await self._shared.settle.submit(move), Refused):\n",
        (f"{SLIPS}::test_nobody_is_told_what_the_store_did_not_take",),
    ),
    Bug(
        "fence-ignored",
        "a dispatcher whose lease is over writes over what the next one recorded",
        f"{_SHARED}/outbox.sql",
        "and d.id = t.id and d.turn = t.turn;",
        "and d.id = t.id;",
        ("tests/contract/test_outbox.py::TestPostgresConfinedOutbox::test_whoever_took_it_over_records_it",),
    ),
    Bug(
        "routed-without-a-lock",
        "a question that ends while its deliveries are made leaves one that is sent all the same",
        f"{_SHARED}/outbox.sql",
        "status = 'pending'\n${lock(for share)};",
        "status = 'pending';",
        (
            "tests/backends/test_postgres.py::test_a_question_that_ends_while_its_deliveries_are_made_waits_and_finds_them",
        ),
    ),
    Bug(
        "no-lease",
        "what one dispatcher is sending is taken by the next one too",
        f"{_SQLITE}/outbox.sql",
        "set due_at = :now + :lease,",
        "set due_at = :now,",
        (
            "tests/contract/test_outbox.py::TestSqliteOutbox::test_what_is_due_is_taken_by_one_and_again_after_its_lease",
        ),
    ),
    Bug(
        "lease-not-renewed",
        "a listener is forgotten by those who send hints though it listens still",
        f"{_SQLITE}/statements.sql",
        "on conflict (process) do update set seen_at = excluded.seen_at;",
        "on conflict (process) do nothing;",
        (f"{SLIPS}::test_a_listener_stays_known_for_as_long_as_it_says_so",),
    ),
    Bug(
        "retry-posts-a-second-question",
        "a request that is made again after its reply was lost makes another question",
        f"{_SRC}/server/middleware/idempotency.py",
        "            request.state.made = claim.made\n",
        "            request.state.made = ctx.new_id()\n",
        (
            "tests/server/test_idempotency.py::TestAfterASilence::test_it_is_done_again_with_the_id_of_the_first",
        ),
    ),
)

_WAKING = (
    Bug(
        "lost-re-listen",
        "a listener whose connection is cut never listens again",
        f"{_POSTGRES}/bus.py",
        "                    await lost.wait()\n",
        "                    await lost.wait()\n                    return\n",
        ("tests/backends/test_postgres.py::test_a_listener_that_is_cut_off_comes_back_and_reads_again",),
    ),
    Bug(
        "re-listen-without-reading",
        "what happened while nobody listened is not looked for",
        f"{_POSTGRES}/bus.py",
        "                    self._on_hint(None)\n",
        "",
        ("tests/backends/test_postgres.py::test_a_listener_that_is_cut_off_comes_back_and_reads_again",),
    ),
    Bug(
        "subscribe-without-reading",
        "what happened before a workspace was subscribed to is not looked for",
        f"{_SRC}/waiters.py",
        "        self.mark_dirty(self._by_workspace.get(workspace, ()))\n",
        "        del workspace\n",
        (
            "tests/backends/test_nats_interest.py::test_an_answer_before_the_subscription_is_ready_is_not_missed",
        ),
    ),
    Bug(
        "hint-believed",
        "a hint counts as the end of a wait, without a look at the record",
        f"{_SRC}/waiters.py",
        "            self._unread |= heard\n            self._wakeup.set()\n",
        "            for ref in heard:\n"
        "                for wait in self._waiting_for(ref):\n"
        "                    _give_up(wait)\n",
        (f"{IN_MEMORY}::test_an_early_or_doubled_hint_delivers_nothing",),
    ),
    Bug(
        "never-polls",
        "where a hint is lost, a wait is never woken",
        f"{_SRC}/waiters.py",
        "                    if self._waits and self._poll.due:",
        "                    if self._waits and self._poll.due and self._unread:",
        (f"{SLIPS}::test_the_poll_wakes_a_wait_that_no_hint_reaches",),
    ),
    Bug(
        "waits-without-looking",
        "an answer that came before the wait is not found by it",
        f"{_SRC}/waiters.py",
        "        self._unread.add(ref)\n        self._wakeup.set()\n",
        "",
        (f"{SLIPS}::test_a_wait_looks_before_it_sleeps",),
    ),
)

_IDENTITY = (
    Bug(
        "asker-may-answer",
        "whoever asks may answer",
        f"{_SRC}/model/people.py",
        "    if responder.id == question.asker:\n        return False\n",
        "",
        (f"{IN_MEMORY}::test_whoever_asks_cannot_answer",),
    ),
    Bug(
        "agent-may-answer",
        "the key of an agent opens what is for people",
        f"{_SRC}/server/auth/authenticator.py",
        "    if not isinstance(caller, PersonCaller):\n        raise PermissionDenied(caller.agent",
        "    if not isinstance(caller, (PersonCaller, AgentCaller)):\n        raise PermissionDenied(caller.agent",
        ("tests/server/test_sweeps.py::test_no_credential_of_an_agent_answers_or_administers",),
    ),
    Bug(
        "member-administers",
        "every member of a workspace administers it",
        f"{_SRC}/server/auth/authenticator.py",
        "    if not caller.is_admin:\n",
        "    if caller.is_admin is None:\n",
        ("tests/server/test_identities.py::TestWhoAdministers::test_no_member",),
    ),
    Bug(
        "owner-bypasses-rls",
        "row-level security does not bind the owner of the tables",
        f"{_POSTGRES}/migrations/0001_schema.sql",
        "alter table %s enable row level security, force row level security",
        "alter table %s enable row level security",
        (f"{ROW_SECURITY}::test_every_table_with_a_workspace_is_walled",),
    ),
    Bug(
        "workspace-left-in-session",
        "the workspace of one transaction is that of the next one in the same session",
        f"{_POSTGRES}/database.py",
        "set local handraise.workspaces",
        "set handraise.workspaces",
        (f"{ROW_SECURITY}::test_nothing_is_left_in_the_session_after_a_transaction",),
    ),
    Bug(
        "name-inside-another-name",
        "a batch sees a workspace whose name is the end of the name of one that it is for",
        f"{_POSTGRES}/migrations/0001_schema.sql",
        "current_setting('handraise.workspaces', true), ',' || encode(",
        "current_setting('handraise.workspaces', true), encode(",
        (f"{ROW_SECURITY}::test_a_batch_neither_reads_nor_writes_a_workspace_that_it_is_not_for",),
    ),
    Bug(
        "row-of-a-neighbour-in-the-batch",
        "a wait sees the question of another workspace in the same batch, if their ids are equal",
        f"{_SHARED}/questions.sql",
        "left join handraise.questions as q on q.workspace = t.workspace and q.id = t.id\nwhere coalesce",
        "left join handraise.questions as q on q.id = t.id\nwhere coalesce",
        (f"{ROW_SECURITY}::test_equal_ids_and_keys_in_one_batch_stay_with_their_workspaces",),
    ),
    Bug(
        "superuser-is-not-confined",
        "a server runs as a superuser, whom no wall holds",
        f"{_POSTGRES}/row_security.py",
        '    if role["loophole"] is not None:\n        raise UnsafeStore(',
        '    if role["loophole"] == "":\n        raise UnsafeStore(',
        (
            f"{ROW_SECURITY}::test_a_desk_that_must_be_confined_does_not_open_where_the_role_to_take_is_not_bound",
        ),
    ),
    Bug(
        "weak-evidence-is-enough",
        "an action of high risk is approved on the word of a program",
        f"{_SRC}/model/evidence.py",
        'and form.risk == "high"\n',
        'and form.risk == "highest"\n',
        (f"{IN_MEMORY}::test_the_word_of_a_program_ends_nothing_of_high_risk",),
    ),
    Bug(
        "digest-not-checked",
        "what is executed need not be what was approved",
        f"{_SRC}/desk/approval_use.py",
        '        if decision.action.digest != question.outcome.value["digest"]:\n',
        "        if not decision.action.digest:\n",
        ("tests/chaos/test_consume.py::test_one_changed_byte_in_the_stored_arguments_is_refused",),
    ),
    Bug(
        "decision-about-another-action",
        "a decision counts though its digest is that of another action",
        f"{_SRC}/model/validation.py",
        '    if given.get("digest") not in (None, form.digest, canonical["digest"]):',
        '    if given.get("digest") == "":',
        ("tests/channels/test_slack_requests.py::test_an_approval_of_another_action_is_not_taken",),
    ),
)

_DOORS = (
    Bug(
        "get-answers",
        "looking at a link with an answer in its address gives that answer, as every scanner of mails does",
        f"{_SRC}/server/web/embedded_question.py",
        "    return await show(_alone(ctx, caller, question, token), question, _prefilled(request, question))",
        "    filled = _prefilled(request, question)\n"
        "    if filled is not None:\n"
        "        return await _respond(_alone(ctx, caller, question, token), question, filled.submitted)\n"
        "    return await show(_alone(ctx, caller, question, token), question, filled)",
        (
            "tests/server/test_question_links.py::TestLooking::test_fills_in_what_the_address_says_and_sends_nothing",
        ),
    ),
    Bug(
        "csrf-check-off",
        "a page of somebody else's answers with the cookie of whoever looks at it",
        f"{_SRC}/server/auth/authenticator.py",
        "    fetch_site = connection.headers.get",
        "    return\n    fetch_site = connection.headers.get",
        ("tests/server/test_security.py::TestOtherSites::test_cannot_act_with_a_cookie",),
    ),
    Bug(
        "slack-signature-not-checked",
        "whoever knows the address can answer as anybody in Slack",
        f"{_SRC}/channels/slack/signatures.py",
        '    return hmac.compare_digest(made.encode(), given.encode(errors="replace"))',
        "    return made.startswith(given[:3])",
        ("tests/channels/test_slack_requests.py::test_a_thousand_forged_requests_record_nothing",),
    ),
    Bug(
        "discord-signature-not-checked",
        "whoever knows the address can answer as anybody in Discord",
        f"{_SRC}/channels/discord/signatures.py",
        "    except InvalidSignature:\n        return False\n",
        "    except InvalidSignature:\n        return True\n",
        ("tests/channels/test_discord_requests.py::test_a_thousand_forged_requests_record_nothing",),
    ),
    Bug(
        "teams-audience-not-checked",
        "what Microsoft signed for another application is taken",
        f"{_SRC}/channels/teams/token_verifier.py",
        '            and _is(claims.get("aud"), self._audience)\n',
        "",
        ("tests/channels/test_teams_requests.py::test_a_thousand_forged_requests_record_nothing",),
    ),
    Bug(
        "telegram-secret-not-checked",
        "whoever knows the address can press any button in Telegram",
        f"{_SRC}/channels/telegram/channel.py",
        "        if self._secret is None or not hmac.compare_digest(given, self._secret):",
        "        if self._secret is None:",
        ("tests/server/test_channel_sweeps.py::test_no_credential_opens_the_door_of_a_channel",),
    ),
    Bug(
        "header-in-a-subject",
        "an agent adds headers and a text of its own to our mail",
        f"{_SRC}/channels/email/mime.py",
        """    plain = text.isascii() and "=?" not in text""",
        "    plain = text.isascii()",
        ("tests/channels/test_email_hostile.py::test_encoded_words_in_a_subject_are_what_was_written",),
    ),
    Bug(
        "webhook-replayed",
        "the same request of a webhook a second time is a second attempt",
        f"{_SRC}/channels/webhook.py",
        '                id=headers["webhook-id"],\n',
        "",
        (f"{WEBHOOK}::TestGenuine::test_a_thousand_replays_are_one_answer_one_attempt_one_vote",),
    ),
    Bug(
        "old-callback-taken",
        "a request of Slack that somebody kept for a year is as good as new",
        f"{_SRC}/channels/slack/signatures.py",
        "_FRESH = 300\n",
        "_FRESH = 300_000_000\n",
        ("tests/channels/test_slack_requests.py::test_a_thousand_forged_requests_record_nothing",),
    ),
    Bug(
        "callback-to-any-host",
        "an agent has the server call hosts that its operator does not name",
        f"{_SRC}/channels/webhook.py",
        """        if "*" not in self._callback_hosts and host not in self._callback_hosts:""",
        "        if not host:",
        (f"{CALLBACKS}::test_a_host_that_the_operator_does_not_name_is_not_called_not_even_later",),
    ),
    Bug(
        "webhook-reaches-inside",
        "an address of the private network is called",
        f"{_SRC}/channels/safe_http.py",
        "    return address.is_global and not address.is_multicast and not special",
        "    return not address.is_multicast and not special",
        ("tests/channels/test_webhook.py::TestNeverCalled::test_addresses_that_are_not_public",),
    ),
    Bug(
        "flooding-by-claiming-risk",
        "an agent that calls everything risky reaches people as often as it likes",
        f"{_SRC}/model/routing.py",
        "(claimed and not _has_had_enough(question.asker, policy, recent))",
        "claimed",
        (
            "tests/desk/test_dispatcher.py::test_an_agent_that_floods_has_its_number_and_the_others_reach_people",
        ),
    ),
    Bug(
        "flooding-not-held-up",
        "an agent has as much of everybody's attention as it likes",
        f"{_SRC}/model/routing.py",
        "    if too_many and due_at == now:",
        "    if not too_many and due_at != now:",
        ("tests/desk/test_dispatcher.py::test_a_burst_does_not_go_beyond_the_budget",),
    ),
)

_SINKS = (
    Bug(
        "page-without-escaping",
        "what an agent writes is markup in the page",
        f"{_SRC}/server/web/pages.py",
        "    autoescape=True,",
        "    autoescape=False,",
        ("tests/server/inbox/test_hostile.py::test_a_hostile_text_stays_a_text_wherever_it_stands",),
    ),
    Bug(
        "mail-without-escaping",
        "what an agent writes is markup in the mail",
        f"{_SRC}/channels/email/mail_body.py",
        "    autoescape=True,",
        "    autoescape=False,",
        ("tests/channels/test_email_hostile.py::test_a_hostile_text_stays_a_text_in_a_mail",),
    ),
    Bug(
        "terminal-without-escaping",
        "what an agent writes moves the cursor and hides what it likes",
        f"{_SRC}/model/visible.py",
        "        elif category in _UNSEEN or each in _FILLERS or each in _SELECTORS or marks > _MOST_MARKS:",
        "        elif each in _FILLERS or each in _SELECTORS or marks > _MOST_MARKS:",
        ("tests/cli/test_hostile.py::test_no_text_of_an_agent_draws_anything_unseen_or_leaves_its_bar",),
    ),
    Bug(
        "log-without-escaping",
        "what somebody sends begins lines in the log",
        f"{_SRC}/server/observability/logs.py",
        "    text = visible_line(f\"{instant}  {' '.join(said)}\")",
        "    text = f\"{instant}  {' '.join(said)}\"",
        ("tests/server/test_logs.py::test_nothing_that_is_logged_can_begin_a_line_or_move_a_cursor",),
    ),
    Bug(
        "answers-in-the-log",
        "what people answer is written to the log",
        f"{_SRC}/desk/local_desk.py",
        "        check_provenance(self._limits, provenance)\n        try:\n",
        "        __import__('logging').getLogger(__name__).info('answer %s', value)\n"
        "        check_provenance(self._limits, provenance)\n        try:\n",
        ("tests/server/test_secrets.py::test_what_is_asked_and_answered_is_nowhere_but_in_its_own_rows",),
    ),
)

BUGS: tuple[Bug, ...] = (*_STANDING_ANSWERS, *_RACES, *_DURABILITY, *_WAKING, *_IDENTITY, *_DOORS, *_SINKS)
