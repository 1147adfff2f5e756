-- oldest release: 0.1.0
-- As before, and an approval that was taken back since it was copied stays taken back in the archive.
create or replace function handraise.leave_copied(workspaces text[], ids text[]) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspace', true), '');
    old record;
    number bigint;
    moved bigint := 0;
begin
    for old in
        select c.workspace, array_agg(c.id) as ids
        from unnest(leave_copied.workspaces, leave_copied.ids) as c (workspace, id)
        group by c.workspace
    loop
        continue when not handraise.is_tidied(old.workspace);
        perform set_config('handraise.workspace', encode(convert_to(old.workspace, 'UTF8'), 'hex'), true);
        -- One at a time, whatever the planner knows of the tables: it must not walk through the archive.
        with free as materialized (
            select q.*
            from unnest(old.ids) as c (id)
            cross join lateral (
                select from handraise.archive_index as x where x.workspace = old.workspace and x.id = c.id limit 1
            ) as x
            cross join lateral (
                select q.ctid as place, q.id, q.settled_at, q.consumed_at, q.taken_back_at, q.unreached_at
                from handraise.questions as q
                where q.workspace = old.workspace and q.id = c.id and q.settled_at is not null
                limit 1
                for update skip locked
            ) as q
        ),
        changed as (
            update handraise.archive as a
            set consumed_at = free.consumed_at, taken_back_at = free.taken_back_at, unreached_at = free.unreached_at
            from free
            where a.workspace = old.workspace and a.id = free.id and a.settled_at = free.settled_at
                and a.id = any (array(
                    select f.id from free as f
                    where f.consumed_at is not null or f.taken_back_at is not null or f.unreached_at is not null
                ))
        )
        delete from handraise.questions as q where q.ctid = any (array(select free.place from free));
        get diagnostics number = row_count;
        moved := moved + number;
    end loop;
    perform set_config('handraise.workspace', home, true);
    return moved;
end
$$;
