-- oldest release: 0.1.0
-- Who made the link that a session began with, if that was somebody else.
alter table handraise.links add column vouched_by text collate "C";
alter table handraise.sessions add column vouched_by text collate "C";

-- As before, and in the links and sessions that a person vouched for.
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
