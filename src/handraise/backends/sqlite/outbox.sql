-- The statements of the SQLite outbox, with the names and parameters of PostgreSQL's. Instants are whole microseconds,
-- lists are JSON arrays. Writes run inside BEGIN IMMEDIATE: nothing needs its own lock.

-- name: put_address
-- Store an address, replacing the one with the same name.
insert into addresses (workspace, recipient, channel, id, destination)
values (:workspace, :recipient, :channel, :id, :destination)
on conflict (workspace, recipient, channel, id) do update set destination = excluded.destination;

-- name: find_address
-- One address.
select * from addresses
where workspace = :workspace and recipient = :recipient and channel = :channel and id = :id;

-- name: remove_address
-- Forget an address.
delete from addresses
where workspace = :workspace and recipient = :recipient and channel = :channel and id = :id
returning *;

-- name: addresses
-- The addresses of some recipients, or of all.
select * from addresses
where workspace = :workspace
    and (:recipients is null or recipient in (select value from json_each(:recipients)))
order by recipient, channel, id;

-- name: recipients_at
-- Whose address it is.
select recipient from addresses where workspace = :workspace and channel = :channel and id = :id order by recipient;

-- name: routing
-- How a workspace reaches its people.
select policy from routing where workspace = :workspace;

-- name: lock_routing
-- Nothing to do.

-- name: put_routing
-- Replace how a workspace reaches its people.
insert into routing (workspace, policy) values (:workspace, :policy)
on conflict (workspace) do update set policy = excluded.policy;

-- name: workspaces_with_entries
-- Some of the workspaces that have entries.
select distinct workspace from outbox order by workspace limit :at_most;

-- name: entries
-- The oldest entries of a workspace.
select *, :now as now from outbox where workspace = :workspace order by number limit :limit;

-- name: recent
-- How many deliveries were made since an instant, by recipient and by asker.
select recipient, asker, count(*) as number
from (
    select recipient, asker from deliveries
    where workspace = :workspace and created_at >= :since and bundle is null and reason <> 'callback'
    limit 100000
)
group by recipient, asker;

-- name: route
-- Turn entries into deliveries, once. If the question has ended, messages that were sent are to be updated, and those
-- that nobody has tried are not sent. The joins run in the order that is written here.
insert into deliveries (
    workspace, id, question_id, recipient, channel, reason, rate_limit_key, bundle, destination, asker, created_at, due_at
)
select
    q.workspace, d.value ->> 'id', q.id, d.value ->> 'recipient', d.value ->> 'channel', d.value ->> 'reason',
    d.value ->> 'rate_limit_key', d.value ->> 'bundle', d.value ->> 'destination', q.asker, :now, d.value ->> 'due_at'
from json_each(:deliveries) as d
cross join outbox as o on o.number = d.value ->> 'entry' and o.workspace = :workspace
cross join questions as q on q.workspace = o.workspace and q.id = o.question_id
where q.status = 'pending' and o.number not in (select value from json_each(:ends))
on conflict do nothing;
update deliveries
set stale = 1,
    status = case when status = 'queued' and turn = 0 then 'unsent' else status end,
    due_at = case
        when status = 'queued' and turn = 0 then null
        when stale then :now
        when status in ('sent', 'unknown', 'waiting') then coalesce(due_at, :now)
        else due_at
    end,
    created_at = case when status = 'waiting' then :now else created_at end,
    -- A report after the end: an update without it that is under way counts as not made.
    turn = case when stale then turn + 1 else turn end
where workspace = :workspace and (not stale or status in ('sent', 'updated')) and question_id in (
    select question_id from outbox where workspace = :workspace and number in (select value from json_each(:ends))
);
delete from outbox
where workspace = :workspace and number in (select value from json_each(:numbers))
returning number;

-- name: workspaces_with_due
-- Some of the workspaces in which a delivery is due.
select distinct workspace from deliveries where due_at <= :now limit :at_most;

-- name: take
-- Take due deliveries, those of a bundle that are to be sent together.
with due as (
    select
        id, rate_limit_key, due_at,
        coalesce(case when status in ('queued', 'unknown') and not stale then bundle end, id) as message
    from deliveries
    where workspace = :workspace and due_at <= :now
        and (channel in (select value from json_each(:channels)) or created_at <= :now - :unclaimed)
        and rate_limit_key not in (select value from json_each(:full))
    order by due_at
    limit 2000
),
message as (
    select
        message, rate_limit_key, min(due_at) as due_at,
        row_number() over (partition by rate_limit_key order by min(due_at), message) as place
    from due
    group by message, rate_limit_key
)
update deliveries
set due_at = :now + :lease, tries = tries + 1, turn = turn + 1
where workspace = :workspace and due_at <= :now
    and id in (
        select mate.id
        from (
            select due.id, due.message, row_number() over (partition by due.message order by due.id) as number from due
        ) as mate
        where mate.number <= :per_message and mate.message in (
            select message.message from message
            where place <= coalesce(
                (select value from json_each(:free_slots) where key = message.rate_limit_key), :per_key
            )
            order by message.due_at
            limit :limit
        )
    )
returning *;

-- name: record
-- Store the results of attempts, unless somebody else has taken them over.
with t as materialized (
    select
        :workspace as workspace, value ->> 'id' as id, value ->> 'turn' as turn, value ->> 'status' as status,
        value ->> 'receipt' as receipt, value ->> 'problem' as problem, :now + (value ->> 'again_after') as again_at
    from json_each(:tries)
)
update deliveries as d
set status = case when t.status = 'queued' and d.stale then 'unsent' else t.status end,
    sent_at = case when t.status = 'sent' and d.status in ('queued', 'unknown') then :now else d.sent_at end,
    tries = case when t.status = 'sent' and d.status in ('queued', 'unknown') then 0 else d.tries end,
    receipt = coalesce(t.receipt, d.receipt),
    problem = t.problem,
    due_at = case
        when t.status = 'sent' and d.status in ('queued', 'unknown') and d.stale then :now
        when t.status = 'queued' and d.stale then null
        else t.again_at
    end
from t
where d.workspace = t.workspace and d.id = t.id and d.turn = t.turn;

-- name: lock_questions
-- Nothing to do.

-- name: reached
-- Record that somebody has been told about these questions after all.
update questions set unreached_at = null
where workspace = :workspace and id in (select value from json_each(:sent)) and unreached_at is not null;

-- name: unreached
-- Mark pending questions that nobody can be told about: no delivery has arrived, and none still can.
insert into events (workspace, question_id, kind, at)
select workspace, id, 'unreached', :now
from questions as q
where workspace = :workspace and id in (select value from json_each(:lost)) and status = 'pending' and unreached_at is null
    and not exists (
        select 1 from deliveries as d
        where d.workspace = :workspace and d.question_id = q.id
            and (d.status in ('queued', 'sent', 'updated') or d.status = 'unknown' and d.due_at is not null)
    );
update questions
set unreached_at = :now
where workspace = :workspace and id in (select value from json_each(:lost)) and status = 'pending' and unreached_at is null
    and not exists (
        select 1 from deliveries as d
        where d.workspace = :workspace and d.question_id = questions.id
            and (d.status in ('queued', 'sent', 'updated') or d.status = 'unknown' and d.due_at is not null)
    )
returning id;

-- name: deliveries
-- The deliveries of a question, found before they are sorted: the plus prevents a walk along an index for the order.
select * from deliveries where workspace = :workspace and question_id = :question_id order by +created_at, id;

-- name: failed_deliveries
-- The deliveries that failed, of questions that still wait, the newest first.
select d.*
from deliveries as d
join questions as q on q.workspace = d.workspace and q.id = d.question_id
where d.workspace = :workspace and d.status = 'failed' and not d.stale and q.status = 'pending'
order by d.created_at desc, d.id desc
limit :limit;

-- name: retried_deliveries
-- The deliveries whose last try failed and that are tried again, of questions that still wait, the oldest first.
select d.*
from deliveries as d
join questions as q on q.workspace = d.workspace and q.id = d.question_id
where d.workspace = :workspace and d.due_at is not null and d.status in ('queued', 'unknown') and d.problem is not null
    and not d.stale and q.status = 'pending'
order by d.created_at, d.id
limit :limit;

-- name: failed_by_channel
-- How many deliveries of each channel failed, of questions that still wait, and the oldest of them. It goes along the index
-- from channel to channel, and counts at most so many of each.
with recursive used (channel) as (
    select (
        select d.channel from deliveries as d
        where d.workspace = :workspace and d.status = 'failed' and not d.stale
        order by d.channel
        limit 1
    )
    union all
    select (
        select d.channel from deliveries as d
        where d.workspace = :workspace and d.status = 'failed' and not d.stale and d.channel > used.channel
        order by d.channel
        limit 1
    )
    from used
    where used.channel is not null
),
counted as (
    select
        (
            select count(*)
            from (
                select 1 from deliveries as d
                join questions as q on q.workspace = d.workspace and q.id = d.question_id
                where d.workspace = :workspace and d.channel = used.channel and d.status = 'failed' and not d.stale
                    and q.status = 'pending'
                order by d.created_at
                limit :limit
            ) as found
        ) as number,
        (
            select d.id from deliveries as d
            join questions as q on q.workspace = d.workspace and q.id = d.question_id
            where d.workspace = :workspace and d.channel = used.channel and d.status = 'failed' and not d.stale
                and q.status = 'pending'
            order by d.created_at, d.id
            limit 1
        ) as oldest
    from used
    where used.channel is not null
)
select d.channel, counted.number, d.created_at, d.problem
from counted
join deliveries as d on d.workspace = :workspace and d.id = counted.oldest
order by d.channel;

-- name: retried_by_channel
-- How many deliveries of each channel are tried again, of questions that still wait, and the oldest of them, found in the
-- same way.
with recursive used (channel) as (
    select (
        select d.channel from deliveries as d
        where d.workspace = :workspace and d.due_at is not null and d.problem is not null and not d.stale
        order by d.channel
        limit 1
    )
    union all
    select (
        select d.channel from deliveries as d
        where d.workspace = :workspace and d.channel > used.channel
            and d.due_at is not null and d.problem is not null and not d.stale
        order by d.channel
        limit 1
    )
    from used
    where used.channel is not null
),
counted as (
    select
        (
            select count(*)
            from (
                select 1 from deliveries as d
                join questions as q on q.workspace = d.workspace and q.id = d.question_id
                where d.workspace = :workspace and d.channel = used.channel
                    and d.due_at is not null and d.problem is not null and not d.stale
                    and d.status in ('queued', 'unknown') and q.status = 'pending'
                order by d.created_at
                limit :limit
            ) as found
        ) as number,
        (
            select d.id from deliveries as d
            join questions as q on q.workspace = d.workspace and q.id = d.question_id
            where d.workspace = :workspace and d.channel = used.channel
                and d.due_at is not null and d.problem is not null and not d.stale
                and d.status in ('queued', 'unknown') and q.status = 'pending'
            order by d.created_at, d.id
            limit 1
        ) as oldest
    from used
    where used.channel is not null
)
select d.channel, counted.number, d.created_at, d.problem
from counted
join deliveries as d on d.workspace = :workspace and d.id = counted.oldest
order by d.channel;

-- name: retry_delivery
-- Try a delivery that failed again, as if it were new.
update deliveries
set status = 'queued', created_at = :now, due_at = :now, bundle = null, tries = 0, turn = turn + 1, problem = null
where workspace = :workspace and id = :id and status = 'failed' and not stale
    and exists (
        select 1 from questions as q
        where q.workspace = :workspace and q.id = deliveries.question_id and q.status = 'pending'
    )
returning *;
