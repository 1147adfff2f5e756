------------------------------- MODULE Replay -------------------------------
\* Real histories, one question at a time: each event must be one that the lifecycle allows there, and the record that they
\* come to must be the stored one. An event that is not allowed is a deadlock, which TLC reports with its place.
\* `Stories` is made by chaos/model/stories.py from what is in a store.
EXTENDS Lifecycle, Stories

VARIABLES story, place, record

Asked == Stories[story].asked
Events == Stories[story].events

After(q, r, e) ==
    LET Move(kind) == [kind |-> kind, by |-> e.by, names |-> e.names, ballot |-> e.ballot, negative |-> e.negative,
                       saw |-> e.saw, at |-> e.at]
        By(kind) ==
            IF IsAllowed(q, r, Move(kind)) /\ EventOf(Moved(q, r, Move(kind)), Move(kind)) = e.kind
            THEN {Moved(q, r, Move(kind))} ELSE {}
        Deed == IF IsDue(q, r, e.at) /\ DeedEvent(NextStep(q, r, e.at)) = e.kind THEN {Done(q, r, e.at)} ELSE {}
        OnWork(after) == IF r.status = "pending" /\ ~IsPast(q, e.at) /\ MayRespond(q, r, Move("share")) THEN {after} ELSE {}
        Shared ==
            IF r.status = "pending" /\ r.follows # "" /\ ~IsPast(q, e.at) /\ IsShared(e.first)
               /\ <<e.first.status, e.first.by, e.first.value>> = <<e.kind, e.by, e.ballot>>
            THEN {EndedAs(r, e.first)} ELSE {}
        \* The record after another question has replaced this one, which it does once.
        Replacing ==
            IF MayReplace(r) /\ e.by = q.asker /\ e.kind = (IF r.status # Replaced(q, r, "new", e.at).status THEN "withdrawn" ELSE "replaced")
            THEN {Replaced(q, r, "new", e.at)} ELSE {}
        GivenUp == IF r.status = "pending" THEN {[r EXCEPT !.status = "expired", !.how = "clock"]} ELSE {}
    IN CASE e.kind = "asked" ->
              IF r.status = "none" THEN {[Fresh EXCEPT !.added = e.to, !.follows = IF q.follows THEN "first" ELSE ""]} ELSE {}
         [] e.how = "shared" -> Shared
         [] e.kind = "opened" -> IF r.status = "pending" /\ r.follows # "" THEN {[r EXCEPT !.follows = ""]} ELSE {}
         [] e.kind = "voted" ->
              CASE e.ballot = "declined" -> By("decline") [] e.ballot = "returned" -> By("send_back") [] OTHER -> By("answer")
         [] e.kind = "returned" -> By("send_back")
         [] e.kind = "replaced" \/ (e.kind = "withdrawn" /\ e.replaces) -> Replacing
         [] e.kind \in {"attempted", "exhausted"} -> By("attempt")
         [] e.kind = "answered" -> IF e.how = "default" THEN Deed ELSE IF e.how = "grant" THEN By("grant") ELSE By("answer")
         [] e.kind = "declined" -> By("decline")
         [] e.kind = "withdrawn" -> By("withdraw")
         [] e.kind \in {"reminded", "escalated"} -> Deed
         [] e.kind = "expired" -> IF Deed # {} THEN Deed ELSE GivenUp
         [] e.kind = "asked_back" -> By("ask_back")
         [] e.kind = "noted" -> By("note")
         [] e.kind = "replied" -> By("reply")
         [] e.kind = "consumed" -> IF IsUsable(q, r, e.at) /\ e.by = q.asker THEN {Used(r, e.at)} ELSE {}
         [] e.kind = "taken_back" -> IF MayTakeBack(q, r, e.by) THEN {TakenBack(r)} ELSE {}
         [] e.kind = "reported" ->
              IF r.status = "answered" /\ ~r.reported /\ e.by = q.asker /\ (q.approval => r.used)
              THEN {[r EXCEPT !.reported = TRUE]} ELSE {}
         [] e.kind \in {"taken", "released", "set_aside", "put_back"} -> OnWork(r)
         [] e.kind \in {"brought_in", "handed_over"} -> OnWork([r EXCEPT !.added = @ \cup e.to])
         [] e.kind = "revoked" -> IF r.status = "answered" /\ ~r.revoked THEN {[r EXCEPT !.revoked = TRUE]} ELSE {}
         [] e.kind \in {"sent", "joined"} -> IF r.status = "pending" /\ e.by = q.asker THEN {r} ELSE {}
         [] e.kind = "unreached" -> IF r.status = "pending" THEN {r} ELSE {}
         [] OTHER -> {}

Init == story \in 1..Len(Stories) /\ place = 1 /\ record = Unasked

Next ==
    \/ /\ place <= Len(Events)
       /\ record' \in After(Asked, record, Events[place])
       /\ place' = place + 1
       /\ UNCHANGED story
    \/ /\ place > Len(Events)
       /\ UNCHANGED <<story, place, record>>

Spec == Init /\ [][Next]_<<story, place, record>>

\* What the events come to is what is stored.
IsStored ==
    place > Len(Events) =>
        LET end == Stories[story].stored
        IN /\ record.status = end.status /\ record.attempts = end.attempts /\ record.taken = end.taken
           /\ record.how = end.how /\ record.used = end.used /\ Cardinality(DOMAIN record.votes) = end.votes
           /\ record.thread = end.thread /\ record.taken_back = end.taken_back /\ record.reported = end.reported
           /\ (record.replaced # "") = end.replaced /\ (record.follows # "") = end.follows
=============================================================================
