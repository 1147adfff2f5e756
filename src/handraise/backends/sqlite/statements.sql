-- The statements of the SQLite store. Writes run inside BEGIN IMMEDIATE, several of them in one commit.

-- name: due_workspaces
-- Some of the workspaces in which a step is due, or a question that nobody waits for.
select workspace from inbox where due_at <= :now
union
select workspace from inbox where unheard_at <= :now
limit :at_most;

-- name: pending_all
-- A page of everything pending in a workspace.
select q.*, :now as now
from inbox as i
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.question_id > :after
order by i.question_id
limit :limit;

-- name: pending_by_asker
-- A page of what one asker has pending.
select q.*, :now as now
from inbox as i indexed by inbox_by_asker
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.asker = :asker and i.question_id > :after
order by i.question_id
limit :limit;

-- name: pending_by_conversation
-- A page of what is pending in one conversation, also narrowed to an asker or to a person's own names.
select q.*, :now as now
from inbox as i indexed by inbox_by_conversation
join questions as q on q.workspace = i.workspace and q.id = i.question_id
where i.workspace = :workspace and i.main and i.conversation = :conversation and i.question_id > :after
    and (:asker is null or i.asker = :asker)
    and (:person is null or i.asker <> :person and exists (
        select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now
    ) = :aside and exists (
        select 1
        from inbox as mine
        join json_each(:principals) as p on p.value = mine.recipient
        where mine.workspace = i.workspace and mine.question_id = i.question_id and mine.open
    ))
order by i.question_id
limit :limit;

-- name: pending_by_recipient
-- A page of an inbox: the questions under each name the person answers to, each shown once.
select q.*, :now as now
from (
    select distinct i.question_id
    from inbox as i indexed by inbox_by_recipient
    where i.workspace = :workspace and i.recipient in (select value from json_each(:principals))
        and i.open and i.question_id > :after
        and i.asker <> :person
        and exists (select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now) = :aside
        and (:asker is null or i.asker = :asker)
    order by i.question_id
    limit :limit
) as mine
join questions as q on q.workspace = :workspace and q.id = mine.question_id
order by q.id;

-- name: urgent_all
-- The next places of everything pending in a workspace, along one walk of `handraise.model.urgency`.
select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation, :now as now
from inbox as i indexed by inbox_all_by_urgency
where i.workspace = :workspace and i.main and (i.urgency, i.question_id) > (:rank, :after) and i.urgency < :until
order by i.urgency, i.question_id
limit :limit;

-- name: urgent_by_recipient
-- The same of an inbox: the questions under each name the person answers to, each shown once.
select distinct i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation, :now as now
from inbox as i indexed by inbox_by_urgency
where i.workspace = :workspace and i.recipient in (select value from json_each(:principals))
    and i.open and (i.urgency, i.question_id) > (:rank, :after) and i.urgency < :until
    and i.asker <> :person
    and exists (select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now) = :aside
order by i.urgency, i.question_id
limit :limit;

-- name: urgent_by_asker
-- The same of one asker, also narrowed to a person's own names. All its pending questions are sorted.
select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation, :now as now
from inbox as i indexed by inbox_by_asker
where i.workspace = :workspace and i.main and i.asker = :asker
    and (i.urgency, i.question_id) > (:rank, :after) and i.urgency < :until
    and (:person is null or i.asker <> :person and exists (
        select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now
    ) = :aside and exists (
        select 1
        from inbox as mine
        join json_each(:principals) as p on p.value = mine.recipient
        where mine.workspace = i.workspace and mine.question_id = i.question_id and mine.open
    ))
order by i.urgency, i.question_id
limit :limit;

-- name: urgent_by_conversation
-- The same of one conversation, also narrowed to an asker.
select i.question_id as id, i.urgency, i.likeness, i.asker, i.conversation, :now as now
from inbox as i indexed by inbox_by_conversation
where i.workspace = :workspace and i.main and i.conversation = :conversation
    and (i.urgency, i.question_id) > (:rank, :after) and i.urgency < :until
    and (:asker is null or i.asker = :asker)
    and (:person is null or i.asker <> :person and exists (
        select 1 from json_each(i.aside) as a where a.key = :person and a.value > :now
    ) = :aside and exists (
        select 1
        from inbox as mine
        join json_each(:principals) as p on p.value = mine.recipient
        where mine.workspace = i.workspace and mine.question_id = i.question_id and mine.open
    ))
order by i.urgency, i.question_id
limit :limit;

-- name: looked_through
-- The last of the next `:looked` events before a place, if there are that many.
select "transaction", number, at
from events indexed by events_by_workspace
where workspace = :workspace and ("transaction", place) < (:before_transaction, :before_number)
order by "transaction" desc, place desc
limit 1 offset :looked - 1;

-- name: event_before
-- The last event up to a place.
select "transaction", number, at
from events indexed by events_by_workspace
where workspace = :workspace and ("transaction", place) <= (:transaction, :number)
order by "transaction" desc, place desc
limit 1;

-- name: settled
-- A page of what has ended, newest first: a walk back over the events down to `:edge`, and from each that ended a
-- question to its row.
select e."transaction", e.number, q.*, :now as now
from events as e indexed by events_by_workspace
cross join questions as q on q.workspace = e.workspace and q.id = e.question_id
where e.workspace = :workspace and (e."transaction", e.place) < (:before_transaction, :before_number)
    and (e."transaction", e.place) >= (:edge_transaction, :edge_number)
    and e.kind in (select k.value from json_each(:kinds) as k)
    and (:since is null or e.at >= :since)
    and (:until is null or e.at < :until)
    and (:conversation is null or q.conversation = :conversation)
    and (:asker is null or q.asker = :asker)
    and (
        :decision is null
        or q.form ->> '$.kind' = 'approval' and q.outcome ->> '$.value.decision' = :decision
    )
    and (
        :settled_by is null
        or q.outcome ->> '$.by' = :settled_by
        or exists (select 1 from json_each(q.votes) as v where v.key = :settled_by)
    )
    and (
        :ways is null
        or case when q.status = 'answered' then coalesce(q.outcome ->> '$.source', 'person') else q.status end
            in (select w.value from json_each(:ways) as w)
    )
    and (
        :channel is null
        or coalesce(case when q.status in ('answered', 'declined', 'returned') then q.outcome ->> '$.channel' end, '') = :channel
    )
    and (:tool is null or q.form ->> '$.kind' = 'approval' and q.form ->> '$.action.tool' = :tool)
    and (:risk is null or q.form ->> '$.kind' = 'approval' and coalesce(q.form ->> '$.risk', 'medium') = :risk)
    and (:group_name is null or exists (select 1 from json_each(q.recipients) as r where r.value = :group_name))
    and (:took_at_least is null or q.settled_at - q.asked_at >= :took_at_least)
    and (:took_less is null or q.settled_at - q.asked_at < :took_less)
    and (not :is_late or q.settled_at - q.asked_at >= round((q.steps ->> '$[0].after') * 1000000))
    and (not :has_failed or q.form ->> '$.kind' = 'approval' and q.report ->> '$.ok' = 0)
    and (
        :person is null
        or q.outcome ->> '$.by' = :person
        or exists (select 1 from json_each(q.votes) as v where v.key = :person)
        or q.asker <> :person and (
            q.recipients = '[]'
            or exists (
                select 1
                from (select value from json_each(q.recipients) union all select value from json_each(q.added)) as r
                join json_each(:principals) as p on p.value = r.value
            )
            or exists (
                select 1
                from json_each(q.steps) as s, json_each(s.value, '$.to') as t
                join json_each(:principals) as p on p.value = t.value
                where s.key < q.steps_taken
            )
        )
    )
order by e."transaction" desc, e.place desc
limit :limit;

-- name: looked_ahead
-- The last of the next `:looked` events after a place, if there are that many.
select "transaction", number, at
from events indexed by events_by_workspace
where workspace = :workspace and ("transaction", place) > (:after_transaction, :after_number)
order by "transaction", place
limit 1 offset :looked - 1;

-- name: settled_rows
-- What has ended after one event and up to another, oldest first, in the columns of an export.
select
    q.id, q.asker, q.conversation, q.topic, q.tool_call, q.trace, q.prompt, q.form, q.recipients, q.status, q.outcome,
    q.votes, q.ruling, q.report, q.asked_at, q.settled_at, q.consumed_at, q.taken_back_at
from events as e indexed by events_by_workspace
cross join questions as q on q.workspace = e.workspace and q.id = e.question_id
where e.workspace = :workspace and (e."transaction", e.place) > (:after_transaction, :after_number)
    and (e."transaction", e.place) <= (:edge_transaction, :edge_number)
    and e.kind in (select k.value from json_each(:kinds) as k)
    and (:since is null or e.at >= :since)
    and (:until is null or e.at < :until)
    and q.settled_at is not null
order by e."transaction", e.place;

-- name: endings
-- How questions ended since an instant, newest first, in few words. The walk is as in `settled`.
select
    q.id, q.asker, q.status, q.asked_at, q.settled_at, q.recipients,
    q.form ->> '$.kind' as form_kind,
    q.outcome ->> '$.by' as settled_by,
    case when q.status = 'answered' then coalesce(q.outcome ->> '$.source', 'person') end as source,
    case when q.status in ('answered', 'declined', 'returned') then q.outcome ->> '$.channel' end as channel,
    case
        when q.form ->> '$.kind' = 'approval' and q.status = 'answered' and q.outcome ->> '$.source' is null
            then q.outcome ->> '$.value.decision' = 'approve'
    end as approved,
    case when q.form ->> '$.kind' = 'approval' then coalesce(q.form ->> '$.risk', 'medium') end as risk,
    case when q.form ->> '$.kind' = 'approval' then q.form ->> '$.action.tool' end as tool,
    (select json_group_array(v.key) from json_each(q.votes) as v) as voters,
    q.steps ->> '$[0].after' as promised_seconds,
    q.report ->> '$.ok' = 0 as failed
from events as e indexed by events_by_workspace
cross join questions as q on q.workspace = e.workspace and q.id = e.question_id
where e.workspace = :workspace and (e."transaction", e.place) < (:before_transaction, :before_number)
    and (e."transaction", e.place) >= (:edge_transaction, :edge_number)
    and e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned') and e.at >= :since
order by e."transaction" desc, e.place desc
limit :limit;

-- name: look_at
-- The next events of all workspaces, with when the question that one ended was settled, and until when it is kept.
select
    e.number, e.at, q.workspace, q.id, q.settled_at,
    (
        select max(k.expires_at)
        from (
            select g.expires_at from grants as g
            where g.workspace = q.workspace and g.question_id = q.id and g.revoked_at is null
            union all
            select a.expires_at from standing_answers as a
            where a.workspace = q.workspace and a.question_id = q.id and a.revoked_at is null
        ) as k
    ) as kept_until
from events as e
left join questions as q
    on e.kind in ('answered', 'declined', 'expired', 'withdrawn', 'exhausted', 'returned')
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
-- Remove the attempts to tell people about a question.
delete from deliveries where workspace = :workspace and question_id = :id;

-- name: settled_since
-- Which questions of a workspace were settled after a cursor. Writers take turns here, so that no event comes late.
select question_id, "transaction", number from events indexed by events_by_workspace
where workspace = :workspace
    and ("transaction", place) > (:transaction, :number)
    and question_id <> ''
    and kind in (select value from json_each(:kinds))
order by "transaction", place
limit :limit;

-- name: search_workspace_events
-- Those of them that are searched for, the newest first.
select * from events
where workspace = :workspace and question_id = '' and ("transaction", place) < (:transaction, :number)
    and (
        :person is null or actor = :person
        or exists (select 1 from json_each(events.data, '$.people') as p where p.value = :person)
    )
    and (:kind is null or kind = :kind)
    and (:since is null or at >= :since)
    and (:until is null or at < :until)
order by "transaction" desc, place desc
limit :limit;

-- name: feed_end
-- The cursor of a workspace's last event.
select "transaction", number from events where workspace = :workspace order by "transaction" desc, place desc limit 1;

-- name: queue_stats_of_questions
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

-- name: queue_stats_of_workspace
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

-- name: queue_stats_of_deliveries
-- How many deliveries there are of each status.
select status, count(*) as count from (select status from deliveries limit :limit) group by status;

-- name: oldest_due
-- Since when the oldest delivery, or entry that may lead to one, is due; null if there is none.
select min(at) as at from (
    select min(due_at) as at from deliveries where due_at is not null
    union all
    select min(at) from outbox
);

-- name: askers_at_quota
-- How many askers have as many pending questions as the quota allows.
select count(*) as count from (
    select 1
    from (select workspace, asker from inbox where main limit :limit)
    where :quota is not null
    group by workspace, asker
    having count(*) >= :quota
);

-- name: unanswerable
-- How many pending questions nobody can answer, because no recipient, now or after an escalation, is a person who is
-- enabled, a group with one, or somebody who is reached in a chat.
with named as (
    select workspace, id as recipient from enabled_people
    union
    select m.workspace, 'group:' || m.group_name
    from members as m
    join enabled_people as p on p.workspace = m.workspace and p.id = m.person
    union
    select a.workspace, a.recipient
    from addresses as a
    where not exists (
        select 1 from people as p where p.workspace = a.workspace and p.id = a.recipient and p.disabled_at is not null
    )
),
able as materialized (
    select workspace, recipient from named
    union
    select workspace, '*' from named
)
select count(*) as count
from (
    select 1
    from (select workspace, question_id from inbox where main limit :limit) as counted
    join inbox as i on i.workspace = counted.workspace and i.question_id = counted.question_id
    left join able on able.workspace = i.workspace and able.recipient = i.recipient
    group by i.workspace, i.question_id
    having count(able.recipient) = 0
);

-- name: announce_listener
-- Record that a process listens; it must do this again before the others forget it.
insert into listeners (process, port, feeds, seen_at) values (:listener, :port, :feeds, :now)
on conflict (process) do update set seen_at = excluded.seen_at;

-- name: forget_listener
-- Record that a listener has stopped, and forget those that died without saying so.
delete from listeners where process = :listener or seen_at < :before;

-- name: listeners
-- The ports on which processes listen, and whether for feeds too.
select process as listener, port, feeds from listeners where seen_at > :since;
