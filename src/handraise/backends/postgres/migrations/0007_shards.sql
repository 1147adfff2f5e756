-- oldest release: 0.1.0
-- Workspaces spread over several databases. The first two tables are of use where the placement of workspaces is kept,
-- the others in every database that is a shard. Where nothing is spread, all of them stay empty.

-- Every shard and how it is reached; a closed one gets no new workspaces.
create table handraise.shards (
    number        integer     primary key check (number > 0),
    address       text        not null,
    open          boolean     not null default true
);

-- Where each workspace lives, and where it is going while it moves.
create table handraise.placements (
    shard         integer     not null references handraise.shards,
    going_to      integer     references handraise.shards,
    workspace     text        collate "C" primary key,
    move          text        collate "C",
    check ((going_to is null) = (move is null))
);

-- Which shard this database is.
create table handraise.shard (
    only_one      boolean     primary key default true check (only_one),
    number        integer     not null
);

-- By whose transactions events are numbered. The epoch counts how often that had to get ahead of what was there: when a
-- workspace came from another shard, or when a dump was restored in another cluster.
create table handraise.numbering (
    only_one      boolean     primary key default true check (only_one),
    epoch         integer     not null default 0,
    cluster       text        collate "C"
);

-- The name that a cluster has for life; null where it is kept from us.
create function handraise.cluster() returns text
    language plpgsql stable set search_path = pg_catalog, pg_temp
as $$
begin
    return (select system_identifier::text from pg_control_system());
exception when insufficient_privilege then
    return null;
end
$$;

insert into handraise.numbering (cluster) values (handraise.cluster());

-- Workspaces that are moving or have moved; one that never did is at home and not here. One leaves, and what changes
-- is noted, with its writes held back until `fenced_until`; it is away; it arrives, and is not to be used yet; or it has
-- come home by a move, which cannot be made a second time.
create table handraise.homes (
    fenced_until  timestamptz,
    shard         integer     not null,
    workspace     text        collate "C" primary key,
    state         text        collate "C" not null check (state in ('home', 'leaving', 'away', 'arriving')),
    move          text        collate "C" not null,
    mover         text        collate "C" not null,
    progress      jsonb
);

-- What was written in workspaces that leave, by the keys of its rows.
create table handraise.changes (
    number        bigint      generated always as identity,
    workspace     text        collate "C" not null,
    relation      text        collate "C" not null,
    key           jsonb       not null,
    primary key (workspace, number)
);

do $$
declare
    walled regclass;
begin
    foreach walled in array array['handraise.placements', 'handraise.homes', 'handraise.changes']::regclass[]
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

create policy seen_when_moving on handraise.homes for select to current_user using (true);
-- Whoever makes a database a shard looks for the workspaces that it has, and for how many live where.
create policy seen_when_adopted on handraise.placements for select to current_user using (true);
create policy seen_when_adopted on handraise.people for select to current_user using (true);
create policy seen_when_adopted on handraise.agent_keys for select to current_user using (true);
create policy seen_when_adopted on handraise.addresses for select to current_user using (true);
create policy seen_when_adopted on handraise.policies for select to current_user using (true);

-- Which of these workspaces cannot be read here, because they live elsewhere.
create function handraise.elsewhere(workspaces text[]) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select h.workspace from handraise.homes as h
    where h.workspace = any (elsewhere.workspaces) and h.state in ('away', 'arriving');
end;

-- Whether there is nothing to look up, because no workspace has ever moved.
create function handraise.nobody_moves() returns boolean
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select not exists (select from handraise.homes);
end;

-- Whether a workspace can be written to here.
create function handraise.is_writable(workspace text) returns boolean
    language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
    select not exists (
        select from handraise.homes as h
        where h.workspace = is_writable.workspace
            and (h.state in ('away', 'arriving') or h.fenced_until > clock_timestamp())
    );
end;

-- A workspace that moves is left as it is until it has moved; and where rows of one may come, every month stays.
create or replace function handraise.is_tidied(workspace text) returns boolean
    language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select not exists (
        select from handraise.homes as h
        where case
            when is_tidied.workspace is null then h.state in ('leaving', 'arriving')
            else h.workspace = is_tidied.workspace and h.state <> 'home'
        end
    );
end;

-- The transaction below which every event of every feed is there for good. Events are given out behind the epoch, so that
-- a workspace takes its events along as they are, and those to come are behind them.
create function handraise.feed_edge() returns xid8
    language sql stable parallel safe
begin atomic
    select coalesce(
        (
            select ((n.epoch::bigint << 44) + pg_snapshot_xmin(pg_current_snapshot())::text::bigint)::text::xid8
            from handraise.numbering as n
            where n.epoch > 0
        ),
        pg_snapshot_xmin(pg_current_snapshot())
    );
end;

-- Get ahead of all events of lower epochs. The lock lets every transaction finish that gives out events of this one.
create function handraise.raise_epoch(at_least integer) returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    lock table handraise.events in access exclusive mode;
    update handraise.numbering set epoch = at_least where epoch < at_least;
    if found then
        execute format(
            'alter table handraise.events alter column transaction
            set default ((%s + pg_current_xact_id()::text::bigint)::text::xid8)',
            at_least::bigint << 44
        );
    end if;
end
$$;

-- Go on in this cluster, whose transactions may have lower numbers than those of the one that was dumped.
create function handraise.move_in() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    update handraise.numbering set cluster = handraise.cluster() where cluster <> handraise.cluster();
    if found then
        perform handraise.raise_epoch(epoch + 1) from handraise.numbering;
    end if;
end
$$;

-- The fence around every statement that writes. It runs when the rows are written, so its transaction has locked their
-- table; and each query in it sees what is committed by then. So whoever does not see that a workspace leaves, or is
-- fenced, is among those who have the table locked when that has been committed, and can be waited for. The lock on
-- the home keeps a workspace from being away before those are done who came when a fence had ended.
create function handraise.fence() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    home record;
begin
    if current_setting('handraise.moving', true) = 'on' then
        return null;
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'a shard is written to at read committed' using errcode = 'HR003';
    end if;
    for home in
        select h.workspace, h.state, h.fenced_until, h.shard
        from handraise.homes as h
        where h.state <> 'home' and h.workspace in (select t.workspace from touched as t)
        order by h.workspace
        for key share of h
    loop
        if home.state <> 'leaving' then
            raise exception 'a workspace lives on another shard' using errcode = 'HR001';
        elsif home.fenced_until > clock_timestamp() then
            raise exception 'a workspace is about to move to another shard' using errcode = 'HR002';
        end if;
        insert into handraise.changes (workspace, relation, key)
        select distinct t.workspace, tg_table_name, k.key
        from touched as t
        cross join lateral (
            select jsonb_object_agg(c.name, to_jsonb(t) -> c.name) as key from unnest(tg_argv) as c (name)
        ) as k
        where t.workspace = home.workspace;
    end loop;
    return null;
end
$$;

-- Put the fence around every table of workspaces that has none yet, and tell how many triggers that took. Every
-- transition of a question leaves an event, so the hot tables need none of their own.
create function handraise.raise_fences() returns integer
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
declare
    fence record;
    number integer := 0;
begin
    for fence in
        select
            c.oid::regclass as name, w.event, w.touched,
            case c.relname
                when 'events' then $q$'question_id'$q$
                when 'deliveries' then $q$'workspace', 'id', 'question_id'$q$
                else (
                    select string_agg(quote_literal(a.attname), ', ' order by k.place)
                    from pg_index as i
                    cross join lateral unnest(i.indkey) with ordinality as k (number, place)
                    join pg_attribute as a on a.attrelid = c.oid and a.attnum = k.number
                    where i.indrelid = c.oid and i.indisprimary
                )
            end as columns
        from pg_class as c
        cross join (values ('insert', 'new'), ('update', 'new'), ('delete', 'old')) as w (event, touched)
        where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
            and exists (select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'workspace')
            and c.relname not in ('placements', 'homes', 'changes', 'inbox')
            and (c.relname <> 'events' or w.event = 'insert')
            and (c.relname <> 'questions' or w.event = 'delete')
            and not exists (
                select from pg_trigger as t where t.tgrelid = c.oid and t.tgname = 'fence_' || w.event
            )
    loop
        execute format(
            'create trigger %I after %s on %s referencing %s table as touched
            for each statement execute function handraise.fence(%s)',
            'fence_' || fence.event, fence.event, fence.name, fence.touched, fence.columns
        );
        number := number + 1;
    end loop;
    return number;
end
$$;

-- What is copied has left its line where it happened.
drop trigger line_up on handraise.events;
create trigger line_up after insert on handraise.events
    referencing new table as happened
    for each statement
    when (current_setting('handraise.moving', true) is distinct from 'on')
    execute function handraise.line_up();

revoke execute
    on function handraise.elsewhere, handraise.nobody_moves, handraise.is_writable, handraise.raise_epoch,
        handraise.move_in, handraise.raise_fences
    from public;

-- As before, with what is new. A desk may complete a move that has been decided.
alter function handraise.allow_app rename to allow_app_before_shards;

create function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.allow_app_before_shards();
    grant select on handraise.shards, handraise.shard, handraise.numbering to handraise_app;
    grant select, insert, update on handraise.placements to handraise_app;
    grant select, update on handraise.homes to handraise_app;
    grant insert on handraise.changes to handraise_app;
    grant execute on function handraise.elsewhere, handraise.nobody_moves, handraise.is_writable to handraise_app;
end
$$;

revoke execute on function handraise.allow_app from public;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
end
$$;
