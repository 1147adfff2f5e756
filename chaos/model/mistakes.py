"""Mistakes put into the model, one at a time: a model that finds none of them proves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.model.tlc import Change


@dataclass(frozen=True)
class Mistake:
    """What is changed, and the configuration that shows it."""

    changes: tuple[Change, ...]
    config: str = "mistakes"


_OPENS = "Opens(a, q, Moved(Asked, r, m), EventOf(Moved(Asked, r, m), m)) /\\ UNCHANGED <<call, acked, seen>>"

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
                'Opens(a, q, Fresh, "asked") /\\ UNCHANGED <<call, acked, seen>>',
                'Opens(a, q, Fresh, "asked") /\\ acked\' = acked \\cup {q} /\\ UNCHANGED <<call, seen>>',
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
                'IF r.status = "none" THEN Opens(a, q, Fresh, "asked")',
                'IF TRUE THEN Opens(a, q, Fresh, "asked")',
            ),
        )
    ),
    "no event by the clock": Mistake(
        (
            Change(
                "Append(@, <<t.kind, t.by>>)",
                'IF t.by = "clock" THEN @ ELSE Append(@, <<t.kind, t.by>>)',
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
                '[later EXCEPT !.status = "expired", !.how = "clock"]',
                '[later EXCEPT !.status = "answered", !.how = "clock", !.value = "approve"]',
                "Lifecycle",
            ),
        ),
        "quick",
    ),
    "an approval used twice": Mistake(
        (Change('r.how # "default" /\\ ~r.used', 'r.how # "default"', "Lifecycle"),),
        "quick",
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
