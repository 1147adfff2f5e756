-- What PostgreSQL does with the outbox in its own way: functions of the schema see all workspaces, and what is due is taken
-- without waiting for others who take. `:now` is null in production: the clock of the database is used.

-- name: workspaces_with_entries
-- Some of the workspaces that have entries.
select workspaces_with_entries as workspace from handraise.workspaces_with_entries(:at_most);

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
