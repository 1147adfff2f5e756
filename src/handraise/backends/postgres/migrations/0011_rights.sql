-- oldest release: 0.1.0
-- Votes and grants are looked at again when they are used: what the directory gave, it can take away.

-- With whose right each vote was given: null is that of somebody whom the directory did not know, false one that only the
-- calling program vouched for, true the directory's own. It names also those whose votes were dropped. The archive has
-- the same columns in the same order.
alter table handraise.questions add column voters jsonb;
alter table handraise.archive add column voters jsonb;

-- The same for the giver of a grant, with the groups that were vouched for.
alter table handraise.grants add column giver_groups jsonb;
alter table handraise.grants add column giver_backed boolean;

-- What those lock who change a group.
create function handraise.group_lock(workspace text, group_name text) returns bigint
    language sql stable parallel safe
    return hashtextextended(json_build_array(workspace, group_name)::text, 0);

-- Who may answer a question now: its recipients and those escalated to. Empty is anyone.
create function handraise.audience(recipients jsonb, steps jsonb, steps_taken integer) returns jsonb
    language sql immutable parallel safe
    return case
        when recipients = '[]' or steps_taken = 0 then recipients
        else recipients || coalesce(
            (
                select jsonb_agg(name)
                from jsonb_array_elements(steps) with ordinality as s (step, place),
                    jsonb_array_elements(step -> 'to') as name
                where place <= steps_taken
            ),
            '[]'
        )
    end;

-- Whether a person may answer, by the directory's word; null where it does not know them. Whoever takes them out, or changes
-- a group of the audience, waits until this transaction has ended; and what they have committed is seen, because every
-- query in here looks anew.
create function handraise.is_backed(workspace text, person text, audience jsonb) returns boolean
    language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    perform from handraise.people as p
    where p.workspace = is_backed.workspace and p.id = is_backed.person
    for key share;
    if not found then
        return null;
    end if;
    if audience = '[]' or audience ? person then
        return true;
    end if;
    perform pg_advisory_xact_lock_shared(handraise.group_lock(is_backed.workspace, substr(a.name, 7)))
    from (
        select distinct name from jsonb_array_elements_text(audience) as n (name)
        where starts_with(name, 'group:')
        order by name
    ) as a;
    return exists (
        select from handraise.members as m
        where m.workspace = is_backed.workspace and m.person = is_backed.person
            and audience ? ('group:' || m.group_name)
    );
end
$$;

-- Whether somebody who had a right may still answer, `groups` being those that were vouched for then; null where what was
-- vouched for need not be looked at again.
create function handraise.is_still_backed(
    workspace text, person text, backed boolean, groups jsonb, audience jsonb
) returns boolean
    language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
declare
    now_backed boolean;
begin
    if backed is not null then
        now_backed := handraise.is_backed(workspace, person, audience);
        if backed or now_backed is null then
            return coalesce(now_backed, false);
        end if;
    end if;
    return groups is null or audience = '[]' or audience ? person
        or audience ?| array(select jsonb_array_elements_text(groups));
end
$$;
