-- Moving a workspace. Each statement runs in one database: the placement database, the old home or the new one.

-- name: lock
-- Be the only one who moves this workspace, for as long as this session lasts.
select pg_try_advisory_lock(hashtextextended('handraise move ' || :workspace::text, 0));

-- name: placement
-- Where a workspace lives, and where it is moving to.
select shard, going_to, move from handraise.placements where workspace = :workspace;

-- name: address
-- How a shard is reached.
select address from handraise.shards where number = :number;

-- name: intend
-- Record that a workspace is going to move.
update handraise.placements set going_to = :to, move = :move
where workspace = :workspace and going_to is null
returning move;

-- name: give_up
-- Record that a workspace stays where it is.
update handraise.placements set going_to = null, move = null where workspace = :workspace and move = :move;

-- name: schema
-- What a database must have in common with another one for rows to fit.
select max(number) from handraise.migrations;

-- name: expect
-- The new home expects a workspace. One that has come home by this move, or is leaving again, is not expected.
insert into handraise.homes as h (workspace, state, shard, move, mover)
values (:workspace, 'arriving', :source, :move, :mover)
on conflict (workspace) do update
set state = 'arriving', shard = excluded.shard, move = excluded.move, mover = excluded.mover, fenced_until = null,
    progress = case when h.state = 'arriving' and h.move = excluded.move then h.progress end
where h.state in ('away', 'arriving')
returning progress;

-- name: leave
-- The old home notes what changes from now on. What was noted for an older move is useless, and a move that was
-- cancelled is not made again.
with forgotten as (
    delete from handraise.changes as c
    where c.workspace = :workspace and not exists (
        select from handraise.homes as h
        where h.workspace = :workspace and h.state = 'leaving' and h.move = :move
    )
)
insert into handraise.homes as h (workspace, state, shard, move, mover)
values (:workspace, 'leaving', :to, :move, :mover)
on conflict (workspace) do update
set state = 'leaving', shard = excluded.shard, move = excluded.move, mover = excluded.mover, fenced_until = null
where h.state = 'home' and h.move <> excluded.move or h.state = 'leaving' and h.move = excluded.move
returning state;

-- name: home
-- What a shard says about a workspace.
select state, shard, move, mover, progress from handraise.homes where workspace = :workspace;

-- name: writers
-- The transactions that have written to a table of workspaces, or are about to, of all or of some of them.
select coalesce(array_agg(distinct l.virtualtransaction), '{}') as names
from pg_locks as l
where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted and l.pid is distinct from pg_backend_pid()
    and l.database = (select d.oid from pg_database as d where d.datname = current_database())
    and l.relation in (
        select c.oid from pg_class as c
        where c.relnamespace = 'handraise'::regnamespace and c.relname not in ('homes', 'placements')
    )
    and (:some::text[] is null or l.virtualtransaction = any (:some::text[]));

-- name: fence
-- Hold writes back for so many seconds.
update handraise.homes set fenced_until = clock_timestamp() + :seconds::float8 * interval '1 second'
where workspace = :workspace and state = 'leaving' and mover = :mover
returning state;

-- name: unfence
-- Let writes go on.
update handraise.homes set fenced_until = null where workspace = :workspace and state = 'leaving' and mover = :mover;

-- name: hold
-- Wait for all writers, and block others until the end of this transaction.
select state from handraise.homes where workspace = :workspace for update;

-- name: go
-- The decision: the workspace is away, unless its fence has ended or anything was noted since.
update handraise.homes as h set state = 'away', fenced_until = null, progress = null
where h.workspace = :workspace and h.state = 'leaving' and h.mover = :mover and h.fenced_until > clock_timestamp()
    and not exists (select from handraise.changes as c where c.workspace = :workspace)
returning h.state;

-- name: stay
-- The workspace stays.
update handraise.homes set state = 'home', fenced_until = null, move = :move
where workspace = :workspace and state = 'leaving'
returning state;

-- name: unexpect
-- The new home does not expect the workspace any more.
update handraise.homes set state = 'away', progress = null
where workspace = :workspace and state = 'arriving' and move = :move;

-- name: guard
-- Whether the new home still expects this mover, until the end of this transaction.
select state from handraise.homes
where workspace = :workspace and state = 'arriving' and mover = :mover
for share;

-- name: guard_away
-- Whether the workspace is away, until the end of this transaction.
select state from handraise.homes where workspace = :workspace and state = 'away' for share;

-- name: progress
-- How far the copy is.
update handraise.homes set progress = coalesce(progress, '{}') || :progress::text::jsonb
where workspace = :workspace and state = 'arriving' and mover = :mover;

-- name: tidied
-- Record that nothing is left of a workspace that is away.
update handraise.homes set progress = '{"tidied": true}' where workspace = :workspace and state = 'away';

-- name: untidied
-- The workspaces that are away and may have left something.
select workspace from handraise.homes where state = 'away' and progress is null order by workspace;

-- name: changes
-- The changes that were noted.
select number, relation, key::text from handraise.changes where workspace = :workspace order by number;

-- name: count_changes
-- How many changes were noted.
select count(*) from (select from handraise.changes where workspace = :workspace limit 100000) as c;

-- name: forget_changes
-- Delete the noted changes that have been copied.
delete from handraise.changes where workspace = :workspace and number = any (:numbers::bigint[]);

-- name: epoch
-- The epoch of a shard.
select epoch from handraise.numbering;

-- name: raise_epoch
-- Raise the epoch, so that new events come after those of another shard.
select handraise.raise_epoch(:epoch);

-- name: hear
-- Count the move as a sign of the askers of those questions that a policy closes: what was heard of them while the workspace
-- was copied left no event, so it was not copied.
update handraise.questions as q
set heard_at = now()
from handraise.inbox as i
where i.workspace = :workspace and i.unheard_at is not null and q.workspace = i.workspace and q.id = i.question_id;

-- name: sequences
-- The identity columns of tables of workspaces, and how far they have counted.
select c.relname as relation, a.attname as column, s.oid::regclass::text as sequence, coalesce(q.last_value, 0) as last
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attidentity <> ''
join pg_depend as d on d.refobjid = c.oid and d.refobjsubid = a.attnum and d.deptype = 'i'
join pg_class as s on s.oid = d.objid and s.relkind = 'S'
join pg_sequences as q on q.schemaname = 'handraise' and q.sequencename = s.relname
where c.relnamespace = 'handraise'::regnamespace and c.relname <> 'changes' and not c.relispartition
order by 1;

-- name: count_from
-- Continue counting from here.
select setval(:sequence::text::regclass, :last::bigint);

-- name: tables
-- The tables of workspaces with their columns and keys; those that others refer to come first.
select
    c.relname as name,
    exists (select from pg_constraint as f where f.contype = 'f' and c.oid in (f.conrelid, f.confrelid)) as related,
    (
        select array_agg(quote_ident(a.attname) order by a.attnum) from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as columns,
    k.names as key,
    k.types
from pg_class as c
cross join lateral (
    select
        array_agg(quote_ident(a.attname) order by p.place) as names,
        array_agg(format_type(a.atttypid, null) order by p.place) as types
    from pg_index as i
    cross join lateral unnest(i.indkey) with ordinality as p (number, place)
    join pg_attribute as a on a.attrelid = c.oid and a.attnum = p.number
    where i.indrelid = c.oid and i.indisprimary
) as k
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and c.relname not in ('placements', 'homes', 'changes')
    and exists (select from pg_attribute as a where a.attrelid = c.oid and a.attname = 'workspace')
order by exists (select from pg_constraint as f where f.contype = 'f' and f.conrelid = c.oid), c.relname;
