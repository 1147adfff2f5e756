-- oldest release: 0.1.0
-- Events of a workspace: what is about no question has an empty text in the place of the question's id.
create index events_of_workspaces on handraise.events (workspace, transaction, number) where question_id = '';

-- Whoever looks for what is to be sealed sees just this much more.
create policy seen_when_sealed on handraise.events for select to current_user using (question_id = '');

-- As before, and workspaces in which nothing was asked yet.
create or replace function handraise.unsealed_workspaces(at_most integer) returns setof text
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspace', true), '');
    walked text := '';
    behind boolean;
    found_so_far integer := 0;
begin
    loop
        select least(
            (
                select q.workspace from handraise.questions as q
                where q.workspace > walked order by q.workspace limit 1
            ),
            (
                select x.workspace from handraise.archive_index as x
                where x.workspace > walked order by x.workspace limit 1
            ),
            (
                select r.workspace from handraise.removals as r
                where r.seal is null and r.workspace > walked order by r.workspace limit 1
            ),
            (
                select e.workspace from handraise.events as e
                where e.question_id = '' and e.workspace > walked order by e.workspace limit 1
            )
        )
        into walked;
        exit when walked is null or found_so_far >= at_most;
        perform set_config('handraise.workspace', encode(convert_to(walked, 'UTF8'), 'hex'), true);
        select
            exists (select from handraise.removals as r where r.workspace = walked and r.seal is null)
            or coalesce(
                (newest.transaction, newest.number) > (sealed.last_transaction, sealed.last_number),
                newest.number is not null
            )
        into behind
        from (select) as one
        left join lateral (
            select e.transaction, e.number
            from handraise.events as e
            where e.workspace = walked
            order by e.transaction desc, e.number desc
            limit 1
        ) as newest on true
        left join lateral (
            select s.last_transaction, s.last_number
            from handraise.seals as s
            where s.workspace = walked
            order by s.number desc
            limit 1
        ) as sealed on true;
        if behind then
            found_so_far := found_so_far + 1;
            return next walked;
        end if;
    end loop;
    perform set_config('handraise.workspace', home, true);
end
$$;

-- The events of a workspace that a person did, or that concern them.
create function handraise.events_about(workspace text, person text) returns setof handraise.events
    language sql stable set search_path = pg_catalog, pg_temp
begin atomic
    select e.*
    from handraise.events as e
    where e.workspace = events_about.workspace and e.question_id = ''
        and (e.actor = events_about.person or e.data -> 'people' ? events_about.person);
end;

revoke execute on function handraise.events_about from public;

-- As before, and the events of the workspace that concern the person; a removal says so.
create or replace function handraise.erase_person(workspace text, person text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if not handraise.is_tidied(erase_person.workspace) then
        raise exception 'a workspace is about to move to another shard' using errcode = 'HR002';
    end if;
    perform set_config(
        'handraise.workspace', encode(convert_to(erase_person.workspace, 'UTF8'), 'hex'), true
    );
    -- A seal is not made of what goes at the same time.
    perform pg_advisory_xact_lock(handraise.seal_lock(erase_person.workspace));
    insert into handraise.removals (at, workspace, question_id, what, actor, cursors)
    select
        now(), c.workspace, '', 'erased', null,
        string_agg(c.transaction::text || '.' || c.number::text, ',' order by c.transaction, c.number)
    from handraise.events_about(erase_person.workspace, erase_person.person) as c
    where exists (select from handraise.seals as s where s.workspace = erase_person.workspace)
    group by c.workspace;
    delete from handraise.events as e
    using handraise.events_about(erase_person.workspace, erase_person.person) as c
    where e.workspace = c.workspace and e.transaction = c.transaction and e.number = c.number;
    delete from handraise.people as p where p.workspace = erase_person.workspace and p.id = erase_person.person;
    delete from handraise.addresses as a
    where a.workspace = erase_person.workspace and a.recipient = erase_person.person;
    delete from handraise.deliveries as d
    where d.workspace = erase_person.workspace and d.recipient = erase_person.person;
    delete from handraise.requests as r
    where r.workspace = erase_person.workspace and starts_with(r.actor, 'person:' || erase_person.person || ' since ');
    update handraise.agent_keys as k
    set created_by = case k.created_by when erase_person.person then 'erased' else k.created_by end,
        revoked_by = case k.revoked_by when erase_person.person then 'erased' else k.revoked_by end
    where k.workspace = erase_person.workspace and erase_person.person in (k.created_by, k.revoked_by);
    update handraise.grants as g set revoked_by = 'erased'
    where g.workspace = erase_person.workspace and g.revoked_by = erase_person.person;
    update handraise.question_links as l set created_by = 'erased'
    where l.workspace = erase_person.workspace and l.created_by = erase_person.person;
    update handraise.links as l set vouched_by = 'erased'
    where l.workspace = erase_person.workspace and l.vouched_by = erase_person.person;
    update handraise.sessions as s set vouched_by = 'erased'
    where s.workspace = erase_person.workspace and s.vouched_by = erase_person.person;
end
$$;
