-- oldest release: 0.1.0
-- Since when an approval that nobody has consumed is taken back. The archive has the same columns in the same order.
alter table handraise.questions add column taken_back_at timestamptz;
alter table handraise.archive add column taken_back_at timestamptz;

-- Whether an approval may still be executed: it has not lapsed, and the grant that it came from, if any, holds. The grant
-- is locked, so that a revocation that was acknowledged is seen, and a later one waits.
create function handraise.is_good(
    workspace text, form json, outcome json, settled_at timestamptz, audience jsonb, now timestamptz
) returns boolean
    language plpgsql volatile set search_path = pg_catalog, pg_temp
as $$
begin
    if settled_at + (form ->> 'valid_for')::float8 * interval '1 second' <= now then
        return false;
    end if;
    if outcome ->> 'source' is distinct from 'grant' then
        return true;
    end if;
    perform from handraise.grants as g
    where g.workspace = is_good.workspace and g.id = is_good.outcome ->> 'grant'
        and g.revoked_at is null and g.expires_at > is_good.now
        and handraise.is_still_backed(
            g.workspace, g.granted_by, g.giver_backed, coalesce(g.giver_groups, '[]'), is_good.audience
        )
    for share;
    return found;
end
$$;

-- An approval is taken back once, and never one that was used, nor used when it was taken back, whoever writes.
do $$
declare
    kept text;
begin
    foreach kept in array array['questions', 'archive']
    loop
        execute format(
            'create trigger taken_back_stays before update of consumed_at, taken_back_at on handraise.%I '
            'for each row when ('
            'old.taken_back_at is not null and new.taken_back_at is distinct from old.taken_back_at '
            'or new.taken_back_at is not null and new.consumed_at is not null) '
            'execute function handraise.refuse_change(''taken back'')',
            kept
        );
    end loop;
end
$$;
