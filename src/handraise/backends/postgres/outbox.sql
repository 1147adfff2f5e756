-- The statements of the PostgreSQL outbox. `:now` is null in production: the clock of the database is used.

-- name: put_address
-- Store an address, replacing the one with the same name.
insert into handraise.addresses (workspace, recipient, channel, id, destination)
values (:workspace, :recipient, :channel, :id, :destination::text::json)
on conflict (workspace, recipient, channel, id) do update set destination = excluded.destination;

-- name: find_address
-- One address, which nobody else changes until the end of the transaction.
select * from handraise.addresses
where workspace = :workspace and recipient = :recipient and channel = :channel and id = :id
for update;

-- name: remove_address
-- Forget an address.
delete from handraise.addresses
where workspace = :workspace and recipient = :recipient and channel = :channel and id = :id
returning *;

-- name: addresses
-- The addresses of some recipients, or of all.
select * from handraise.addresses
where workspace = :workspace and (:recipients::text[] is null or recipient = any (:recipients::text[]))
order by recipient, channel, id;

-- name: recipients_at
-- Whose address it is.
select recipient from handraise.addresses
where workspace = :workspace and channel = :channel and id = :id
order by recipient;

-- name: routing
-- How a workspace reaches its people.
select policy from handraise.routing where workspace = :workspace;

-- name: lock_routing
-- Make those who replace it wait for each other until the end of their transactions.
select pg_advisory_xact_lock(hashtextextended('handraise routing ' || :workspace::text, 0));

-- name: put_routing
-- Replace how a workspace reaches its people.
insert into handraise.routing (workspace, policy) values (:workspace, :policy::text::json)
on conflict (workspace) do update set policy = excluded.policy;

-- name: workspaces_with_entries
-- Some of the workspaces that have entries.
select workspaces_with_entries as workspace from handraise.workspaces_with_entries(:at_most);

-- name: entries
-- The oldest entries of a workspace.
select *, coalesce(:now::timestamptz, now()) as now
from handraise.outbox
where workspace = :workspace
order by number
limit :limit;

-- name: recent
-- How many deliveries were made since an instant, by recipient and by asker.
select recipient, asker, count(*)::int as number
from (
    select recipient, asker from handraise.deliveries
    where workspace = :workspace and created_at >= :since and bundle is null and reason <> 'callback'
    limit 100000
) as counted
group by recipient, asker;

-- name: route
-- Turn entries into deliveries, once. The question is locked while they are made. A question that ends in the meantime
-- finds them, and for a question that has ended, none are made.
with used as materialized (
    delete from handraise.outbox
    where workspace = :workspace and number = any (:numbers::bigint[])
    returning number, question_id
),
pending as materialized (
    select q.id, q.asker
    from handraise.questions as q
    where q.workspace = :workspace and q.status = 'pending'
        and q.id = any (array(select u.question_id from used as u where u.number <> all (:ends::bigint[])))
    for share
),
made as (
    insert into handraise.deliveries (
        workspace, id, question_id, recipient, channel, reason, rate_limit_key, bundle, destination, asker, created_at,
        due_at
    )
    select
        :workspace, d.id, pending.id, d.recipient, d.channel, d.reason, d.rate_limit_key, d.bundle, d.destination::json,
        pending.asker, coalesce(:now::timestamptz, now()), d.due_at
    from json_to_recordset(:deliveries::text::json) as d (
        entry bigint, id text, recipient text, channel text, reason text, rate_limit_key text, bundle text,
        destination text, due_at timestamptz
    )
    join used on used.number = d.entry
    join pending on pending.id = used.question_id
    on conflict do nothing
),
ended as (
    update handraise.deliveries as d
    set stale = true,
        status = case when d.status = 'queued' and d.turn = 0 then 'unsent' else d.status end,
        due_at = case
            when d.status = 'queued' and d.turn = 0 then null
            when d.stale then coalesce(:now::timestamptz, now())
            when d.status in ('sent', 'unknown', 'waiting') then coalesce(d.due_at, :now::timestamptz, now())
            else d.due_at
        end,
        created_at = case when d.status = 'waiting' then coalesce(:now::timestamptz, now()) else d.created_at end,
        -- A report after the end: an update without it that is under way counts as not made.
        turn = case when d.stale then d.turn + 1 else d.turn end
    where d.workspace = :workspace and (not d.stale or d.status in ('sent', 'updated'))
        and d.question_id = any (array(select u.question_id from used as u where u.number = any (:ends::bigint[])))
)
select number from used;

-- name: workspaces_with_due
-- Some of the workspaces in which a delivery is due.
select workspaces_with_due as workspace
from handraise.workspaces_with_due(coalesce(:now::timestamptz, now()), :at_most);

-- name: take
-- Take due deliveries, the oldest of each rate limit key. If many are due, it walks from key to key, so that deliveries
-- that wait for a dead key are not read. The first of every bundle stands for it, so that two takers lock the same row.
with recursive oldest as materialized (
    select d.id, d.channel, d.rate_limit_key, d.created_at
    from handraise.deliveries as d
    where d.workspace = :workspace and d.due_at <= (select coalesce(:now::timestamptz, now()))
    order by d.due_at
    limit 1000
),
many as materialized (
    select count(*) = 1000 as so from oldest
),
walk (channel, rate_limit_key, due_at) as (
    select c.channel, '' collate "C", null::timestamptz
    from unnest(:channels::text[]) as c (channel), many
    where many.so
    union all
    select walk.channel, head.rate_limit_key, head.due_at
    from walk
    cross join lateral (
        select d.rate_limit_key, d.due_at
        from handraise.deliveries as d
        where d.workspace = :workspace and d.channel = walk.channel and d.rate_limit_key > walk.rate_limit_key
            and d.due_at is not null
        order by d.rate_limit_key, d.due_at
        limit 1
    ) as head
),
free_keys as materialized (
    (select distinct oldest.channel, oldest.rate_limit_key from oldest, many
    where not many.so and oldest.channel = any (:channels::text[]) and oldest.rate_limit_key <> all (:full::text[]))
    union all
    (select walk.channel, walk.rate_limit_key from walk
    where walk.due_at <= (select coalesce(:now::timestamptz, now())) and walk.rate_limit_key <> all (:full::text[])
    limit 1000)
),
due as materialized (
    select
        head.id, free_keys.rate_limit_key, head.due_at, head.bundle,
        head.bundle is null or row_number() over (partition by head.bundle order by head.due_at, head.id) = 1 as stands
    from free_keys
    cross join lateral (
        select
            d.id, d.due_at,
            case when d.status in ('queued', 'unknown') and not d.stale then d.bundle end as bundle
        from handraise.deliveries as d
        where d.workspace = :workspace and d.channel = free_keys.channel and d.rate_limit_key = free_keys.rate_limit_key
            and d.due_at <= (select coalesce(:now::timestamptz, now()))
        order by d.due_at, d.id
        limit 4 * :per_key
    ) as head
),
first as materialized (
    select
        due.id, due.rate_limit_key, due.due_at,
        row_number() over (partition by due.rate_limit_key order by due.due_at, due.id) as place
    from due
    where due.stands
),
taken as materialized (
    select d.id, d.bundle
    from handraise.deliveries as d
    where d.workspace = :workspace
        and d.id = any (array(
            (
                select first.id
                from first
                left join json_each_text(:free_slots::text::json) as slots (key, free) on slots.key = first.rate_limit_key
                where first.place <= coalesce(slots.free::int, :per_key)
                order by first.due_at
                limit :limit
            )
            union all
            (
                select oldest.id
                from oldest
                where oldest.channel <> all (:channels::text[])
                    and oldest.created_at <= (select coalesce(:now::timestamptz, now()) - :unclaimed::interval)
                limit :limit
            )
        ))
        and d.due_at <= (select coalesce(:now::timestamptz, now()))
    for update skip locked
),
together as materialized (
    select taken.id from taken
    union
    select mate.id
    from due
    join taken on taken.id = due.id
    cross join lateral (
        select d.id
        from handraise.deliveries as d
        where d.workspace = :workspace and d.bundle = due.bundle and d.status in ('queued', 'unknown') and not d.stale
            and d.due_at <= (select coalesce(:now::timestamptz, now()))
        order by d.id
        limit :per_message
    ) as mate
    where due.bundle is not null
)
update handraise.deliveries as d
set due_at = coalesce(:now::timestamptz, now()) + :lease, tries = d.tries + 1, turn = d.turn + 1
where d.workspace = :workspace and d.id = any (array(select together.id from together))
    and d.due_at <= (select coalesce(:now::timestamptz, now()))
returning d.*;

-- name: record
-- Store the results of attempts, unless somebody else has taken them over. Their deliveries are found by an array of
-- ids: with only a set from JSON, the planner would read all of the workspace.
with t as materialized (
    select * from json_to_recordset(:tries::text::json) as t (
        id text, turn int, status text, receipt text, problem text, again_after interval
    )
)
update handraise.deliveries as d
set status = case when t.status = 'queued' and d.stale then 'unsent' else t.status end,
    sent_at = case
        when t.status = 'sent' and d.status in ('queued', 'unknown') then coalesce(:now::timestamptz, now())
        else d.sent_at
    end,
    tries = case when t.status = 'sent' and d.status in ('queued', 'unknown') then 0 else d.tries end,
    receipt = coalesce(t.receipt::json, d.receipt),
    problem = t.problem,
    due_at = case
        when t.status = 'sent' and d.status in ('queued', 'unknown') and d.stale
            then coalesce(:now::timestamptz, now())
        when t.status = 'queued' and d.stale then null
        else coalesce(:now::timestamptz, now()) + t.again_after
    end
from t
where d.workspace = :workspace and d.id = any (array(select t.id from t)) and d.id = t.id and d.turn = t.turn;

-- name: lock_questions
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
where workspace = :workspace and id = any (:sent::text[]) and unreached_at is not null;

-- name: unreached
-- Mark pending questions that nobody can be told about: no delivery has arrived, and none still can.
with lost as (
    update handraise.questions as q
    set unreached_at = coalesce(:now::timestamptz, now())
    where q.workspace = :workspace and q.id = any (:lost::text[]) and q.status = 'pending' and q.unreached_at is null
        and not exists (
            select from handraise.deliveries as d
            where d.workspace = :workspace and d.question_id = q.id
                and (d.status in ('queued', 'sent', 'updated') or d.status = 'unknown' and d.due_at is not null)
        )
    returning q.workspace, q.id, q.unreached_at
),
logged as (
    insert into handraise.events (at, workspace, question_id, kind)
    select unreached_at, workspace, id, 'unreached' from lost
)
select id from lost;

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
        where d.workspace = :workspace and d.channel > used.channel
            and d.status = 'failed' and not d.stale
        order by d.channel
        limit 1
    )
    from used
    where used.channel is not null
)
select used.channel, counted.number, oldest.created_at, oldest.problem
from used
cross join lateral (
    select d.created_at, d.problem from handraise.deliveries as d
    join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
    where d.workspace = :workspace and d.channel = used.channel
        and d.status = 'failed' and not d.stale and q.status = 'pending'
    order by d.created_at, d.id
    limit 1
) as oldest
cross join lateral (
    select count(*)::int as number
    from (
        select from handraise.deliveries as d
        join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
        where d.workspace = :workspace and d.channel = used.channel
            and d.status = 'failed' and not d.stale and q.status = 'pending'
        order by d.created_at
        limit :limit
    ) as found
) as counted
order by used.channel;

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
)
select used.channel, counted.number, oldest.created_at, oldest.problem
from used
cross join lateral (
    select d.created_at, d.problem from handraise.deliveries as d
    join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
    where d.workspace = :workspace and d.channel = used.channel
        and d.due_at is not null and d.problem is not null and not d.stale
        and d.status in ('queued', 'unknown') and q.status = 'pending'
    order by d.created_at, d.id
    limit 1
) as oldest
cross join lateral (
    select count(*)::int as number
    from (
        select from handraise.deliveries as d
        join handraise.questions as q on q.workspace = d.workspace and q.id = d.question_id
        where d.workspace = :workspace and d.channel = used.channel
            and d.due_at is not null and d.problem is not null and not d.stale
            and d.status in ('queued', 'unknown') and q.status = 'pending'
        order by d.created_at
        limit :limit
    ) as found
) as counted
order by used.channel;

-- name: retry_delivery
-- Try a delivery that failed again, as if it were new.
update handraise.deliveries as d
set status = 'queued', created_at = coalesce(:now::timestamptz, now()), due_at = coalesce(:now::timestamptz, now()),
    bundle = null, tries = 0, turn = d.turn + 1, problem = null
where d.workspace = :workspace and d.id = :id and d.status = 'failed' and not d.stale
    and exists (
        select from handraise.questions as q
        where q.workspace = :workspace and q.id = d.question_id and q.status = 'pending'
    )
returning d.*;
