-- oldest release: 0.1.0
-- Who is who, for a desk that is shared over a network; and walls between workspaces that PostgreSQL itself
-- keeps up, whatever a statement says.

-- First, because the longest: while it is built, only writing to the inbox waits.
create index inbox_by_workspace_and_due on handraise.inbox (workspace, due_at) where due_at is not null;

alter table handraise.listeners add column feeds boolean not null default false;

-- Of a secret only the digest is kept.
create table handraise.agent_keys (
    created_at    timestamptz not null,
    last_used_at  timestamptz,
    revoked_at    timestamptz,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    agent         text        collate "C" not null,
    created_by    text        collate "C" not null,
    revoked_by    text        collate "C",
    primary key (workspace, id),
    unique (workspace, digest)
) with (fillfactor = 75);

-- `email` is as it was written; `email_folded` is what two addresses are compared by. Python folds it, so that
-- it does not depend on the database's locale.
create table handraise.people (
    created_at    timestamptz not null,
    signed_in_at  timestamptz,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    role          text        collate "C" not null check (role in ('member', 'admin')),
    name          text        not null,
    email         text        collate "C",
    email_folded  text        collate "C",
    primary key (workspace, id),
    unique (workspace, email_folded),
    check ((email is null) = (email_folded is null))
) with (fillfactor = 75);

-- The span in which a question was asked, as a W3C traceparent: whoever answers links to it.
alter table handraise.questions add column trace text collate "C";

-- What belongs to a person refers to them, unlike the rows of questions: whoever comes in while they are being
-- taken out must not find a session left over when they come back.
create table handraise.members (
    workspace     text        collate "C" not null,
    group_name    text        collate "C" not null,
    person        text        collate "C" not null,
    primary key (workspace, group_name, person),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index members_by_person on handraise.members (workspace, person);

-- The groups of a person, as a JSON array.
create function handraise.groups_of(workspace text, person text) returns json
    language sql stable parallel safe
    return (
        select coalesce(json_agg(m.group_name order by m.group_name), '[]')
        from handraise.members as m
        where m.workspace = groups_of.workspace and m.person = groups_of.person
    );

create table handraise.sessions (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    person        text        collate "C" not null,
    how           text        collate "C" not null,
    primary key (workspace, id),
    unique (workspace, digest),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index sessions_by_person on handraise.sessions (workspace, person);
create index sessions_by_end on handraise.sessions (expires_at);

-- A link that was used is gone.
create table handraise.links (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    person        text        collate "C" not null,
    purpose       text        collate "C" not null check (purpose in ('invitation', 'sign-in')),
    primary key (workspace, id),
    unique (workspace, digest),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index links_by_person on handraise.links (workspace, person);
create index links_by_end on handraise.links (expires_at);

-- Requests by their idempotency keys. `turns` counts who took one on; it is finished once it has a status.
create table handraise.requests (
    began_at      timestamptz not null,
    turns         integer     not null default 1,
    status        integer,
    released      boolean     not null default false,
    workspace     text        collate "C" not null,
    actor         text        collate "C" not null,
    key           text        collate "C" not null,
    fingerprint   text        collate "C" not null,
    made          text        collate "C" not null,
    body          text,
    primary key (workspace, actor, key),
    check ((status is null) = (body is null))
) with (fillfactor = 75);

create index requests_by_beginning on handraise.requests (began_at);

-- The workspace that a transaction is about. The setting holds the hex of its UTF-8: whoever sets it has nothing
-- to quote. Unset it is null, after a transaction that set it is empty; null equals nothing, so no row is seen.
create function handraise.workspace() returns text
    language sql stable parallel safe
    return convert_from(decode(nullif(current_setting('handraise.workspace', true), ''), 'hex'), 'UTF8');

-- The sub-select makes the setting be read once for each statement, not once for each row.
do $$
declare
    walled regclass;
begin
    for walled in
        select c.oid
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid
        where c.relnamespace = 'handraise'::regnamespace and c.relkind = 'r' and a.attname = 'workspace'
        order by c.relname
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

-- Three things concern all workspaces. Each is a function that gives out no more than it must and runs as the
-- owner, who is walled in like everybody else unless it is a superuser, and may see just this much more.
create policy seen_when_due on handraise.inbox for select to current_user using (true);
create policy counted on handraise.questions for select to current_user using (true);
create policy counted on handraise.deliveries for select to current_user using (true);
create policy found_when_over on handraise.requests for select to current_user using (true);
create policy forgotten on handraise.requests for delete to current_user using (true);
create policy found_when_over on handraise.links for select to current_user using (true);
create policy forgotten on handraise.links for delete to current_user using (true);
create policy found_when_over on handraise.sessions for select to current_user using (true);
create policy forgotten on handraise.sessions for delete to current_user using (true);

-- The names of workspaces with due deeds. Where few are due, these tell; else a walk goes from the first deed of
-- one workspace to that of the next, so that one with a million due deeds does not hide the others.
create function handraise.due_workspaces(now timestamptz, at_most integer) returns setof text
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with recursive oldest as materialized (
        select i.workspace
        from handraise.inbox as i
        where i.due_at <= due_workspaces.now
        order by i.due_at
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
            select i.workspace, i.due_at
            from handraise.inbox as i
            where i.due_at is not null and i.workspace > walk.workspace
            order by i.workspace, i.due_at
            limit 1
        ) as following
    )
    (select distinct oldest.workspace from oldest, many where not many.so)
    union all
    (select walk.workspace from walk where walk.due_at <= due_workspaces.now)
    limit due_workspaces.at_most;
end;

-- How many pending questions are at most so old, for each age in seconds, and deliveries by their status.
create function handraise.pulse(
    now timestamptz, ages double precision[], out pending bigint[], out deliveries json
)
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    with aged as materialized (
        select extract(epoch from pulse.now - q.asked_at)::double precision as age
        from (
            select i.workspace, i.question_id from handraise.inbox as i where i.main limit 100000
        ) as counted
        join handraise.questions as q on q.workspace = counted.workspace and q.id = counted.question_id
    ),
    sent as (
        select counted.status, count(*) as number
        from (select d.status from handraise.deliveries as d limit 100000) as counted
        group by counted.status
    )
    select
        array(
            select (select count(*) from aged where aged.age <= a.age)
            from unnest(pulse.ages) with ordinality as a (age, place)
            order by a.place
        ),
        (select coalesce(json_object_agg(sent.status, sent.number), '{}') from sent);
end;

-- Forget what was over before an instant, at most so many of each kind, and tell how many. The time is asked for
-- twice, because a request may be claimed again between being found and being deleted.
create function handraise.forget(before timestamptz, at_most integer) returns bigint
    language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    with old_requests as (
        delete from handraise.requests as r
        where r.began_at < forget.before and r.ctid = any (array(
            select o.ctid from handraise.requests as o
            where o.began_at < forget.before order by o.began_at limit forget.at_most
        ))
        returning 1
    ),
    old_links as (
        delete from handraise.links as l
        where l.expires_at < forget.before and l.ctid = any (array(
            select o.ctid from handraise.links as o
            where o.expires_at < forget.before order by o.expires_at limit forget.at_most
        ))
        returning 1
    ),
    old_sessions as (
        delete from handraise.sessions as s
        where s.expires_at < forget.before and s.ctid = any (array(
            select o.ctid from handraise.sessions as o
            where o.expires_at < forget.before order by o.expires_at limit forget.at_most
        ))
        returning 1
    )
    select (select count(*) from old_requests) + (select count(*) from old_links)
        + (select count(*) from old_sessions);
end;

-- What the application's role may do, which is what the statements need. The owner can call it again where the
-- role was made later.
create function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    grant usage on schema handraise to handraise_app;
    grant select on handraise.migrations to handraise_app;
    grant select, insert on handraise.events to handraise_app;
    grant select, insert, update on handraise.questions, handraise.grants, handraise.agent_keys to handraise_app;
    grant select, insert, update, delete
        on handraise.inbox, handraise.listeners, handraise.people, handraise.requests to handraise_app;
    grant select, insert, delete on handraise.members, handraise.sessions, handraise.links to handraise_app;
    grant execute
        on function handraise.due_workspaces, handraise.pulse, handraise.forget to handraise_app;
end
$$;

revoke execute
    on function handraise.due_workspaces, handraise.pulse, handraise.forget, handraise.allow_app from public;

-- Roles belong to the whole cluster: another database may have made this one, or be making it at this moment.
-- Who may not make roles goes on without; opening a desk that must be confined then says what to do.
do $$
begin
    create role handraise_app nologin;
    grant handraise_app to current_user;
exception
    when duplicate_object or unique_violation or insufficient_privilege then null;
end
$$;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
end
$$;
