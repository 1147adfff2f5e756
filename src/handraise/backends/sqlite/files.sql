-- The statements of files in SQLite.

-- name: touch_file
-- A file that its owner has uploaded before; from now on it counts as used.
update files set used_at = :now
where workspace = :workspace and removed_at is null and key = (
    select f.key
    from files as f
    where f.workspace = :workspace and f.owner = :owner and f.digest = :digest and f.media_type = :media_type
        and f.size = :size and f.removed_at is null
    order by f.stored desc, f.key
    limit 1
)
returning key, stored;

-- name: add_file
-- Note that a file is about to be uploaded, unless its owner has too many bytes that no question refers to.
insert into files (workspace, key, owner, digest, media_type, size, used_at)
select :workspace, :key, :owner, :digest, :media_type, :size, :now
where :size + coalesce((
    select sum(f.size)
    from files as f
    where f.workspace = :workspace and f.owner = :owner and not f.referred and f.removed_at is null
), 0) <= :most_unused
returning key, stored;

-- name: mark_file_stored
-- The bytes of a file are complete.
update files set stored = 1, used_at = :now
where workspace = :workspace and key = :key and removed_at is null
returning key;

-- name: use_file
-- A file of this owner that can be referred to; nobody removes it before the end of this transaction.
update files set used_at = :now, referred = 1
where workspace = :workspace and removed_at is null and key = (
    select f.key
    from files as f
    where f.workspace = :workspace and f.owner = :owner and f.digest = :digest and f.media_type = :media_type
        and f.size = :size and f.stored and f.removed_at is null
    order by f.key
    limit 1
)
returning key;

-- name: add_reference
-- Note that a question refers to a file.
insert into file_references (workspace, question_id, key, at) values (:workspace, :question_id, :key, :now)
on conflict do nothing;

-- name: referred_bytes
-- How many files of this owner a question refers to, and how many bytes they have.
select count(*) as count, coalesce(sum(f.size), 0) as bytes
from file_references as r
join files as f on f.workspace = r.workspace and f.key = r.key
where r.workspace = :workspace and r.question_id = :question_id and f.owner = :owner;

-- name: find_file
-- A file that a question refers to.
select f.key, f.size
from file_references as r
join files as f on f.workspace = r.workspace and f.key = r.key
where r.workspace = :workspace and r.question_id = :question_id and f.digest = :digest and f.removed_at is null
order by f.key
limit 1;

-- name: take_unused_files
-- Mark the files that nothing refers to, and return those whose bytes are to be deleted. A reference to a question that was never
-- stored does not count.
update files set referred = 0
where referred and used_at < :now - :unused_for and (workspace, key) in (
    select r.workspace, r.key
    from file_references as r
    where not r.checked and r.at < :now - :unused_for and not exists (
        select 1 from questions as q where q.workspace = r.workspace and q.id = r.question_id
    )
);
delete from file_references
where not checked and at < :now - :unused_for and not exists (
    select 1 from questions as q where q.workspace = file_references.workspace and q.id = file_references.question_id
);
update file_references set checked = 1 where not checked and at < :now - :unused_for;
update files set removed_at = :now
where not referred and used_at < :now - :unused_for and removed_at is null and not exists (
    select 1 from file_references as r where r.workspace = files.workspace and r.key = files.key
);
select workspace, key from files
where not referred and used_at < :now - :unused_for and removed_at is not null
order by used_at
limit :limit;

-- name: forget_file
-- Forget a file whose bytes are deleted.
delete from blobs
where workspace = :workspace and key = :key and exists (
    select 1 from files as f where f.workspace = :workspace and f.key = :key and f.removed_at is not null
);
delete from files where workspace = :workspace and key = :key and removed_at is not null;

-- name: remove_references
-- Remove the references of a question, and the bytes to which nothing else refers.
update files set referred = 0, used_at = 0, removed_at = coalesce(removed_at, :now)
where workspace = :workspace
    and key in (select r.key from file_references as r where r.workspace = :workspace and r.question_id = :id)
    and not exists (
        select 1
        from file_references as r
        where r.workspace = files.workspace and r.key = files.key and r.question_id <> :id
    );
delete from blobs
where workspace = :workspace and key in (
    select f.key
    from file_references as r
    join files as f on f.workspace = r.workspace and f.key = r.key
    where r.workspace = :workspace and r.question_id = :id and f.removed_at is not null
);
delete from file_references where workspace = :workspace and question_id = :id;

-- name: add_blob_part
-- Store a part of a file's bytes.
insert into blobs (workspace, key, place, data) values (:workspace, :key, :place, :data)
on conflict (workspace, key, place) do update set data = excluded.data;

-- name: blob_parts
-- The bytes of a file.
select data from blobs where workspace = :workspace and key = :key order by place;

-- name: drop_blob
-- Delete the bytes of a file that is removed.
delete from blobs
where workspace = :workspace and key = :key and exists (
    select 1 from files as f where f.workspace = :workspace and f.key = :key and f.removed_at is not null
);
