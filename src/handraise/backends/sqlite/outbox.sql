-- What SQLite does with the outbox in its own way. Instants are whole microseconds, lists are JSON arrays.

-- name: workspaces_with_entries
-- Some of the workspaces that have entries.
select distinct workspace from outbox order by workspace limit :at_most;

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
