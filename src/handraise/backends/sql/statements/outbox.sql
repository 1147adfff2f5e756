-- Addresses, the outbox, and the deliveries that are made from it.

-- name: put_address
-- Store an address, replacing the one with the same name.
insert into handraise.addresses (workspace, recipient, channel, id, destination)
values (:workspace, :recipient, :channel, :id, :destination::text::json)
on conflict (workspace, recipient, channel, id) do update set destination = excluded.destination;

-- name: find_address
-- One address, which nobody else changes until the end of the transaction.
select * from handraise.addresses
where workspace = :workspace and recipient = :recipient and channel = :channel and id = :id
${lock(for update)};

-- name: remove_address
-- Forget an address.
delete from handraise.addresses
where workspace = :workspace and recipient = :recipient and channel = :channel and id = :id
returning *;

-- name: addresses
-- The addresses of some recipients, or of all.
select * from handraise.addresses
where workspace = :workspace and (:recipients::text[] is null or recipient ${in(:recipients::text[])})
order by recipient, channel, id;

-- name: recipients_at
-- Whose address it is.
select recipient from handraise.addresses
where workspace = :workspace and channel = :channel and id = :id
order by recipient;

-- name: routing
-- How a workspace reaches its people.
select policy from handraise.routing where workspace = :workspace;

-- name: lock_routing (only PostgreSQL)
-- Make those who replace it wait for each other until the end of their transactions.
select pg_advisory_xact_lock(hashtextextended('handraise routing ' || :workspace::text, 0));

-- name: put_routing
-- Replace how a workspace reaches its people.
insert into handraise.routing (workspace, policy) values (:workspace, :policy::text::json)
on conflict (workspace) do update set policy = excluded.policy;

-- name: entries
-- The oldest entries of a workspace.
select *, ${now} as now from handraise.outbox where workspace = :workspace order by number limit :limit;

-- name: recent
-- How many deliveries were made since an instant, by recipient and by asker.
select recipient, asker, count(*)::int as number
from (
    select recipient, asker from handraise.deliveries
    where workspace = :workspace and created_at >= :since and bundle is null and reason <> 'callback'
    limit 100000
) as counted
group by recipient, asker;

-- name: use_entries
-- Use entries up: of several who route the same, each entry is used by one.
delete from handraise.outbox where workspace = :workspace and number ${in(:numbers::bigint[])} returning number;

-- name: lock_pending
-- Those of some questions that are pending, and who asked them. They are locked: one that ends later finds the deliveries
-- that are made meanwhile.
select id, asker
from handraise.questions
where workspace = :workspace and id ${in(:ids::text[])} and status = 'pending'
${lock(for share)};

-- name: route
-- Store new deliveries.
insert into handraise.deliveries (
    workspace, id, question_id, recipient, channel, reason, rate_limit_key, bundle, destination, asker, created_at, due_at
)
select
    :workspace, d.id, d.question_id, d.recipient, d.channel, d.reason, d.rate_limit_key, d.bundle, d.destination::json,
    d.asker, ${now}, d.due_at
from ${records(
    :deliveries, question_id text, id text, recipient text, channel text, reason text, rate_limit_key text, bundle text,
    destination text, asker text, due_at timestamptz
)} as d
where true
on conflict do nothing;

-- name: end_deliveries
-- The messages of questions that have ended, or were reported about, are to be updated, and those that nobody has tried
-- are not sent.
update handraise.deliveries
set stale = true,
    status = case when status = 'queued' and turn = 0 then 'unsent' else status end,
    due_at = case
        when status = 'queued' and turn = 0 then null
        when stale then ${now}
        when status in ('sent', 'unknown', 'waiting') then coalesce(due_at, ${now})
        else due_at
    end,
    created_at = case when status = 'waiting' then ${now} else created_at end,
    -- A report after the end: an update without it that is under way counts as not made.
    turn = case when stale then turn + 1 else turn end
where workspace = :workspace and (not stale or status in ('sent', 'updated')) and question_id ${in(:ended::text[])};

-- name: record
-- Store the results of attempts, unless somebody else has taken them over. Their deliveries are found by an array of
-- ids: with only a set from JSON, the planner of PostgreSQL would read all of the workspace.
with t as materialized (
    select * from ${records(:tries, id text, turn int, status text, receipt text, problem text, again_after interval)} as r
)
update handraise.deliveries as d
set status = case when t.status = 'queued' and d.stale then 'unsent' else t.status end,
    sent_at = case when t.status = 'sent' and d.status in ('queued', 'unknown') then ${now} else d.sent_at end,
    tries = case when t.status = 'sent' and d.status in ('queued', 'unknown') then 0 else d.tries end,
    receipt = coalesce(t.receipt::json, d.receipt),
    problem = t.problem,
    due_at = case
        when t.status = 'sent' and d.status in ('queued', 'unknown') and d.stale then ${now}
        when t.status = 'queued' and d.stale then null
        else ${now} + t.again_after
    end
from t
where d.workspace = :workspace and d.id ${in(:ids::text[])} and d.id = t.id and d.turn = t.turn;

-- name: lock_questions (only PostgreSQL)
-- Lock questions, so that if several processes record the last failures of a question, one of them sees all.
-- One search of the index for each: with `id = any (...) order by id`, PostgreSQL 15 reads all of the workspace in order.
select
from (select id from unnest(:lost::text[]) as id order by id) as lost
cross join lateral (
    select from handraise.questions as q where q.workspace = :workspace and q.id = lost.id for update
) as locked;

-- name: reached
-- Record that somebody has been told about these questions after all.
update handraise.questions set unreached_at = null
where workspace = :workspace and id ${in(:sent::text[])} and unreached_at is not null;

-- name: unreached
-- Mark pending questions that nobody can be told about: no delivery has arrived, and none still can. The questions are
-- locked before.
insert into handraise.events (at, workspace, question_id, kind)
select ${now}, q.workspace, q.id, 'unreached'
from handraise.questions as q
where q.workspace = :workspace and q.id ${in(:lost::text[])} and q.status = 'pending' and q.unreached_at is null
    and not exists (
        select 1 from handraise.deliveries as d
        where d.workspace = :workspace and d.question_id = q.id
            and (d.status in ('queued', 'sent', 'updated') or d.status = 'unknown' and d.due_at is not null)
    );
update handraise.questions
set unreached_at = ${now}
where workspace = :workspace and id ${in(:lost::text[])} and status = 'pending' and unreached_at is null
    and not exists (
        select 1 from handraise.deliveries as d
        where d.workspace = :workspace and d.question_id = questions.id
            and (d.status in ('queued', 'sent', 'updated') or d.status = 'unknown' and d.due_at is not null)
    )
returning id;

-- name: deliveries
-- The deliveries of a question, found before they are sorted, so that no index is walked for the order.
with found as materialized (
    select * from handraise.deliveries where workspace = :workspace and question_id = :question_id
)
select * from found order by created_at, id;

-- name: failed_deliveries
-- The deliveries that failed, of questions that still wait, the newest first.
select d.*
from handraise.deliveries as d
join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
where d.workspace = :workspace and d.status = 'failed' and not d.stale and q.status = 'pending'
order by d.created_at desc, d.id desc
limit :limit;

-- name: retried_deliveries
-- The deliveries whose last try failed and that are tried again, of questions that still wait, the oldest first.
select d.*
from handraise.deliveries as d
join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
where d.workspace = :workspace and d.due_at is not null and d.status in ('queued', 'unknown') and d.problem is not null
    and not d.stale and q.status = 'pending'
order by d.created_at, d.id
limit :limit;

-- name: failed_by_channel
-- How many deliveries of each channel failed, of questions that still wait, and the oldest of them. It goes along the index
-- from channel to channel, and counts at most so many of each.
with recursive used (channel) as (
    select (
        select d.channel from handraise.deliveries as d
        where d.workspace = :workspace and d.status = 'failed' and not d.stale
        order by d.channel
        limit 1
    )
    union all
    select (
        select d.channel from handraise.deliveries as d
        where d.workspace = :workspace and d.status = 'failed' and not d.stale and d.channel > used.channel
        order by d.channel
        limit 1
    )
    from used
    where used.channel is not null
),
counted as materialized (
    select
        used.channel,
        (
            select count(*)::int
            from (
                select 1 from handraise.deliveries as d
                join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
                where d.workspace = :workspace and d.channel = used.channel and d.status = 'failed' and not d.stale
                    and q.status = 'pending'
                order by d.created_at
                limit :limit
            ) as found
        ) as number,
        (
            select d.id from handraise.deliveries as d
            join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
            where d.workspace = :workspace and d.channel = used.channel and d.status = 'failed' and not d.stale
                and q.status = 'pending'
            order by d.created_at, d.id
            limit 1
        ) as oldest
    from used
    where used.channel is not null
)
select
    counted.channel, counted.number,
    (select d.created_at from handraise.deliveries as d where d.workspace = :workspace and d.id = counted.oldest) as created_at,
    (select d.problem from handraise.deliveries as d where d.workspace = :workspace and d.id = counted.oldest) as problem
from counted
where counted.oldest is not null
order by counted.channel;

-- name: retried_by_channel
-- How many deliveries of each channel are tried again, of questions that still wait, and the oldest of them, found in the
-- same way.
with recursive used (channel) as (
    select (
        select d.channel from handraise.deliveries as d
        where d.workspace = :workspace and d.due_at is not null and d.problem is not null and not d.stale
        order by d.channel
        limit 1
    )
    union all
    select (
        select d.channel from handraise.deliveries as d
        where d.workspace = :workspace and d.channel > used.channel
            and d.due_at is not null and d.problem is not null and not d.stale
        order by d.channel
        limit 1
    )
    from used
    where used.channel is not null
),
counted as materialized (
    select
        used.channel,
        (
            select count(*)::int
            from (
                select 1 from handraise.deliveries as d
                join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
                where d.workspace = :workspace and d.channel = used.channel
                    and d.due_at is not null and d.problem is not null and not d.stale
                    and d.status in ('queued', 'unknown') and q.status = 'pending'
                order by d.created_at
                limit :limit
            ) as found
        ) as number,
        (
            select d.id from handraise.deliveries as d
            join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
            where d.workspace = :workspace and d.channel = used.channel
                and d.due_at is not null and d.problem is not null and not d.stale
                and d.status in ('queued', 'unknown') and q.status = 'pending'
            order by d.created_at, d.id
            limit 1
        ) as oldest
    from used
    where used.channel is not null
)
select
    counted.channel, counted.number,
    (select d.created_at from handraise.deliveries as d where d.workspace = :workspace and d.id = counted.oldest) as created_at,
    (select d.problem from handraise.deliveries as d where d.workspace = :workspace and d.id = counted.oldest) as problem
from counted
where counted.oldest is not null
order by counted.channel;

-- name: retry_delivery
-- Try a delivery that failed again, as if it were new.
update handraise.deliveries
set status = 'queued', created_at = ${now}, due_at = ${now}, bundle = null, tries = 0, turn = turn + 1, problem = null
where workspace = :workspace and id = :id and status = 'failed' and not stale
    and exists (
        select 1 from handraise.questions as q
        where q.workspace = :workspace and q.id = deliveries.question_id and q.status = 'pending'
    )
returning *;
