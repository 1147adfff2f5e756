-- Files and their bytes.

-- name: touch_file
-- A file that its owner has uploaded before; from now on it counts as used.
update handraise.files set used_at = ${now}
where workspace = :workspace and removed_at is null and key = (
    select f.key
    from handraise.files as f
    where f.workspace = :workspace and f.owner = :owner and f.digest = :digest and f.media_type = :media_type
        and f.size = :size::bigint and f.removed_at is null
    order by f.stored desc, f.key
    limit 1
)
returning key, stored;

-- name: add_file
-- Note that a file is about to be uploaded, unless its owner has too many bytes that no question refers to.
insert into handraise.files (workspace, key, owner, digest, media_type, size, used_at)
select :workspace, :key, :owner, :digest, :media_type, :size::bigint, ${now}
where :size::bigint + coalesce((
    select sum(f.size)
    from handraise.files as f
    where f.workspace = :workspace and f.owner = :owner and not f.referred and f.removed_at is null
), 0) <= :most_unused::bigint
returning key, stored;

-- name: mark_file_stored
-- The bytes of a file are complete.
update handraise.files set stored = true, used_at = ${now}
where workspace = :workspace and key = :key and removed_at is null
returning key;

-- name: use_file
-- A file of this owner that can be referred to; nobody removes it before the end of this transaction.
update handraise.files set used_at = ${now}, referred = true
where workspace = :workspace and removed_at is null and key = (
    select f.key
    from handraise.files as f
    where f.workspace = :workspace and f.owner = :owner and f.digest = :digest and f.media_type = :media_type
        and f.size = :size::bigint and f.stored and f.removed_at is null
    order by f.key
    limit 1
)
returning key;

-- name: add_reference
-- Note that a question refers to a file.
insert into handraise.file_references (workspace, question_id, key, at)
values (:workspace, :question_id, :key, ${now})
on conflict do nothing;

-- name: referred_bytes
-- How many files of this owner a question refers to, and how many bytes they have.
select count(*) as count, coalesce(sum(f.size), 0)::bigint as bytes
from handraise.file_references as r
join handraise.files as f on f.workspace = r.workspace and f.key = r.key
where r.workspace = :workspace and r.question_id = :question_id and f.owner = :owner;

-- name: find_file
-- A file that a question refers to.
select f.key, f.size
from handraise.file_references as r
join handraise.files as f on f.workspace = r.workspace and f.key = r.key
where r.workspace = :workspace and r.question_id = :question_id and f.digest = :digest and f.removed_at is null
order by f.key
limit 1;

-- name: add_blob_part
-- Store a part of a file's bytes.
insert into handraise.blobs (workspace, key, place, data) values (:workspace, :key, :place::int, :data::bytea)
on conflict (workspace, key, place) do nothing;

-- name: blob_parts
-- The bytes of a file.
select data from handraise.blobs where workspace = :workspace and key = :key order by place;
