-- oldest release: 0.1.0
-- What must be told to whom, kept with the questions until it is done.

-- Where recipients can be reached: a person, a group ('group:ops') or anyone ('*').
create table handraise.addresses (
    workspace     text        collate "C" not null,
    recipient     text        collate "C" not null,
    channel       text        collate "C" not null,
    id            text        collate "C" not null,
    destination   json        not null,
    primary key (workspace, recipient, channel, id)
);

create index addresses_by_id on handraise.addresses (workspace, channel, id);

create table handraise.policies (
    workspace     text        collate "C" primary key,
    policy        json        not null
);

-- Events that nobody has been told of yet.
create table handraise.outbox (
    at            timestamptz not null,
    number        bigint      generated always as identity,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    kind          text        collate "C" not null,
    data          jsonb,
    primary key (workspace, number)
);

-- Until now nothing wrote to this table. A delivery that is being tried is due again when its lease ends, so that
-- one instant says all; it is null where nothing is left to do.
drop index handraise.deliveries_by_due;
alter table handraise.deliveries
    drop column leased_until,
    drop column data,
    alter column due_at drop not null,
    add column sent_at     timestamptz,
    add column turn        integer not null default 0,
    add column stale       boolean not null default false,
    add column asker       text    collate "C" not null,
    add column reason      text    collate "C" not null,
    add column lane        text    collate "C" not null,
    add column bundle      text    collate "C",
    add column destination json    not null,
    add column receipt     json,
    add column problem     text,
    add check (status in ('queued', 'sent', 'updated', 'unsent', 'failed', 'unknown'));

create index deliveries_by_due on handraise.deliveries (due_at) where due_at is not null;
create index deliveries_by_workspace_and_due on handraise.deliveries (workspace, due_at) where due_at is not null;
-- With the id: what waited for the same hour, of many people, is due at the same instant.
create index deliveries_by_lane on handraise.deliveries (workspace, channel, lane, due_at, id) where due_at is not null;
create index deliveries_by_bundle on handraise.deliveries (workspace, bundle) where bundle is not null;
create index deliveries_by_creation on handraise.deliveries (workspace, created_at);

alter table handraise.questions add column unreached_at timestamptz;

-- An event leaves its line in its own transaction, whoever writes it, where the workspace has any address at all; and
-- an ending where somebody was told of the question.
create function handraise.line_up() returns trigger
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    insert into handraise.outbox (at, workspace, question_id, kind, data)
    select e.at, e.workspace, e.question_id, e.kind, case when e.kind = 'escalated' then e.data end
    from happened as e
    where e.kind in (
            'asked', 'reminded', 'escalated', 'answered', 'declined', 'expired', 'withdrawn', 'exhausted'
        )
        and (
            exists (select from handraise.addresses as a where a.workspace = e.workspace)
            or e.kind not in ('asked', 'reminded', 'escalated') and exists (
                select from handraise.deliveries as d
                where d.workspace = e.workspace and d.question_id = e.question_id
            )
        );
    return null;
end
$$;

create trigger line_up after insert on handraise.events
    referencing new table as happened
    for each statement execute function handraise.line_up();

do $$
declare
    walled regclass;
begin
    foreach walled in array array['handraise.addresses', 'handraise.policies', 'handraise.outbox']::regclass[]
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

create policy seen_when_due on handraise.outbox for select to current_user using (true);

-- The names of workspaces that have lines, walking from one to the next.
create function handraise.workspaces_with_lines(at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with recursive walk (workspace) as (
        (select o.workspace from handraise.outbox as o order by o.workspace limit 1)
        union all
        select (
            select o.workspace from handraise.outbox as o
            where o.workspace > walk.workspace order by o.workspace limit 1
        )
        from walk
        where walk.workspace is not null
    )
    select walk.workspace from walk where walk.workspace is not null limit workspaces_with_lines.at_most;
end;

-- The names of workspaces in which a delivery is due; as in `due_workspaces`, many of one do not hide the others.
create function handraise.workspaces_with_due(now timestamptz, at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with recursive oldest as materialized (
        select d.workspace
        from handraise.deliveries as d
        where d.due_at <= workspaces_with_due.now
        order by d.due_at
        limit 1000
    ),
    many as materialized (
        select count(*) = 1000 as so from oldest
    ),
    walk (workspace, due_at) as (
        select '' collate "C", null::timestamptz from many where many.so
        union all
        select following.workspace, following.due_at
        from walk
        cross join lateral (
            select d.workspace, d.due_at
            from handraise.deliveries as d
            where d.due_at is not null and d.workspace > walk.workspace
            order by d.workspace, d.due_at
            limit 1
        ) as following
    )
    (select distinct oldest.workspace from oldest, many where not many.so)
    union all
    (select walk.workspace from walk where walk.due_at <= workspaces_with_due.now)
    limit workspaces_with_due.at_most;
end;

revoke execute on function handraise.workspaces_with_lines, handraise.workspaces_with_due from public;

-- As before, with what is new.
create or replace function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    grant usage on schema handraise to handraise_app;
    grant select on handraise.migrations to handraise_app;
    grant select, insert on handraise.events to handraise_app;
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
            handraise.workspaces_with_lines, handraise.workspaces_with_due
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
