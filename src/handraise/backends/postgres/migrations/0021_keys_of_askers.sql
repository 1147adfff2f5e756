-- oldest release: 0.1.0
-- A key is its asker's own, so that nobody can take another's. Askers that share one on purpose say so.
alter table handraise.questions add column shared boolean not null default false;
alter table handraise.archive add column shared boolean not null default false;

create unique index questions_by_owner_and_key
    on handraise.questions (workspace, (case when shared then '' else asker end), key) where key is not null;
drop index handraise.questions_by_key;

-- Whose key it is, '' where it is shared.
alter table handraise.archive_index add column owner text collate "C";
alter table handraise.archive_index no force row level security;
alter table handraise.archive no force row level security;
update handraise.archive_index as x set owner = a.asker
from handraise.archive as a
where a.workspace = x.workspace and a.id = x.id and a.settled_at = x.settled_at;
alter table handraise.archive force row level security;
alter table handraise.archive_index force row level security;
create unique index archive_index_by_owner_and_key
    on handraise.archive_index (workspace, owner, key) where key is not null;
drop index handraise.archive_index_by_key;

-- As before, with whose key it is.
create or replace function handraise.copy_settled(
    before timestamptz, pages integer, out workspaces text[], out ids text[], out around boolean
)
    language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    home text := coalesce(current_setting('handraise.workspace', true), '');
    hand bigint;
    size bigint;
    old record;
    newest text := '';
begin
    workspaces := '{}';
    ids := '{}';
    around := true;
    select h.page into hand from handraise.archive_hand as h for update skip locked;
    if not found then
        return;
    end if;
    size := pg_relation_size('handraise.questions') / current_setting('block_size')::bigint;
    if hand >= size then
        hand := 0;
    end if;
    for old in
        -- The pages first, by themselves: an index whose order is that of the groups would lead through all of them.
        with settled as materialized (
            select q.workspace, q.id, q.ctid as place, date_trunc('month', q.settled_at, 'UTC') as month
            from handraise.questions as q
            where q.ctid >= format('(%s,0)', hand)::tid and q.ctid < format('(%s,0)', hand + pages)::tid
                and q.settled_at < before
        )
        select s.workspace, s.month, array_agg(s.id) as ids, array_agg(s.place) as places
        from settled as s
        group by s.workspace, s.month
    loop
        continue when not handraise.is_tidied(old.workspace);
        perform handraise.add_archive_month(old.month);
        perform set_config('handraise.workspace', encode(convert_to(old.workspace, 'UTF8'), 'hex'), true);
        with q as materialized (
            select q.*
            from handraise.questions as q
            where q.ctid = any (old.places) and q.workspace = old.workspace and q.settled_at < before
        ),
        body as (
            insert into handraise.archive select q.* from q on conflict do nothing
        )
        insert into handraise.archive_index (settled_at, kept_until, workspace, id, owner, key)
        select
            q.settled_at,
            (
                select max(g.expires_at)
                from handraise.grants as g
                where g.workspace = q.workspace and g.question_id = q.id and g.revoked_at is null
            ),
            q.workspace, q.id, case when q.shared then '' else q.asker end, q.key
        from q
        on conflict do nothing;
        workspaces := workspaces || array_fill(old.workspace, array[cardinality(old.ids)]);
        ids := ids || old.ids;
    end loop;
    perform set_config('handraise.workspace', home, true);
    select coalesce(max(i.id collate "C"), '') into newest from unnest(ids) as i (id);
    around := hand + pages >= size;
    update handraise.archive_hand as h
    set page = case when around then 0 else hand + pages end,
        mark = case when newest = '' then h.mark else greatest(h.mark, left(newest, 8) || '~') end;
end
$$;
