-- The statements of a database that is the source or the target of a copy of a store.

-- name: lock
-- Be the only copy that uses this database, for as long as this session lasts.
select pg_try_advisory_lock(hashtextextended('handraise copy', 0));

-- name: login
-- Who is logged in, whether row-level security hides nothing from them, and whether they own the tables.
select
    current_user as name,
    r.rolsuper or r.rolbypassrls as bypasses,
    pg_has_role(c.relowner, 'usage') as owns
from pg_roles as r, pg_class as c
where r.rolname = current_user and c.oid = 'handraise.questions'::regclass;

-- name: others
-- Who else uses the database, as far as we may see. Nothing is known of the sessions of roles whose members we are not.
select distinct usename::text as name
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and usename is not null
    and (application_name is null or application_name = '' or application_name like 'handraise%');

-- name: tables
-- All tables with their columns, types and keys, and the tables that they refer to.
select
    c.relname as name,
    (
        select array_agg(a.attname::text order by a.attnum) from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as columns,
    (
        select array_agg(format_type(a.atttypid, null) order by a.attnum) from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as types,
    coalesce((
        select array_agg(a.attname::text order by p.place)
        from pg_index as i
        cross join lateral unnest(i.indkey) with ordinality as p (number, place)
        join pg_attribute as a on a.attrelid = c.oid and a.attnum = p.number
        where i.indrelid = c.oid and i.indisprimary
    ), '{}') as key,
    array(
        select f.confrelid::regclass::text from pg_constraint as f where f.contype = 'f' and f.conrelid = c.oid
    ) as refers_to
from pg_class as c
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
order by c.relname;

-- name: forced
-- The tables, and partitions of tables, that row-level security also hides from their owner.
select c.oid::regclass::text as name
from pg_class as c
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and c.relforcerowsecurity
order by c.relname;

-- name: read_note
-- What is noted about a copy.
select id, side, other, begun_at, finished_at, progress from handraise.store_copy;

-- name: forget_note
-- Note nothing about a copy.
delete from handraise.store_copy;

-- name: put_note
-- Note something about a copy.
insert into handraise.store_copy (id, side, other, begun_at, finished_at, progress)
values (:id, :side, :other, :begun_at::timestamptz, :finished_at::timestamptz, :progress);

-- name: put_progress
-- Note how far the copy is.
update handraise.store_copy set progress = :progress;

-- name: transaction
-- The highest transaction that an event may have until now.
select (n.epoch::bigint << 44) + pg_snapshot_xmax(pg_current_snapshot())::text::bigint as transaction
from handraise.numbering as n;

-- name: sequences
-- The identity columns, and how far they have counted.
select c.relname::text as name, a.attname::text as column, s.oid::regclass::text as sequence, coalesce(q.last_value, 0) as last
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attidentity <> ''
join pg_depend as d on d.refobjid = c.oid and d.refobjsubid = a.attnum and d.deptype = 'i'
join pg_class as s on s.oid = d.objid and s.relkind = 'S'
join pg_sequences as q on q.schemaname = 'handraise' and q.sequencename = s.relname
where c.relnamespace = 'handraise'::regnamespace and not c.relispartition
order by 1;

-- name: count_from (writes)
-- Continue counting from here.
select setval(:sequence::text::regclass, :last::bigint);

-- name: keep_keys (writes)
-- Take the keys of copied questions in `events`, where an asker's own are unique.
update handraise.events as e
set key = q.key
from handraise.questions as q
where q.workspace = e.workspace and q.id = e.question_id and q.key is not null and not q.shared
    and e.kind = 'asked' and e.key is null;

-- name: raise_epoch (writes)
-- Number new events after all that were copied.
select handraise.raise_epoch(:epoch);

-- name: sealed_workspaces
-- The workspaces whose audit trail has seals.
select distinct workspace from handraise.seals order by workspace;
