-- oldest release: 0.1.0
-- Settled questions leave the table that is worked in, after a while, for partitions by the month of their
-- settlement; and those are dropped once nothing in them is kept any more. Everything here is new and empty: of the
-- tables that are there only the catalog changes.

-- The same columns as in `questions`, in the same order, whatever comes later. A row is written once, and changed only
-- where an approval is used up.
create table handraise.archive (like handraise.questions including defaults)
    partition by range (settled_at);
alter table handraise.archive add primary key (workspace, id, settled_at);

-- Where an archived question is, and that its id and its key are taken: what one index over all partitions would say.
-- `kept_until` is null unless something keeps it longer than the others: a grant that holds. There is room for others.
create table handraise.archive_index (
    settled_at    timestamptz not null,
    kept_until    timestamptz,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    key           text        collate "C",
    primary key (workspace, id)
);

create unique index archive_index_by_key on handraise.archive_index (workspace, key) where key is not null;
create index archive_index_by_end on handraise.archive_index (settled_at);
create index archive_index_by_keeping on handraise.archive_index (kept_until) where kept_until is not null;

-- The page of `questions` that is looked at next; whoever holds the row archives or removes, one at a time. Behind
-- `mark` no id is archived: a new one, which is time-ordered, need not be looked for. Only the time is in it.
create table handraise.archive_hand (
    page          bigint not null,
    mark          text   collate "C" not null
);

insert into handraise.archive_hand values (0, '');

create index grants_by_question on handraise.grants (workspace, question_id);

do $$
declare
    walled regclass;
begin
    foreach walled in array array['handraise.archive', 'handraise.archive_index']::regclass[]
    loop
        execute format('alter table %s enable row level security, force row level security', walled);
        execute format(
            'create policy workspace on %s
            using (workspace = (select handraise.workspace()))
            with check (workspace = (select handraise.workspace()))',
            walled
        );
    end loop;
end
$$;

create policy found_when_over on handraise.archive_index for select to current_user using (true);

-- Make the partition of a month, unless it is there. It is attached when it is complete, which makes nobody wait.
create function handraise.add_archive_month(month timestamptz) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    name text := 'archive_' || to_char(month at time zone 'UTC', 'YYYY_MM');
begin
    if to_regclass('handraise.' || name) is not null then
        return;
    end if;
    execute format('create table handraise.%I (like handraise.archive including defaults)', name);
    execute format('alter table handraise.%I enable row level security, force row level security', name);
    execute format(
        'create policy workspace on handraise.%I
        using (workspace = (select handraise.workspace()))
        with check (workspace = (select handraise.workspace()))',
        name
    );
    execute format(
        'alter table handraise.archive attach partition handraise.%I for values from (%L) to (%L)',
        name, month, date_trunc('month', month + interval '32 days', 'UTC')
    );
end
$$;

-- Whether questions of a workspace are archived and removed here; with null, whether months are dropped. Always, as
-- long as no workspace moves.
create function handraise.is_tidied(workspace text) returns boolean
    language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select true;
end;

-- Copy what was settled before an instant into the archive, of the next pages of `questions`, and tell which: it may
-- leave once every statement that began before has ended. `around` says that these were the last pages. Inside the
-- walls of one workspace after the other, as the owner is bound by them too.
create function handraise.copy_settled(
    before timestamptz, pages integer, out workspaces text[], out ids text[], out around boolean
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspace', true), '');
    hand bigint;
    size bigint;
    old record;
    newest text := '';
begin
    workspaces := '{}';
    ids := '{}';
    around := true;
    select h.page into hand from handraise.archive_hand as h for update skip locked;
    if not found then
        return;
    end if;
    size := pg_relation_size('handraise.questions') / current_setting('block_size')::bigint;
    if hand >= size then
        hand := 0;
    end if;
    for old in
        -- The pages first, by themselves: an index whose order is that of the groups would lead through all of them.
        with settled as materialized (
            select q.workspace, q.id, q.ctid as place, date_trunc('month', q.settled_at, 'UTC') as month
            from handraise.questions as q
            where q.ctid >= format('(%s,0)', hand)::tid and q.ctid < format('(%s,0)', hand + pages)::tid
                and q.settled_at < before
        )
        select s.workspace, s.month, array_agg(s.id) as ids, array_agg(s.place) as places
        from settled as s
        group by s.workspace, s.month
    loop
        continue when not handraise.is_tidied(old.workspace);
        perform handraise.add_archive_month(old.month);
        perform set_config('handraise.workspace', encode(convert_to(old.workspace, 'UTF8'), 'hex'), true);
        with q as materialized (
            select q.*
            from handraise.questions as q
            where q.ctid = any (old.places) and q.workspace = old.workspace and q.settled_at < before
        ),
        body as (
            insert into handraise.archive select q.* from q on conflict do nothing
        )
        insert into handraise.archive_index (settled_at, kept_until, workspace, id, key)
        select
            q.settled_at,
            (
                select max(g.expires_at)
                from handraise.grants as g
                where g.workspace = q.workspace and g.question_id = q.id and g.revoked_at is null
            ),
            q.workspace, q.id, q.key
        from q
        on conflict do nothing;
        workspaces := workspaces || array_fill(old.workspace, array[cardinality(old.ids)]);
        ids := ids || old.ids;
    end loop;
    perform set_config('handraise.workspace', home, true);
    select coalesce(max(i.id collate "C"), '') into newest from unnest(ids) as i (id);
    around := hand + pages >= size;
    update handraise.archive_hand as h
    set page = case when around then 0 else hand + pages end,
        mark = case when newest = '' then h.mark else greatest(h.mark, left(newest, 8) || '~') end;
end
$$;

-- Take copied questions out of `questions`, and tell how many. Never waits: what somebody else holds stays for the next
-- time. An approval may have been used up since it was copied.
create function handraise.leave_copied(workspaces text[], ids text[]) returns bigint
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
                select q.ctid as place, q.id, q.settled_at, q.consumed_at, q.unreached_at
                from handraise.questions as q
                where q.workspace = old.workspace and q.id = c.id and q.settled_at is not null
                limit 1
                for update skip locked
            ) as q
        ),
        changed as (
            update handraise.archive as a
            set consumed_at = free.consumed_at, unreached_at = free.unreached_at
            from free
            where a.workspace = old.workspace and a.id = free.id and a.settled_at = free.settled_at
                and a.id = any (array(
                    select f.id from free as f where f.consumed_at is not null or f.unreached_at is not null
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

-- Remove archived questions that were settled before an instant, with their events and deliveries, at most so many,
-- and tell how many.
create function handraise.remove_archived(now timestamptz, before timestamptz, at_most integer) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspace', true), '');
    old record;
    ids text[];
    removed bigint := 0;
begin
    perform from handraise.archive_hand for update skip locked;
    if not found then
        return 0;
    end if;
    for old in
        select o.workspace, array_agg(o.id) as ids
        from (
            (
                select x.workspace, x.id
                from handraise.archive_index as x
                where x.settled_at < before and x.kept_until is null and handraise.is_tidied(x.workspace)
                order by x.settled_at
                limit at_most
            )
            union all
            (
                select x.workspace, x.id
                from handraise.archive_index as x
                where x.kept_until <= now and x.settled_at < before and handraise.is_tidied(x.workspace)
                order by x.kept_until
                limit at_most
            )
            limit at_most
        ) as o
        group by o.workspace
    loop
        perform set_config('handraise.workspace', encode(convert_to(old.workspace, 'UTF8'), 'hex'), true);
        with gone as (
            delete from handraise.archive_index as x
            where x.workspace = old.workspace and x.id = any (old.ids)
                and not exists (
                    select from handraise.questions as q where q.workspace = x.workspace and q.id = x.id
                )
            returning x.id, x.settled_at
        ),
        body as (
            delete from handraise.archive as a
            using gone
            where a.workspace = old.workspace and a.id = gone.id and a.settled_at = gone.settled_at
        )
        select array(select gone.id from gone) into ids;
        delete from handraise.events as e where e.workspace = old.workspace and e.question_id = any (ids);
        delete from handraise.deliveries as d where d.workspace = old.workspace and d.question_id = any (ids);
        removed := removed + cardinality(ids);
    end loop;
    perform set_config('handraise.workspace', home, true);
    return removed;
end
$$;

-- Drop the months before an instant in which nothing is kept any more, and tell how many. Only readers of the archive
-- could have to wait, and where one of them is at it, this gives up within a moment, until the next time.
create function handraise.drop_archive_months(before timestamptz) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    old record;
    dropped bigint := 0;
begin
    perform from handraise.archive_hand for update skip locked;
    if not found or not handraise.is_tidied(null) then
        return 0;
    end if;
    for old in
        select m.name, m.month, date_trunc('month', m.month + interval '32 days', 'UTC') as ends
        from (
            select
                c.relname as name,
                to_timestamp(substr(c.relname, 9) || ' +00', 'YYYY_MM TZH') as month
            from pg_inherits as i
            join pg_class as c on c.oid = i.inhrelid
            where i.inhparent = 'handraise.archive'::regclass
        ) as m
        order by m.month
    loop
        exit when old.ends > before;
        continue when exists (
            select from handraise.archive_index as x where x.settled_at >= old.month and x.settled_at < old.ends
        );
        begin
            perform set_config('lock_timeout', '100ms', true);
            execute format('alter table handraise.archive detach partition handraise.%I', old.name);
            execute format('drop table handraise.%I', old.name);
            dropped := dropped + 1;
        exception
            when lock_not_available then exit;
        end;
    end loop;
    return dropped;
end
$$;

revoke execute
    on function handraise.add_archive_month, handraise.is_tidied, handraise.copy_settled, handraise.leave_copied, handraise.remove_archived,
        handraise.drop_archive_months
    from public;

-- As before, with what is new.
create or replace function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    grant usage on schema handraise to handraise_app;
    grant select on handraise.migrations, handraise.archive_hand, handraise.archive_index to handraise_app;
    grant select, insert on handraise.events to handraise_app;
    grant select, update on handraise.archive to handraise_app;
    grant select, insert, update on handraise.questions, handraise.grants, handraise.agent_keys, handraise.policies,
        handraise.deliveries to handraise_app;
    grant select, insert, update, delete
        on handraise.inbox, handraise.listeners, handraise.people, handraise.requests, handraise.addresses
        to handraise_app;
    grant select, insert, delete
        on handraise.members, handraise.sessions, handraise.links, handraise.question_links, handraise.outbox
        to handraise_app;
    grant execute
        on function handraise.due_workspaces, handraise.pulse, handraise.forget, handraise.forget_question_links,
            handraise.workspaces_with_lines, handraise.workspaces_with_due, handraise.copy_settled,
            handraise.leave_copied, handraise.remove_archived, handraise.drop_archive_months
        to handraise_app;
end
$$;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
end
$$;
