-- What SQLite does with the outbox in its own way. Instants are whole microseconds, lists are JSON arrays.

-- name: workspaces_with_entries
-- Some of the workspaces that have entries.
select distinct workspace from outbox order by workspace limit :at_most;

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
