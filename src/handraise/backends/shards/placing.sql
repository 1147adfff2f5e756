-- Where workspaces live. The statements of the placement database come first, then those of a shard.

-- name: shards
-- Every shard.
select number, address, open from handraise.shards order by number;

-- name: find
-- Where a workspace lives.
select shard, going_to, move from handraise.placements where workspace = :workspace;

-- name: place
-- Give a workspace a home, unless it has one: the open shard with the highest hash for the name of the workspace, so
-- that all processes choose the same.
insert into handraise.placements (workspace, shard)
select :workspace, s.number
from handraise.shards as s
where s.open
order by hashtextextended(:workspace::text || ' ' || s.number, 0) desc
limit 1
on conflict do nothing;

-- name: flip
-- Record that a workspace has arrived.
update handraise.placements set shard = going_to, going_to = null, move = null
where workspace = :workspace and move = :move;

-- name: who
-- Which shard this database is, and how many tables of workspaces could be written to without a fence.
select s.number, (
    select count(*)
    from pg_class as c
    where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname not in ('placements', 'homes', 'changes', 'inbox')
        and exists (select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'workspace')
        and not exists (select from pg_trigger as t where t.tgrelid = c.oid and t.tgname like 'fence\_%')
) as unfenced
from handraise.shard as s;

-- name: home
-- What a shard says about a workspace that is not simply at home.
select state, shard, move from handraise.homes where workspace = :workspace;

-- name: open_home
-- Let a workspace that has arrived be used. Its old home has decided that it moved here.
update handraise.homes set state = 'home', progress = null, opened_at = clock_timestamp()
where workspace = :workspace and state = 'arriving' and move = :move;
