-- The statements of the SQLite outbox. Instants are whole microseconds.

-- name: put_address
-- Keep an address, in place of the one with the same name.
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
returning id;

-- name: addresses
-- The addresses of some recipients, or of all.
select * from addresses
where workspace = :workspace
    and (:recipients is null or recipient in (select value from json_each(:recipients)))
order by recipient, channel, id;

-- name: recipients_at
-- Whose address it is.
select recipient from addresses where workspace = :workspace and channel = :channel and id = :id order by recipient;

-- name: policy
-- How a workspace reaches its people.
select policy from policies where workspace = :workspace;

-- name: put_policy
-- Replace how a workspace reaches its people.
insert into policies (workspace, policy) values (:workspace, :policy)
on conflict (workspace) do update set policy = excluded.policy;

-- name: workspaces_with_lines
-- Some of the workspaces that have lines.
select distinct workspace from outbox order by workspace limit :at_most;

-- name: lines
-- The oldest lines of a workspace.
select *, :now as now from outbox where workspace = :workspace order by number limit :limit;

-- name: recent
-- How many deliveries were made since an instant, by recipient and by asker.
select recipient, asker, count(*) as number
from (
    select recipient, asker from deliveries
    where workspace = :workspace and created_at >= :since and bundle is null
    limit 100000
)
group by recipient, asker;

-- name: use_line
-- Take a line; the process that gets it routes it.
delete from outbox where number = :number and workspace = :workspace returning question_id;

-- name: add_delivery
-- Queue a delivery, where its question is pending.
insert into deliveries (
    workspace, id, question_id, recipient, channel, reason, lane, bundle, destination, asker, created_at, due_at
)
select
    :workspace, :id, q.id, :recipient, :channel, :reason, :lane, :bundle, :destination, q.asker, :now, :due_at
from questions as q
where q.workspace = :workspace and q.id = :question_id and q.status = 'pending'
on conflict do nothing;

-- name: make_stale
-- The question has ended: what was sent is to be updated, what nobody has tried is not sent.
update deliveries
set stale = 1,
    status = case when status = 'queued' and turn = 0 then 'unsent' else status end,
    due_at = case
        when status = 'queued' and turn = 0 then null
        when status in ('sent', 'unknown') then coalesce(due_at, :now)
        else due_at
    end
where workspace = :workspace and question_id = :question_id and not stale;

-- name: workspaces_with_due
-- Some of the workspaces in which a delivery is due.
select distinct workspace from deliveries where due_at <= :now limit :at_most;

-- name: take
-- Take due deliveries, those of a bundle that are to be sent together.
with due as (
    select
        id, lane, due_at,
        coalesce(case when status in ('queued', 'unknown') and not stale then bundle end, id) as message
    from deliveries
    where workspace = :workspace and due_at <= :now
        and (channel in (select value from json_each(:channels)) or created_at <= :now - :unclaimed)
        and coalesce((select value from json_each(:rooms) where key = lane), :per_lane) > 0
    order by due_at
    limit 2000
),
message as (
    select message, lane, min(due_at) as due_at, row_number() over (partition by lane order by min(due_at), message) as place
    from due
    group by message, lane
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
            where place <= coalesce((select value from json_each(:rooms) where key = message.lane), :per_lane)
            order by message.due_at
            limit :limit
        )
    )
returning *;

-- name: record
-- Keep what came of a try, unless somebody else has taken it over.
update deliveries
set status = case when :status = 'queued' and stale then 'unsent' else :status end,
    sent_at = case when :status = 'sent' and status in ('queued', 'unknown') then :now else sent_at end,
    tries = case when :status = 'sent' and status in ('queued', 'unknown') then 0 else tries end,
    receipt = coalesce(:receipt, receipt),
    problem = :problem,
    due_at = case
        when :status = 'sent' and status in ('queued', 'unknown') and stale then :now
        when :status = 'queued' and stale then null
        else :now + :again_after
    end
where workspace = :workspace and id = :id and turn = :turn;

-- name: reached
-- Somebody has been told of it after all.
update questions set unreached_at = null
where workspace = :workspace and id = :id and unreached_at is not null;

-- name: unreached
-- Say of a pending question that nobody can be told of it, where no delivery has arrived or can still.
update questions
set unreached_at = :now
where workspace = :workspace and id = :id and status = 'pending' and unreached_at is null
    and not exists (
        select 1 from deliveries
        where workspace = :workspace and question_id = :id
            and (status in ('queued', 'sent', 'updated') or status = 'unknown' and due_at is not null)
    )
returning id;

-- name: log_unreached
-- Its one event.
insert into events (workspace, question_id, kind, at) values (:workspace, :id, 'unreached', :now);

-- name: deliveries
-- The deliveries of a question.
select * from deliveries where workspace = :workspace and question_id = :question_id order by created_at, id;
