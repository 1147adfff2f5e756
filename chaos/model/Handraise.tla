------------------------------ MODULE Handraise ------------------------------
\* The lifecycle among processes: calls and replies get lost, transactions are undone, servers crash, hints vanish,
\* messages to people are tried again. `python -m chaos model` checks it; each invariant names its promise.
EXTENDS Lifecycle, TLC

CONSTANTS
    Questions,    \* names of questions; a name is also the key under which it is posted
    People,       \* those asked from the start
    Boss,         \* those escalated to
    Sweepers, Dispatchers,
    Need, Veto, Max,
    Last,         \* how a timeline ends: "expire" or "default"
    Approvals,    \* whether questions are approvals
    Talk,         \* how many messages a thread has at most
    Returns,      \* whether people send questions back
    Valid,        \* for how long an approval can be used, 0 is for ever
    TakesBack,    \* whether people take approvals back
    Replaces,     \* whether the asker replaces questions by others
    Topic,        \* the questions that are equal, of one topic
    Waits,        \* whether anybody waits for outcomes
    Calls,        \* how many calls each person, and the asker for each question, makes at most
    Tries,        \* how often a message is sent at most
    Crashes, Losses

VARIABLES
    now,          \* the store's clock
    stored, log, copies,   \* the truth: records, their events, rows for each key
    tx,           \* what a statement has done and not yet committed; it holds the question's row
    call, left,   \* the call an actor waits for, and how many it may still make
    acked,        \* questions whose asking was acknowledged
    seen,         \* outcomes that anybody was told of, by question
    executed,     \* how often the approved action was begun
    hint, waiter, \* a wake-up under way; whether somebody waits
    message, held,\* the delivery of a question, and the dispatcher's turn at it
    crashes, losses

vars == <<now, stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, message, held, crashes, losses>>

Asker == "asker"
Everybody == People \cup Boss
Callers == Everybody \cup {Asker}
Actors == Callers \cup Sweepers
Latest == 2

Asked == [asker |-> Asker, quorum |-> Need, veto |-> Veto, max |-> Max, to |-> People, approval |-> Approvals, replies |-> Talk > 0,
          lapses |-> IF Valid = 0 THEN <<>> ELSE [at \in 0..Latest |-> at + Valid],
          steps |-> <<[do |-> "escalate", to |-> Boss, at |-> 1], [do |-> Last, to |-> {}, at |-> Latest]>>]

\* A statement is about one question, and may write others too: what it replaces, or what follows it.
Free == [q |-> "", rows |-> <<>>]
Idle == [q |-> "", do |-> "", value |-> "", saw |-> 0]
NoMessage == [at |-> "none", turn |-> 0, arrived |-> 0]
Line == [at |-> "line", turn |-> 0, arrived |-> 0]

Init ==
    /\ now = 0
    /\ stored = [q \in Questions |-> Unasked]
    /\ log = [q \in Questions |-> <<>>]
    /\ copies = [q \in Questions |-> 0]
    /\ tx = [a \in Actors |-> Free]
    /\ call = [a \in Callers |-> Idle]
    /\ left = [a \in Callers |-> IF a = Asker THEN Calls + 1 + Cardinality(Questions) ELSE Calls]
    /\ acked = {}
    /\ seen = [q \in Questions |-> {}]
    /\ executed = [q \in Questions |-> 0]
    /\ hint = [q \in Questions |-> FALSE]
    /\ waiter = [q \in Questions |-> "off"]
    /\ message = [q \in Questions |-> NoMessage]
    /\ held = [d \in Dispatchers |-> [q |-> "", turn |-> 0, sent |-> FALSE]]
    /\ crashes = 0
    /\ losses = 0

IsLocked(q) == \E a \in Actors : tx[a].q # "" /\ q \in DOMAIN tx[a].rows
Outcome(r) == <<r.status, r.by, r.how, r.value>>
Told(q, r) == IF IsSettled(r) THEN [seen EXCEPT ![q] = @ \cup {Outcome(r)}] ELSE seen

------------------------------------------------------------------------------
\* Calls

Send(a, q, do, value) ==
    /\ call[a] = Idle /\ left[a] > 0
    \* Who approves has read the thread before, and somebody may write something meanwhile.
    /\ call' = [call EXCEPT ![a] = [q |-> q, do |-> do, value |-> value, saw |-> stored[q].thread]]
    /\ left' = [left EXCEPT ![a] = @ - 1]
    /\ UNCHANGED <<now, stored, log, copies, tx, acked, seen, executed, hint, waiter, message, held, crashes, losses>>

SendSomething ==
    \/ \E q \in Questions : q \notin acked /\ Send(Asker, q, "post", "")
    \/ \E q \in acked : Send(Asker, q, "withdraw", "")
    \/ \E q \in acked : Approvals /\ Send(Asker, q, "consume", "")
    \/ \E a \in Everybody, q \in Questions, v \in {"approve", "deny"} : stored[q].status # "none" /\ Send(a, q, "answer", v)
    \/ \E q \in Questions, old \in acked : Replaces /\ q \notin acked /\ stored[old].replaced = "" /\ Send(Asker, q, "replace", old)
    \/ \E a \in Everybody, q \in Questions : stored[q].status # "none" /\ Send(a, q, "decline", "declined")
    \/ \E a \in Everybody, q \in Questions : Returns /\ stored[q].status # "none" /\ Send(a, q, "send_back", "returned")
    \/ \E a \in Everybody, q \in Questions : TakesBack /\ stored[q].status = "answered" /\ Send(a, q, "take_back", "")
    \/ \E a \in Everybody, q \in Questions, do \in {"ask_back", "note"} :
          stored[q].status = "pending" /\ stored[q].thread < Talk /\ Send(a, q, do, "")
    \/ \E q \in acked : stored[q].back > 0 /\ Send(Asker, q, "reply", "")
    \/ \E a \in Everybody, q \in Questions : Max > 0 /\ stored[q].status # "none" /\ Send(a, q, "attempt", "misfit")

MoveOf(a) ==
    [kind |-> call[a].do, by |-> a, names |-> {a}, ballot |-> call[a].value,
     negative |-> call[a].do \in {"decline", "send_back"} \/ call[a].value = "deny", saw |-> call[a].saw, at |-> now]

Row(r, kind, by) == [r |-> r, events |-> <<<<kind, by>>>>]

\* The ids are ordered by the time of asking.
Rank(q) == CASE q = "q1" -> 1 [] q = "q2" -> 2 [] OTHER -> 3
Oldest(some) == CHOOSE q \in some : \A other \in some : Rank(q) <= Rank(other)

\* Of a topic, the question that is asked; the others follow it.
IsFirst(st, q) == q \in Topic /\ st[q].status = "pending" /\ st[q].follows = ""
FirstOf(st) == IF \E q \in Topic : IsFirst(st, q) THEN CHOOSE q \in Topic : IsFirst(st, q) ELSE ""
FollowersOf(st, q) == {f \in Topic : st[f].status = "pending" /\ st[f].follows = q}

\* All that is written if a question becomes `row`. With its end, those that follow it end too, if a person has decided; else
\* the oldest of them is asked, and the others follow that one.
RowsOf(st, q, row) ==
    LET followers == IF IsSettled(row.r) /\ st[q].status = "pending" THEN FollowersOf(st, q) ELSE {}
        shared == {f \in followers : IsShared(row.r) /\ ~IsPast(Asked, now)}
        rest == followers \ shared
        next == IF rest = {} THEN "" ELSE Oldest(rest)
    IN [f \in {q} \cup followers |->
           CASE f = q -> row
             [] f \in shared -> Row(EndedAs(st[f], row.r), row.r.status, row.r.by)
             [] f = next -> Row([st[f] EXCEPT !.follows = ""], "opened", "")
             [] OTHER -> [r |-> [st[f] EXCEPT !.follows = next], events |-> <<>>]]

\* What is only held, so that nobody ends it meanwhile.
Kept(q) == q :> [r |-> stored[q], events |-> <<>>]

\* A new question follows the first of its topic, if there is one. (There is one asker here, who makes one call at a time.
\* Two who ask about one topic at the same time: see tests/stateful/every_verb.py.)
Posted(q, old) == [Fresh EXCEPT !.follows = IF q \in Topic THEN FirstOf(stored) ELSE "", !.replaces = old]

RowsOfPost(q) ==
    LET new == Posted(q, "")
    IN q :> Row(new, "asked", Asker) @@ (IF new.follows = "" THEN <<>> ELSE Kept(new.follows))

RowsOfReplace(q, old) ==
    LET new == Posted(q, old)
        st == [stored EXCEPT ![q] = new]
        r == Replaced(Asked, st[old], q, now)
        rows == RowsOf(st, old, Row(r, IF r.status = st[old].status THEN "replaced" ELSE "withdrawn", Asker))
        others == IF new.follows \in DOMAIN rows \cup {""} THEN <<>> ELSE Kept(new.follows)
    IN IF q \in DOMAIN rows
       THEN [rows EXCEPT ![q].events = <<<<"asked", Asker>>>> \o @] @@ others
       ELSE q :> Row(new, "asked", Asker) @@ rows @@ others

\* A statement waits for everything that it writes.
Opens(a, q, rows) ==
    /\ \A f \in DOMAIN rows \ {q} : ~IsLocked(f)
    /\ tx' = [tx EXCEPT ![a] = [q |-> q, rows |-> rows]]

\* The reply to a call that changes nothing: what is there already, or who was first.
Answered(a, q) ==
    /\ call' = [call EXCEPT ![a] = Idle]
    /\ seen' = Told(q, stored[q])
    /\ acked' = IF call[a].do \in {"post", "replace"} THEN acked \cup {q} ELSE acked
    /\ UNCHANGED tx

\* The reply to a question that cannot be asked.
Refused(a) == call' = [call EXCEPT ![a] = Idle] /\ UNCHANGED <<tx, seen, acked>>

\* One statement decides, on the newest committed row, which it holds until it commits.
Statement(a) ==
    LET q == call[a].q
        r == stored[q]
    IN
    /\ call[a] # Idle /\ tx[a].q = "" /\ ~IsLocked(q)
    /\ CASE call[a].do = "post" ->
              IF r.status = "none" THEN Opens(a, q, RowsOfPost(q)) /\ UNCHANGED <<call, acked, seen>> ELSE Answered(a, q)
         [] call[a].do = "replace" ->
              CASE r.status # "none" -> Answered(a, q)
                [] MayReplace(stored[call[a].value]) ->
                     Opens(a, q, RowsOfReplace(q, call[a].value)) /\ UNCHANGED <<call, acked, seen>>
                [] OTHER -> ~IsLocked(call[a].value) /\ Refused(a)
         [] call[a].do = "consume" ->
              IF IsUsable(Asked, r, now)
              THEN Opens(a, q, q :> Row(Used(r, now), "consumed", a)) /\ UNCHANGED <<call, acked, seen>>
              ELSE Answered(a, q)
         [] call[a].do = "take_back" ->
              IF MayTakeBack(Asked, r, a)
              THEN Opens(a, q, q :> Row(TakenBack(r), "taken_back", a)) /\ UNCHANGED <<call, acked, seen>>
              ELSE Answered(a, q)
         [] OTHER ->
              LET m == MoveOf(a)
                  row == Row(Moved(Asked, r, m), EventOf(Moved(Asked, r, m), m), a)
              IN IF IsAllowed(Asked, r, m)
                 THEN Opens(a, q, RowsOf(stored, q, row)) /\ UNCHANGED <<call, acked, seen>>
                 ELSE Answered(a, q)
    /\ UNCHANGED <<now, stored, log, copies, left, executed, hint, waiter, message, held, crashes, losses>>

\* Whether a statement has left this event.
Did(a, q, kind) == q \in DOMAIN tx[a].rows /\ \E i \in 1..Len(tx[a].rows[q].events) : tx[a].rows[q].events[i][1] = kind

Written(a) ==
    LET rows == tx[a].rows
    IN
    /\ stored' = [q \in Questions |-> IF q \in DOMAIN rows THEN rows[q].r ELSE stored[q]]
    /\ log' = [q \in Questions |-> IF q \in DOMAIN rows THEN log[q] \o rows[q].events ELSE log[q]]
    /\ copies' = [q \in Questions |-> IF Did(a, q, "asked") THEN copies[q] + 1 ELSE copies[q]]
    /\ hint' = [q \in Questions |-> hint[q] \/ (Waits /\ \E kind \in Endings : Did(a, q, kind))]
    \* People are told of what they are asked, if there is somebody who does.
    /\ message' = [q \in Questions |->
           IF Dispatchers # {} /\ (Did(a, q, "asked") \/ Did(a, q, "opened")) /\ rows[q].r.follows = "" THEN Line ELSE message[q]]
    /\ tx' = [tx EXCEPT ![a] = Free]

\* The commit, and its reply: heard, or cut off on its way.
Commit(a) ==
    LET q == tx[a].q
    IN
    /\ q # "" /\ a \in Callers
    /\ Written(a)
    /\ call' = [call EXCEPT ![a] = Idle]
    /\ \/ /\ acked' = IF Did(a, q, "asked") THEN acked \cup {q} ELSE acked
          /\ seen' = Told(q, tx[a].rows[q].r)
          /\ executed' = [executed EXCEPT ![q] = IF Did(a, q, "consumed") THEN @ + 1 ELSE @]
          /\ UNCHANGED losses
       \/ /\ losses < Losses /\ losses' = losses + 1
          /\ UNCHANGED <<acked, seen, executed>>
    /\ UNCHANGED <<now, left, waiter, held, crashes>>

\* A call that does not arrive; whoever made it does not know that.
LoseCall(a) ==
    /\ call[a] # Idle /\ tx[a].q = "" /\ losses < Losses
    /\ call' = [call EXCEPT ![a] = Idle]
    /\ losses' = losses + 1
    /\ UNCHANGED <<now, stored, log, copies, tx, left, acked, seen, executed, hint, waiter, message, held, crashes>>

------------------------------------------------------------------------------
\* The clock

Tick ==
    /\ now < Latest
    /\ \E q \in Questions : stored[q].status = "pending" \/ (stored[q].until > now /\ IsUsable(Asked, stored[q], now))
    /\ now' = now + 1
    /\ UNCHANGED <<stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, message, held, crashes, losses>>

Sweep(s, q) ==
    /\ tx[s].q = "" /\ ~IsLocked(q) /\ IsDue(Asked, stored[q], now)
    /\ Opens(s, q, RowsOf(stored, q, Row(Done(Asked, stored[q], now), DeedEvent(NextStep(Asked, stored[q], now)), "clock")))
    /\ UNCHANGED <<now, stored, log, copies, call, left, acked, seen, executed, hint, waiter, message, held, crashes, losses>>

SweepCommits(s) ==
    /\ tx[s].q # "" /\ Written(s)
    /\ UNCHANGED <<now, call, left, acked, seen, executed, waiter, held, crashes, losses>>

------------------------------------------------------------------------------
\* Waits: listen, read, sleep; a hint wakes, and so does the poll

Wait(q) ==
    /\ Waits /\ q \in acked /\ waiter[q] = "off"
    /\ waiter' = [waiter EXCEPT ![q] = IF IsSettled(stored[q]) THEN "awake" ELSE "asleep"]
    /\ seen' = Told(q, stored[q])
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, executed, hint, message, held, crashes, losses>>

Wakes(q) ==
    /\ waiter[q] = "asleep" /\ IsSettled(stored[q])
    /\ waiter' = [waiter EXCEPT ![q] = "awake"]
    /\ seen' = Told(q, stored[q])
    /\ hint' = [hint EXCEPT ![q] = FALSE]
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, executed, message, held, crashes, losses>>

Hear(q) == hint[q] /\ Wakes(q)

Poll(q) == Wakes(q)

LoseHint(q) ==
    /\ hint[q]
    /\ hint' = [hint EXCEPT ![q] = FALSE]
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, seen, executed, waiter, message, held, crashes, losses>>

------------------------------------------------------------------------------
\* Deliveries: a line becomes a message, which is taken for a while, sent, and what came of it recorded

Nothing == [q |-> "", turn |-> 0, sent |-> FALSE]

Route(q) ==
    /\ message[q].at = "line"
    /\ message' = [message EXCEPT ![q].at = IF IsSettled(stored[q]) THEN "unsent" ELSE "queued"]
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, held, crashes, losses>>

\* Also what somebody has taken and lost, or kept too long: after the lease it is there again.
Take(d, q) ==
    /\ held[d].q = "" /\ message[q].at \in {"queued", "taken"} /\ message[q].turn < Tries
    /\ message' = [message EXCEPT ![q].at = "taken", ![q].turn = @ + 1]
    /\ held' = [held EXCEPT ![d] = [q |-> q, turn |-> message[q].turn + 1, sent |-> FALSE]]
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, crashes, losses>>

Deliver(d) ==
    /\ held[d].q # "" /\ ~held[d].sent
    /\ held' = [held EXCEPT ![d].sent = TRUE]
    /\ message' = [message EXCEPT ![held[d].q].arrived = @ + 1]
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, crashes, losses>>

\* What somebody else has taken over since stays as it is.
Record(d) ==
    LET q == held[d].q
    IN
    /\ q # ""
    /\ message' = [message EXCEPT ![q].at =
           IF held[d].turn = message[q].turn THEN IF held[d].sent THEN "sent" ELSE "queued" ELSE @]
    /\ held' = [held EXCEPT ![d] = Nothing]
    /\ UNCHANGED <<now, stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, crashes, losses>>

------------------------------------------------------------------------------
\* Every process dies, and PostgreSQL too: what is not committed is gone, and whoever called does not know.
Crash ==
    /\ crashes < Crashes
    /\ crashes' = crashes + 1
    /\ tx' = [a \in Actors |-> Free]
    /\ call' = [a \in Callers |-> Idle]
    /\ hint' = [q \in Questions |-> FALSE]
    /\ waiter' = [q \in Questions |-> IF waiter[q] = "asleep" THEN "off" ELSE waiter[q]]
    /\ held' = [d \in Dispatchers |-> Nothing]
    /\ UNCHANGED <<now, stored, log, copies, left, acked, seen, executed, message, losses>>

Progress ==
    \/ \E a \in Callers : Statement(a) \/ Commit(a)
    \/ \E s \in Sweepers : SweepCommits(s) \/ \E q \in Questions : Sweep(s, q)
    \/ \E q \in Questions : Wait(q) \/ Poll(q)

Next ==
    \/ SendSomething
    \/ Progress
    \/ Tick
    \/ \E a \in Callers : LoseCall(a)
    \/ \E q \in Questions : Hear(q) \/ LoseHint(q) \/ Route(q)
    \/ \E d \in Dispatchers : Deliver(d) \/ Record(d) \/ \E q \in Questions : Take(d, q)
    \/ Crash

Spec == Init /\ [][Next]_vars

\* For what must happen at last: nothing that could go on is left standing for ever.
Live ==
    /\ Spec /\ WF_vars(Tick)
    /\ \A a \in Callers : WF_vars(Statement(a)) /\ WF_vars(Commit(a))
    /\ \A s \in Sweepers : WF_vars(SweepCommits(s))
    /\ \A q \in Questions : WF_vars(Wait(q)) /\ WF_vars(Poll(q)) /\ WF_vars(\E s \in Sweepers : Sweep(s, q))

------------------------------------------------------------------------------
Count(q, kinds) == Cardinality({i \in 1..Len(log[q]) : log[q][i][1] \in kinds})

\* An acknowledged question is never lost.
P1 == \A q \in acked : stored[q].status # "none"

\* One outcome at most, and everybody was told the same. So no acknowledged answer is lost (P3), and nothing is
\* delivered to a wait that was not recorded (P5).
P2P3P5 == \A q \in Questions : seen[q] \subseteq (IF IsSettled(stored[q]) THEN {Outcome(stored[q])} ELSE {})

\* A message is about what is recorded, and what counts as sent has arrived.
P5 == \A q \in Questions : message[q].arrived > 0 => stored[q].status # "none"
Arrived == \A q \in Questions : message[q].at = "sent" => message[q].arrived > 0
StaysSent == \A q \in Questions : message[q].at = "sent" => message'[q].at = "sent"

\* A settled status never changes.
P6 == \A q \in Questions : IsSettled(stored[q]) => Outcome(stored'[q]) = Outcome(stored[q])

\* Every transition leaves exactly one event.
P7 == \A q \in Questions :
    LET r == stored[q]
    IN /\ Count(q, {"asked"}) = (IF r.status = "none" THEN 0 ELSE 1)
       /\ Count(q, Endings) = (IF IsSettled(r) THEN 1 ELSE 0)
       /\ Count(q, {"reminded", "escalated"}) = r.taken
       /\ Count(q, {"asked_back", "noted", "replied"}) = r.thread
       /\ Count(q, {"attempted", "exhausted"}) = r.attempts
       /\ Count(q, {"consumed"}) = (IF r.used THEN 1 ELSE 0)
       /\ Count(q, {"taken_back"}) = (IF r.taken_back THEN 1 ELSE 0)
       /\ Count(q, {"replaced"}) <= (IF r.replaced = "" THEN 0 ELSE 1)
       /\ Need > 1 /\ r.replied = 0 => Cardinality({log[q][i][2] : i \in {j \in 1..Len(log[q]) : log[q][j][1] = "voted"}}) <= Cardinality(DOMAIN r.votes)
\* One that follows another question has no event if only that other one changes, and one that is new may be asked at once.
P7Steps == \A q \in Questions :
    /\ [stored'[q] EXCEPT !.follows = ""] # [stored[q] EXCEPT !.follows = ""] => Len(log'[q]) > Len(log[q])
    /\ Len(log'[q]) <= Len(log[q]) + (IF stored[q].status = "none" /\ stored'[q].replaces # "" THEN 2 ELSE 1)

\* The same key gives the same question.
P9 == \A q \in Questions : copies[q] <= 1

\* An error never means approved: the action runs once at most, and only where a person said so.
P11 == \A q \in Questions :
    /\ executed[q] <= 1
    /\ stored[q].used => stored[q].status = "answered" /\ stored[q].value = "approve" /\ stored[q].how = "person"

\* An answer that does not fit leaves the question pending, unless it was one too many.
P12 == \A q \in Questions : stored'[q].attempts > stored[q].attempts =>
          stored'[q].status = (IF stored'[q].attempts >= Max THEN "exhausted" ELSE "pending")

\* The result says how it came about, and whoever it names did it; several people agreed where several must.
P13 == \A q \in Questions :
    LET r == stored[q]
    IN /\ r.how = "person" => <<r.status, r.by>> \in {log[q][i] : i \in 1..Len(log[q])} /\ r.by \in Everybody
       /\ r.how = "asker" => r.status = "withdrawn" /\ r.by = Asker
       /\ r.how \in {"clock", "default"} => now >= Latest
       /\ IsSettled(r) => r.how # ""
       /\ Need > 1 /\ r.status = "answered" /\ r.how = "person" /\ r.value = "approve" => Agreeing(r, "approve") >= Need

\* An approval covers the conversation that its giver saw, and all that others had approved before.
P15 == \A q \in Questions :
    LET r == stored[q]
    IN r.status = "answered" /\ r.how = "person" /\ r.value = "approve" =>
        /\ r.covers = r.thread
        /\ \A p \in DOMAIN r.votes : r.votes[p] = "approve" => r.saw[p] >= r.replied

\* An approval is used within its validity, at most once, and never after it was taken back.
P16 == \A q \in Questions :
    LET r == stored[q]
    IN /\ ~(r.used /\ r.taken_back)
       /\ executed[q] > 0 => ~r.taken_back
       /\ r.used => r.until = 0 \/ r.used_at < r.until
       /\ r.taken_back => r.status = "answered" /\ r.value = "approve"

\* What was sent back is no approval.
SentBack == \A q \in Questions : Count(q, {"returned"}) > 0 => stored[q].status = "returned" /\ ~stored[q].used /\ executed[q] = 0

\* A question is replaced by one other, and is then not open any more.
ReplacedOnce == \A q \in Questions :
    /\ stored[q].replaced # "" => stored[q].status # "pending" \/ IsPast(Asked, now)
    /\ stored[q].replaces # "" => stored[stored[q].replaces].replaced = q

\* Nobody is left waiting: of a topic one question is asked, and the others follow it, or have its end.
Followed ==
    /\ Cardinality({q \in Topic : IsFirst(stored, q)}) <= 1
    /\ \A q \in Topic : stored[q].status = "pending" /\ stored[q].follows # "" => IsFirst(stored, stored[q].follows)
    /\ \A q \in Questions : stored[q].how = "shared" =>
           LET first == stored[stored[q].follows]
           IN first.how = "person" /\ <<first.status, first.by, first.value>> = <<stored[q].status, stored[q].by, stored[q].value>>

\* What holds of every step, looked at together because that is quicker.
Steps == [][P6 /\ P7Steps /\ P12 /\ StaysSent]_<<stored, log, message>>

\* Every settled question reaches every live waiter, and nobody waits for ever: the timeline ends.
P4P10 == \A q \in Questions : waiter[q] = "asleep" ~> waiter[q] # "asleep"
=============================================================================
