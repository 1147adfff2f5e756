-- oldest release: 0.1.0
-- Links with which one person answers one question, as often as they look at it, until they end. Of the secret only
-- the digest is kept.
create table handraise.question_links (
    created_at    timestamptz not null,
    expires_at    timestamptz not null,
    workspace     text        collate "C" not null,
    id            text        collate "C" not null,
    digest        text        collate "C" not null,
    question_id   text        collate "C" not null,
    person        text        collate "C" not null,
    channel       text        collate "C" not null,
    created_by    text        collate "C" not null,
    primary key (workspace, id),
    unique (workspace, digest),
    foreign key (workspace, person) references handraise.people on delete cascade
);

create index question_links_by_question on handraise.question_links (workspace, question_id);
create index question_links_by_person on handraise.question_links (workspace, person);
create index question_links_by_end on handraise.question_links (expires_at);

alter table handraise.question_links enable row level security, force row level security;
create policy workspace on handraise.question_links
    using (workspace = (select handraise.workspace()))
    with check (workspace = (select handraise.workspace()));

-- As for other links: what forgets them runs as the owner, who may see and delete just this much more.
create policy found_when_over on handraise.question_links for select to current_user using (true);
create policy forgotten on handraise.question_links for delete to current_user using (true);

-- Forget the question links that ended before an instant, at most so many, and tell how many.
create function handraise.forget_question_links(before timestamptz, at_most integer) returns bigint
    language sql security definer set search_path = pg_catalog, pg_temp
begin atomic
    with old as (
        delete from handraise.question_links as l
        where l.expires_at < forget_question_links.before and l.ctid = any (array(
            select o.ctid from handraise.question_links as o
            where o.expires_at < forget_question_links.before
            order by o.expires_at limit forget_question_links.at_most
        ))
        returning 1
    )
    select count(*) from old;
end;

-- As before, with what is new.
create or replace function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    grant usage on schema handraise to handraise_app;
    grant select on handraise.migrations to handraise_app;
    grant select, insert on handraise.events to handraise_app;
    grant select, insert, update on handraise.questions, handraise.grants, handraise.agent_keys to handraise_app;
    grant select, insert, update, delete
        on handraise.inbox, handraise.listeners, handraise.people, handraise.requests to handraise_app;
    grant select, insert, delete
        on handraise.members, handraise.sessions, handraise.links, handraise.question_links to handraise_app;
    grant execute
        on function handraise.due_workspaces, handraise.pulse, handraise.forget, handraise.forget_question_links
        to handraise_app;
end
$$;

revoke execute on function handraise.forget_question_links from public;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
end
$$;
