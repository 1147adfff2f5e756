-- oldest release: 0.1.0
-- Who is who, for a desk that is shared over a network. Of a secret only the digest is kept.

create table agent_keys (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    agent         text    not null,
    created_at    integer not null,
    created_by    text    not null,
    last_used_at  integer,
    revoked_at    integer,
    revoked_by    text,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

-- `email` is as it was written; `email_folded` is what two addresses are compared by. Python folds it: lower()
-- knows only ASCII here.
create table people (
    workspace     text    not null,
    id            text    not null,
    name          text    not null,
    email         text,
    email_folded  text,
    role          text    not null check (role in ('member', 'admin')),
    created_at    integer not null,
    signed_in_at  integer,
    primary key (workspace, id),
    unique (workspace, email_folded),
    check ((email is null) = (email_folded is null))
) strict, without rowid;

create table members (
    workspace     text    not null,
    group_name    text    not null,
    person        text    not null,
    primary key (workspace, group_name, person)
) strict, without rowid;

create index members_by_person on members (workspace, person);

create view people_with_groups as
select
    p.*,
    (
        select json_group_array(m.group_name)
        from members as m
        where m.workspace = p.workspace and m.person = p.id
    ) as groups
from people as p;

create table sessions (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    person        text    not null,
    how           text    not null,
    created_at    integer not null,
    expires_at    integer not null,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

create index sessions_by_person on sessions (workspace, person);
create index sessions_by_end on sessions (expires_at);

-- A link that was used is gone.
create table links (
    workspace     text    not null,
    id            text    not null,
    digest        text    not null,
    person        text    not null,
    purpose       text    not null check (purpose in ('invitation', 'sign-in')),
    created_at    integer not null,
    expires_at    integer not null,
    primary key (workspace, id),
    unique (workspace, digest)
) strict, without rowid;

create index links_by_person on links (workspace, person);
create index links_by_end on links (expires_at);

-- Requests by their idempotency keys. `turns` counts who took one on; it is finished once it has a status.
create table requests (
    workspace     text    not null,
    actor         text    not null,
    key           text    not null,
    fingerprint   text    not null,
    made          text    not null,
    turns         integer not null default 1,
    released      integer not null default 0,
    began_at      integer not null,
    status        integer,
    body          text,
    primary key (workspace, actor, key),
    check ((status is null) = (body is null))
) strict;

create index requests_by_beginning on requests (began_at);

-- The span in which a question was asked, as a W3C traceparent: whoever answers links to it.
alter table questions add column trace text;

-- Who listens only for settled questions is not told of feeds.
alter table listeners add column feeds integer not null default 0;
