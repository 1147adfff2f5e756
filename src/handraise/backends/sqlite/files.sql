-- What SQLite does with files in its own way.

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

-- name: drop_blob
-- Delete the bytes of a file that is removed.
delete from blobs
where workspace = :workspace and key = :key and exists (
    select 1 from files as f where f.workspace = :workspace and f.key = :key and f.removed_at is not null
);
