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
          steps |-> <<[do |-> "escalate", to |-> Boss, at |-> 1], [do |-> Last, to |-> {}, at |-> Latest]>>]

Free == [q |-> "", r |-> Unasked, kind |-> "", by |-> ""]
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
    /\ left = [a \in Callers |-> IF a = Asker THEN Calls + 2 ELSE Calls]
    /\ acked = {}
    /\ seen = [q \in Questions |-> {}]
    /\ executed = [q \in Questions |-> 0]
    /\ hint = [q \in Questions |-> FALSE]
    /\ waiter = [q \in Questions |-> "off"]
    /\ message = [q \in Questions |-> NoMessage]
    /\ held = [d \in Dispatchers |-> [q |-> "", turn |-> 0, sent |-> FALSE]]
    /\ crashes = 0
    /\ losses = 0

IsLocked(q) == \E a \in Actors : tx[a].q = q
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
    \/ \E a \in Everybody, q \in Questions : stored[q].status # "none" /\ Send(a, q, "decline", "declined")
    \/ \E a \in Everybody, q \in Questions, do \in {"ask_back", "note"} :
          stored[q].status = "pending" /\ stored[q].thread < Talk /\ Send(a, q, do, "")
    \/ \E q \in acked : stored[q].back > 0 /\ Send(Asker, q, "reply", "")
    \/ \E a \in Everybody, q \in Questions : Max > 0 /\ stored[q].status # "none" /\ Send(a, q, "attempt", "misfit")

MoveOf(a) ==
    [kind |-> call[a].do, by |-> a, names |-> {a}, ballot |-> call[a].value,
     negative |-> call[a].do = "decline" \/ call[a].value = "deny", saw |-> call[a].saw, at |-> now]

Opens(a, q, r, kind) == tx' = [tx EXCEPT ![a] = [q |-> q, r |-> r, kind |-> kind, by |-> a]]

\* The reply to a call that changes nothing: what is there already, or who was first.
Answered(a, q) ==
    /\ call' = [call EXCEPT ![a] = Idle]
    /\ seen' = Told(q, stored[q])
    /\ acked' = IF call[a].do = "post" THEN acked \cup {q} ELSE acked
    /\ UNCHANGED tx

\* One statement decides, on the newest committed row, which it holds until it commits.
Statement(a) ==
    LET q == call[a].q
        r == stored[q]
    IN
    /\ call[a] # Idle /\ tx[a].q = "" /\ ~IsLocked(q)
    /\ CASE call[a].do = "post" ->
              IF r.status = "none" THEN Opens(a, q, Fresh, "asked") /\ UNCHANGED <<call, acked, seen>> ELSE Answered(a, q)
         [] call[a].do = "consume" ->
              IF IsUsable(Asked, r) THEN Opens(a, q, Used(r), "consumed") /\ UNCHANGED <<call, acked, seen>> ELSE Answered(a, q)
         [] OTHER ->
              LET m == MoveOf(a)
              IN IF IsAllowed(Asked, r, m)
                 THEN Opens(a, q, Moved(Asked, r, m), EventOf(Moved(Asked, r, m), m)) /\ UNCHANGED <<call, acked, seen>>
                 ELSE Answered(a, q)
    /\ UNCHANGED <<now, stored, log, copies, left, executed, hint, waiter, message, held, crashes, losses>>

Written(a) ==
    LET t == tx[a]
    IN
    /\ stored' = [stored EXCEPT ![t.q] = t.r]
    /\ log' = [log EXCEPT ![t.q] = Append(@, <<t.kind, t.by>>)]
    /\ copies' = [copies EXCEPT ![t.q] = IF t.kind = "asked" THEN @ + 1 ELSE @]
    /\ hint' = [hint EXCEPT ![t.q] = @ \/ (IsSettled(t.r) /\ t.kind # "consumed")]
    /\ message' = [message EXCEPT ![t.q] = IF t.kind = "asked" THEN Line ELSE @]
    /\ tx' = [tx EXCEPT ![a] = Free]

\* The commit, and its reply: heard, or cut off on its way.
Commit(a) ==
    LET t == tx[a]
    IN
    /\ t.q # "" /\ a \in Callers
    /\ Written(a)
    /\ call' = [call EXCEPT ![a] = Idle]
    /\ \/ /\ acked' = IF t.kind = "asked" THEN acked \cup {t.q} ELSE acked
          /\ seen' = Told(t.q, t.r)
          /\ executed' = [executed EXCEPT ![t.q] = IF t.kind = "consumed" THEN @ + 1 ELSE @]
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
    /\ now < Latest /\ \E q \in Questions : stored[q].status = "pending"
    /\ now' = now + 1
    /\ UNCHANGED <<stored, log, copies, tx, call, left, acked, seen, executed, hint, waiter, message, held, crashes, losses>>

Sweep(s, q) ==
    /\ tx[s].q = "" /\ ~IsLocked(q) /\ IsDue(Asked, stored[q], now)
    /\ tx' = [tx EXCEPT ![s] = [q |-> q, r |-> Done(Asked, stored[q]), kind |-> DeedEvent(NextStep(Asked, stored[q])), by |-> "clock"]]
    /\ UNCHANGED <<now, stored, log, copies, call, left, acked, seen, executed, hint, waiter, message, held, crashes, losses>>

SweepCommits(s) ==
    /\ tx[s].q # "" /\ Written(s)
    /\ UNCHANGED <<now, call, left, acked, seen, executed, waiter, held, crashes, losses>>

------------------------------------------------------------------------------
\* Waits: listen, read, sleep; a hint wakes, and so does the poll

Wait(q) ==
    /\ q \in acked /\ waiter[q] = "off"
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
Kept == \A q \in Questions : message[q].at = "sent" => message'[q].at = "sent"

\* A settled status never changes.
P6 == \A q \in Questions : IsSettled(stored[q]) => Outcome(stored'[q]) = Outcome(stored[q])

\* Every transition leaves exactly one event.
P7 == \A q \in Questions :
    LET r == stored[q]
    IN /\ Count(q, {"asked"}) = (IF r.status = "none" THEN 0 ELSE 1)
       /\ Count(q, Endings) = (IF IsSettled(r) THEN 1 ELSE 0)
       /\ Count(q, {"reminded", "escalated"}) + (IF r.how \in {"clock", "default"} /\ r.back = 0 THEN 1 ELSE 0) = r.taken
       /\ Count(q, {"asked_back", "noted", "replied"}) = r.thread
       /\ Count(q, {"attempted", "exhausted"}) = r.attempts
       /\ Count(q, {"consumed"}) = (IF r.used THEN 1 ELSE 0)
       /\ Need > 1 /\ r.replied = 0 => Cardinality({log[q][i][2] : i \in {j \in 1..Len(log[q]) : log[q][j][1] = "voted"}}) <= Cardinality(DOMAIN r.votes)
P7Steps == \A q \in Questions : stored'[q] # stored[q] => Len(log'[q]) = Len(log[q]) + 1

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

\* What holds of every step, looked at together because that is quicker.
Steps == [][P6 /\ P7Steps /\ P12 /\ Kept]_<<stored, log, message>>

\* Every settled question reaches every live waiter, and nobody waits for ever: the timeline ends.
P4P10 == \A q \in Questions : waiter[q] = "asleep" ~> waiter[q] # "asleep"
=============================================================================
