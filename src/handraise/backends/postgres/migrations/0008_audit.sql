-- oldest release: 0.1.0
-- The audit trail: seals over events, what was removed, how long each workspace keeps what is settled, and what is held.
-- Everything here is new and empty, except for `seals`, to which nothing has written until now.

drop table handraise.seals;

-- A batch of events and of removals, chained to the one before. `leaves` are digests of 32 bytes, one after the other;
-- `cursors` has the places of the events, so that a leaf is known when its event is gone.
create table handraise.seals (
    number           bigint      not null,
    oldest           bigint      not null,
    last_transaction xid8        not null,
    last_number      bigint      not null,
    sealed_at        timestamptz not null,
    workspace        text        collate "C" not null,
    previous         bytea       not null,
    leaves           bytea       not null,
    cursors          text        not null,
    signature        bytea,
    key_id           text        collate "C",
    primary key (workspace, number)
);

create index seals_by_key on handraise.seals (workspace, key_id) where key_id is not null;

-- What the digests of a question's events are salted with. It goes with the question.
create table handraise.salts (
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    salt          bytea       not null,
    primary key (workspace, question_id)
);

-- Questions that are gone, with the places of their events, and the seal that says so once there is one.
create table handraise.removals (
    number        bigint      generated always as identity,
    seal          bigint,
    at            timestamptz not null,
    workspace     text        collate "C" not null,
    question_id   text        collate "C" not null,
    what          text        collate "C" not null check (what in ('erased', 'removed')),
    actor         text        collate "C",
    cursors       text        not null,
    primary key (workspace, number)
);

create index removals_unsealed on handraise.removals (workspace, number) where seal is null;
create index removals_by_seal on handraise.removals (workspace, seal, number) where seal is not null;

-- How long a workspace keeps settled questions, where it has a rule of its own; null is for ever.
create table handraise.retention (
    keep          interval,
    workspace     text        collate "C" primary key
);

-- What is neither removed nor erased: a whole workspace, or one question of it.
create table handraise.holds (
    since         timestamptz not null,
    workspace     text        collate "C" not null,
    name          text        collate "C" not null,
    question_id   text        collate "C",
    reason        text        not null,
    actor         text        collate "C" not null,
    primary key (workspace, name)
);

create index archive_index_by_workspace_and_end on handraise.archive_index (workspace, settled_at);

do $$
declare
    walled regclass;
begin
    foreach walled in array array[
        'handraise.seals', 'handraise.salts', 'handraise.removals', 'handraise.retention', 'handraise.holds'
    ]::regclass[]
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

-- Whoever looks for what is to be sealed or removed sees just this much more.
create policy seen_when_sealed on handraise.seals for select to current_user using (true);
create policy seen_when_sealed on handraise.removals for select to current_user using (seal is null);
create policy seen_when_over on handraise.retention for select to current_user using (true);
create policy seen_when_over on handraise.holds for select to current_user using (true);

-- What keeps a seal, and a question's going, from getting in each other's way.
create function handraise.seal_lock(workspace text) returns bigint
    language sql immutable parallel safe
    return hashtextextended('handraise seal ' || workspace, 0);

-- The names of workspaces with events or removals that no seal covers, walking from one to the next. Events are looked at
-- inside the walls of one workspace after the other, as the owner is bound by them too.
create function handraise.unsealed_workspaces(at_most integer) returns setof text
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

-- Add a seal, unless its number is taken or its events are not all there, and tell whether it was added. Seals before its
-- oldest go, and what they said was removed.
create function handraise.append_seal(
    workspace text, number bigint, oldest bigint, after_transaction xid8, after_number bigint, last_transaction xid8,
    last_number bigint, sealed_at timestamptz, previous bytea, leaves bytea, cursors text, events bigint,
    signature bytea, key_id text, removals bigint[]
) returns boolean
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    found_events bigint;
begin
    if not pg_try_advisory_xact_lock(handraise.seal_lock(append_seal.workspace)) then
        return false;
    end if;
    perform set_config(
        'handraise.workspace', encode(convert_to(append_seal.workspace, 'UTF8'), 'hex'), true
    );
    select count(*) into found_events
    from handraise.events as e
    where e.workspace = append_seal.workspace
        and (e.transaction, e.number) > (append_seal.after_transaction, append_seal.after_number)
        and (e.transaction, e.number) <= (append_seal.last_transaction, append_seal.last_number);
    if found_events <> append_seal.events or append_seal.number <> 1 + coalesce(
        (select max(s.number) from handraise.seals as s where s.workspace = append_seal.workspace), 0
    ) then
        return false;
    end if;
    insert into handraise.seals (
        number, oldest, last_transaction, last_number, sealed_at, workspace, previous, leaves, cursors, signature,
        key_id
    )
    values (
        append_seal.number, append_seal.oldest, append_seal.last_transaction, append_seal.last_number,
        append_seal.sealed_at, append_seal.workspace, append_seal.previous, append_seal.leaves, append_seal.cursors,
        append_seal.signature, append_seal.key_id
    );
    update handraise.removals as r set seal = append_seal.number
    where r.workspace = append_seal.workspace and r.seal is null and r.number = any (append_seal.removals);
    delete from handraise.removals as r
    where r.workspace = append_seal.workspace and r.seal < append_seal.oldest;
    delete from handraise.seals as s
    where s.workspace = append_seal.workspace and s.number < append_seal.oldest;
    return true;
end
$$;

-- As before, by the rule of each workspace, else by `before`; null is for ever. What is held stays, and where a workspace
-- is sealed, what no seal covers yet.
create or replace function handraise.remove_archived(now timestamptz, before timestamptz, at_most integer)
    returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspace', true), '');
    old record;
    ids text[];
    removed bigint := 0;
begin
    if before is null and not exists (select from handraise.retention as r where r.keep is not null) then
        return 0;
    end if;
    perform from handraise.archive_hand for update skip locked;
    if not found then
        return 0;
    end if;
    for old in
        with recursive walk (workspace) as (
            (select x.workspace from handraise.archive_index as x order by x.workspace limit 1)
            union all
            select (
                select x.workspace
                from handraise.archive_index as x
                where x.workspace > walk.workspace
                order by x.workspace
                limit 1
            )
            from walk
            where walk.workspace is not null
        ),
        due as (
            select
                walk.workspace, case when r.workspace is null then before else now - r.keep end as before,
                (
                    select s.sealed_at
                    from handraise.seals as s
                    where s.workspace = walk.workspace
                    order by s.number desc
                    limit 1
                ) as sealed_at
            from walk
            left join handraise.retention as r on r.workspace = walk.workspace
            where walk.workspace is not null and handraise.is_tidied(walk.workspace)
                and not exists (
                    select from handraise.holds as h where h.workspace = walk.workspace and h.question_id is null
                )
        )
        select o.workspace, array_agg(o.id) as ids
        from (
            select due.workspace, over.id
            from due
            cross join lateral (
                select x.id
                from handraise.archive_index as x
                where x.workspace = due.workspace and x.settled_at < due.before
                    and (x.kept_until is null or x.kept_until <= now)
                    and not exists (
                        select from handraise.holds as h where h.workspace = x.workspace and h.question_id = x.id
                    )
                    -- What ended later than the last seal was made is not sealed; the rest is looked at below.
                    and x.settled_at <= coalesce(due.sealed_at, x.settled_at)
                order by x.settled_at
                limit at_most
            ) as over
            limit at_most
        ) as o
        group by o.workspace
    loop
        continue when not pg_try_advisory_xact_lock(handraise.seal_lock(old.workspace));
        perform set_config('handraise.workspace', encode(convert_to(old.workspace, 'UTF8'), 'hex'), true);
        with gone as (
            delete from handraise.archive_index as x
            where x.workspace = old.workspace and x.id = any (old.ids)
                and not exists (
                    select from handraise.questions as q where q.workspace = x.workspace and q.id = x.id
                )
                and not exists (
                    select from handraise.holds as h
                    where h.workspace = x.workspace and (h.question_id is null or h.question_id = x.id)
                )
                and not exists (
                    select
                    from handraise.events as e
                    where e.workspace = x.workspace and e.question_id = x.id
                        and (e.transaction, e.number) > (
                            select s.last_transaction, s.last_number
                            from handraise.seals as s
                            where s.workspace = x.workspace
                            order by s.number desc
                            limit 1
                        )
                )
            returning x.id, x.settled_at
        ),
        body as (
            delete from handraise.archive as a
            using gone
            where a.workspace = old.workspace and a.id = gone.id and a.settled_at = gone.settled_at
        )
        select array(select gone.id from gone) into ids;
        perform handraise.note_removals(old.workspace, ids, 'removed', null, now);
        delete from handraise.events as e where e.workspace = old.workspace and e.question_id = any (ids);
        delete from handraise.deliveries as d where d.workspace = old.workspace and d.question_id = any (ids);
        delete from handraise.salts as s where s.workspace = old.workspace and s.question_id = any (ids);
        removed := removed + cardinality(ids);
    end loop;
    perform set_config('handraise.workspace', home, true);
    return removed;
end
$$;

-- Note that questions go whose events are still there, where the workspace is sealed.
create function handraise.note_removals(workspace text, ids text[], what text, actor text, at timestamptz)
    returns void
    language sql set search_path = pg_catalog, pg_temp
begin atomic
    insert into handraise.removals (at, workspace, question_id, what, actor, cursors)
    select
        note_removals.at, e.workspace, e.question_id, note_removals.what, note_removals.actor,
        string_agg(e.transaction::text || '.' || e.number::text, ',' order by e.transaction, e.number)
    from handraise.events as e
    where e.workspace = note_removals.workspace and e.question_id = any (note_removals.ids)
        and exists (select from handraise.seals as s where s.workspace = note_removals.workspace)
    group by e.workspace, e.question_id;
end;

-- Erase questions, pending or not, with all that was kept of them, except for those that are held; tell which.
create function handraise.erase_questions(workspace text, ids text[], actor text, now timestamptz) returns text[]
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    wanted text[];
    gone text[];
begin
    if not handraise.is_tidied(erase_questions.workspace) then
        raise exception 'a workspace is about to move to another shard' using errcode = 'HR002';
    end if;
    perform pg_advisory_xact_lock(handraise.seal_lock(erase_questions.workspace));
    perform set_config(
        'handraise.workspace', encode(convert_to(erase_questions.workspace, 'UTF8'), 'hex'), true
    );
    select coalesce(array_agg(i.id), '{}') into wanted
    from unnest(erase_questions.ids) as i (id)
    where not exists (
        select from handraise.holds as h
        where h.workspace = erase_questions.workspace and (h.question_id is null or h.question_id = i.id)
    );
    -- First from where it is worked on, so that nobody settles it any more.
    with worked_on as (
        delete from handraise.questions as q
        where q.workspace = erase_questions.workspace and q.id = any (wanted)
        returning q.id
    ),
    archived as (
        delete from handraise.archive_index as x
        where x.workspace = erase_questions.workspace and x.id = any (wanted)
        returning x.id, x.settled_at
    ),
    body as (
        delete from handraise.archive as a
        using archived
        where a.workspace = erase_questions.workspace and a.id = archived.id and a.settled_at = archived.settled_at
    )
    select array(select worked_on.id from worked_on union select archived.id from archived) into gone;
    perform handraise.note_removals(erase_questions.workspace, gone, 'erased', erase_questions.actor, erase_questions.now);
    delete from handraise.inbox as i where i.workspace = erase_questions.workspace and i.question_id = any (gone);
    delete from handraise.events as e where e.workspace = erase_questions.workspace and e.question_id = any (gone);
    delete from handraise.deliveries as d
    where d.workspace = erase_questions.workspace and d.question_id = any (gone);
    delete from handraise.outbox as o where o.workspace = erase_questions.workspace and o.question_id = any (gone);
    delete from handraise.question_links as l
    where l.workspace = erase_questions.workspace and l.question_id = any (gone);
    delete from handraise.grants as g where g.workspace = erase_questions.workspace and g.question_id = any (gone);
    delete from handraise.salts as s where s.workspace = erase_questions.workspace and s.question_id = any (gone);
    -- What was answered to requests is kept for a day, in case they are made again.
    delete from handraise.requests as r
    where r.workspace = erase_questions.workspace
        and (r.made = any (gone) or exists (select from unnest(gone) as g (id) where strpos(r.body, g.id) > 0));
    return gone;
end
$$;

-- Erase what is kept of a person besides questions; in what others have left, their name is replaced.
create function handraise.erase_person(workspace text, person text) returns void
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if not handraise.is_tidied(erase_person.workspace) then
        raise exception 'a workspace is about to move to another shard' using errcode = 'HR002';
    end if;
    perform set_config(
        'handraise.workspace', encode(convert_to(erase_person.workspace, 'UTF8'), 'hex'), true
    );
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
end
$$;

-- The shortest that any workspace keeps what is settled, by a rule of its own.
create function handraise.shortest_keep() returns interval
    language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
    select min(r.keep) from handraise.retention as r;
end;

revoke execute
    on function handraise.unsealed_workspaces, handraise.append_seal, handraise.note_removals,
        handraise.erase_questions, handraise.erase_person, handraise.shortest_keep
    from public;

-- As before, with what is new. Seals and removals are written by functions alone.
alter function handraise.allow_app rename to allow_app_before_audit;

create function handraise.allow_app() returns void
    language plpgsql set search_path = pg_catalog, pg_temp
as $$
begin
    perform handraise.allow_app_before_audit();
    grant select on handraise.seals, handraise.removals to handraise_app;
    grant select, insert on handraise.salts to handraise_app;
    grant select, insert, update, delete on handraise.retention to handraise_app;
    grant select, insert, delete on handraise.holds to handraise_app;
    grant execute
        on function handraise.unsealed_workspaces, handraise.append_seal, handraise.erase_questions,
            handraise.erase_person, handraise.shortest_keep
        to handraise_app;
end
$$;

revoke execute on function handraise.allow_app from public;

do $$
begin
    if to_regrole('handraise_app') is not null then
        perform handraise.allow_app();
    end if;
    -- A database that is a shard puts its fence around the new tables too.
    if exists (select from handraise.shard) then
        perform handraise.raise_fences();
    end if;
end
$$;
