------------------------------ MODULE Lifecycle ------------------------------
\* The life of one question: what each move, and each deed of its timeline, does to its record. The same rules as
\* `transition` and `next_step` in handraise/model/lifecycle.py, written a second time. Handraise.tla puts processes, a
\* network and crashes around them; Replay.tla holds real histories against them.
\*
\* An asked question `q` has: asker, quorum, veto, max (0 is no limit), to ({} is anyone), steps (do, to, at), approval.
\* Its record `r` has: status, votes, attempts, taken, by, how, value, used, revoked.
\* A move `m` has: kind, by, names (those a person answers to), ballot, negative, at. Time counts from the asking.
EXTENDS Naturals, Sequences, FiniteSets

Endings == {"answered", "declined", "expired", "withdrawn", "exhausted"}

Unasked == [status |-> "none", votes |-> <<>>, attempts |-> 0, taken |-> 0, by |-> "", how |-> "", value |-> "",
            used |-> FALSE, revoked |-> FALSE]

Fresh == [Unasked EXCEPT !.status = "pending"]

IsSettled(r) == r.status \in Endings

Audience(q, r) == q.to \cup UNION {q.steps[i].to : i \in 1..r.taken}

MayRespond(q, r, m) == m.by # q.asker /\ (q.to = {} \/ Audience(q, r) \cap m.names # {})

Ends(step) == step.do \in {"expire", "default"}

\* Whether the clock has ended the question, swept or not.
IsPast(q, at) == Len(q.steps) > 0 /\ Ends(q.steps[Len(q.steps)]) /\ q.steps[Len(q.steps)].at <= at

IsAllowed(q, r, m) ==
    /\ r.status = "pending"
    /\ ~IsPast(q, m.at)
    /\ CASE m.kind = "withdraw" -> m.by = q.asker
         [] m.kind = "grant" -> m.by = q.asker /\ q.approval /\ q.quorum = 1
         [] OTHER -> MayRespond(q, r, m)

Ended(r, status, m, how) == [r EXCEPT !.status = status, !.by = m.by, !.how = how, !.value = m.ballot]

Voted(r, m) == [r EXCEPT !.votes = [p \in DOMAIN r.votes \cup {m.by} |-> IF p = m.by THEN m.ballot ELSE r.votes[p]]]

Agreeing(r, ballot) == Cardinality({p \in DOMAIN r.votes : r.votes[p] = ballot})

Ending(m) == IF m.kind = "decline" THEN "declined" ELSE "answered"

\* The record after a move that is allowed.
Moved(q, r, m) ==
    CASE m.kind = "withdraw" -> Ended(r, "withdrawn", m, "asker")
      [] m.kind = "grant" -> Ended(r, "answered", m, "grant")
      [] m.kind = "attempt" ->
           LET tried == [r EXCEPT !.attempts = @ + 1]
           IN IF q.max > 0 /\ tried.attempts >= q.max THEN Ended(tried, "exhausted", m, "person") ELSE tried
      [] q.quorum = 1 -> Ended(r, Ending(m), m, "person")
      [] OTHER ->
           LET counted == Voted(r, m)
           IN IF Agreeing(counted, m.ballot) >= q.quorum \/ (q.veto /\ m.negative)
              THEN Ended(counted, Ending(m), m, "person") ELSE counted

EventOf(r, m) == IF r.status # "pending" THEN r.status ELSE IF m.kind = "attempt" THEN "attempted" ELSE "voted"

IsDue(q, r, at) == r.status = "pending" /\ r.taken < Len(q.steps) /\ q.steps[r.taken + 1].at <= at

\* The record after the timeline's next deed.
Done(q, r) ==
    LET later == [r EXCEPT !.taken = @ + 1]
    IN CASE q.steps[r.taken + 1].do = "expire" -> [later EXCEPT !.status = "expired", !.how = "clock"]
         [] q.steps[r.taken + 1].do = "default" -> [later EXCEPT !.status = "answered", !.how = "default", !.value = "default"]
         [] OTHER -> later

DeedEvent(step) ==
    CASE step.do = "remind" -> "reminded" [] step.do = "escalate" -> "escalated"
      [] step.do = "expire" -> "expired" [] OTHER -> "answered"

\* An approval is there to be used: a person or a grant said so, and nobody has.
IsUsable(q, r) == q.approval /\ r.status = "answered" /\ r.value = "approve" /\ r.how # "default" /\ ~r.used

Used(r) == [r EXCEPT !.used = TRUE]
=============================================================================
