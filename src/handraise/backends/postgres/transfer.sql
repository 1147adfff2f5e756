-- The statements of a database whose workspaces are exported and imported.

-- name: login
-- Who is logged in, whether row-level security hides nothing from them, and whether they own the tables.
select
    current_user as name,
    r.rolsuper or r.rolbypassrls as bypasses,
    pg_has_role(c.relowner, 'usage') as owns
from pg_roles as r, pg_class as c
where r.rolname = current_user and c.oid = 'handraise.questions'::regclass;

-- name: columns
-- The columns of all tables, in their order, with their types.
select c.relname::text as name, a.attname::text as column_name, y.typname::text as type
from pg_class as c
join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
join pg_type as y on y.oid = a.atttypid
where c.relnamespace = 'handraise'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
order by c.relname, a.attnum;

-- name: enter
-- Make this transaction be about one workspace, and let new events set nothing off: that was done in the store they come from.
select
    handraise.set_workspace(:workspace),
    set_config('search_path', 'handraise', true),
    set_config('handraise.importing', 'on', true);

-- name: sequences
-- The identity columns of tables, and how far they have counted.
select c.relname::text as name, a.attname::text as column_name, s.oid::regclass::text as sequence, coalesce(q.last_value, 0) as last
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

-- name: is_behind
-- Whether an event of now would come before this transaction.
select :last::bigint >= handraise.feed_edge()::text::bigint;

-- name: raise_epoch (writes)
-- Number new events from this transaction on, which begins an epoch.
select handraise.raise_epoch((:first::bigint >> 44)::integer);
