-- The statements of the SQLite store. Writes run inside BEGIN IMMEDIATE, several of them to a commit.

-- name: insert
-- Register a question, unless its key or id exists.
insert into questions (
    workspace, id, asker, key, conversation, tool_call, trace, recipients, need, veto, max_attempts,
    asked_at, expires_at, prompt, form, context, state, steps, undo_for
)
values (
    :workspace, :id, :asker, :key, :conversation, :tool_call, :trace, :recipients, :need, :veto, :max_attempts,
    :now, :now + cast(:expire_after * 1000000 as integer), :prompt, :form, :context, :state, :steps,
    :undo_for
)
on conflict do nothing
returning asked_at;

-- name: open
-- Put a new question before its recipients, and before those it will be escalated to once it is time.
insert into inbox (workspace, question_id, recipient, asker, conversation, main, open, step, due_at)
select
    q.workspace, q.id, r.value, q.asker, q.conversation, r.key = 0, 1, null,
    case when r.key = 0 then q.asked_at + cast(q.steps ->> '$[0].after' * 1000000 as integer) end
from questions as q, json_each(case q.recipients when '[]' then '["*"]' else q.recipients end) as r
where q.workspace = :workspace and q.id = :id
union all
select q.workspace, q.id, t.value, q.asker, q.conversation, 0, 0, min(s.key), null
from questions as q, json_each(q.steps) as s, json_each(s.value, '$.to') as t
where q.workspace = :workspace and q.id = :id and q.recipients <> '[]'
    and t.value not in (select value from json_each(q.recipients))
group by t.value;

-- name: settle
-- Decide a move on a pending question; a refused one changes nothing.
update questions
set (status, settled_at, outcome, attempts, votes) = (
    select
        decided.status,
        case when decided.status <> 'pending' then :now end,
        case when decided.status <> 'pending' then :record end,
        questions.attempts + (:kind = 'attempt'),
        decided.votes
    from (
        select
            voted.votes,
            case
                when :kind = 'withdraw' then 'withdrawn'
                when :kind = 'attempt' then
                    case when questions.attempts + 1 >= questions.max_attempts then 'exhausted' else 'pending' end
                when questions.need > 1 and not (questions.veto and :negative)
                    and (select count(*) from json_each(voted.votes) as v where v.value = :ballot) < questions.need
                    then 'pending'
                when :kind = 'decline' then 'declined'
                else 'answered'
            end as status
        from (
            select case
                when questions.need > 1 and :kind in ('answer', 'decline')
                    then json_patch(coalesce(questions.votes, '{}'), json_object(:actor, :ballot))
                else questions.votes
            end as votes
        ) as voted
    ) as decided
)
where workspace = :workspace
    and id = :id
    and status = 'pending'
    and (expires_at is null or expires_at > :now)
    and case
        when :kind = 'withdraw' then asker = :actor
        when :kind = 'grant' then asker = :actor and need = 1 and exists (
            select 1
            from grants as g
            where g.workspace = :workspace and g.id = :grant_id and g.asker = questions.asker
                and g.revoked_at is null and g.expires_at > :now
                and (g.scope = 'always' or g.conversation = questions.conversation)
        )
        when asker = :actor then 0
        when recipients = '[]' then 1
        when exists (
            select 1 from json_each(recipients) as r join json_each(:principals) as p on p.value = r.value
        ) then 1
        else exists (
            select 1
            from json_each(steps) as s, json_each(s.value, '$.to') as t
            join json_each(:principals) as p on p.value = t.value
            where s.key < questions.steps_taken
        )
    end
returning status, settled_at, attempts, votes, steps_taken;

-- name: grant
-- Remember an approval.
insert into grants (
    workspace, id, asker, tool, digest, scope, conversation, granted_by, question_id, created_at, expires_at
)
values (
    :workspace, :grant_id, :asker, :tool, :digest, :scope, :conversation, :actor, :id, :now, :expires_at
);

-- name: consume
-- Use up an approval: of any number of consumers one gets a row.
update questions
set consumed_at = :now
where workspace = :workspace and id = :id and status = 'answered' and consumed_at is null and asker = :actor
    and outcome ->> '$.value.decision' = 'approve' and outcome ->> '$.value.digest' = :digest
returning id;

-- name: consumed_by
-- A row where it was this request that used an approval up, and made it again.
select number
from events
where workspace = :workspace and question_id = :id and kind = 'consumed' and actor = :actor
    and data ->> '$.digest' = :digest and data ->> '$.request' = :request;

-- name: find_grant
-- The grant that holds for an action now, the one that lasts longest.
select *
from grants
where workspace = :workspace and asker = :asker and tool = :tool and digest = :digest and revoked_at is null
    and expires_at > :now and (scope = 'always' or conversation = :conversation)
order by expires_at desc
limit 1;

-- name: grants
-- A page of all grants of a workspace.
select * from grants where workspace = :workspace and id > :after order by id limit :limit;

-- name: revoke
-- End a grant, unless it has been revoked before.
update grants
set revoked_at = :now, revoked_by = :actor
where workspace = :workspace and id = :id and revoked_at is null
returning *;

-- name: read_grant
-- One grant.
select * from grants where workspace = :workspace and id = :id;

-- name: close
-- Take a settled question out of every inbox.
delete from inbox where workspace = :workspace and question_id = :id;

-- name: log
-- One line of history.
insert into events (workspace, question_id, kind, at, actor, channel, data)
values (:workspace, :id, :kind, :now, :actor, :channel, :data);

-- name: due
-- Timelines whose next deed is due, of all workspaces or of one.
select i.workspace, i.question_id as id, q.steps -> ('$[' || q.steps_taken || ']') as step, q.steps_taken
from inbox as i
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.due_at <= :now and (:workspace is null or i.workspace = :workspace)
order by i.due_at
limit :limit;

-- name: step
-- Do a timeline's next deed.
update questions
set steps_taken = steps_taken + 1,
    status = case :step ->> 'do' when 'expire' then 'expired' when 'default' then 'answered' else status end,
    settled_at = case when :step ->> 'do' in ('expire', 'default') then :now end,
    outcome = case when :step ->> 'do' in ('expire', 'default') then :step -> 'record' end
where workspace = :workspace and id = :id and status = 'pending' and steps_taken = :steps_taken
returning status;

-- name: wait_on
-- Move a question on to its next deed, and put it before those it is escalated to.
update inbox
set open = 1,
    due_at = case when main then (
        select q.asked_at + cast(q.steps ->> ('$[' || q.steps_taken || '].after') * 1000000 as integer)
        from questions as q
        where q.workspace = inbox.workspace and q.id = inbox.question_id
    ) end
where workspace = :workspace and question_id = :id and (main or step = :steps_taken);

-- name: old
-- Pending questions of an asker that were asked before `:before`.
select i.workspace, i.question_id as id
from inbox as i
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.asker = :asker and q.asked_at < :before
order by i.question_id
limit :limit;

-- name: expire
-- Expire a pending question.
update questions
set status = 'expired', settled_at = :now, outcome = '{}'
where workspace = :workspace and id = :id and status = 'pending'
returning status;

-- name: read
-- A question by its place.
select *, status = 'pending' and expires_at <= :now as overdue
from questions
where workspace = :workspace and id = :id;

-- name: read_by_key
-- A question by its key.
select *, status = 'pending' and expires_at <= :now as overdue
from questions
where workspace = :workspace and key = :key;

-- name: outcomes
-- Which of these are pending no more, or do not exist: the poll of all waits of a process at once. The places
-- come as one JSON array.
select place.value ->> 0 as workspace, place.value ->> 1 as id, q.status, q.settled_at, q.outcome
from json_each(:places) as place
left join questions as q on q.workspace = place.value ->> 0 and q.id = place.value ->> 1
where q.status is not 'pending';

-- name: pending_all
-- A page of everything pending in a workspace.
select q.*, q.expires_at <= :now as overdue
from inbox as i
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.question_id > :after
order by i.question_id
limit :limit;

-- name: pending_by_asker
-- A page of what one asker has pending.
select q.*, q.expires_at <= :now as overdue
from inbox as i indexed by inbox_by_asker
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.asker = :asker and i.question_id > :after
order by i.question_id
limit :limit;

-- name: pending_by_conversation
-- A page of what is pending in one conversation, also narrowed to an asker or to a person's own names.
select q.*, q.expires_at <= :now as overdue
from inbox as i indexed by inbox_by_conversation
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.conversation = :conversation and i.question_id > :after
    and (:asker is null or i.asker = :asker)
    and (:person is null or i.asker <> :person and exists (
        select 1
        from inbox as mine
        join json_each(:principals) as p on p.value = mine.recipient
        where mine.workspace = i.workspace and mine.question_id = i.question_id and mine.open
    ))
order by i.question_id
limit :limit;

-- name: pending_by_recipient
-- A page of an inbox: the questions under each name the person answers to, each shown once.
select q.*, q.expires_at <= :now as overdue
from (
    select distinct i.question_id
    from inbox as i indexed by inbox_by_recipient
    where i.workspace = :workspace and i.recipient in (select value from json_each(:principals))
        and i.open and i.question_id > :after
        and i.asker <> :person
        and (:asker is null or i.asker = :asker)
    order by i.question_id
    limit :limit
) as mine
join questions as q on q.workspace = :workspace and q.id = mine.question_id
order by q.id;

-- name: looked_through
-- The last of the next `:looked` events before a number, where there are as many.
select number, at
from events indexed by events_by_workspace
where workspace = :workspace and number < :before
order by number desc
limit 1 offset :looked - 1;

-- name: settled
-- A page of what has ended, newest first: a walk back over the events down to `:edge`, and from each that ended a
-- question to its row.
select e.number as place, q.*, 0 as overdue
from events as e indexed by events_by_workspace
cross join questions as q on q.workspace = e.workspace and q.id = e.question_id
where e.workspace = :workspace and e.number < :before and e.number >= :edge
    and e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted')
    and (:conversation is null or q.conversation = :conversation)
    and (:asker is null or q.asker = :asker)
    and (
        :person is null
        or q.outcome ->> '$.by' = :person
        or exists (select 1 from json_each(q.votes) as v where v.key = :person)
        or q.asker <> :person and (
            q.recipients = '[]'
            or exists (
                select 1 from json_each(q.recipients) as r join json_each(:principals) as p on p.value = r.value
            )
            or exists (
                select 1
                from json_each(q.steps) as s, json_each(s.value, '$.to') as t
                join json_each(:principals) as p on p.value = t.value
                where s.key < q.steps_taken
            )
        )
    )
order by e.number desc
limit :limit;

-- name: endings
-- How questions ended since an instant, newest first, in few words. The walk is as in `settled`.
select
    q.asker, q.status, q.asked_at, q.settled_at,
    q.form ->> '$.kind' as form_kind,
    q.outcome ->> '$.by' as settled_by,
    case when q.status = 'answered' then coalesce(q.outcome ->> '$.source', 'person') end as source,
    case when q.status in ('answered', 'declined') then q.outcome ->> '$.channel' end as channel,
    case
        when q.form ->> '$.kind' = 'approval' and q.status = 'answered' and q.outcome ->> '$.source' is null
            then q.outcome ->> '$.value.decision' = 'approve'
    end as approved,
    case when q.form ->> '$.kind' = 'approval' then coalesce(q.form ->> '$.risk', 'medium') end as risk
from events as e indexed by events_by_workspace
cross join questions as q on q.workspace = e.workspace and q.id = e.question_id
where e.workspace = :workspace and e.number < :before and e.number >= :edge
    and e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted') and e.at >= :since
order by e.number desc
limit :limit;

-- name: look_at
-- The next events of all workspaces, with when the question that one ended was settled, and until when it is kept.
select
    e.number, e.at, q.workspace, q.id, q.settled_at,
    (
        select max(g.expires_at)
        from grants as g
        where g.workspace = q.workspace and g.question_id = q.id and g.revoked_at is null
    ) as kept_until
from events as e
left join questions as q
    on e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted')
    and q.workspace = e.workspace and q.id = e.question_id and q.settled_at is not null
where e.number > :number
order by e.number
limit :looked;

-- name: remove
-- Remove a question that was settled before an instant.
delete from questions
where workspace = :workspace and id = :id and settled_at < :before
returning id;

-- name: remove_events
-- Remove a question's history.
delete from events where workspace = :workspace and question_id = :id;

-- name: remove_deliveries
-- Remove the attempts to tell people of a question.
delete from deliveries where workspace = :workspace and question_id = :id;

-- name: count_pending
-- How many questions an asker has pending.
select count(*) as count from inbox where workspace = :workspace and asker = :asker and main;

-- name: history
-- The events of one question.
select * from events where workspace = :workspace and question_id = :question_id order by number;

-- name: feed
-- Events of a workspace behind a cursor.
select * from events where workspace = :workspace and number > :number order by number limit :limit;

-- name: feed_end
-- The cursor of a workspace's last event.
select coalesce(max(number), 0) as number from events where workspace = :workspace;

-- name: pulse_of_questions
-- How many pending questions were asked at or after each of these instants, which come as one JSON array.
with pending as materialized (
    select q.asked_at
    from inbox as i
    join questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.main
    limit :limit
)
select (select count(*) from pending where asked_at >= since.value) as count
from json_each(:since) as since
order by since.key;

-- name: pulse_of_workspace
-- The same in one workspace.
with pending as materialized (
    select q.asked_at
    from inbox as i
    join questions as q on q.workspace = i.workspace and q.id = i.question_id
    where i.workspace = :workspace and i.main
    limit :limit
)
select (select count(*) from pending where asked_at >= since.value) as count
from json_each(:since) as since
order by since.key;

-- name: pulse_of_deliveries
-- How many deliveries there are of each status.
select status, count(*) as count from (select status from deliveries limit :limit) group by status;

-- name: hear
-- Say that somebody listens; it must be said again before the others forget it.
insert into listeners (process, port, feeds, seen_at) values (:ear, :port, :feeds, :now)
on conflict (process) do update set seen_at = excluded.seen_at;

-- name: unhear
-- Say that nobody listens there any more, and forget those who died without saying so.
delete from listeners where process = :ear or seen_at < :before;

-- name: listening
-- The ports at which somebody listens, and whether for feeds too.
select process as ear, port, feeds from listeners where seen_at > :since;
