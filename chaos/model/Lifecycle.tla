------------------------------ MODULE Lifecycle ------------------------------
\* The life of one question: what each move, and each deed of its timeline, does to its record. The same rules as
\* `transition` and `next_step` in handraise/model/lifecycle.py, written a second time. Handraise.tla puts processes, a
\* network and crashes around them.
\*
\* An asked question `q` has: asker, quorum, veto, max (0 is no limit), to ({} is anyone), steps (do, to, at), approval,
\* replies (whether the asker can be asked back), lapses (for each instant of an approval, until when it can be used; <<>> is
\* for ever).
\* Its record `r` has: status, votes, saw (what each vote covers), attempts, taken, by, how, value, covers (how many messages
\* the answer covers), used, revoked, and of its thread: thread (how many messages), back (the last one that waits for a
\* reply, 0 is none), replied (the last reply). Of an approval: until (when it lapses, 0 is never), used_at, taken_back.
\* Of others: follows (the question whose answer it gets, "" is none), replaces, replaced (by which question), added (who was
\* brought in), reported.
\* A move `m` has: kind, by, names (those a person answers to), ballot, negative, saw (how many messages its maker saw), at.
\* Time counts from the asking.
EXTENDS Naturals, Sequences, FiniteSets

Endings == {"answered", "declined", "expired", "withdrawn", "exhausted", "returned"}

Unasked == [status |-> "none", votes |-> <<>>, attempts |-> 0, taken |-> 0, by |-> "", how |-> "", value |-> "",
            used |-> FALSE, revoked |-> FALSE, thread |-> 0, back |-> 0, replied |-> 0, saw |-> <<>>, covers |-> 0,
            until |-> 0, used_at |-> 0, taken_back |-> FALSE, reported |-> FALSE, follows |-> "", replaces |-> "",
            replaced |-> "", added |-> {}]

Fresh == [Unasked EXCEPT !.status = "pending"]

IsSettled(r) == r.status \in Endings

Audience(q, r) == q.to \cup r.added \cup UNION {q.steps[i].to : i \in 1..r.taken}

MayRespond(q, r, m) == m.by # q.asker /\ (q.to = {} \/ Audience(q, r) \cap m.names # {})

Ends(step) == step.do \in {"expire", "default"}

\* Whether the clock has ended the question, swept or not.
IsPast(q, at) == Len(q.steps) > 0 /\ Ends(q.steps[Len(q.steps)]) /\ q.steps[Len(q.steps)].at <= at

Messages == {"ask_back", "note", "reply"}

\* A person approves an action: that covers the conversation, or does not count.
Consents(q, m) == q.approval /\ m.kind = "answer" /\ ~m.negative

IsAllowed(q, r, m) ==
    /\ r.status = "pending"
    /\ ~IsPast(q, m.at)
    /\ Consents(q, m) => m.saw = r.thread
    /\ CASE m.kind = "withdraw" -> m.by = q.asker
         [] m.kind = "grant" -> m.by = q.asker /\ q.approval /\ q.quorum = 1 /\ r.thread = 0
         [] m.kind = "reply" -> m.by = q.asker /\ r.back > 0
         [] m.kind = "ask_back" -> q.replies /\ MayRespond(q, r, m)
         [] OTHER -> MayRespond(q, r, m)

Lapses(q, m) == IF m.ballot = "approve" /\ m.at \in DOMAIN q.lapses THEN q.lapses[m.at] ELSE 0

Ended(q, r, status, m, how) ==
    [r EXCEPT !.status = status, !.by = m.by, !.how = how, !.value = m.ballot, !.covers = m.saw, !.until = Lapses(q, m)]

\* More than any thread has: a refusal covers every conversation.
Everything == 1000

\* An approval from before the last reply does not count any more.
Counts(r, p) == r.saw[p] >= r.replied

Voted(q, r, m) ==
    LET voters == {p \in DOMAIN r.votes : p # m.by /\ Counts(r, p)} \cup {m.by}
    IN [r EXCEPT !.votes = [p \in voters |-> IF p = m.by THEN m.ballot ELSE r.votes[p]],
                 !.saw = [p \in voters |-> IF p # m.by THEN r.saw[p] ELSE IF Consents(q, m) THEN m.saw ELSE Everything]]

Replied(r, m) ==
    [r EXCEPT !.thread = @ + 1, !.replied = r.thread + 1, !.back = IF r.back <= m.saw THEN 0 ELSE @]

Agreeing(r, ballot) == Cardinality({p \in DOMAIN r.votes : r.votes[p] = ballot})

Ending(m) == CASE m.kind = "decline" -> "declined" [] m.kind = "send_back" -> "returned" [] OTHER -> "answered"

\* The record after a move that is allowed.
Moved(q, r, m) ==
    CASE m.kind = "withdraw" -> Ended(q, r, "withdrawn", m, "asker")
      [] m.kind = "grant" -> Ended(q, r, "answered", m, "grant")
      [] m.kind = "attempt" ->
           LET tried == [r EXCEPT !.attempts = @ + 1]
           IN IF q.max > 0 /\ tried.attempts >= q.max THEN Ended(q, tried, "exhausted", m, "person") ELSE tried
      [] m.kind = "note" -> [r EXCEPT !.thread = @ + 1]
      [] m.kind = "ask_back" -> [r EXCEPT !.thread = @ + 1, !.back = r.thread + 1]
      [] m.kind = "reply" -> Replied(r, m)
      [] q.quorum = 1 -> Ended(q, r, Ending(m), m, "person")
      [] OTHER ->
           LET counted == Voted(q, r, m)
           IN IF Agreeing(counted, m.ballot) >= q.quorum \/ (q.veto /\ m.negative)
              THEN Ended(q, counted, Ending(m), m, "person") ELSE counted

EventOf(r, m) ==
    IF r.status # "pending" THEN r.status
    ELSE CASE m.kind = "attempt" -> "attempted" [] m.kind = "ask_back" -> "asked_back" [] m.kind = "note" -> "noted"
           [] m.kind = "reply" -> "replied" [] OTHER -> "voted"

\* While it is the asker's turn, or it follows another one, only the end comes due, and what comes before it is left out.
IsPaused(r) == r.back > 0 \/ r.follows # ""

\* Nothing puts off the end; what was not done by then is left out too.
NextStep(q, r, at) == IF IsPaused(r) \/ IsPast(q, at) THEN q.steps[Len(q.steps)] ELSE q.steps[r.taken + 1]

IsDue(q, r, at) ==
    /\ r.status = "pending" /\ r.taken < Len(q.steps)
    /\ IF IsPaused(r) THEN IsPast(q, at) ELSE q.steps[r.taken + 1].at <= at

\* The record after the timeline's next deed.
Done(q, r, at) ==
    CASE NextStep(q, r, at).do = "expire" -> [r EXCEPT !.status = "expired", !.how = "clock"]
      [] NextStep(q, r, at).do = "default" -> [r EXCEPT !.status = "answered", !.how = "default", !.value = "default"]
      [] OTHER -> [r EXCEPT !.taken = @ + 1]

DeedEvent(step) ==
    CASE step.do = "remind" -> "reminded" [] step.do = "escalate" -> "escalated"
      [] step.do = "expire" -> "expired" [] OTHER -> "answered"

\* An approval is there to be used: a person or a grant said so, nobody has used it or taken it back, and it has not lapsed.
IsApproved(q, r) == q.approval /\ r.status = "answered" /\ r.value = "approve" /\ r.how # "default"
IsUsable(q, r, at) == IsApproved(q, r) /\ ~r.used /\ ~r.taken_back /\ (r.until = 0 \/ at < r.until)

Used(r, at) == [r EXCEPT !.used = TRUE, !.used_at = IF r.until = 0 THEN 0 ELSE at]

\* Those who gave an approval can take it back until it is used. (What an administrator may is not here.)
Gave(r) == {r.by} \cup {p \in DOMAIN r.votes : r.by \in DOMAIN r.votes /\ r.votes[p] = r.votes[r.by]}
MayTakeBack(q, r, by) == IsApproved(q, r) /\ ~r.used /\ ~r.taken_back /\ (by \in Gave(r) \/ r.how = "grant")

TakenBack(r) == [r EXCEPT !.taken_back = TRUE]

\* A question that another one of its asker replaces is withdrawn if it is open; else it keeps how it ended. It is replaced once.
MayReplace(r) == r.status # "none" /\ r.replaced = ""

Replaced(q, r, new, at) ==
    LET open == r.status = "pending" /\ ~IsPast(q, at)
    IN IF open THEN [r EXCEPT !.status = "withdrawn", !.by = q.asker, !.how = "asker", !.replaced = new]
       ELSE [r EXCEPT !.replaced = new]

\* What a person decided is for all who follow. What else ends a question is not.
IsShared(r) == r.status \in {"declined", "returned"} \/ (r.status = "answered" /\ r.how = "person")

\* A question ends as the one that it follows.
EndedAs(r, first) ==
    [r EXCEPT !.status = first.status, !.by = first.by, !.how = "shared", !.value = first.value]
=============================================================================
