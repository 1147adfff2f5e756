-- The audit trail.

-- name: has_signed
-- Whether a seal is signed with a key.
select number from handraise.seals where workspace = :workspace and key_id = :key_id limit 1;

-- name: salts
-- The salts of questions.
select question_id, salt from handraise.salts where workspace = :workspace and question_id ${in(:ids::text[])};

-- name: removals_unsealed
-- Removals that no seal covers.
select number, question_id, what, at, actor, cursors
from handraise.removals
where workspace = :workspace and seal is null
order by number
limit :limit;

-- name: removals_of_seal
-- Removals that a seal covers.
select number, question_id, what, at, actor, cursors
from handraise.removals
where workspace = :workspace and seal = :seal::bigint
order by number
limit :limit;

-- name: seals
-- Seals in their order. The transaction 0 is not in a cursor.
select
    workspace, number, oldest, coalesce(nullif(last_transaction::text || '.', '0.'), '') || last_number as cursor, sealed_at,
    previous, leaves, cursors, signature, key_id
from handraise.seals
where workspace = :workspace and number > :after::bigint
order by number
limit :limit;

-- name: rule
-- How long a workspace keeps what is settled.
select keep from handraise.retention where workspace = :workspace;

-- name: put_rule
-- Give a workspace its own rule; no row if it has the same.
insert into handraise.retention (workspace, keep) values (:workspace, :keep::interval)
on conflict (workspace) do update set keep = excluded.keep
where (retention.keep = excluded.keep or (retention.keep is null and excluded.keep is null)) is not true
returning workspace;

-- name: remove_rule
-- Take a workspace's rule away.
delete from handraise.retention where workspace = :workspace returning workspace;

-- name: hold
-- Hold something.
insert into handraise.holds (workspace, name, question_id, reason, since, actor)
values (:workspace, :name, :question_id, :reason, ${now}, :actor)
on conflict do nothing
returning name;

-- name: lift
-- Lift a hold.
delete from handraise.holds where workspace = :workspace and name = :name returning name;

-- name: holds
-- What is held.
select workspace, name, question_id, reason, since, actor
from handraise.holds
where workspace = :workspace
order by name;
