"""Mistakes put into the model, one at a time: a model that finds none of them proves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.model.tlc import Change


@dataclass(frozen=True)
class Mistake:
    """What is changed, and the configuration that shows it."""

    changes: tuple[Change, ...]
    config: str = "mistakes"


_OPENS = "Opens(a, q, RowsOf(stored, q, row)) /\\ UNCHANGED <<call, acked, seen>>"
_POSTS = "Opens(a, q, RowsOfPost(q)) /\\ UNCHANGED <<call, acked, seen>>"

MISTAKES = {
    "check, then act": Mistake(
        (
            Change(
                '/\\ call[a] # Idle /\\ tx[a].q = "" /\\ ~IsLocked(q)', '/\\ call[a] # Idle /\\ tx[a].q = ""'
            ),
        ),
        "quick",
    ),
    "a sweep that does not look who is at it": Mistake(
        (Change('tx[s].q = "" /\\ ~IsLocked(q) /\\ IsDue', 'tx[s].q = "" /\\ IsDue'),),
        "quick",
    ),
    "a question acknowledged before the commit": Mistake(
        (
            Change(
                _POSTS,
                "Opens(a, q, RowsOfPost(q)) /\\ acked' = acked \\cup {q} /\\ UNCHANGED <<call, seen>>",
            ),
        )
    ),
    "an answer acknowledged before the commit": Mistake(
        (
            Change(
                _OPENS,
                _OPENS.replace("UNCHANGED <<call, acked, seen>>", "seen' = Told(q, Moved(Asked, r, m))")
                + " /\\ UNCHANGED <<call, acked>>",
            ),
        )
    ),
    "a key that is not unique": Mistake(
        (
            Change(
                f'IF r.status = "none" THEN {_POSTS}',
                f"IF TRUE THEN {_POSTS}",
            ),
        )
    ),
    "no event by the clock": Mistake(
        (
            Change(
                "log[q] \\o rows[q].events ELSE",
                'log[q] \\o SelectSeq(rows[q].events, LAMBDA event : event[2] # "clock") ELSE',
            ),
        ),
        "quick",
    ),
    "one vote too few": Mistake(
        (
            Change(
                "Agreeing(counted, m.ballot) >= q.quorum",
                "Agreeing(counted, m.ballot) + 1 >= q.quorum",
                "Lifecycle",
            ),
        ),
        "votes",
    ),
    "somebody votes twice": Mistake(
        (
            Change(
                "Agreeing(r, ballot) == Cardinality({p \\in DOMAIN r.votes : r.votes[p] = ballot})",
                "Agreeing(r, ballot) == IF r.votes = <<>> THEN 0 ELSE Cardinality(DOMAIN r.votes)",
                "Lifecycle",
            ),
            Change(
                'Agreeing(r, "approve") >= Need',
                'Cardinality({p \\in DOMAIN r.votes : r.votes[p] = "approve"}) >= Need',
            ),
        ),
        "votes",
    ),
    "an approval of an older conversation": Mistake(
        (Change("    /\\ Consents(q, m) => m.saw = r.thread\n", "", "Lifecycle"),), "threads"
    ),
    "a vote that outlives a reply": Mistake(
        (Change("Counts(r, p) == r.saw[p] >= r.replied", "Counts(r, p) == TRUE", "Lifecycle"),),
        "threaded_votes",
    ),
    "silence is consent": Mistake(
        (
            Change(
                '[r EXCEPT !.status = "expired", !.how = "clock"]',
                '[r EXCEPT !.status = "answered", !.how = "clock", !.value = "approve"]',
                "Lifecycle",
            ),
        ),
        "quick",
    ),
    "an approval used twice": Mistake(
        (Change("~r.used /\\ ~r.taken_back /\\ (r.until", "~r.taken_back /\\ (r.until", "Lifecycle"),),
        "quick",
    ),
    "an approval used after it was taken back": Mistake(
        (Change("~r.used /\\ ~r.taken_back /\\ (r.until", "~r.used /\\ (r.until", "Lifecycle"),), "takeback"
    ),
    "an approval taken back after it was used": Mistake(
        (
            Change(
                "MayTakeBack(q, r, by) == IsApproved(q, r) /\\ ~r.used /\\ ",
                "MayTakeBack(q, r, by) == IsApproved(q, r) /\\ ",
                "Lifecycle",
            ),
        ),
        "takeback",
    ),
    "an approval used too late": Mistake(
        (Change(" /\\ (r.until = 0 \\/ at < r.until)", "", "Lifecycle"),), "takeback"
    ),
    "a look at the approval before the statement": Mistake(
        (
            Change(
                '/\\ call[a] # Idle /\\ tx[a].q = "" /\\ ~IsLocked(q)',
                '/\\ call[a] # Idle /\\ tx[a].q = "" /\\ (~IsLocked(q) \\/ call[a].do = "consume")',
            ),
        ),
        "takeback",
    ),
    "what was sent back is approved": Mistake(
        (
            Change('Send(a, q, "send_back", "returned")', 'Send(a, q, "send_back", "approve")'),
            Change('q.approval /\\ r.status = "answered" /\\ r.value', "q.approval /\\ r.value", "Lifecycle"),
        ),
        "takeback",
    ),
    "two questions replace one": Mistake(
        (
            Change(
                'MayReplace(r) == r.status # "none" /\\ r.replaced = ""',
                'MayReplace(r) == r.status # "none"',
                "Lifecycle",
            ),
            Change(' /\\ stored[old].replaced = "" /\\ Send', " /\\ Send"),
        ),
        "replaced",
    ),
    "what is replaced stays open": Mistake(
        (
            Change(
                "IN IF open THEN [r EXCEPT",
                "IN IF FALSE THEN [r EXCEPT",
                "Lifecycle",
            ),
        ),
        "replaced",
    ),
    "a follower left waiting": Mistake(
        (
            Change(
                'IF IsSettled(row.r) /\\ st[q].status = "pending" THEN',
                'IF IsShared(row.r) /\\ st[q].status = "pending" THEN',
            ),
        ),
        "followers",
    ),
    "a follower of what ends at that moment": Mistake(
        (
            Change(
                '(IF new.follows = "" THEN <<>> ELSE Kept(new.follows))',
                "<<>>",
            ),
        ),
        "followers",
    ),
    "two of a topic are asked": Mistake(
        (Change('!.follows = IF q \\in Topic THEN FirstOf(stored) ELSE ""', '!.follows = ""'),), "followers"
    ),
    "a withdrawal is shared": Mistake(
        (
            Change(
                'IsShared(r) == r.status \\in {"declined", "returned"}',
                'IsShared(r) == r.status \\in {"declined", "returned", "withdrawn"}',
                "Lifecycle",
            ),
        ),
        "followers",
    ),
    "an answer that does not fit ends it": Mistake(
        (Change("tried.attempts >= q.max THEN", "tried.attempts >= 1 THEN", "Lifecycle"),)
    ),
    "a withdrawal that comes too late": Mistake(
        (
            Change(
                '/\\ r.status = "pending"\n    /\\ ~IsPast(q, m.at)',
                '/\\ r.status = "pending" \\/ m.kind = "withdraw"\n    /\\ ~IsPast(q, m.at)',
                "Lifecycle",
            ),
        ),
        "quick",
    ),
    "a late record over another's": Mistake(
        (Change("IF held[d].turn = message[q].turn THEN", "IF TRUE THEN"),), "deliveries"
    ),
    "no poll": Mistake((Change("Poll(q) == Wakes(q)", "Poll(q) == FALSE /\\ Wakes(q)"),), "live"),
    "nobody sweeps": Mistake((Change(" /\\ WF_vars(\\E s \\in Sweepers : Sweep(s, q))", ""),), "live"),
}
