-- Which databases are shards. Parameters are passed in the order in which they appear here.

-- name: next_number
-- The number of the next shard.
select coalesce(max(number), 0) + 1 from handraise.shards;

-- name: identify
-- Give this database its number, unless it has one, and return the number.
insert into handraise.shard (number) values (:number) on conflict (only_one) do update set number = shard.number
returning number;

-- name: enlist
-- Record the address of a shard.
insert into handraise.shards (number, address) values (:number, :address)
on conflict (number) do update set address = excluded.address;

-- name: workspaces
-- The workspaces that live in this database, walking from one to the next in each table that has the first row of one.
with recursive walk (source, workspace) as (
    select s.source, s.workspace
    from (
        values
            (1, (select min(workspace) from handraise.questions)),
            (2, (select min(workspace) from handraise.people)),
            (3, (select min(workspace) from handraise.agent_keys)),
            (4, (select min(workspace) from handraise.addresses)),
            (5, (select min(workspace) from handraise.routing)),
            (6, (select min(workspace) from handraise.policies)),
            (7, (select min(workspace) from handraise.stops)),
            (8, (select min(workspace) from handraise.quotas))
    ) as s (source, workspace)
    union all
    select walk.source, case walk.source
        when 1 then (select min(n.workspace) from handraise.questions as n where n.workspace > walk.workspace)
        when 2 then (select min(n.workspace) from handraise.people as n where n.workspace > walk.workspace)
        when 3 then (select min(n.workspace) from handraise.agent_keys as n where n.workspace > walk.workspace)
        when 4 then (select min(n.workspace) from handraise.addresses as n where n.workspace > walk.workspace)
        when 5 then (select min(n.workspace) from handraise.routing as n where n.workspace > walk.workspace)
        when 6 then (select min(n.workspace) from handraise.policies as n where n.workspace > walk.workspace)
        when 7 then (select min(n.workspace) from handraise.stops as n where n.workspace > walk.workspace)
        else (select min(n.workspace) from handraise.quotas as n where n.workspace > walk.workspace)
    end
    from walk
    where walk.workspace is not null
)
select distinct walk.workspace
from walk
where walk.workspace is not null and not exists (
    select from handraise.homes as h where h.workspace = walk.workspace and h.state in ('away', 'arriving')
);

-- name: adopt
-- Record where a workspace lives, unless it has a home, and return its home.
with adopted as (
    insert into handraise.placements (workspace, shard) values (:workspace, :number)
    on conflict do nothing
    returning shard
)
select shard from adopted
union all
select shard from handraise.placements where workspace = :workspace
limit 1;

-- name: list
-- Every shard and how many workspaces live there.
select s.number, s.address, s.open, (select count(*) from handraise.placements as p where p.shard = s.number) as workspaces
from handraise.shards as s
order by s.number;
